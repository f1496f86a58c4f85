"""What every place and every unfinished node of a run waits for, read from the log alone.

A model call that is under way leaves no event until it is answered, and a node whose code runs leaves none until it
ends; what is said of both is inferred from what came before, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from inspector.text import plain
from record.events.calls import Answered
from record.events.event import Event
from record.events.nodes import Executed, Judged, Plotted, Proposed, Reviewed
from record.events.running import Resumed
from record.events.searching import Decided, WorkDone
from record.fold.state import RunState
from record.nouns.decisions import Compare, Work
from record.nouns.frozen import Frozen
from record.nouns.nodes import Node, node_id
from record.nouns.stages import NodeKind

Step = Literal["written", "executed", "plotted", "replotted", "reviewed", "judged", "waits for a place",
               "interrupted"]
ASKS: dict[Step, str] = {
    "written": "code", "replotted": "plot", "reviewed": "vision", "judged": "feedback"}
"""Steps in which a model is asked, and its role then."""


class Waiting(Frozen):
    """A node that was decided on and is not finished. `since` is seconds since its last event."""

    node: str
    stage: str
    kind: NodeKind
    step: Step
    since: float
    detail: str


class Place(Frozen):
    """One place where experiments run, and what holds it; `node` is None while it is free, and `why` says why."""

    number: int
    node: str | None
    why: str


RETRIED = ("memory", "timeout")
"""Failures of a first attempt after which the code runs once more, with changed limits (`stages.nodes.node`)."""


@dataclass(frozen=True)
class Outlook:
    """What the search says of the time ahead: a best node, why places are free, the next actions."""

    best: str | None = None
    idle: str = ""
    actions: tuple[str, ...] = ()
    workers: int = 1
    replots: int = 2


def step_of(node: Node, replots: int, answered: Sequence[str]) -> Step:
    """The step that a node is in. `answered` are the roles that were answered for it, in order."""
    if not node.source_sha256:
        return "written"
    if not node.attempts and node.kind != "aggregate":
        return "executed"
    if runs_again(node):
        return "executed"
    if node.attempts and (node.attempts[-1].failure is not None or node.kind == "replicate"):
        return "judged"
    if not node.plottings:
        return "plotted"
    last = node.plottings[-1]
    if last.failure is None and last.reviews is None:
        return "reviewed"
    refused = last.failure is not None or any(not review.readable for review in last.reviews or ())
    if not refused or node.plots > replots:
        return "judged"
    scripts = answered.count("plot") - (node.kind == "aggregate")
    return "plotted" if scripts >= node.plots else "replotted"


def runs_again(node: Node) -> bool:
    """Whether a node's code is to run a second time, with changed limits."""
    failure = node.attempts[0].failure if len(node.attempts) == 1 else None
    return failure is not None and failure.kind in RETRIED


def queue_of(state: RunState, events: Iterable[tuple[Event, float]], outlook: Outlook) -> list[str]:
    """Nodes that need a place now, in the order in which they came to need it: the first ones have theirs.

    Places are given first come, first served (`sandbox.executor`).
    """
    roles = _answered_roles(state)
    due = {node.id for node in state.nodes.values() if not node.finished
           and step_of(node, outlook.replots, roles.get(node.id, ())) in ("executed", "plotted")}
    events = list(events)
    resumed = max((at for event, at in events if isinstance(event, Resumed)), default=0.0)
    since = {node: max(at, resumed) for node, at in _last_events(events).items() if node in due}
    return sorted(since, key=lambda node: (since[node], node))


def places_of(queue: Sequence[str], outlook: Outlook) -> tuple[Place, ...]:
    held = [Place(number=n + 1, node=node, why=f"runs code of {node} (as its place in the queue says)")
            for n, node in enumerate(queue[: outlook.workers])]
    free = [Place(number=n + 1, node=None, why=plain(outlook.idle)) for n in range(len(held), outlook.workers)]
    return (*held, *free)


def waiting_of(
    state: RunState, events: Sequence[tuple[Event, float]], queue: Sequence[str], *, outlook: Outlook, now: float
) -> tuple[Waiting, ...]:
    roles, last = _answered_roles(state), _last_events(events)
    found: list[Waiting] = []
    for node in state.nodes.values():
        if node.finished:
            continue
        step = step_of(node, outlook.replots, roles.get(node.id, ()))
        if node.id in queue[outlook.workers:]:
            step = "waits for a place"
        since = max(0.0, now - last.get(node.id, now))
        found.append(Waiting(node=node.id, stage=node.stage, kind=node.kind, step=step, since=round(since, 1),
                             detail=_detail(node, step)))
    return tuple(found)


def left_of(state: RunState, events: Iterable[tuple[Event, float]], *, now: float) -> tuple[Waiting, ...]:
    """The unfinished nodes of a run that nobody works on: they are taken up again with it."""
    last = _last_events(events)
    return tuple(
        Waiting(node=node.id, stage=node.stage, kind=node.kind, step="interrupted",
                since=round(max(0.0, now - last.get(node.id, now)), 1), detail="begun; taken up again by resume")
        for node in state.nodes.values() if not node.finished)


def _detail(node: Node, step: Step) -> str:
    if step == "written" and node.kind == "replicate":
        return "takes over the code of its parent"
    if step == "written" and node.kind == "aggregate":
        return "the model is asked for a plotting script (role plot), or its answer is being saved"
    if step in ASKS:
        return f"the model is asked (role {ASKS[step]}), or its answer is being saved"
    if step == "waits for a place":
        return "all places are taken by nodes that came before"
    again = " again, with changed limits" if runs_again(node) else ""
    return {"executed": f"runs its code{again}, seed {node.seed}",
            "plotted": f"draws its figures for the {_ordinal(node.plots + 1)} time"}[step]


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def work_of(state: RunState) -> tuple[str, ...]:
    """Steps that make no node, begun and not done: comparisons, reports on stages, steps outside the search."""
    actions = (decided.action for k, decided in state.decisions.items() if k not in state.finished)
    return tuple(one.task if isinstance(one, Work) else f"comparison of {one.a} and {one.b}"
                 for one in actions if isinstance(one, Work | Compare))


def _last_events(events: Iterable[tuple[Event, float]]) -> dict[str, float]:
    """When a node was last heard of: node -> seconds since the epoch."""
    last: dict[str, float] = {}
    for event, at in events:
        match event:
            case Decided() | WorkDone():
                last[node_id(event.k)] = at
            case Answered():
                last[node_id(event.key.decision)] = at
            case Proposed() | Executed() | Plotted() | Reviewed() | Judged():
                last[event.node] = at
            case _:
                continue
    return last


def _answered_roles(state: RunState) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in state.answers:
        found.setdefault(node_id(key.decision), []).append(key.role)
    return found
