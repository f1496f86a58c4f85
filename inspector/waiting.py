"""What every slot and every unfinished node of a run waits for, as its log says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from inspector.text import plain
from record.fold.state import RunState
from record.nouns.decisions import Compare, Work
from record.nouns.frozen import Frozen
from record.nouns.nodes import Node, NodeStep
from record.nouns.stages import NodeKind


class Waiting(Frozen):
    """A node that was decided on and is not finished. `since` is seconds since it went over to its step."""

    node: str
    stage: str
    kind: NodeKind
    step: NodeStep | Literal["interrupted"]
    since: float
    detail: str


class Place(Frozen):
    """One slot in which experiments run, and what holds it; `node` is None while it is free, and `why` says why."""

    number: int
    node: str | None
    why: str


@dataclass(frozen=True)
class Outlook:
    """What the search says of the time ahead: a best node, why slots are free, the next actions."""

    best: str | None = None
    idle: str = ""
    actions: tuple[str, ...] = ()
    workers: int = 1


def places_of(state: RunState, outlook: Outlook) -> tuple[Place, ...]:
    """Every slot, those that are held first."""
    held = [node for node in state.nodes.values() if node.step in ("running", "plotting")]
    held.sort(key=lambda node: state.step_since[node.id])
    taken = [Place(number=number, node=node.id, why=f"{node.id}: {_detail(node)}")
             for number, node in enumerate(held, 1)]
    free = [Place(number=n + 1, node=None, why=plain(outlook.idle)) for n in range(len(held), outlook.workers)]
    return (*taken, *free)


def waiting_of(state: RunState, *, now: float) -> tuple[Waiting, ...]:
    """The unfinished nodes of a run that a process works on."""
    return tuple(Waiting(node=node.id, stage=node.stage, kind=node.kind, step=node.step,
                         since=_since(state, node, now), detail=_detail(node))
                 for node in state.nodes.values() if not node.finished)


def left_of(state: RunState, *, now: float) -> tuple[Waiting, ...]:
    """The unfinished nodes of a run that nobody works on: they are taken up again with it."""
    return tuple(Waiting(node=node.id, stage=node.stage, kind=node.kind, step="interrupted",
                         since=_since(state, node, now), detail="begun; taken up again by resume")
                 for node in state.nodes.values() if not node.finished)


def _since(state: RunState, node: Node, now: float) -> float:
    return round(max(0.0, now - state.step_since[node.id]), 1)


ASKED: Mapping[NodeStep, str] = {"reviewing": "vision", "judging": "feedback"}
"""Steps in which a model is asked always in the same role."""


def _detail(node: Node) -> str:
    match node.step:
        case "proposed":
            return "decided on; nobody works on it yet"
        case "writing" if node.kind == "replicate":
            return "takes over the code of its parent"
        case "writing":
            role = "plot" if node.source_sha256 or node.kind == "aggregate" else "code"
            return f"the model is asked (role {role}), or its answer is being saved"
        case "waiting":
            return "all slots are taken by nodes that came before"
        case "running":
            return f"runs its code{' again, with changed limits' if node.attempts else ''}, seed {node.seed}"
        case "plotting":
            return f"draws its figures for the {_ordinal(node.plots + 1)} time"
        case _:
            return f"the model is asked (role {ASKED.get(node.step, '')}), or its answer is being saved"


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def work_of(state: RunState) -> tuple[str, ...]:
    """Steps that make no node, begun and not done: comparisons, reports on stages, steps outside the search."""
    actions = (decided.action for k, decided in state.decisions.items() if k not in state.finished)
    return tuple(one.task if isinstance(one, Work) else f"comparison of {one.a} and {one.b}"
                 for one in actions if isinstance(one, Work | Compare))
