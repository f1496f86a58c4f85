"""Steering from the page: which commands can have an effect now, and what a form asks for.

A command is written through `record.control_files.send` alone, as by the command line; the process that works on the
run takes it and records it with its reason. `record.control_files.refused` says what cannot have an effect.
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
"""Bytes of a form."""
REASON_PLACEHOLDER = "…"
"""Stands for a reason while we find out which verbs can have an effect."""
NODE_VERBS: Final = ("kill", "mark")
"""The verbs that are about a node."""


class FormResult(NamedTuple):
    """What became of a form; `taken`: the command was written."""

    accepted: bool
    text: str


class AvailableActions(NamedTuple):
    """The verbs that can have an effect on a run, or on a node, at this moment; `why` there are none."""

    verbs: tuple[str, ...]
    why: str


def list_actions(run: CachedRun, node: str = "") -> AvailableActions:
    """What can be asked of a run, or about a node."""
    verbs = NODE_VERBS if node else ("resume" if run.state.is_paused else "pause", "note", "stop")
    whys = {
        verb: find_refusal(
            run.state, CommandReceived(verb=verb, target=node, text=REASON_PLACEHOLDER), is_running=run.is_running
        )
        for verb in verbs
    }
    able = tuple(verb for verb, why in whys.items() if why is None)
    return AvailableActions(able, "" if able else next(filter(None, whys.values())))


# --- a form ---------------------------------------------------------------------------------------------------------


def parse_command(fields: Mapping[str, str]) -> CommandReceived:
    """The command of a form. Raises `HTTPException`."""
    given: dict[str, Any] = {
        "verb": fields.get("verb", ""),
        "target": fields.get("target", "").strip(),
        "text": to_printable(fields.get("text", "")).strip(),
        "by": read_user_name(),
    }
    try:
        return CommandReceived.model_validate(given | ({"mark": fields["mark"]} if "mark" in fields else {}))
    except ValidationError:
        raise HTTPException(400, "a run cannot be asked for this") from None


def parse_fields(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises `HTTPException`."""
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=16, errors="strict"))
    except ValueError:
        raise HTTPException(400, "this is not a form") from None


def send_request(run: CachedRun, command: CommandReceived) -> FormResult:
    """Send a command, or say why it would have no effect."""
    if not command.text:
        return FormResult(
            False,
            "give a reason: it is kept in the record"
            if command.verb != "note"
            else "the note is empty: it is what the next prompts will show",
        )
    if len(command.text) > MAX_COMMAND_TEXT_LENGTH:
        return FormResult(
            False, f"at most {MAX_COMMAND_TEXT_LENGTH} characters are allowed, these are {len(command.text)}"
        )
    run.refresh()
    with run.lock:
        why = find_refusal(run.state, command, is_running=run.is_running)
    if why is not None:
        return FormResult(False, why)
    try:
        send_command(run.folder, command)
    except OSError as error:
        return FormResult(False, f"the command could not be written: {error.strerror or error}")
    what = f"{command.verb} {command.target}".strip()
    when = "the run takes it up within a second" if run.is_running else "it takes effect when the run is resumed"
    return FormResult(True, f"Asked: {shorten(what, 60)}; {when}.")
