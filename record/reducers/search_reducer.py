"""Fold events of the search, of its nodes and of other tasks, and book the costs of decisions."""

from __future__ import annotations

from typing import Any

from labwright.record.events import search_events
from labwright.record.reducers.run_state import RunState
from labwright.record.reducers.state_fields import DecisionContext
from labwright.record.schema.decisions import CompareNodes, Cost, ExpandTree, RunTask, WidenDimension
from labwright.record.schema.nodes import SELECTION_KINDS, Node, NodeStep, PlotRun, format_node_id
from labwright.record.tuning_results import index_trial_results


def settle_cost(state: RunState, name: str, decision_id: int, cost: Cost) -> None:
    """Book the cost of a call or attempt of decision k and drop its reservation."""
    state.reservations.pop(name, None)
    state.settled_costs[decision_id] = state.settled_costs.get(decision_id, Cost()) + cost


def finish_decision(state: RunState, decision_id: int) -> None:
    """Mark the work of decision k as finished."""
    state.finished_decisions.add(decision_id)
    book_lost_costs(state, [name for name, one in state.reservations.items() if one.k == decision_id])


def book_lost_costs(state: RunState, names: list[str]) -> None:
    """Book the reservations of work that did not complete as spent."""
    for name in names:
        one = state.reservations.pop(name)
        state.lost_costs[one.k] = state.lost_costs.get(one.k, Cost()) + one.spending


def update_node(state: RunState, node: str, **fields: Any) -> None:
    """Update fields of a node."""
    state.nodes[node] = state.nodes[node].model_copy(update=fields)


def enter_step(state: RunState, node: str, step: NodeStep, at: float) -> None:
    """Record that a node entered a step at time `at`."""
    update_node(state, node, step=step)
    state.step_since[node] = at


def interrupt_nodes(state: RunState, at: float) -> None:
    """Mark unfinished nodes as idle; a process that resumes them continues at the same step."""
    for node in [node for node in state.nodes.values() if not node.is_finished]:
        enter_step(state, node.id, "proposed", at)


def apply_search_event(state: RunState, event: search_events.SearchEvent, at: float) -> None:
    """Fold one event of the search into the state, in place."""
    match event:
        case search_events.PlanPrepared():
            state.data_plan, state.datasets, state.scorers = event.data_plan, event.datasets, event.scorers
            state.installed_packages, state.hub_items = event.installed, event.hub
            state.overrides = event.settings | state.overrides
            index_trial_results(state, state.nodes.values())
        case search_events.PlanAmended():
            state.data_plan = event.data_plan
            used = {use.name for use in event.data_plan.datasets}
            state.datasets = tuple(one for one in state.datasets if one.name in used)
            state.amendments.append(event)
            index_trial_results(state, state.nodes.values())
        case search_events.ProtocolReviewed():  # its plan takes effect with `PlanPrepared`
            state.protocol_review, state.amendments = event, [event.amendment] if event.amendment else []
        case search_events.ConfirmationLocked():
            state.locks.append((state.last_decision, event))
            state.looks.clear()
        case search_events.LookTaken():
            state.looks[event.look :] = [event]  # again, if a higher limit lets sampling go on
        case search_events.HoursSetAside():
            state.hours = event
        case search_events.DecisionMade():
            _apply_decision(state, event, at)
        case search_events.TaskDone():
            finish_decision(state, event.k)
            if (decided := state.decisions.get(event.k)) and decided.action == RunTask(task="score tests"):
                state.scored_at = state.active_seconds
        case search_events.NodesCompared():
            state.comparisons[event.a, event.b] = event
            finish_decision(state, event.k)
        case search_events.StageWinnerChosen():
            state.stages[event.stage].settlements.append((state.last_decision, event))
        case search_events.StageSummarised():
            state.stages[event.summary.stage].reports[event.k] = event.summary
        case search_events.AblationsPlanned():
            state.planned_ablations = event
        case search_events.MissingAblationsNamed():
            state.missing_ablations = event


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
        state.trials |= {
            (one.arm, one.number): one
            for one in action.trials
            if one.share == 1 or (one.arm, one.number) not in state.trials
        }
        state.step_since[format_node_id(event.k)] = at
        stage = state.stages[action.stage]
        if stage.began_at is None:
            stage.began_at = state.active_seconds
    elif not isinstance(event.action, RunTask | CompareNodes):
        state.finished_decisions.add(event.k)
        if isinstance(event.action, WidenDimension):
            state.widened_dimensions[event.action.dimension] = event.action


def _collect_trials(state: RunState, action: ExpandTree) -> dict[str, int]:
    """Return the trial that a node uses for each arm: its own choice, otherwise its parent's."""
    if action.kind == "tune":
        return {one.arm: one.number for one in action.trials}
    parent = state.nodes.get(action.parent or "")
    return parent.trials if parent is not None else {}


def apply_node_event(state: RunState, event: search_events.NodeEvent, at: float) -> None:
    """Fold one event of a node into the state, in place."""
    if isinstance(event, search_events.SealedTestResampled):
        state.resampled_intervals = {one.key: one for one in event.found}
        return
    if isinstance(event, search_events.SealedTestScored):
        state.test_measurements[event.node] = event.measurements
        if event.failure is not None:
            state.scoring_failures[event.node] = event.failure
        return
    node = state.nodes[event.node]
    if isinstance(event, search_events.CellsRequired | search_events.CellExecuted | search_events.AttemptExecuted):
        state.trial_results.pop(node.id, None)
    match event:
        case search_events.NodeProposed():
            update_node(state, node.id, **event.model_dump(exclude={"type", "node", "decision"}), status="running")
        case search_events.NodeStepEntered():
            enter_step(state, node.id, event.step, at)
        case search_events.CellsRequired():
            state.required_cells[node.id] = event
        case search_events.CellExecuted():
            state.cells[event.run.id] = (node.id, event.run)
            if node.kind in SELECTION_KINDS and node.stage != "ablation":
                arm = event.run.cell.arm
                state.selection_seconds[arm] = state.selection_seconds.get(arm, 0.0) + event.run.seconds
        case search_events.AttemptExecuted():
            took = Cost(gpu_seconds=event.attempt.seconds * state.gpus_per_experiment)
            settle_cost(state, f"{node.id}/{event.attempt.number}", node.decision, took)
            update_node(state, node.id, attempts=(*node.attempts, event.attempt))
            _ = event.attempt.validation_values  # computed here, so that no decision has to
        case search_events.NodeProbed():
            took = Cost(gpu_seconds=event.seconds * state.gpus_per_experiment)
            settle_cost(state, f"{node.id}/{event.probe}", node.decision, took)
            state.probes.append(event)
        case search_events.NodePlotted():
            plotting = PlotRun(n=event.n, figures=event.figures, failure=event.failure, seconds=event.seconds)
            update_node(state, node.id, plottings=(*node.plottings, plotting))
        case search_events.CodeRead():
            state.code_readings.append(event)
        case search_events.PlotsReviewed():
            reviewed = node.plottings[-1].model_copy(
                update={"reviews": event.reviews, "looked": event.looked, "taken": event.taken}
            )
            update_node(state, node.id, plottings=(*node.plottings[:-1], reviewed))
        case search_events.NodeJudged():
            finish_decision(state, node.decision)
            if event.failure is not None and (fault := event.failure.ours):
                state.internal_faults[fault] = (*state.internal_faults.get(fault, ()), node.id)
            update_node(
                state, node.id, status=event.status, reasons=event.reasons, failure=event.failure, verdict=event.verdict
            )
            enter_step(state, node.id, "done", at)
            index_trial_results(state, [state.nodes[node.id]])
        case search_events.NodeSuspected():
            reasons = tuple(str(one) for one in event.findings if one.suspect)
            update_node(state, node.id, findings=(*node.findings, *event.findings), suspect=(*node.suspect, *reasons))
