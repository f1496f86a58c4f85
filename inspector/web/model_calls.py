"""Recorded model calls: prompt, answer and cost, including calls without a node."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final, NamedTuple

from labwright.inspector.safe_text import to_printable
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.events.run_events import CallAnswered
from labwright.record.manifest import list_recorded_files
from labwright.record.prompt_store import find_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.decisions import CompareNodes, ExpandTree, RunTask
from labwright.record.schema.nodes import format_node_id

MAX_TEXT_CHARACTERS: Final = 100_000
"""Maximum characters of a prompt or answer that are shown."""
REPLACED_NOTE: Final = "superseded: prompt changed"
KEPT_NOTE: Final = "reused: machine or limits changed"
CALLS_PER_PAGE: Final = 200
"""Calls per page."""


class ModelCall(NamedTuple):
    """A recorded call and its purpose. `node` is empty if the call concerns no node."""

    answered: CallAnswered
    node: str
    purpose: str
    note: str = ""


class ModelCallTexts(NamedTuple):
    """A call with its prompt and answer. `prompt` is None if it was not saved; `changed_warning` warns that it differs
    from the prompt that was sent.

    `pictures` are the images sent with the prompt: sha256 and path, which is empty if the image is not in the run's
    folder.
    """

    call: ModelCall
    system: str
    prompt: str | None
    changed_warning: str
    output_schema: str
    pictures: tuple[tuple[str, str], ...]
    answer: str
    tool_result: str = ""
    """What the tool returned that the answer called."""


class ModelCallPage(NamedTuple):
    """A page of a run's calls, newest first. `roles` count all calls."""

    shown: tuple[ModelCall, ...]
    roles: tuple[tuple[str, int], ...]
    role: str
    first: int
    total: int


def list_calls(state: RunState, role: str, first: int) -> ModelCallPage:
    """List calls of a role (empty: all; `-`: without a node), newest first, starting at `first`."""
    every = [
        *(build_call(state, one)._replace(note=REPLACED_NOTE) for one in state.calls.superseded_answers),
        *(build_call(state, one) for one in state.calls.answers.values()),
    ][::-1]
    counts = Counter(one.answered.key.role for one in every)
    fits = [one for one in every if not role or one.answered.key.role == role or (role == "-" and not one.node)]
    first = max(0, min(first, len(fits) - 1)) // CALLS_PER_PAGE * CALLS_PER_PAGE
    return ModelCallPage(
        tuple(fits[first : first + CALLS_PER_PAGE]), tuple(sorted(counts.items())), role, first, len(fits)
    )


def build_call(state: RunState, answered: CallAnswered) -> ModelCall:
    """Build a call with the purpose of its decision."""
    k = answered.key.decision
    decided = state.decisions.get(k)
    match decided.action if decided is not None else None:
        case ExpandTree(stage=stage, kind=kind):
            purpose = f"{kind} in {stage}"
        case CompareNodes(a=a, b=b):
            purpose = f"compare {a} and {b}"
        case RunTask(task=task):
            purpose = task
        case _:
            purpose = f"decision {k}"
    return ModelCall(
        answered,
        format_node_id(k) if format_node_id(k) in state.nodes else "",
        purpose,
        KEPT_NOTE if answered.key in state.calls.changed_prompts else "",
    )


def open_call(run: CachedRun, name: str) -> ModelCallTexts | None:
    """Open a call by its key, with prompt and answer; None if the run has no such call."""
    answered = next((one for key, one in run.state.calls.answers.items() if str(key) == name), None)
    if answered is None:
        return None
    call, kept = build_call(run.state, answered), find_prompt(run.folder, answered)
    asked = kept.asked if kept is not None else None
    paths: dict[str, str] = {}
    if asked is not None and asked.images:
        files = list_recorded_files(run.state, RunFolder(run.folder, run.state.paper.version))
        paths = {digest: str(path.relative_to(run.folder)) for path, digest in files}
    return ModelCallTexts(
        call=call,
        system=cut_text(asked.system) if asked else "",
        prompt=None if kept is None else cut_text(asked.user) if asked else "",
        changed_warning=kept.changed if kept else "",
        output_schema=asked.answer_name if asked else "",
        pictures=tuple((image, paths.get(image, "")) for image in (asked.images if asked else ())),
        answer=format_answer(answered.answer),
        tool_result=cut_text(used.result) if (used := run.state.calls.tool_uses.get(answered.key)) is not None else "",
    )


def format_answer(answer: dict[str, Any]) -> str:
    """Format an answer field by field; multi-line strings start on a new line."""
    parts = [
        f"{key}:\n{value}"
        if isinstance(value, str) and "\n" in value
        else f"{key}: {value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)}"
        for key, value in answer.items()
    ]
    return cut_text("\n".join(parts))


def cut_text(text: str) -> str:
    """Truncate a string for display."""
    text = to_printable(text)
    return (
        text
        if len(text) <= MAX_TEXT_CHARACTERS
        else f"{text[:MAX_TEXT_CHARACTERS]}\n... {len(text) - MAX_TEXT_CHARACTERS} more characters"
    )
