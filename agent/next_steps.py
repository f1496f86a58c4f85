"""Describe the next steps of a run and estimate their cost. This decides and writes nothing.

The next action comes from the search policy, applied to a snapshot of the current state. A new result may change it,
and a time limit of the stage may prevent a node that is named here.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from labwright.agent.forecast import build_cost_table, estimate_phases
from labwright.agent.settings import Settings, SettingsError, override_settings
from labwright.inspector.diagnosis import NextSteps
from labwright.inspector.event_text import format_arm, format_widening
from labwright.inspector.render import format_remaining_estimate
from labwright.inspector.status import PHASE_TEXT, PhaseSpending, RemainingEstimate
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import (
    CompareNodes,
    Cost,
    EndStage,
    ExpandTree,
    SearchAction,
    VisibleDecisions,
    WaitForResult,
    WidenDimension,
)
from labwright.record.schema.nodes import KIND_NAMES, PHASES, REVISION_PHASES, STAGES, Phase, StageName
from labwright.search.design_forecast import forecast_design, read_cell_times, read_spreads
from labwright.search.policy import build_policy
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import build_snapshot
from labwright.stages.cost_table import compute_spent_by_phase, sum_costs

MAX_NEXT_STEPS = 3
"""Maximum number of next steps that are listed."""
BEFORE_ABLATION: tuple[StageName, ...] = ("agenda", "tuning", "preliminary")


def find_next_steps(state: RunState) -> NextSteps:
    """Describe the next steps of a run; if the settings cannot be read, only those of its phase."""
    settings, stage = _read_settings(state), state.search.stage
    best = next((best for name in BEFORE_ABLATION if (best := state.search.stages[name].best) is not None), None)
    phases: list[Phase] = [one for one in PHASES[state.kind] if state.paper.reviews or one not in REVISION_PHASES]
    steps = tuple(
        _describe_step(state, phase) for phase in phases[phases.index(state.phase) : -1][:MAX_NEXT_STEPS]
    ) or (PHASE_TEXT["done"],)
    if settings is None or state.search.data_plan is None or stage is None:
        return NextSteps(
            best=best,
            actions=steps,
            idle_reason=f"no experiments in this step: {steps[0]}",
            workers=settings.search.num_workers if settings else 1,
        )
    if best is None:  # in an unfinished first stage, the best node so far
        first = build_snapshot(
            state, stage, VisibleDecisions(through=state.last_decision), settings=settings.search
        ).best_node
        best = first.id if first is not None else None
    settled = state.search.stages[stage].is_settled
    idle = f"no experiments in this step: {steps[0]}" if settled else "a node is about to start"
    if not settled and state.find_stage_end(stage) is None:
        action = _describe_next_action(state, settings.search, stage)
        steps = (action, *steps[1:])
        idle = f"nothing to run: {action}" if action.startswith("wait for") else idle
    writing = [node.id for node in state.nodes.values() if node.step == "writing"]
    if state.stopping or state.is_paused:
        at_gate = state.open_gate is not None
        idle = "a stop was requested" if state.stopping else f"the run {'waits at a gate' if at_gate else 'is paused'}"
    elif writing:
        idle = f"waiting for code of {', '.join(writing)}"
    return NextSteps(best=best, idle_reason=idle, actions=steps, workers=settings.search.num_workers)


def _read_settings(state: RunState) -> Settings | None:
    if state.started is None:
        return None
    try:
        return override_settings(state.started.settings, state.overrides)
    except SettingsError:  # a run of another version: show the rest anyway
        return None


def _describe_next_action(state: RunState, search: SearchSettings, stage: StageName) -> str:
    """Describe the action that the policy picks next in a stage."""
    number = state.last_decision + 1
    seen = VisibleDecisions(also=tuple(sorted(state.finished_decisions)))
    if search.order == "ticket":  # the scheduler also waits for all of these results
        seen = VisibleDecisions(through=max(0, number - search.effective_window))
        if late := [k for k in state.decisions if k <= seen.through and k not in state.finished_decisions]:
            return f"wait for the results of decision{'s' * (len(late) > 1)} {', '.join(map(str, late))}"
    action = build_policy(search).pick(
        build_snapshot(state, stage, seen, settings=search), Random(f"{state.compute_seed(number)}/{number}")
    )
    return _describe_action(action, stage)


def _describe_action(action: SearchAction, stage: StageName) -> str:
    match action:
        case ExpandTree():
            origin = f" of {action.parent}" if action.parent else ""
            seed = f", seed {action.seed}" if action.kind == "replicate" else ""
            item = f", for: {action.item[:100]}" if action.item else ""
            return f"{KIND_NAMES[action.kind]}{origin} in {action.stage}{format_arm(action)}{seed}{item}"
        case WidenDimension():
            return format_widening(action)
        case CompareNodes():
            return f"ask a model which of {action.a} and {action.b} is sounder, since measurements cannot separate them"
        case EndStage():
            return f"end the {stage} search: {action.reason}"
        case WaitForResult():
            return "wait for running work"
        case _:
            return action.task


def _describe_hours(state: RunState, settings: Settings) -> tuple[str, ...]:
    """Return what the remaining hours can decide, in lines, until the lock; none without time or a claim."""
    left, plan = settings.time_limit - state.active_seconds, state.search.data_plan
    if left <= 0 or plan is None or state.search.current_lock is not None:
        return ()
    if not any(one.confirmatory for one in plan.hypotheses):
        return ()
    return forecast_design(
        plan,
        read_cell_times(state.nodes.values()),
        slots=settings.search.num_workers,
        seconds=left,
        references=settings.search.ladder,
        limit=settings.search.max_seeds,
        test_sizes={one.name: one.sizes.get("test", 0) for one in state.search.datasets},
        spreads=read_spreads(state),
    ).lines


def _describe_step(state: RunState, phase: Phase) -> str:
    """Describe a step of the state machine."""
    if phase not in STAGES:
        return PHASE_TEXT.get(phase, phase)
    if state.search.stages[phase].is_settled:
        return f"report on the {phase} stage"
    ended = state.find_stage_end(phase) is not None
    return f"select the best node of the {phase} stage" if ended else f"search the {phase} stage"


def forecast_remaining(state: RunState, plan: DataPlan | None) -> str:
    """Describe the estimated cost from now to the end of a run; `plan`: its plan, if it is not recorded yet."""
    if plan is not None:
        state = replace(state, search=replace(state.search, data_plan=plan))
    found = estimate_remaining(state)
    return "" if found is None else format_remaining_estimate(found)


def estimate_remaining(state: RunState) -> RemainingEstimate | None:
    """Estimate the cost from now to the end of a run: the forecast for its settings minus the work done.

    None before there is a data plan, after the end, or if the settings cannot be read.
    """
    settings = _read_settings(state)
    if settings is None or state.search.data_plan is None or state.phase == "done":
        return None
    table = build_cost_table(settings, lambda: state.gpus_per_experiment)
    rows, spent = table.list_rows(state.search.data_plan), compute_spent_by_phase(state)
    asked = [(row.role, number) for row, number in table.list_remaining(state) if row.role is not None]
    cost = sum_costs(table.estimate_call(role, state) * number for role, number in asked)
    made = sum(len(node.attempts) for node in state.nodes.values())
    runs = max(0.0, sum(row.likely for row in rows if row.role is None) - made) * (state.limit_reason is None)
    phases = estimate_phases(table, rows)
    known = all(one.usd is not None for one in phases)
    return RemainingEstimate(
        hours=_describe_hours(state, settings),
        calls=round(sum(number for _, number in asked)),
        usd=cost.usd if known else None,
        tokens=cost.tokens if settings.models.name != "offline" else 0,
        gpu_hours=table.estimate_attempt(state).gpu_seconds * runs / 3600
        if settings.sandbox.device == "cuda"
        else None,
        phases=tuple(
            PhaseSpending(phase=one.phase, planned=one.usd.likely, spent=spent.get(one.phase, Cost()).usd)
            for one in phases
            if one.usd is not None
        ),
    )
