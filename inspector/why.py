"""Why a run is where it is, in one value: what `scientist why` prints and `--json` writes (see docs/command-line.md).

Made from the log alone. Which action comes next is decided by the search: `agent.outlook` asks its policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from labwright.inspector.cells import left_text
from labwright.inspector.status import RunCondition, condition_of, paused_text, unusual_answers
from labwright.inspector.text import plain, plain_lines
from labwright.inspector.tree import BranchPoint, branch_points
from labwright.record.cells import cells_of, counts_of
from labwright.record.claims.differences import Difference, differences
from labwright.record.claims.means import validation_claims
from labwright.record.events import Event
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Compare, Work
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.nodes import ErrorClass, Failure, Node, NodeKind, NodeStep, Phase
from labwright.record.typeset import key_of

TRACEBACK_LINES = 12
MOST_EXAMPLES = 5
DECLINED = "nothing left"
"""The end of a node whose author was free to say that nothing is worth trying: no error."""
_OWN = re.compile(r"(?:^|[ /\"])(?:experiment|plots|figures)\.py\b|Cell In\[")
"""A line of a traceback that names a frame of the experiment's own code."""


class Waiting(Frozen):
    """A node that was decided on and is not finished. `since` is seconds since it entered its step."""

    node: str
    stage: str
    kind: NodeKind
    step: NodeStep | Literal["interrupted"]
    since: float
    detail: str


class Slot(Frozen):
    """A slot in which experiments run, those held longest first; `node` is None while it is free, `why` says why."""

    number: int
    node: str | None
    why: str


class ErrorCount(Frozen):
    """A class of errors. Of `count` nodes, debugging of `fixed` led to one that works; `example` is the newest."""

    kind: ErrorClass
    count: int
    fixed: int
    nodes: tuple[str, ...]
    message: str
    example: tuple[str, ...]


@dataclass(frozen=True)
class Outlook:
    """What the search says of the time ahead: a best node, why slots are free, the next actions."""

    best: str | None = None
    idle: str = ""
    actions: tuple[str, ...] = ()
    workers: int = 1


class Why(Frozen):
    """The whole answer (see docs/command-line.md)."""

    run: str
    condition: RunCondition
    process: str | None
    phase: Phase
    slots: tuple[Slot, ...]
    waiting: tuple[Waiting, ...]
    work: tuple[str, ...]
    paused: str = ""
    answers: tuple[str, ...] = ()
    ancestry: tuple[BranchPoint, ...] = ()
    errors: tuple[ErrorCount, ...]
    best: str | None
    comparisons: tuple[Difference, ...]
    next: tuple[str, ...]


def why_of(
    run: str, events: Sequence[tuple[Event, float]], process: str | None, *, outlook: Outlook, now: float
) -> Why:
    """Why a run is where it is. `process` names who works on it now; `now` is seconds since the epoch."""
    state = fold(events)
    condition = condition_of(state, process)
    running = condition == "running"
    return Why(
        run=run,
        condition=condition,
        process=process,
        phase=state.phase,
        work=tuple(
            action.task if isinstance(action, Work) else f"comparison of {action.a} and {action.b}"
            for k, decided in state.decisions.items()
            if k not in state.finished and isinstance(action := decided.action, Work | Compare)
        ),
        waiting=tuple(
            Waiting(
                node=node.id,
                stage=node.stage,
                kind=node.kind,
                step=node.step if running else "interrupted",
                since=round(max(0.0, now - state.step_since[node.id]), 1),
                detail=_detail(node, state) if running else "started; resume continues it",
            )
            for node in state.nodes.values()
            if not node.finished
        ),
        ancestry=branch_points(state),
        paused=paused_text(state, now) if running else "",
        answers=unusual_answers(state),
        slots=slots_of(state, outlook) if running else (),
        errors=errors_of(state),
        best=outlook.best,
        comparisons=baseline_differences(state, outlook.best),
        next=outlook.actions,
    )


# --- slots and unfinished work --------------------------------------------------------------------------------------


def slots_of(state: RunState, outlook: Outlook) -> tuple[Slot, ...]:
    """What every slot of a run that is worked on does, or waits for."""
    held = sorted(
        (node for node in state.nodes.values() if node.step in ("running", "plotting")),
        key=lambda node: state.step_since[node.id],
    )
    return (
        *(Slot(number=n, node=node.id, why=f"{node.id}: {_detail(node, state)}") for n, node in enumerate(held, 1)),
        *(Slot(number=n + 1, node=None, why=plain(outlook.idle)) for n in range(len(held), outlook.workers)),
    )


def _detail(node: Node, state: RunState) -> str:
    match node.step:
        case "proposed":
            return "decided on, not started yet"
        case "writing" if node.kind == "replicate":
            return "takes over the code of its parent"
        case "writing":
            role = "plot" if node.source_sha256 or node.kind == "aggregate" else "code"
        case "waiting":
            return "all slots are taken by nodes that came before"
        case "running":
            cells = counts_of(cells_of(state, node.id))
            grid = f", {cells}{left_text(cells)}" if cells is not None else ""
            return f"runs its code{' again, with changed limits' if node.attempts else ''}, seed {node.seed}{grid}"
        case "plotting":
            return f"draws its figures, attempt {node.plots + 1}"
        case "reviewing":
            role = "vision"
        case _:
            role = "feedback"
    return f"calling the model (role {role}), or saving its answer"


# --- errors ---------------------------------------------------------------------------------------------------------


def errors_of(state: RunState) -> tuple[ErrorCount, ...]:
    """The classes of errors that nodes failed or were pruned with, the most frequent first, with one traceback each."""
    failed: dict[ErrorClass, list[tuple[Node, Failure]]] = {}
    for node in state.nodes.values():
        if node.failure is not None and node.failure.kind != DECLINED:
            failed.setdefault(node.failure.kind, []).append((node, node.failure))
    found: list[ErrorCount] = []
    for kind, all_of_it in sorted(failed.items(), key=lambda item: -len(item[1])):
        example = next((failure for _, failure in reversed(all_of_it) if failure.traceback), all_of_it[-1][1])
        found.append(
            ErrorCount(
                kind=kind,
                count=len(all_of_it),
                fixed=sum(_fixed(state, node) for node, _ in all_of_it),
                nodes=tuple(node.id for node, _ in all_of_it[:MOST_EXAMPLES]),
                message=plain(example.message)[:300],
                example=plain_lines(own_part(example.traceback), TRACEBACK_LINES),
            )
        )
    return tuple(found)


def own_part(traceback: str) -> str:
    """A traceback from the last frame of the experiment's own code on, without the libraries before the error."""
    lines = traceback.splitlines()
    own = [n for n, line in enumerate(lines) if _OWN.search(line)]
    if not own or len(lines) - own[-1] <= TRACEBACK_LINES:
        return traceback
    frame = lines[own[-1] : own[-1] + TRACEBACK_LINES - 3]
    end = next((n for n, line in enumerate(frame) if n and line.startswith("File ")), len(frame))
    return "\n".join((*frame[:end], "...", lines[-1]))


def _fixed(state: RunState, node: Node) -> bool:
    """Whether debugging of the node, or of what debugging made of it, led to a node that works."""
    children = [
        one
        for one in state.nodes.values()
        if one.kind == "debug" and (node.id in one.mends or (one.parent == node.id and not one.mends))
    ]
    return any(one.status == "good" or _fixed(state, one) for one in children)


# --- the best node against the baseline -----------------------------------------------------------------------------


def baseline_differences(state: RunState, best: str | None) -> tuple[Difference, ...]:
    """Method minus baseline by dataset and condition, of the primary metric: over replicates, or else of one seed."""
    plan = state.data_plan
    if plan is None or best is None or best not in state.nodes:
        return ()
    roles = {arm.name: arm.role for arm in plan.arms}
    if found := [
        one
        for one in differences(state, validation_claims(state, best))
        if one.name == plan.primary.name and roles.get(one.arm) == "method"
    ]:
        return tuple(found)
    shown = [
        one for one in state.nodes[best].measurements if one.name == plan.primary.name and one.split == "validation"
    ]
    higher = plan.primary.higher_is_better
    return tuple(  # with one seed the noise is unknown, so nothing is called better
        Difference(
            key=f"{key_of('diff', a.dataset, a.name, a.condition)}~{key_of(b.condition)}",
            name=a.name,
            dataset=a.dataset,
            condition=a.condition,
            other=b.condition,
            split="validation",
            values=(a.value - b.value,),
            seeds=(a.seed,),
            nodes=(best,),
            grade=a.grade,
            mean=a.value - b.value,
            sd=None,
            low=None,
            high=None,
            called="unknown",
            better=a.condition if (a.value > b.value) == higher else b.condition,
        )
        for a in shown
        for b in shown
        if a.dataset == b.dataset
        and a.level == b.level
        and (roles.get(a.arm), roles.get(b.arm)) == ("method", "baseline")
    )
