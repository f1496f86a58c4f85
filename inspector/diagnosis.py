"""Explain why a run is in its current state, as a part of its status (`inspector.status`).

Uses only the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from labwright.inspector.findings import AUTHOR_ROLE
from labwright.inspector.safe_text import to_plain, to_plain_lines
from labwright.inspector.tree import format_remaining
from labwright.record.cell_status import compute_node_cells, count_cells
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_validation_claims
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.decisions import CompareNodes, RunTask
from labwright.record.schema.nodes import (
    PHASES,
    REVISION_PHASES,
    STAGES,
    Failure,
    Node,
    NodeKind,
    NodeStep,
    Phase,
    StageName,
)

TRACEBACK_LINES = 12
MAX_EXAMPLES = 5
MAX_NEXT_STEPS = 3
BEFORE_ABLATION: tuple[StageName, ...] = ("agenda", "tuning", "preliminary")

PHASE_TEXT: Mapping[Phase, str] = {
    "prepare": "make the data plan and fetch its datasets",
    "score": "score the sealed test predictions",
    "addendum": "read the reviews, register what they ask for, and measure it",
    "figures": "draw the final figures from the record",
    "write": "write the paper",
    "cite": "find citations for the draft",
    "reflect": "fix unbound numbers and LaTeX errors in the paper",
    "missing": "run the ablations requested by the draft's reviewer",
    "release": "build and release the paper",
    "respond": "write the response to the reviewers",
    "judge": "judge the paper",
    "reproduce": "run the repository and check its result",
    "ablate": "measure the result without each part of the repository",
    "answer": "design, run and conclude the experiment that answers the question",
    "report": "write the report",
    "done": "nothing (finished)",
}
REPOSITORY_TEXT = "record the repository and its environment"
"""The phase `prepare` of a study without a paper."""


_EXPERIMENT_FRAME = re.compile(r"(?:^|[ /\"])(?:experiment|plots|figures)\.py\b|Cell In\[")
"""Matches a traceback line with a frame of the experiment's own code."""


class WaitingNode(FrozenModel):
    """An unfinished node. `since` is the number of seconds since it entered its step."""

    node: str
    stage: str
    kind: NodeKind
    step: NodeStep | Literal["interrupted"]
    since: float
    detail: str


class ErrorCount(FrozenModel):
    """Errors of one kind: an error class or the name of an exception.

    `fixed` of the `count` nodes were repaired by debugging; `example` is the newest traceback.
    """

    kind: str
    count: int
    fixed: int
    nodes: tuple[str, ...]
    message: str
    example: tuple[str, ...]


class RunDiagnosis(FrozenModel):
    """Why a run is in its state; part of `RunStatus` (JSON: docs/json.md)."""

    waiting: tuple[WaitingNode, ...]
    work: tuple[str, ...]
    errors: tuple[ErrorCount, ...]
    best: str | None
    comparisons: tuple[ClaimDifference, ...]
    next: tuple[str, ...]


def diagnose_run(state: RunState, process: str | None, *, now: float) -> RunDiagnosis:
    """Diagnose a run. `process` names the process of the run, if any; `now` is in seconds since the epoch."""
    best = next((best for name in BEFORE_ABLATION if (best := state.search.stages[name].best) is not None), None)
    return RunDiagnosis(
        work=tuple(
            action.task if isinstance(action, RunTask) else f"comparison of {action.a} and {action.b}"
            for k, decided in state.decisions.items()
            if k not in state.finished_decisions
            and isinstance(action := decided.action, RunTask | CompareNodes)
            and (state.kind == "paper" or (isinstance(action, RunTask) and action.task in PHASES[state.kind]))
        ),
        waiting=list_waiting(state, process, now),
        errors=count_errors(state),
        best=best,
        comparisons=compute_baseline_differences(state, best),
        next=list_next_steps(state),
    )


# --- unfinished work ------------------------------------------------------------------------------------------------


def list_waiting(state: RunState, process: str | None, now: float) -> tuple[WaitingNode, ...]:
    """List the unfinished nodes, and what each is doing or waiting for."""
    return tuple(
        WaitingNode(
            node=node.id,
            stage=node.stage,
            kind=node.kind,
            step=node.step if process else "interrupted",
            since=round(max(0.0, now - state.step_since[node.id]), 1),
            detail=_describe_detail(node, state) if process else "started; resume continues it",
        )
        for node in state.nodes.values()
        if not node.is_finished
    )


def list_next_steps(state: RunState) -> tuple[str, ...]:
    """Describe the current phase of a run and those that follow."""
    phases: list[Phase] = [one for one in PHASES[state.kind] if state.paper.reviews or one not in REVISION_PHASES]
    steps = [describe_phase(state, phase) for phase in phases[phases.index(state.phase) : -1][:MAX_NEXT_STEPS]]
    return tuple(steps) or (PHASE_TEXT["done"],)


def describe_phase(state: RunState, phase: Phase) -> str:
    """Describe what a run does in a phase."""
    if phase not in STAGES:
        return REPOSITORY_TEXT if phase == "prepare" and state.kind != "paper" else PHASE_TEXT.get(phase, phase)
    if state.search.stages[phase].is_settled:
        return f"report on the {phase} stage"
    ended = state.find_stage_end(phase) is not None
    return f"select the best node of the {phase} stage" if ended else f"search the {phase} stage"


def _describe_detail(node: Node, state: RunState) -> str:
    match node.step:
        case "proposed":
            return "scheduled, not started yet"
        case "writing" if node.kind == "replicate":
            return "reuses the code of its parent"
        case "writing":
            has_author = any((key.decision, key.role) == (node.decision, AUTHOR_ROLE) for key in state.calls.answers)
            code = AUTHOR_ROLE if has_author else "code"
            role = "plot" if node.source_sha256 or node.kind == "aggregate" else code
        case "waiting":
            return "waiting for a free slot"
        case "running":
            cells = count_cells(compute_node_cells(state, node.id))
            grid = f", {cells}{format_remaining(cells)}" if cells is not None else ""
            return f"running its code{' again, with changed limits' if node.attempts else ''}, seed {node.seed}{grid}"
        case "plotting":
            return f"drawing its figures, attempt {node.plot_count + 1}"
        case "reviewing":
            role = "vision"
        case _:
            role = "feedback"
    return f"waiting for the model (role {role}) or processing its answer"


# --- errors ---------------------------------------------------------------------------------------------------------


def count_errors(state: RunState) -> tuple[ErrorCount, ...]:
    """Count error classes of failed and pruned nodes, most frequent first, with one traceback each."""
    failed: dict[str, list[tuple[Node, Failure]]] = {}
    for node in state.nodes.values():
        if node.failure is not None and not node.is_cut_short:
            failed.setdefault(node.failure.name, []).append((node, node.failure))
    found: list[ErrorCount] = []
    for kind, all_of_it in sorted(failed.items(), key=lambda item: -len(item[1])):
        example = next((failure for _, failure in reversed(all_of_it) if failure.traceback), all_of_it[-1][1])
        found.append(
            ErrorCount(
                kind=kind,
                count=len(all_of_it),
                fixed=sum(_is_fixed(state, node) for node, _ in all_of_it),
                nodes=tuple(node.id for node, _ in all_of_it[:MAX_EXAMPLES]),
                message=to_plain(example.message)[:300],
                example=to_plain_lines(extract_own_traceback(example.traceback), TRACEBACK_LINES),
            )
        )
    return tuple(found)


def extract_own_traceback(traceback: str) -> str:
    """Cut a traceback to the last frame of the experiment's own code, without the library frames before the error."""
    lines = traceback.splitlines()
    own = [n for n, line in enumerate(lines) if _EXPERIMENT_FRAME.search(line)]
    if not own or len(lines) - own[-1] <= TRACEBACK_LINES:
        return traceback
    frame = lines[own[-1] : own[-1] + TRACEBACK_LINES - 3]
    end = next((n for n, line in enumerate(frame) if n and line.lstrip().startswith("File ")), len(frame))
    return "\n".join((*frame[:end], "...", lines[-1]))


def _is_fixed(state: RunState, node: Node) -> bool:
    """Check whether debugging of the node, or of its debug children, led to a working node."""
    children = [one for one in state.nodes.values() if one.kind == "debug" and one.parent == node.id]
    return any(one.status == "good" or _is_fixed(state, one) for one in children)


# --- best node compared with the baseline ---------------------------------------------------------------------------


def compute_baseline_differences(state: RunState, best: str | None) -> tuple[ClaimDifference, ...]:
    """Compute method - baseline by dataset and condition for the primary metric, over replicates."""
    plan = state.search.data_plan
    if plan is None or best is None or best not in state.nodes:
        return ()
    roles = {arm.name: arm.role for arm in plan.arms}
    return tuple(
        one
        for one in compute_differences(state, compute_validation_claims(state, best))
        if one.name == plan.primary_metric.name and roles.get(one.arm) == "method"
    )
