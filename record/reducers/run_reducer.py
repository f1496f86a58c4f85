"""Fold events of the run as a whole and of model calls."""

from __future__ import annotations

from labwright.record.events import run_events
from labwright.record.internal_errors import MAX_NODES_PER_FAULT
from labwright.record.reducers.run_state import RunState, collect_mark_reasons
from labwright.record.reducers.search_reducer import book_lost_costs, interrupt_nodes, settle_cost, update_node
from labwright.record.reducers.state_fields import AncestorRun, RoleUsage, UserCommand
from labwright.record.schema.decisions import Cost, RunTask
from labwright.record.schema.nodes import STAGES, StageName


def apply_run_event(state: RunState, event: run_events.RunEvent, at: float) -> None:
    """Fold one event of the run into the state, in place."""
    match event:
        case run_events.RunStarted():
            state.started, state.started_at, state.models = event, at, (event.model,)
            state.template_sha256, state.rate, state.isolations = event.template, event.rate, (event.isolation,)
            state.machines = (event.machine,) if event.machine is not None else ()
        case run_events.RunBranched():
            _apply_branched(state, event, at)
        case run_events.RunResumed():
            _apply_resumed(state, event, at)
        case run_events.CommandReceived():
            _apply_command(state, event, at)
        case run_events.LimitReached():
            if event.stage is not None:
                state.stages[event.stage].limit_reason = event.reason
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
        case run_events.StudiedLLMsAsked():
            state.llm_usage = event.uses
        case run_events.CampaignMembership():
            state.campaign = event
        case run_events.ClockMoved():  # handled with the event times in `record.reducers.event_fold`
            pass


def add_model(state: RunState, model: str) -> None:
    """Record that the run now uses this model; an empty name changes nothing."""
    state.models = tuple(dict.fromkeys((*state.models, model))) if model else state.models


def _apply_resumed(state: RunState, event: run_events.RunResumed, at: float) -> None:
    interrupt_nodes(state, at)
    state.stopping = False
    if state.kind != "paper":
        _reopen_measuring(state, event)
    if state.process_end is not None:  # a normal end rather than a kill: unanswered calls are tried again
        state.unanswered_calls = {
            key: one for key, one in state.unanswered_calls.items() if key.decision in state.finished_decisions
        }
    state.paused_by = state.process_end = state.outage = None
    state.overrides |= event.settings
    book_lost_costs(state, list(state.reservations))
    state.internal_faults = {
        fault: nodes for fault, nodes in state.internal_faults.items() if len(nodes) < MAX_NODES_PER_FAULT
    }
    if state.released is None:  # the provenance in a finished paper no longer changes
        state.isolations = tuple(dict.fromkeys((*state.isolations, event.isolation)))
        if event.machine is not None and event.machine not in state.machines:
            state.machines = (*state.machines, event.machine)
        state.rate = event.rate or state.rate
        state.limit_reason = None
        if not state.stages[STAGES[-1]].is_settled:  # after the search, skipped nodes are not replaced
            state.skipped_kinds = frozenset()
        state.template_sha256 = event.template or state.template_sha256
        add_model(state, event.model)


def _reopen_measuring(state: RunState, event: run_events.RunResumed) -> None:
    """Let a study without a paper measure and report again: with another limit or option, more may be left to do."""
    state.finished_decisions -= {
        k
        for k, decided in state.decisions.items()
        if isinstance(decided.action, RunTask) and decided.action.task in ("reproduce", "ablate", "answer", "report")
    }
    if state.limit_reason is not None or any(key.startswith(("ablation.", "question.")) for key in event.settings):
        state.repository_state.ablation_results = state.repository_state.question_answer = None


def _apply_branched(state: RunState, event: run_events.RunBranched, at: float) -> None:
    """Reset costs, requests, limits and outages: these belong to the parent run."""
    interrupt_nodes(state, at)
    state.ancestry.append(
        AncestorRun(
            branching=event,
            branched_at=at,
            decision=state.last_decision,
            nodes=len(state.nodes),
            usage=state.usage_by_role,
            spent=state.spent_cost,
            active_seconds=state.active_seconds,
            experiment_seconds=state.experiment_seconds,
        )
    )
    state.started_at, state.active_seconds = at, 0.0
    state.usage_by_role, state.settled_costs, state.lost_costs, state.reservations = {}, {}, {}, {}
    state.freed_bytes, state.stopping, state.ignored_command_count, state.skipped_kinds, state.internal_faults = (
        0,
        False,
        0,
        frozenset(),
        {},
    )
    state.paused_by = state.process_end = state.outage = state.limit_reason = None
    for stage in state.stages.values():
        if not stage.is_settled:
            stage.began_at = stage.limit_reason = None
    state.overrides |= event.settings
    state.template_sha256 = event.template or state.template_sha256


def _apply_command(state: RunState, event: run_events.CommandReceived, at: float) -> None:
    named: StageName | None = next((name for name in STAGES if name == event.target), None)
    stage = named if event.verb == "note" and event.target else state.stage
    state.user_commands.append(UserCommand(state.last_decision, at, stage, event))
    if event.verb == "stop":
        state.stopping = True
    elif event.verb in ("pause", "resume"):
        state.paused_by = event if event.verb == "pause" else None
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


def apply_call_event(state: RunState, event: run_events.CallEvent) -> None:
    """Fold one event of model calls into the state, in place."""
    match event:
        case run_events.CallAnswered():
            _apply_answered(state, event)
        case run_events.ToolUsed():
            state.tool_uses[event.key] = event
        case run_events.PromptChanged():
            state.changed_prompts[event.key] = event
        case run_events.CallUnanswered():
            state.unanswered_calls[event.key] = event
        case run_events.CostReserved():
            book_lost_costs(state, [event.name] if event.name in state.reservations else [])
            state.reservations[event.name] = event
        case run_events.ReservationReturned():
            state.reservations.pop(event.name, None)


def _apply_answered(state: RunState, event: run_events.CallAnswered) -> None:
    if (before := state.answers.pop(event.key, None)) is not None:
        state.superseded_answers.append(before)
        state.changed_prompts.pop(event.key, None)
    state.answers[event.key] = event
    state.call_counts[event.key.decision] += 1
    role = state.usage_by_role.setdefault(event.key.role, RoleUsage())
    role.calls += 1
    for name, amount in event.usage:  # RoleUsage has the same fields
        setattr(role, name, getattr(role, name) + (amount or 0))
    role.unpriced += event.usage.usd is None
    role.seconds += event.seconds
    settle_cost(
        state,
        str(event.key),
        event.key.decision,
        Cost(usd=event.usage.usd or 0.0, tokens=event.usage.input_tokens + event.usage.output_tokens),
    )
