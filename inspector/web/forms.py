"""Actions from the page: the commands that are currently possible, and parsing of their forms.

Commands are written with `record.control_files.send_command`, as on the command line; the process of the run
acknowledges and records them with their reason. `record.control_files.find_refusal` decides what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from fastapi import HTTPException
from pydantic import ValidationError

from labwright.inspector.safe_text import shorten, to_printable
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.control_files import MAX_COMMAND_TEXT_LENGTH, find_refusal, read_user_name, send_command
from labwright.record.events.run_events import CommandReceived

MAX_FORM_BYTES = 16 * 2**10
"""Maximum bytes of a form."""
REASON_PLACEHOLDER = "…"
"""Placeholder for a reason while checking which verbs are possible."""
NODE_VERBS: Final = ("kill", "mark")
"""Verbs that concern a node."""


class FormResult(NamedTuple):
    """Result of a form; `accepted` means that the command was written."""

    accepted: bool
    text: str


class AvailableActions(NamedTuple):
    """Verbs that are currently possible for a run or node; if none is possible, `why` gives the reason."""

    verbs: tuple[str, ...]
    why: str


def list_actions(run: CachedRun, node: str = "") -> AvailableActions:
    """List the possible actions for a run or for a node."""
    notes = ("note",) if run.state.kind == "paper" else ()
    pause = "approve" if run.state.open_gate is not None else "resume" if run.state.is_paused else "pause"
    verbs = NODE_VERBS if node else (pause, *notes, "stop")
    whys = {
        verb: find_refusal(
            run.state,
            CommandReceived(verb=verb, target=node, text=REASON_PLACEHOLDER),
            is_running=run.process is not None,
        )
        for verb in verbs
    }
    able = tuple(verb for verb, why in whys.items() if why is None)
    return AvailableActions(able, "" if able else next(filter(None, whys.values())))


# --- forms ----------------------------------------------------------------------------------------------------------


def parse_command(fields: Mapping[str, str]) -> CommandReceived:
    """Parse the command of a form. Raises `HTTPException`."""
    given: dict[str, Any] = {
        "verb": fields.get("verb", ""),
        "target": fields.get("target", "").strip(),
        "text": to_printable(fields.get("text", "")).strip(),
        "by": read_user_name(),
    }
    try:
        return CommandReceived.model_validate(given | ({"mark": fields["mark"]} if "mark" in fields else {}))
    except ValidationError:
        raise HTTPException(400, "this is not a valid command") from None


def parse_fields(body: bytes) -> dict[str, str]:
    """Parse the fields of a form. Raises `HTTPException`."""
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=16, errors="strict"))
    except ValueError:
        raise HTTPException(400, "the request is not a valid form") from None


def send_request(run: CachedRun, command: CommandReceived) -> FormResult:
    """Send a command, or return the reason why it is refused."""
    if not command.text:
        return FormResult(
            False,
            "give a reason; it is kept in the record"
            if command.verb != "note"
            else "the note is empty: enter the text for the next prompts",
        )
    if len(command.text) > MAX_COMMAND_TEXT_LENGTH:
        return FormResult(
            False, f"at most {MAX_COMMAND_TEXT_LENGTH} characters are allowed, but this has {len(command.text)}"
        )
    run.refresh()
    with run.lock:
        why = find_refusal(run.state, command, is_running=run.process is not None)
    if why is not None:
        return FormResult(False, why)
    try:
        send_command(run.folder, command)
    except OSError as error:
        return FormResult(False, f"the command could not be written: {error.strerror or error}")
    what = f"{command.verb} {command.target}".strip()
    when = "it takes effect within a second" if run.process else "it takes effect when the run is resumed"
    return FormResult(True, f"Sent: {shorten(what, 60)}; {when}.")
