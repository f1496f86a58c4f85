"""What an ablation or a question of a repository found so far, for its status and its page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from labwright.inspector.safe_text import shorten, to_plain
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.part_effects import compute_part_effects
from labwright.record.claims.question_results import EXPERIMENT_ARM, UNMODIFIED_ARM, find_question_results
from labwright.record.events.run_events import AUTHOR_ROLE, HAND_IN, CallAnswered, ToolUsed
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import REPORT_FILES
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import Node
from labwright.record.schema.repository import format_command_line
from labwright.record.table import format_quantity


class FoundEffect(NamedTuple):
    """The difference of an arm to another, and what it shows."""

    name: str
    difference: ClaimDifference
    shows: str


def list_findings(state: RunState) -> Iterator[tuple[str, str]]:
    """Yield pairs of a label and a text: the repository, what was asked, the baseline, and the answer."""
    code = state.repository
    if state.kind == "paper" or state.started is None:
        return
    if code.imported is not None:
        dirty = ", with uncommitted changes" * code.imported.snapshot
        yield "repository", f"{to_plain(code.imported.repository)} at {code.imported.commit[:12]}{dirty}"
    if state.kind == "question":
        yield "question", to_plain(state.read_setting("question")["question"])
    if (command := code.repaired_command) is not None:
        yield "command", f"{to_plain(format_command_line(command.argv))}, metric {to_plain(command.metric)}"
    if (check := code.baseline) is not None:
        expected = code.command.expected if code.command is not None else None
        text = check.verdict + (f": mean {check.mean:.6g}" if check.mean is not None else "")
        text += f", expected {expected.value:g} ± {expected.tolerance:g}" if expected is not None else ""
        yield "baseline", text + (f"; {to_plain(check.why)}" if check.why else "")
    unmodified = (one for one in state.nodes.values() if UNMODIFIED_ARM in one.arms)
    if values := [one.measurements[0].value for one in unmodified if one.measurements]:
        yield "baseline", f"mean {fmean(values):.6g} over {format_quantity(len(values), 'seed')}"
    if state.question.design is not None:
        design = state.question.design.design
        arms = ", ".join(f"{one.name} ({to_plain(one.what)})" for one in design.arms)
        yield "design", f"{arms}; {format_quantity(design.seeds, 'seed')}; decided by: {to_plain(design.rule)}"
    if state.ablation.results is not None:
        found = state.ablation.results
        nothing = "no part was measured on fresh seeds and helps" if found.results else "no part was found"
        nothing = found.stopped or nothing
        yield "most important", to_plain(", ".join(found.top)) or f"none: {to_plain(nothing)}"
        if found.top and found.stopped and state.limit_reason is None:
            yield "budget", to_plain(found.stopped)
    if (answer := state.question.answer) is not None:
        yield "answer", to_plain(answer.conclusion) or f"none: {to_plain(answer.why)}"


def list_effects(state: RunState) -> list[FoundEffect]:
    """Return the measured differences of a question's arms, or of a repository to the repository without each part."""
    results = find_question_results(state)
    if results is not None:
        pairs = ((one.difference, one.shows) for one in results.pairs)
        return [FoundEffect(f"{one.name}: {one.condition} - {one.other}", one, shows) for one, shows in pairs]
    found = state.ablation.results
    rows = found.results if found is not None else ()
    called = {one.node: f"{one.called} ({one.flag})" if one.flag else one.called for one in rows}
    return [
        FoundEffect(f"without {state.nodes[node].varies}", one.effect, called.get(node, "not settled yet"))
        for node, one in compute_part_effects(state).items()
        if found is None or node in called
    ]


def format_effect(one: FoundEffect) -> str:
    """Format an effect in one line: its mean, interval and number of pairs, and what it shows."""
    found = one.difference
    interval = f" [{found.low:.4g}, {found.high:.4g}]" if found.low is not None and found.high is not None else ""
    return f"{shorten(one.name, 80)}: {found.mean:+.4g}{interval}, n = {found.n}: {one.shows}"


def list_report_files(folder: Path) -> tuple[str, ...]:
    """Return the files of the report that exist."""
    return tuple(name for name in REPORT_FILES if (folder / name).is_file())


# What an author did with its tools: one line per step.

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
    actions = ((k, one.action) for k, one in state.decisions.items())
    numbers = {node.decision, *(k for k, one in actions if isinstance(one, RunTask) and one.task in tasks)}
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
