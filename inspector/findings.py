"""What an ablation or a question of a repository found so far, for its status and its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from labwright.inspector.safe_text import shorten, to_plain
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.part_effects import compute_part_effects
from labwright.record.claims.question_results import UNMODIFIED_ARM, find_question_results
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import REPORT_FILES
from labwright.record.schema.repository import format_command_line


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
    if code.command is not None:
        metric = to_plain(code.command.command.metric)
        yield "command", f"{to_plain(format_command_line(code.command.command.argv))}, metric {metric}"
    if (check := code.baseline) is not None:
        expected = code.command.expected if code.command is not None else None
        yield (
            "baseline",
            check.verdict
            + (f": mean {check.mean:.6g}" if check.mean is not None else "")
            + (f", expected {expected.value:g} ± {expected.tolerance:g}" if expected is not None else "")
            + (f"; {to_plain(check.why)}" if check.why else ""),
        )
    values = [
        one.measurements[0].value for one in state.nodes.values() if UNMODIFIED_ARM in one.arms and one.measurements
    ]
    if values:
        yield "baseline", f"mean {fmean(values):.6g} over {len(values)} seeds"
    if state.question.design is not None:
        design = state.question.design.design
        arms = ", ".join(f"{one.name} ({to_plain(one.what)})" for one in design.arms)
        yield "design", f"{arms}; {design.seeds} seeds; decided by: {to_plain(design.rule)}"
    if state.ablation.results is not None:
        found = state.ablation.results
        nothing = found.stopped or (
            "no part was measured on fresh seeds and helps" if found.results else "no part was found"
        )
        yield "most important", to_plain(", ".join(found.top)) or f"none: {to_plain(nothing)}"
    if (answer := state.question.answer) is not None:
        yield "answer", to_plain(answer.conclusion) or f"none: {to_plain(answer.why)}"


def list_effects(state: RunState) -> list[FoundEffect]:
    """Return the measured differences of a question's arms, or of a repository to the repository without each part."""
    results = find_question_results(state)
    if results is not None:
        return [
            FoundEffect(
                f"{one.difference.name}: {one.difference.condition} - {one.difference.other}", one.difference, one.shows
            )
            for one in results.pairs
        ]
    found = state.ablation.results
    called = {one.node: one.called for one in found.results} if found is not None else {}
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
