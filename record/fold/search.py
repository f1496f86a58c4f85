"""Events of the search, of its nodes and of steps beside it, folded; and what decisions take of the budget."""

from __future__ import annotations

from record.events.searching import (
    AblationsMissed,
    AblationsPlanned,
    Compared,
    Decided,
    Executed,
    Judged,
    NodeEvent,
    Plotted,
    Prepared,
    Probed,
    Proposed,
    Resampled,
    Reviewed,
    SearchEvent,
    Settled,
    Stepped,
    Summarised,
    Suspected,
    Unsealed,
    WorkDone,
)
from record.fold.facts import Terms
from record.fold.state import RunState
from record.nouns.decisions import Compare, Expand, Spending, Work
from record.nouns.nodes import Node, NodeStep, Plotting, node_id


def settle(state: RunState, name: str, k: int, took: Spending) -> None:
    """Book what a call or an attempt of decision k took, in place of what was set aside for it."""
    state.reserved.pop(name, None)
    state.settled[k] = state.settled.get(k, Spending()) + took


def finish(state: RunState, k: int) -> None:
    """Note that the work of decision k is done."""
    state.finished.add(k)
    cut_off(state, [name for name, one in state.reserved.items() if one.k == k])


def cut_off(state: RunState, names: list[str]) -> None:
    """What was set aside for what did not come to its end stays spent."""
    for name in names:
        one = state.reserved.pop(name)
        state.lost[one.k] = state.lost.get(one.k, Spending()) + one.spending


def enter(state: RunState, node: str, step: NodeStep, at: float) -> None:
    """Note that a node is in this step since then."""
    state.nodes[node] = state.nodes[node].model_copy(update={"step": step})
    state.step_since[node] = at


def interrupt(state: RunState, at: float) -> None:
    """Note that nobody works on the unfinished nodes any more: a process that takes them up begins where they were."""
    for node in [node for node in state.nodes.values() if not node.finished]:
        enter(state, node.id, "proposed", at)


def apply_search(state: RunState, event: SearchEvent, at: float) -> None:
    """Fold one of them, of that time, into the state, in place."""
    match event:
        case Prepared():
            state.data_plan, state.datasets, state.scorers = event.data_plan, event.datasets, event.scorers
        case Decided():
            _decided(state, event, at)
        case WorkDone():
            finish(state, event.k)
        case Compared():
            state.compared[event.a, event.b] = event
            finish(state, event.k)
        case Settled():
            state.stages[event.stage].settlements.append((state.last_decision, event))
        case Summarised():
            state.stages[event.summary.stage].reports[event.k] = event.summary
        case AblationsPlanned():
            state.planned = event
        case AblationsMissed():
            state.missed = event


def _decided(state: RunState, event: Decided, at: float) -> None:
    state.decisions[event.k] = event
    state.terms[event.k] = Terms(state.limited, state.without, state.isolations)
    if isinstance(event.action, Expand):
        action = event.action
        state.nodes[node_id(event.k)] = Node(
            id=node_id(event.k), decision=event.k, parent=action.parent, stage=action.stage, kind=action.kind,
            seed=action.seed)
        state.step_since[node_id(event.k)] = at
        stage = state.stages[action.stage]
        if stage.began is None:
            stage.began = state.active_seconds
    elif not isinstance(event.action, Work | Compare):
        state.finished.add(event.k)


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
