"""Fold decisions and the events of the search over a data plan, to the scores of its sealed test data."""

from __future__ import annotations

from labwright.record.events import search_events
from labwright.record.reducers.node_reducer import finish_decision
from labwright.record.reducers.run_state import DecisionContext, RunState
from labwright.record.schema.decisions import CompareNodes, ExpandTree, RunTask, WidenDimension
from labwright.record.schema.nodes import Node, format_node_id
from labwright.record.tuning_results import index_trial_results


def apply_search_event(state: RunState, event: search_events.SearchEvent, at: float) -> None:
    """Fold one event of the search into the state, in place."""
    match event:
        case search_events.PlanPrepared():
            state.search.data_plan, state.search.datasets, state.search.scorers = (
                event.data_plan,
                event.datasets,
                event.scorers,
            )
            state.search.installed_packages, state.search.hub_items = event.installed, event.hub
            state.overrides = event.settings | state.overrides
            index_trial_results(state, state.nodes.values())
        case search_events.PlanAmended():
            state.search.data_plan = event.data_plan
            used = {use.name for use in event.data_plan.datasets}
            state.search.datasets = tuple(one for one in state.search.datasets if one.name in used)
            state.search.amendments.append(event)
            index_trial_results(state, state.nodes.values())
        case search_events.ProtocolReviewed():  # its plan takes effect with `PlanPrepared`
            state.search.protocol_review, state.search.amendments = event, [event.amendment] if event.amendment else []
        case search_events.ConfirmationLocked():
            state.search.locks.append((state.last_decision, event))
            state.search.looks.clear()
        case search_events.LookTaken():
            state.search.looks[event.look :] = [event]  # again, if a higher limit lets sampling go on
        case search_events.HoursSetAside():
            state.search.hours = event
        case search_events.DecisionMade():
            _apply_decision(state, event, at)
        case search_events.TaskDone():
            finish_decision(state, event.k)
            if (decided := state.decisions.get(event.k)) and decided.action == RunTask(task="score tests"):
                state.search.scored_at = state.active_seconds
        case search_events.NodesCompared():
            state.search.comparisons[event.a, event.b] = event
            finish_decision(state, event.k)
        case search_events.StageWinnerChosen():
            state.search.stages[event.stage].settlements.append((state.last_decision, event))
        case search_events.StageSummarised():
            state.search.stages[event.summary.stage].reports[event.k] = event.summary
        case search_events.AblationsPlanned():
            state.search.planned_ablations = event
        case search_events.MissingAblationsNamed():
            state.search.missing_ablations = event
        case search_events.AddendumRegistered():
            state.search.addenda.append(event)
        case search_events.CodeRead():
            state.search.code_readings.append(event)
        case search_events.SealedTestResampled():
            state.search.resampled_intervals = {one.key: one for one in event.found}
        case search_events.SealedTestScored():
            state.search.test_measurements[event.node] = event.measurements
            if event.failure is not None:
                state.search.scoring_failures[event.node] = event.failure


def _apply_decision(state: RunState, event: search_events.DecisionMade, at: float) -> None:
    state.decisions[event.k] = event
    state.decision_contexts[event.k] = DecisionContext(state.limit_reason, state.skipped_kinds, state.isolations)
    if isinstance(event.action, ExpandTree):
        action = event.action
        state.nodes[format_node_id(event.k)] = Node(
            id=format_node_id(event.k),
            decision=event.k,
            parent=action.parent,
            stage=action.stage,
            kind=action.kind,
            seed=action.seed,
            repairs_children=action.repairs_children,
            trials=_collect_trials(state, action),
        )
        state.search.trials |= {
            (one.arm, one.number): one
            for one in action.trials
            if one.share == 1 or (one.arm, one.number) not in state.search.trials
        }
        state.step_since[format_node_id(event.k)] = at
        stage = state.search.stages[action.stage]
        if stage.began_at is None:
            stage.began_at = state.active_seconds
    elif not isinstance(event.action, RunTask | CompareNodes):
        state.finished_decisions.add(event.k)
        if isinstance(event.action, WidenDimension):
            state.search.widened_dimensions[event.action.dimension] = event.action


def _collect_trials(state: RunState, action: ExpandTree) -> dict[str, int]:
    """Return the trial that a node uses for each arm: its own choice, otherwise its parent's."""
    if action.kind == "tune":
        return {one.arm: one.number for one in action.trials}
    parent = state.nodes.get(action.parent or "")
    return parent.trials if parent is not None else {}
