"""Fold events of the study as a whole: its start, resumes, branches, commands and limits."""

from __future__ import annotations

from dataclasses import replace

from labwright.record.events import paper_events, run_events
from labwright.record.internal_errors import MAX_NODES_PER_FAULT
from labwright.record.reducers.node_reducer import interrupt_nodes, update_node
from labwright.record.reducers.run_state import AncestorRun, Gate, RunState, UserCommand, collect_mark_reasons
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import STAGES, StageName


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
