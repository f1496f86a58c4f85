"""What an author did with its tools: one line per step."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from labwright.inspector.safe_text import shorten
from labwright.record.claims.question_results import EXPERIMENT_ARM
from labwright.record.events.run_events import AUTHOR_ROLE, HAND_IN, CallAnswered, ToolUsed
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import Node

_TASKS = {"baseline": ("prepare", "repair"), EXPERIMENT_ARM: ("code",)}
"""Tasks of authors outside the search whose result a node measures, by its arm."""


class AuthorStep(NamedTuple):
    """A call of a tool. `result` is its first line; empty if the tool has not finished."""

    key: str
    tool: str
    arguments: str
    note: str
    result: str
    seconds: float
    failed: bool


def list_author_steps(state: RunState, node: Node) -> tuple[AuthorStep, ...]:
    """List the steps of the authors who made what a node runs, in order."""
    tasks = _TASKS.get(node.arms[0] if node.arms else "", ("parts",) if node.kind == "ablate" else ())
    numbers = {
        k for k, one in state.decisions.items() if isinstance(one.action, RunTask) and one.action.task in tasks
    } | {node.decision}
    found = [one for key, one in state.calls.answers.items() if key.role == AUTHOR_ROLE and key.decision in numbers]
    return tuple(_build_step(one, state.calls.tool_uses.get(one.key)) for one in found)


def _build_step(answered: CallAnswered, used: ToolUsed | None) -> AuthorStep:
    answer: dict[str, Any] = answered.answer
    return AuthorStep(
        key=str(answered.key),
        tool=str(answer.get("tool", "")),
        arguments=shorten(json.dumps(answer.get("arguments", {}), ensure_ascii=False), 200),
        note=shorten(str(answer.get("note", "")), 300),
        result=shorten(used.result.partition("\n")[0], 200) if used is not None else "",
        seconds=answered.seconds + (used.seconds if used is not None else 0.0),
        failed=used is not None and used.failed,
    )


def format_tool_use(event: ToolUsed) -> str:
    """Format the result of a tool in one line."""
    outcome = "refused" if event.failed and event.tool == HAND_IN else "failed" if event.failed else "done"
    return f"author {event.key}: {shorten(event.tool, 40)} {outcome}: {shorten(event.result, 120)}"
