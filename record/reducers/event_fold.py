"""Fold events into the state: `apply_event` for one event, `fold_events` for all.

`apply_event` accepts any event after any prefix and depends only on its inputs, so reading a log or a prefix of it
always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import attrgetter
from typing import Any

from labwright.record.events import Event
from labwright.record.events.paper_events import ClaimsRead, PaperJudged, PaperReleased, RewriteStarted
from labwright.record.events.run_events import (
    CallAnswered,
    ClockMoved,
    CommandIgnored,
    CommandReceived,
    CostReserved,
    FoldersDeleted,
    GateEditRefused,
    GateReached,
    LimitReached,
    ProcessEnded,
    ProviderRecovered,
    ReservationReturned,
    RunBranched,
    RunResumed,
    RunStarted,
    StudiedLLMsAsked,
)
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    ConfirmationLocked,
    DecisionMade,
    LookTaken,
    NodeEvent,
    NodeJudged,
    NodePlotted,
    NodeProbed,
    NodeProposed,
    NodesCompared,
    NodeStepEntered,
    NodeSuspected,
    PlanAmended,
    PlanPrepared,
    PlotsReviewed,
    ProtocolReviewed,
    SealedTestResampled,
    SealedTestScored,
    StageSummarised,
    StageWinnerChosen,
    TaskDone,
)
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


def apply_event(state: RunState, event: Event, at: float = 0.0) -> None:
    """Fold one event into the state, in place."""
    state.event_count += 1
    if (
        state.event_count > 1
        and not state.is_paused
        and not isinstance(event, RunResumed | RewriteStarted | RunBranched)
    ):
        moved = event.seconds if isinstance(event, ClockMoved) else 0.0
        state.active_seconds += max(0.0, at - state.last_event_at - moved)
    state.last_event_at = at
    latest, by, listed = event.kept
    if by:
        attrgetter(latest)(state)[attrgetter(*by.split())(event)] = event
    elif latest:
        *owner, name = latest.split(".")
        setattr(reduce(getattr, owner, state), name, event)
    elif listed:
        attrgetter(listed)(state).append(event)
    if isinstance(event, NodeEvent):
        _apply_node_event(state, event, at)
    else:
        _apply_run_event(state, event, at)
        _apply_work_event(state, event, at)


def fold_events(events: Iterable[tuple[Event, float]]) -> RunState:
    """Return the state after all given events, each with its time."""
    state = RunState()
    for event, at in events:
        apply_event(state, event, at)
    return state


# Fold events of nodes, which every kind of study has.


def _finish_decision(state: RunState, decision_id: int) -> None:
    """Mark the work of decision k as finished."""
    state.finished_decisions.add(decision_id)
    state.calls.book_lost(*[name for name, one in state.calls.reservations.items() if one.k == decision_id])


def _update_node(state: RunState, node: str, **fields: Any) -> None:
    state.nodes[node] = state.nodes[node].model_copy(update=fields)


def _enter_step(state: RunState, node: str, step: NodeStep, at: float) -> None:
    _update_node(state, node, step=step)
    state.step_since[node] = at


def _interrupt_nodes(state: RunState, at: float) -> None:
    """Mark unfinished nodes as idle; a process that resumes them continues at the same step."""
    for node in [node for node in state.nodes.values() if not node.is_finished]:
        _enter_step(state, node.id, "proposed", at)


def _apply_node_event(state: RunState, event: NodeEvent, at: float) -> None:
    node, search = state.nodes[event.node], state.search
    if isinstance(event, CellsRequired | CellExecuted | AttemptExecuted):
        search.trial_results.pop(node.id, None)
    match event:
        case NodeProposed():
            _update_node(state, node.id, **event.model_dump(exclude={"type", "node", "decision"}), status="running")
        case NodeStepEntered():
            _enter_step(state, node.id, event.step, at)
        case CellExecuted():
            state.cells[event.run.id] = (node.id, event.run)
            if node.kind in SELECTION_KINDS and node.stage != "ablation":
                arm = event.run.cell.arm
                search.selection_seconds[arm] = search.selection_seconds.get(arm, 0.0) + event.run.seconds
        case AttemptExecuted():
            took = Cost(gpu_seconds=event.attempt.seconds * state.gpus_per_experiment)
            state.calls.settle(f"{node.id}/{event.attempt.number}", node.decision, took)
            _update_node(state, node.id, attempts=(*node.attempts, event.attempt))
            _ = event.attempt.validation_values  # computed here, so that no decision has to
        case NodeProbed():
            took = Cost(gpu_seconds=event.seconds * state.gpus_per_experiment)
            state.calls.settle(f"{node.id}/{event.probe}", node.decision, took)
        case NodePlotted():
            plotting = PlotRun(n=event.n, figures=event.figures, failure=event.failure, seconds=event.seconds)
            _update_node(state, node.id, plottings=(*node.plottings, plotting))
        case PlotsReviewed():
            reviewed = node.plottings[-1].model_copy(update={"reviews": event.reviews, "looked": event.looked})
            _update_node(state, node.id, plottings=(*node.plottings[:-1], reviewed))
        case NodeJudged():
            _finish_decision(state, node.decision)
            if event.failure is not None and (fault := event.failure.ours):
                state.internal_faults[fault] = (*state.internal_faults.get(fault, ()), node.id)
            _update_node(state, node.id, **{name: value for name, value in event if name not in ("type", "node")})
            _enter_step(state, node.id, "done", at)
            index_trial_results(state, [state.nodes[node.id]])
        case NodeSuspected():
            reasons = tuple(str(one) for one in event.findings if one.suspect)
            _update_node(state, node.id, findings=(*node.findings, *event.findings), suspect=(*node.suspect, *reasons))
        case _:
            pass


# Fold events of the study as a whole: its start, resumes, branches, commands and limits.


def _apply_run_event(state: RunState, event: Event, at: float) -> None:
    match event:
        case RunStarted():
            state.started, state.started_at, state.models = event, at, (event.model,)
            state.paper.template_sha256, state.rate, state.isolations = event.template, event.rate, (event.isolation,)
            state.machines = (event.machine,) if event.machine is not None else ()
        case RunBranched():
            _apply_branched(state, event, at)
        case RunResumed():
            _apply_resumed(state, event, at)
        case CommandReceived():
            _apply_command(state, event, at)
        case GateReached():
            state.gates[event.gate] = Gate(event, at)
        case GateEditRefused() if event.gate in state.gates:
            state.gates[event.gate] = replace(state.gates[event.gate], approval=None, refused=event.reasons)
        case LimitReached() if event.stage is not None and "replicate" in event.skipped_kinds:
            state.search.further_seeds_ended = state.last_decision
        case LimitReached() if event.stage is not None:
            state.search.stages[event.stage].limit_reason = event.reason
        case LimitReached():
            state.limit_reason = state.limit_reason or event.reason
            state.skipped_kinds |= set(event.skipped_kinds)
        case ProviderRecovered():
            state.outage = None
        case ProcessEnded():
            _interrupt_nodes(state, at)
        case CommandIgnored():
            state.ignored_command_count += event.number
        case FoldersDeleted():
            _apply_deleted(state, event)
        case RewriteStarted():
            state.process_end = None
            state.gates.pop("paper", None)
            state.overrides |= event.settings
            _add_model(state, event.model)
            if event.reviews and state.limit_reason is not None:  # experiments run again, under a limit of their own
                state.earlier_limits, state.limit_reason = (*state.earlier_limits, state.limit_reason), None
            state.paper.start_rewrite(event)
        case _:
            pass


def _add_model(state: RunState, model: str) -> None:
    """Record that the run now uses this model; an empty name changes nothing."""
    state.models = tuple(dict.fromkeys((*state.models, model))) if model else state.models


def _apply_resumed(state: RunState, event: RunResumed, at: float) -> None:
    _interrupt_nodes(state, at)
    state.stopping = False
    if state.kind != "paper":
        _reopen_measuring(state, event)
    if state.process_end is not None:  # a normal end rather than a kill: unanswered calls are tried again
        state.calls.unanswered_calls = {
            key: one for key, one in state.calls.unanswered_calls.items() if key.decision in state.finished_decisions
        }
    state.paused_by = state.process_end = state.outage = None
    gpus = state.gpus_per_experiment * int(state.read_setting("search.num_workers") or 1)
    state.calls.book_lost(*state.calls.reservations, ended=at, gpus=gpus)
    state.overrides |= event.settings
    state.internal_faults = {
        fault: nodes for fault, nodes in state.internal_faults.items() if len(nodes) < MAX_NODES_PER_FAULT
    }
    if "paper.bib" in event.settings and not state.paper.drafts:
        state.paper.library = None
    if state.paper.released is None:  # the provenance in a finished paper no longer changes
        state.isolations = tuple(dict.fromkeys((*state.isolations, event.isolation)))
        if event.machine is not None and event.machine not in state.machines:
            state.machines = (*state.machines, event.machine)
        state.rate = event.rate or state.rate
        state.limit_reason = None
        if not state.search.stages[STAGES[-1]].is_settled:  # after the search, skipped nodes are not replaced
            state.skipped_kinds = frozenset()
            if event.settings:  # such as a higher limit
                state.search.further_seeds_ended = None
        state.paper.template_sha256 = event.template or state.paper.template_sha256
        _add_model(state, event.model)


def _reopen_measuring(state: RunState, event: RunResumed) -> None:
    """Let a study without a paper measure and report again: with another limit or option, more may be left to do."""
    state.finished_decisions -= {
        k
        for k, decided in state.decisions.items()
        if isinstance(decided.action, RunTask) and decided.action.task in ("reproduce", "ablate", "answer", "report")
    }
    if state.limit_reason is not None or any(key.startswith(("ablation.", "question.")) for key in event.settings):
        state.ablation.results = state.question.answer = None


def _apply_branched(state: RunState, event: RunBranched, at: float) -> None:
    """Reset costs, requests, limits and outages: these belong to the parent run."""
    _interrupt_nodes(state, at)
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
            stage.began_at = stage.limit_reason = state.search.further_seeds_ended = None
    state.overrides |= event.settings
    state.paper.template_sha256 = event.template or state.paper.template_sha256


def _apply_command(state: RunState, event: CommandReceived, at: float) -> None:
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
                _update_node(state, name, closed=why)
            else:
                node = state.nodes[name]
                _update_node(state, name, suspect=(*node.suspect, why), marked=node.marked + 1)


def _apply_deleted(state: RunState, event: FoldersDeleted) -> None:
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
            _update_node(
                state,
                name,
                attempts=tuple(
                    one.model_copy(update={"artifacts": {}}) if f"attempt{one.number}" == rest[0] else one
                    for one in state.nodes[name].attempts
                ),
            )


# Fold decisions, the search over a data plan, model calls, the paper and the ablation of a repository.


def _apply_work_event(state: RunState, event: Event, at: float) -> None:
    calls, search, paper = state.calls, state.search, state.paper
    match event:
        case CallAnswered():
            calls.add_answer(event)
        case CostReserved():
            calls.book_lost(event.name)
            calls.reservations[event.name] = event
            calls.reserved_at[event.name] = at
        case ReservationReturned():
            calls.reservations.pop(event.name, None)
        case StudiedLLMsAsked():
            calls.llm_usage = event.uses
        case PlanPrepared():
            search.data_plan, search.datasets, search.scorers = event.data_plan, event.datasets, event.scorers
            search.installed_packages, search.hub_items = event.installed, event.hub
            search.constants = event.constants
            state.overrides = event.settings | state.overrides
            index_trial_results(state, state.nodes.values())
        case PlanAmended():
            search.data_plan = event.data_plan
            used = {use.name for use in event.data_plan.datasets}
            search.datasets = tuple(one for one in search.datasets if one.name in used)
            index_trial_results(state, state.nodes.values())
        case ProtocolReviewed():  # its plan takes effect with `PlanPrepared`
            search.amendments = [event.amendment] if event.amendment else []
        case ConfirmationLocked():
            search.locks.append((state.last_decision, event))
            search.looks.clear()
        case LookTaken():
            search.looks[event.look :] = [event]  # again, if a higher limit lets sampling go on
        case DecisionMade():
            _apply_decision(state, event, at)
        case TaskDone():
            _finish_decision(state, event.k)
            if (decided := state.decisions.get(event.k)) and decided.action == RunTask(task="score tests"):
                search.scored_at = state.active_seconds
        case NodesCompared():
            _finish_decision(state, event.k)
        case StageWinnerChosen():
            search.stages[event.stage].settlements.append((state.last_decision, event))
        case StageSummarised():
            search.stages[event.summary.stage].reports[event.k] = event.summary
        case SealedTestResampled():
            search.resampled_intervals = {one.key: one for one in event.found}
        case SealedTestScored():
            if event.measurements:
                search.test_measurements[event.node] = event.measurements
            if event.failure is not None:
                search.scoring_failures[event.node] = event.failure
        case ClaimsRead():
            paper.add_claims(event)
        case PaperReleased():
            paper.release(event)
        case PaperJudged():
            paper.judge(event)
        case _:
            pass


def _apply_decision(state: RunState, event: DecisionMade, at: float) -> None:
    state.decisions[event.k] = event
    state.paper.drafts_before[event.k] = len(state.paper.drafts)
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
            trials=_collect_trials(state, action),
        )
        state.search.trials |= {(one.arm, one.number): one for one in action.trials}
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
