"""Fold events into the state: `apply_event` for one event, `fold_events` for all.

`apply_event` accepts any event after any prefix and depends only on its inputs, so reading a log or a prefix of it
always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, get_args

from labwright.record.events import Event, paper_events, repository_events, run_events, search_events
from labwright.record.internal_errors import MAX_NODES_PER_FAULT
from labwright.record.reducers.run_state import (
    AncestorRun,
    DecisionContext,
    Gate,
    RunState,
    UserCommand,
    collect_mark_reasons,
)
from labwright.record.schema.decisions import CompareNodes, Cost, ExpandTree, RunTask, WidenDimension
from labwright.record.schema.nodes import SELECTION_KINDS, STAGES, Node, NodeStep, PlotRun, StageName, format_node_id
from labwright.record.tuning_results import index_trial_results

# Fold events of nodes, which every kind of study has.


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


# Fold events of the study as a whole: its start, resumes, branches, commands and limits.


def apply_run_event(state: RunState, event: run_events.RunEvent | paper_events.RewriteStarted, at: float) -> None:
    """Fold one event of the run into the state, in place."""
    match event:
        case run_events.RunStarted():
            state.started, state.started_at, state.models = event, at, (event.model,)
            state.paper.template_sha256, state.rate, state.isolations = event.template, event.rate, (event.isolation,)
            state.machines = (event.machine,) if event.machine is not None else ()
        case run_events.RunBranched():
            _apply_branched(state, event, at)
        case run_events.RunResumed():
            _apply_resumed(state, event, at)
        case run_events.CommandReceived():
            _apply_command(state, event, at)
        case run_events.GateReached():
            state.gates[event.gate] = Gate(event, at)
        case run_events.GateEditRefused() if event.gate in state.gates:
            state.gates[event.gate] = replace(state.gates[event.gate], approval=None, refused=event.reasons)
        case run_events.StudiesRecalled():
            state.recalled_studies = event
        case run_events.StudyKept():
            state.kept_study = event
        case run_events.LimitReached():
            if event.stage is not None:
                state.search.stages[event.stage].limit_reason = event.reason
            else:
                state.limit_reason = state.limit_reason or event.reason
                state.skipped_kinds |= set(event.skipped_kinds)
        case run_events.ProviderOutage():
            state.outage = event
        case run_events.ProviderRecovered():
            state.outage = None
        case run_events.ProcessEnded():
            state.process_end = event
            interrupt_nodes(state, at)
        case run_events.CommandIgnored():
            state.ignored_command_count += event.number
        case run_events.FoldersDeleted():
            _apply_deleted(state, event)
        case run_events.CampaignMembership():
            state.campaign = event
        case paper_events.RewriteStarted():  # the paper's part is in `PaperState`
            state.process_end = None
            state.gates.pop("paper", None)
            state.overrides |= event.settings
            _add_model(state, event.model)
            if event.reviews and state.limit_reason is not None:  # experiments run again, under a limit of their own
                state.earlier_limits, state.limit_reason = (*state.earlier_limits, state.limit_reason), None
        case run_events.ClockMoved() | run_events.GateEditRefused():  # the clock: see `record.reducers.event_fold`
            pass


def _add_model(state: RunState, model: str) -> None:
    """Record that the run now uses this model; an empty name changes nothing."""
    state.models = tuple(dict.fromkeys((*state.models, model))) if model else state.models


def _apply_resumed(state: RunState, event: run_events.RunResumed, at: float) -> None:
    interrupt_nodes(state, at)
    state.stopping = False
    if state.kind != "paper":
        _reopen_measuring(state, event)
    if state.process_end is not None:  # a normal end rather than a kill: unanswered calls are tried again
        state.calls.unanswered_calls = {
            key: one for key, one in state.calls.unanswered_calls.items() if key.decision in state.finished_decisions
        }
    state.paused_by = state.process_end = state.outage = None
    state.overrides |= event.settings
    state.calls.book_lost(*state.calls.reservations)
    state.internal_faults = {
        fault: nodes for fault, nodes in state.internal_faults.items() if len(nodes) < MAX_NODES_PER_FAULT
    }
    if state.paper.released is None:  # the provenance in a finished paper no longer changes
        state.isolations = tuple(dict.fromkeys((*state.isolations, event.isolation)))
        if event.machine is not None and event.machine not in state.machines:
            state.machines = (*state.machines, event.machine)
        state.rate = event.rate or state.rate
        state.limit_reason = None
        if not state.search.stages[STAGES[-1]].is_settled:  # after the search, skipped nodes are not replaced
            state.skipped_kinds = frozenset()
        state.paper.template_sha256 = event.template or state.paper.template_sha256
        _add_model(state, event.model)


def _reopen_measuring(state: RunState, event: run_events.RunResumed) -> None:
    """Let a study without a paper measure and report again: with another limit or option, more may be left to do."""
    state.finished_decisions -= {
        k
        for k, decided in state.decisions.items()
        if isinstance(decided.action, RunTask) and decided.action.task in ("reproduce", "ablate", "answer", "report")
    }
    if state.limit_reason is not None or any(key.startswith(("ablation.", "question.")) for key in event.settings):
        state.ablation.results = state.question.answer = None


def _apply_branched(state: RunState, event: run_events.RunBranched, at: float) -> None:
    """Reset costs, requests, limits and outages: these belong to the parent run."""
    interrupt_nodes(state, at)
    state.ancestry.append(
        AncestorRun(
            branching=event,
            decision=state.last_decision,
            nodes=len(state.nodes),
            usage=state.calls.usage_by_role,
            spent=state.calls.spent_cost,
            active_seconds=state.active_seconds,
            experiment_seconds=state.experiment_seconds,
        )
    )
    state.started_at, state.active_seconds = at, 0.0
    calls = state.calls
    calls.usage_by_role, calls.settled_costs, calls.lost_costs, calls.reservations = {}, {}, {}, {}
    state.freed_bytes = state.ignored_command_count = 0
    state.stopping, state.skipped_kinds, state.internal_faults = False, frozenset(), {}
    state.paused_by = state.process_end = state.outage = state.limit_reason = None
    state.kept_study = None
    for stage in state.search.stages.values():
        if not stage.is_settled:
            stage.began_at = stage.limit_reason = None
    state.overrides |= event.settings
    state.paper.template_sha256 = event.template or state.paper.template_sha256


def _apply_command(state: RunState, event: run_events.CommandReceived, at: float) -> None:
    named: StageName | None = next((name for name in STAGES if name == event.target), None)
    stage = named if event.verb == "note" and event.target else state.search.stage
    state.user_commands.append(UserCommand(state.last_decision, at, stage, event))
    if event.verb == "stop":
        state.stopping = True
    elif event.verb in ("pause", "resume"):
        state.paused_by = event if event.verb == "pause" else None
    elif event.verb == "approve":
        state.gates |= {
            name: replace(gate, approval=event, refused=())
            for name, gate in state.gates.items()
            if name == event.target and gate.approval is None
        }
    elif event.verb == "kill":
        state.killed_nodes[event.target] = event
    elif event.verb == "mark" and event.target in state.nodes:
        for name, why in collect_mark_reasons(state, event).items():
            if event.mark == "closed":
                update_node(state, name, closed=why)
            else:
                node = state.nodes[name]
                update_node(state, name, suspect=(*node.suspect, why), marked=node.marked + 1)


def _apply_deleted(state: RunState, event: run_events.FoldersDeleted) -> None:
    state.deleted_folders |= dict.fromkeys(event.folders, event.keep)
    state.freed_bytes += event.bytes
    for folder in event.folders:  # cells/ID/artifacts, nodes/ID/attemptN/artifacts; the state has no checkpoints
        kind, name, *rest = folder.split("/")
        if rest[-1:] != ["artifacts"]:
            continue
        if kind == "cells" and name in state.cells:
            node, run = state.cells[name]
            state.cells[name] = (node, run.model_copy(update={"artifacts": {}}))
        elif kind == "nodes" and name in state.nodes:
            update_node(
                state,
                name,
                attempts=tuple(
                    one.model_copy(update={"artifacts": {}}) if f"attempt{one.number}" == rest[0] else one
                    for one in state.nodes[name].attempts
                ),
            )


# Fold decisions and the events of the search over a data plan, to the scores of its sealed test data.


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
            if event.measurements:
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


Reducer = Callable[[RunState, Any, float], None]


def _list_reducers() -> dict[type, tuple[Reducer, ...]]:
    """Return the reducers of each type of event; the union to which it belongs names its slice of the state."""
    slices: tuple[tuple[Any, Reducer], ...] = (
        (run_events.CallEvent, lambda state, event, _: state.calls.apply(event)),
        (search_events.NodeEvent, apply_node_event),
        (search_events.SearchEvent, apply_search_event),
        (run_events.RunEvent, apply_run_event),
        (paper_events.PaperEvent, lambda state, event, _: state.paper.apply(event)),
        (paper_events.IdeationEvent, lambda state, event, _: state.ideation.apply(event)),
        (repository_events.RepositoryEvent, lambda state, event, _: state.repository.apply(event)),
        (repository_events.AblationEvent, lambda state, event, _: state.ablation.apply(event)),
        (repository_events.QuestionEvent, lambda state, event, _: state.question.apply(event)),
    )
    found: dict[type, tuple[Reducer, ...]] = {kind: (reduce,) for events, reduce in slices for kind in get_args(events)}
    found[paper_events.RewriteStarted] += (apply_run_event,)
    return found


_REDUCERS = _list_reducers()


def apply_event(state: RunState, event: Event, at: float = 0.0) -> None:
    """Fold one event into the state, in place."""
    state.event_count += 1
    if (
        state.event_count > 1
        and not state.is_paused
        and not isinstance(event, run_events.RunResumed | paper_events.RewriteStarted | run_events.RunBranched)
    ):
        moved = event.seconds if isinstance(event, run_events.ClockMoved) else 0.0
        state.active_seconds += max(0.0, at - state.last_event_at - moved)
    state.last_event_at = at
    for reduce in _REDUCERS[type(event)]:
        reduce(state, event, at)


def fold_events(events: Iterable[tuple[Event, float]]) -> RunState:
    """Return the state after all given events, each with its time."""
    state = RunState()
    for event, at in events:
        apply_event(state, event, at)
    return state
