"""Events of the search, of its nodes and of steps beside it, folded; and what decisions take of the budget."""

from __future__ import annotations

from typing import Any

from labwright.record.events import searching
from labwright.record.fold.facts import Terms
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Compare, Expand, Extend, Spending, Work
from labwright.record.nouns.nodes import LOOKS, Node, NodeStep, Plotting, node_id


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


def change(state: RunState, node: str, **fields: Any) -> None:
    """Set these fields of a node."""
    state.nodes[node] = state.nodes[node].model_copy(update=fields)


def enter(state: RunState, node: str, step: NodeStep, at: float) -> None:
    """Note that a node is in this step since then."""
    change(state, node, step=step)
    state.step_since[node] = at


def interrupt(state: RunState, at: float) -> None:
    """Note that nobody works on the unfinished nodes any more: a process that takes them up begins where they were."""
    for node in [node for node in state.nodes.values() if not node.finished]:
        enter(state, node.id, "proposed", at)


def apply_search(state: RunState, event: searching.SearchEvent, at: float) -> None:
    """Fold one of them, of that time, into the state, in place."""
    match event:
        case searching.Prepared():
            state.data_plan, state.datasets, state.scorers = event.data_plan, event.datasets, event.scorers
            state.installed, state.hub = event.installed, event.hub
            state.overrides = event.settings | state.overrides
        case searching.Amended():
            state.data_plan = event.data_plan
            state.amendments.append(event)
        case searching.ProtocolReviewed():  # its plan takes effect with `Prepared`
            state.protocol, state.amendments = event, [event.amendment] if event.amendment else []
        case searching.Locked():
            state.locks.append((state.last_decision, event))
        case searching.Decided():
            _decided(state, event, at)
        case searching.WorkDone():
            finish(state, event.k)
        case searching.Compared():
            state.compared[event.a, event.b] = event
            finish(state, event.k)
        case searching.Settled():
            state.stages[event.stage].settlements.append((state.last_decision, event))
        case searching.Summarised():
            state.stages[event.summary.stage].reports[event.k] = event.summary
        case searching.AblationsPlanned():
            state.planned = event
        case searching.AblationsMissed():
            state.missed = event


def _decided(state: RunState, event: searching.Decided, at: float) -> None:
    state.decisions[event.k] = event
    state.terms[event.k] = Terms(state.limited, state.without, state.isolations)
    if isinstance(event.action, Expand):
        action = event.action
        state.nodes[node_id(event.k)] = Node(
            id=node_id(event.k),
            decision=event.k,
            parent=action.parent,
            stage=action.stage,
            kind=action.kind,
            seed=action.seed,
            mends=action.mends,
            trials=_chosen(state, action),
        )
        state.trials |= {
            (one.arm, one.number): one
            for one in action.trials
            if one.share == 1 or (one.arm, one.number) not in state.trials
        }
        state.step_since[node_id(event.k)] = at
        stage = state.stages[action.stage]
        if stage.began is None:
            stage.began = state.active_seconds
    elif not isinstance(event.action, Work | Compare):
        state.finished.add(event.k)
        if isinstance(event.action, Extend):
            state.extended[event.action.dimension] = event.action


def _chosen(state: RunState, action: Expand) -> dict[str, int]:
    """The trial of each arm that a node runs with: its own choice, else its parent's."""
    if action.kind == "tune":
        return {one.arm: one.number for one in action.trials}
    parent = state.nodes.get(action.parent or "")
    return parent.trials if parent is not None else {}


def apply_node(state: RunState, event: searching.NodeEvent, at: float) -> None:
    """Fold one of them, of that time, into the state, in place."""
    if isinstance(event, searching.Resampled):
        state.resampled = {one.key: one for one in event.found}
        return
    if isinstance(event, searching.Unsealed):
        state.tests[event.node] = event.measurements
        if event.failure is not None:
            state.unscored[event.node] = event.failure
        return
    node = state.nodes[event.node]
    match event:
        case searching.Proposed():
            change(state, node.id, **event.model_dump(exclude={"type", "node", "decision"}), status="running")
        case searching.Stepped():
            enter(state, node.id, event.step, at)
        case searching.CellsOwed():
            state.owed[node.id] = event
        case searching.CellExecuted():
            state.cells[event.run.id] = (node.id, event.run)
            if node.kind in LOOKS and node.stage != "ablation":
                arm = event.run.cell.arm
                state.seconds_looked[arm] = state.seconds_looked.get(arm, 0.0) + event.run.seconds
        case searching.Executed():
            took = Spending(gpu_seconds=event.attempt.seconds * state.gpus)
            settle(state, f"{node.id}/{event.attempt.number}", node.decision, took)
            change(state, node.id, attempts=(*node.attempts, event.attempt))
        case searching.Probed():
            took = Spending(gpu_seconds=event.seconds * state.gpus)
            settle(state, f"{node.id}/{event.probe}", node.decision, took)
            state.probes.append(event)
        case searching.Plotted():
            plotting = Plotting(n=event.n, figures=event.figures, failure=event.failure, seconds=event.seconds)
            change(state, node.id, plottings=(*node.plottings, plotting))
        case searching.CodeRead():
            state.readings.append(event)
        case searching.Reviewed():
            reviewed = node.plottings[-1].model_copy(
                update={"reviews": event.reviews, "looked": event.looked, "taken": event.taken}
            )
            change(state, node.id, plottings=(*node.plottings[:-1], reviewed))
        case searching.Judged():
            finish(state, node.decision)
            if event.failure is not None and (fault := event.failure.ours):
                state.internal_faults[fault] = (*state.internal_faults.get(fault, ()), node.id)
            change(
                state, node.id, status=event.status, reasons=event.reasons, failure=event.failure, verdict=event.verdict
            )
            enter(state, node.id, "done", at)
        case searching.Suspected():
            reasons = tuple(str(one) for one in event.findings if one.suspect)
            change(state, node.id, findings=(*node.findings, *event.findings), suspect=(*node.suspect, *reasons))
