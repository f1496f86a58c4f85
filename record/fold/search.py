"""Events of the search and of steps beside it, folded: data plan, decisions, comparisons, stages, ablations."""

from __future__ import annotations

from record.events.searching import (
    AblationsMissed,
    AblationsPlanned,
    Compared,
    Decided,
    Prepared,
    SearchEvent,
    Settled,
    Summarised,
    WorkDone,
)
from record.fold.parts import Terms
from record.fold.spending import finish
from record.fold.state import RunState
from record.nouns.decisions import Compare, Expand, Work
from record.nouns.nodes import Node, node_id


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
