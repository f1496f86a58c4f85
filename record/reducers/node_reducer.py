"""Fold events of nodes, which every kind of study has."""

from __future__ import annotations

from typing import Any

from labwright.record.events import search_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import Cost
from labwright.record.schema.nodes import SELECTION_KINDS, NodeStep, PlotRun
from labwright.record.tuning_results import index_trial_results


def finish_decision(state: RunState, decision_id: int) -> None:
    """Mark the work of decision k as finished."""
    state.finished_decisions.add(decision_id)
    state.calls.book_lost(*[name for name, one in state.calls.reservations.items() if one.k == decision_id])


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


def apply_node_event(state: RunState, event: search_events.NodeEvent, at: float) -> None:
    """Fold one event of a node into the state, in place."""
    node = state.nodes[event.node]
    if isinstance(event, search_events.CellsRequired | search_events.CellExecuted | search_events.AttemptExecuted):
        state.search.trial_results.pop(node.id, None)
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
                state.search.selection_seconds[arm] = state.search.selection_seconds.get(arm, 0.0) + event.run.seconds
        case search_events.AttemptExecuted():
            took = Cost(gpu_seconds=event.attempt.seconds * state.gpus_per_experiment)
            state.calls.settle(f"{node.id}/{event.attempt.number}", node.decision, took)
            update_node(state, node.id, attempts=(*node.attempts, event.attempt))
            _ = event.attempt.validation_values  # computed here, so that no decision has to
        case search_events.NodeProbed():
            took = Cost(gpu_seconds=event.seconds * state.gpus_per_experiment)
            state.calls.settle(f"{node.id}/{event.probe}", node.decision, took)
            state.search.probes.append(event)
        case search_events.NodePlotted():
            plotting = PlotRun(n=event.n, figures=event.figures, failure=event.failure, seconds=event.seconds)
            update_node(state, node.id, plottings=(*node.plottings, plotting))
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
