"""Events of a run as a whole, folded: it begins, is resumed, branches, is steered, is limited, ends; model calls."""

from __future__ import annotations

from labwright.record.events import running
from labwright.record.fold.facts import Ancestor, RoleUsage, Steered
from labwright.record.fold.search import change, cut_off, interrupt, settle
from labwright.record.fold.state import RunState, marks_of
from labwright.record.nouns.decisions import Spending
from labwright.record.nouns.nodes import STAGES, StageName
from labwright.record.unexpected import MOST


def apply_process(state: RunState, event: running.RunEvent, at: float) -> None:
    """Fold one of them, of that time, into the state, in place."""
    match event:
        case running.Started():
            state.started, state.started_at, state.models = event, at, (event.model,)
            state.template, state.rate, state.isolations = event.template, event.rate, (event.isolation,)
            state.machines = (event.machine,) if event.machine is not None else ()
        case running.Branched():
            _branched(state, event, at)
        case running.Resumed():
            _resumed(state, event, at)
        case running.Commanded():
            _commanded(state, event, at)
        case running.Limited():
            if event.stage is not None:
                state.stages[event.stage].limited = event.reason
            else:
                state.limited = state.limited or event.reason
                state.without |= set(event.without)
        case running.Paused():
            state.outage = event
        case running.Recovered():
            state.outage = None
        case running.Ended():
            state.ended = event
            interrupt(state, at)
        case running.Unheeded():
            state.unheeded += event.number
        case running.Collected():
            _collected(state, event)
        case running.SubjectsAsked():
            state.subjects = event.uses
        case running.InCampaign():
            state.campaign = event
        case running.ClockMoved():  # counted where the time of events is (`record.fold.apply`)
            pass


def add_model(state: RunState, model: str) -> None:
    """Note that a run goes on with this model; an empty name changes nothing."""
    state.models = tuple(dict.fromkeys((*state.models, model))) if model else state.models


def _resumed(state: RunState, event: running.Resumed, at: float) -> None:
    interrupt(state, at)
    state.stopping = False
    if state.ended is not None:  # no kill, but an end: what it came to for want of an answer is tried again
        state.unanswered = {key: one for key, one in state.unanswered.items() if key.decision in state.finished}
    state.held = state.ended = state.outage = None
    state.overrides |= event.settings
    cut_off(state, list(state.reserved))
    state.internal_faults = {fault: nodes for fault, nodes in state.internal_faults.items() if len(nodes) < MOST}
    if state.released is None:  # what a finished paper says of its origin no longer changes
        state.isolations = tuple(dict.fromkeys((*state.isolations, event.isolation)))
        if event.machine is not None and event.machine not in state.machines:
            state.machines = (*state.machines, event.machine)
        state.rate = event.rate or state.rate
        state.limited = None
        if not state.stages[STAGES[-1]].settled:  # after the search what was left out is not made up for
            state.without = frozenset()
        state.template = event.template or state.template
        add_model(state, event.model)


def _branched(state: RunState, event: running.Branched, at: float) -> None:
    """What was taken so far is another run's; requests, limits and outages of that run no longer hold."""
    interrupt(state, at)
    state.ancestry.append(
        Ancestor(
            event=event,
            at=at,
            decision=state.last_decision,
            nodes=len(state.nodes),
            usage=state.usage,
            spent=state.spent,
            active_seconds=state.active_seconds,
            seconds_of_code=state.seconds_of_code,
        )
    )
    state.started_at, state.active_seconds = at, 0.0
    state.usage, state.settled, state.lost, state.reserved = {}, {}, {}, {}
    state.freed, state.stopping, state.unheeded, state.without, state.internal_faults = 0, False, 0, frozenset(), {}
    state.held = state.ended = state.outage = state.limited = None
    for stage in state.stages.values():
        if not stage.settled:
            stage.began = stage.limited = None
    state.overrides |= event.settings
    state.template = event.template or state.template


def _commanded(state: RunState, event: running.Commanded, at: float) -> None:
    named: StageName | None = next((name for name in STAGES if name == event.target), None)
    stage = named if event.verb == "note" and event.target else state.stage
    state.steered.append(Steered(state.last_decision, at, stage, event))
    if event.verb == "stop":
        state.stopping = True
    elif event.verb in ("pause", "resume"):
        state.held = event if event.verb == "pause" else None
    elif event.verb == "kill":
        state.killed[event.target] = event
    elif event.verb == "mark" and event.target in state.nodes:
        for name, why in marks_of(state, event).items():
            if event.mark == "closed":
                change(state, name, closed=why)
            else:
                node = state.nodes[name]
                change(state, name, suspect=(*node.suspect, why), marked=node.marked + 1)


def _collected(state: RunState, event: running.Collected) -> None:
    state.collected |= dict.fromkeys(event.folders, event.keep)
    state.freed += event.bytes
    for folder in event.folders:  # cells/ID/artifacts, nodes/ID/attemptN/artifacts; of checkpoints nothing is known
        kind, name, *rest = folder.split("/")
        if rest[-1:] != ["artifacts"]:
            continue
        if kind == "cells" and name in state.cells:
            node, run = state.cells[name]
            state.cells[name] = (node, run.model_copy(update={"artifacts": {}}))
        elif kind == "nodes" and name in state.nodes:
            change(
                state,
                name,
                attempts=tuple(
                    one.model_copy(update={"artifacts": {}}) if f"attempt{one.number}" == rest[0] else one
                    for one in state.nodes[name].attempts
                ),
            )


def apply_call(state: RunState, event: running.CallEvent) -> None:
    """Fold one of them into the state, in place."""
    match event:
        case running.Answered():
            _answered(state, event)
        case running.Drifted():
            state.drifted[event.key] = event
        case running.Unanswered():
            state.unanswered[event.key] = event
        case running.Reserved():
            cut_off(state, [event.name] if event.name in state.reserved else [])
            state.reserved[event.name] = event
        case running.Returned():
            state.reserved.pop(event.name, None)


def _answered(state: RunState, event: running.Answered) -> None:
    if (before := state.answers.pop(event.key, None)) is not None:
        state.superseded.append(before)
        state.drifted.pop(event.key, None)
    state.answers[event.key] = event
    state.calls[event.key.decision] += 1
    role = state.usage.setdefault(event.key.role, RoleUsage())
    role.calls += 1
    for name, amount in event.usage:  # it has each of these
        setattr(role, name, getattr(role, name) + (amount or 0))
    role.unpriced += event.usage.usd is None
    role.seconds += event.seconds
    settle(
        state,
        str(event.key),
        event.key.decision,
        Spending(usd=event.usage.usd or 0.0, tokens=event.usage.input_tokens + event.usage.output_tokens),
    )
