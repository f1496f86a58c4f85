"""Steering from the page: which commands can have an effect now, and what a form asks for.

A command is written through `record.control.send` alone, as by the command line; the process that works on the run
takes it and records it with its reason. `record.control.refused` says what cannot have an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from fastapi import HTTPException
from pydantic import ValidationError

from labwright.inspector.text import printable, short
from labwright.inspector.web.watched import Watched
from labwright.record.control import LONGEST, refused, send, user
from labwright.record.events.running import Commanded

LONGEST_FORM = 16 * 2**10
"""Bytes of a form."""
REASON = "…"
"""Stands for a reason while we find out which verbs can have an effect."""
OF_NODES: Final = ("kill", "mark")
"""The verbs that are about a node."""


class Notice(NamedTuple):
    """What became of a form; `taken`: the command was written."""

    taken: bool
    text: str


class Actions(NamedTuple):
    """The verbs that can have an effect on a run, or on a node, at this moment; `why` there are none."""

    verbs: tuple[str, ...]
    why: str


def actions(run: Watched, node: str = "") -> Actions:
    """What can be asked of a run, or about a node."""
    verbs = OF_NODES if node else ("resume" if run.state.paused else "pause", "note", "stop")
    whys = {
        verb: refused(run.state, Commanded(verb=verb, target=node, text=REASON), working=run.working) for verb in verbs
    }
    able = tuple(verb for verb, why in whys.items() if why is None)
    return Actions(able, "" if able else next(filter(None, whys.values())))


# --- a form ---------------------------------------------------------------------------------------------------------


def command_of(fields: Mapping[str, str]) -> Commanded:
    """The command of a form. Raises `HTTPException`."""
    given: dict[str, Any] = {
        "verb": fields.get("verb", ""),
        "target": fields.get("target", "").strip(),
        "text": printable(fields.get("text", "")).strip(),
        "by": user(),
    }
    try:
        return Commanded.model_validate(given | ({"mark": fields["mark"]} if "mark" in fields else {}))
    except ValidationError:
        raise HTTPException(400, "a run cannot be asked for this") from None


def fields_of(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises `HTTPException`."""
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=16, errors="strict"))
    except ValueError:
        raise HTTPException(400, "this is not a form") from None


def ask(run: Watched, command: Commanded) -> Notice:
    """Send a command, or say why it would have no effect."""
    if not command.text:
        return Notice(
            False,
            "give a reason: it is kept in the record"
            if command.verb != "note"
            else "the note is empty: it is what the next prompts will show",
        )
    if len(command.text) > LONGEST:
        return Notice(False, f"at most {LONGEST} characters are allowed, these are {len(command.text)}")
    run.look()
    with run.held:
        why = refused(run.state, command, working=run.working)
    if why is not None:
        return Notice(False, why)
    try:
        send(run.folder, command)
    except OSError as error:
        return Notice(False, f"the command could not be written: {error.strerror or error}")
    what = f"{command.verb} {command.target}".strip()
    when = "the run takes it up within a second" if run.working else "it takes effect when the run is resumed"
    return Notice(True, f"Asked: {short(what, 60)}; {when}.")
