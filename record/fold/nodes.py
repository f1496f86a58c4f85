"""Events of nodes, folded: each makes a new `Node` of the one before, or adds to what is known of it."""

from __future__ import annotations

from record.events.nodes import (
    Executed,
    Judged,
    NodeEvent,
    Plotted,
    Probed,
    Proposed,
    Resampled,
    Reviewed,
    Stepped,
    Suspected,
    Unsealed,
)
from record.fold.spending import finish, settle
from record.fold.state import RunState
from record.fold.steps import enter
from record.nouns.calls import Spending
from record.nouns.nodes import Plotting

Grown = Proposed | Executed | Plotted | Reviewed | Judged
"""The steps from a decision to a verdict."""


def apply_node(state: RunState, event: NodeEvent, at: float) -> None:
    """Fold one of them, of that time, into the state, in place."""
    match event:
        case Proposed() | Executed() | Plotted() | Reviewed() | Judged():
            _grown(state, event, at)
        case Stepped():
            enter(state, event.node, event.step, at)
        case Suspected():
            _suspected(state, event)
        case Probed():
            state.probes.append(event)
            settle(state, f"{event.node}/{event.probe}", state.nodes[event.node].decision,
                   Spending(gpu_seconds=event.seconds * state.gpus))
        case Unsealed():
            state.tests[event.node] = event.measurements
            if event.failure is not None:
                state.unscored[event.node] = event.failure
        case Resampled():
            state.resampled = {one.key: one for one in event.found}


def _grown(state: RunState, event: Grown, at: float) -> None:
    node = state.nodes[event.node]
    match event:
        case Proposed():
            changes = event.model_dump(include={"title", "plan", "varies", "source_sha256", "setups", "author"})
            changes["status"] = "running"
        case Executed():
            changes = {"attempts": (*node.attempts, event.attempt)}
            settle(state, f"{node.id}/{event.attempt.number}", node.decision,
                   Spending(gpu_seconds=event.attempt.seconds * state.gpus))
        case Plotted():
            plotting = Plotting(n=event.n, figures=event.figures, failure=event.failure, seconds=event.seconds)
            changes = {"plottings": (*node.plottings, plotting)}
        case Reviewed():
            reviewed = node.plottings[-1].model_copy(update={"reviews": event.reviews, "looked": event.looked})
            changes = {"plottings": (*node.plottings[:-1], reviewed)}
        case Judged():
            changes = {"status": event.status, "reasons": event.reasons, "failure": event.failure,
                       "verdict": event.verdict}
            finish(state, node.decision)
            if event.failure is not None and event.failure.ours:
                met = state.stumbled.get(event.failure.ours, ())
                state.stumbled[event.failure.ours] = (*met, node.id)
    state.nodes[node.id] = node.model_copy(update=changes)
    if isinstance(event, Judged):
        enter(state, node.id, "done", at)


def _suspected(state: RunState, event: Suspected) -> None:
    node = state.nodes[event.node]
    reasons = tuple(str(one) for one in event.findings if one.suspect)
    state.nodes[node.id] = node.model_copy(update={
        "findings": (*node.findings, *event.findings), "suspect": (*node.suspect, *reasons)})
