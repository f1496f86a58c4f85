"""Model calls as the record has them: what was asked, what came back, what it took. Those of no node included."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final, NamedTuple

from labwright.inspector.text import printable
from labwright.inspector.web.watched import Watched
from labwright.record.events.running import Answered
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.manifest import files_of
from labwright.record.nouns.decisions import Compare, Expand, Work
from labwright.record.nouns.nodes import node_id
from labwright.record.prompts import prompt_of

TEXT: Final = 100_000
"""Characters of a prompt or an answer that are shown."""
REPLACED: Final = "replaced: its question changed"
DRIFTED: Final = "kept: machine or limits changed"
AT_ONCE: Final = 200
"""Calls on one page."""


class Call(NamedTuple):
    """A call: what the record has of it, and what it was for. `node` is empty where it was for none."""

    answered: Answered
    node: str
    purpose: str
    note: str = ""


class Opened(NamedTuple):
    """A call with its texts. `prompt` is None where it was not kept; `changed` warns that it is not what was asked.

    `pictures` went with the prompt: sha256 and path, which is empty where it is no file of the run.
    """

    call: Call
    system: str
    prompt: str | None
    changed: str
    wanted: str
    pictures: tuple[tuple[str, str], ...]
    answer: str


class Calls(NamedTuple):
    """A part of a run's calls, the newest first. `roles` count all calls."""

    shown: tuple[Call, ...]
    roles: tuple[tuple[str, int], ...]
    role: str
    first: int
    total: int


def calls_of(state: RunState, role: str, first: int) -> Calls:
    """Calls of a role (empty: of all; `-`: those of no node) from a place on, the newest first."""
    every = [
        *(call_of(state, one)._replace(note=REPLACED) for one in state.superseded),
        *(call_of(state, one) for one in state.answers.values()),
    ][::-1]
    counts = Counter(one.answered.key.role for one in every)
    fits = [one for one in every if not role or one.answered.key.role == role or (role == "-" and not one.node)]
    first = max(0, min(first, len(fits) - 1)) // AT_ONCE * AT_ONCE
    return Calls(tuple(fits[first : first + AT_ONCE]), tuple(sorted(counts.items())), role, first, len(fits))


def call_of(state: RunState, answered: Answered) -> Call:
    """A call with what its decision was about."""
    k = answered.key.decision
    decided = state.decisions.get(k)
    match decided.action if decided is not None else None:
        case Expand(stage=stage, kind=kind):
            purpose = f"{kind} in {stage}"
        case Compare(a=a, b=b):
            purpose = f"compare {a} and {b}"
        case Work(task=task):
            purpose = task
        case _:
            purpose = f"decision {k}"
    return Call(
        answered,
        node_id(k) if node_id(k) in state.nodes else "",
        purpose,
        DRIFTED if answered.key in state.drifted else "",
    )


def opened(run: Watched, name: str) -> Opened | None:
    """A call by the name of its key, with prompt and answer; None where the run has no such call."""
    answered = next((one for key, one in run.state.answers.items() if str(key) == name), None)
    if answered is None:
        return None
    call, kept = call_of(run.state, answered), prompt_of(run.folder, answered)
    asked = kept.asked if kept is not None else None
    paths: dict[str, str] = {}
    if asked is not None and asked.images:
        files = files_of(run.state, RunFolder(run.folder, run.state.version))
        paths = {digest: str(path.relative_to(run.folder)) for path, digest in files}
    return Opened(
        call=call,
        system=cut(asked.system) if asked else "",
        prompt=None if kept is None else cut(asked.user) if asked else "",
        changed=kept.changed if kept else "",
        wanted=asked.answer_name if asked else "",
        pictures=tuple((image, paths.get(image, "")) for image in (asked.images if asked else ())),
        answer=readable(answered.answer),
    )


def readable(answer: dict[str, Any]) -> str:
    """An answer field by field, texts with their own lines."""
    parts = [
        f"{key}:\n{value}"
        if isinstance(value, str) and "\n" in value
        else f"{key}: {value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)}"
        for key, value in answer.items()
    ]
    return cut("\n".join(parts))


def cut(text: str) -> str:
    """A text as it is shown."""
    text = printable(text)
    return text if len(text) <= TEXT else f"{text[:TEXT]}\n... {len(text) - TEXT} characters more"
