"""What a run will still do, and what that may cost. Nothing is decided or written.

The next action of the search comes from its own policy, asked on a copy of what it may see now. A result that comes in
may change it, and a limit of the stage on time may refuse a node that is named here.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from labwright.agent.forecast import forecast, usd_of
from labwright.agent.settings import Settings, SettingsError, override
from labwright.inspector.describe import of_arm, widening
from labwright.inspector.status import PHASE_TEXT, Ahead
from labwright.inspector.why import Outlook
from labwright.models.roles import ROLES
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Action, Compare, End, Expand, Extend, Seen, Wait
from labwright.record.nouns.nodes import PHASES, STAGES, Phase, StageName
from labwright.search.policy import policy_of
from labwright.search.replication import fresh, wanted
from labwright.search.settings import SearchSettings
from labwright.search.tree import view_of

STEPS = 3
"""Of the next steps, those that are named."""
BEFORE_ABLATION: tuple[StageName, ...] = ("agenda", "tuning", "preliminary")
WRITE_UP = ("summary", "figures", "outline", "write", "reflect", "influence", "judge")
"""The roles that are still asked once nothing new is proposed."""
PREPARING = ("prior_search", "prior_work", "plan", "protocol_review")
"""Those that are asked before there is a data plan, and never again."""


def outlook(state: RunState) -> Outlook:
    """What a run will do next, in words; of one without readable settings only what its phase says."""
    settings, stage = _settings(state), state.stage
    best = next((best for name in BEFORE_ABLATION if (best := state.stages[name].best) is not None), None)
    steps = tuple(_step(state, phase) for phase in PHASES[PHASES.index(state.phase) : -1][:STEPS]) or (
        PHASE_TEXT["done"],
    )
    if settings is None or state.data_plan is None or stage is None:
        return Outlook(
            best=best,
            actions=steps,
            idle=f"no experiments in this step: {steps[0]}",
            workers=settings.search.num_workers if settings else 1,
        )
    if best is None:  # of a first stage that is not settled, the best so far
        first = view_of(state, stage, Seen(through=state.last_decision), settings=settings.search).best
        best = first.id if first is not None else None
    settled = state.stages[stage].settled
    idle = f"no experiments in this step: {steps[0]}" if settled else "a node is about to be started"
    if not settled and state.end_of(stage) is None:
        action = _next_action(state, settings.search, stage)
        steps = (action, *steps[1:])
        idle = f"nothing to run: {action}" if action.startswith("wait for") else idle
    writing = [node.id for node in state.nodes.values() if node.step == "writing"]
    if state.stopping or state.paused:
        idle = "the run was asked to stop" if state.stopping else "the run is paused"
    elif writing:
        idle = f"waits for code that is being written: {', '.join(writing)}"
    return Outlook(best=best, idle=idle, actions=steps, workers=settings.search.num_workers)


def _settings(state: RunState) -> Settings | None:
    if state.started is None:
        return None
    try:
        return override(state.started.settings, state.overrides)
    except SettingsError:  # a run of another version: what is left is still worth showing
        return None


def _next_action(state: RunState, search: SearchSettings, stage: StageName) -> str:
    """What the policy picks in a stage that is being searched, in words."""
    number = state.last_decision + 1
    seen = Seen(also=tuple(sorted(state.finished)))
    if search.order == "ticket":  # as the scheduler has it, which waits for all of these results
        seen = Seen(through=max(0, number - search.effective_window))
        if late := [k for k in state.decisions if k <= seen.through and k not in state.finished]:
            return f"wait for the results of decision{'s' * (len(late) > 1)} {', '.join(map(str, late))}"
    action = policy_of(search).pick(
        view_of(state, stage, seen, settings=search), Random(f"{state.seed_of(number)}/{number}")
    )
    return _in_words(action, stage)


def _in_words(action: Action, stage: StageName) -> str:
    match action:
        case Expand():
            origin = f" of {action.parent}" if action.parent else ""
            seed = f", seed {action.seed}" if action.kind == "replicate" else ""
            item = f", for: {action.item[:100]}" if action.item else ""
            return f"{action.kind}{origin} in {action.stage}{of_arm(action)}{seed}{item}"
        case Extend():
            return widening(action)
        case Compare():
            return f"ask which of {action.a} and {action.b} is sounder: measurements cannot tell them apart"
        case End():
            return f"end the search of {stage}: {action.reason}"
        case Wait():
            return "wait for a result of what is under way"
        case _:
            return action.task


def _design(state: RunState, settings: Settings) -> str:
    """What the pilot asks for, once it ran and until the lock; and what a smaller design would decide."""
    stage = state.stage
    if stage is None or state.lock is not None or not state.stages["tuning"].settled:
        return ""
    view = view_of(state, stage, Seen(also=tuple(sorted(state.finished))), settings=settings.search)
    asked, n = wanted(view), fresh(view, settings.search)
    best = view.best or view.root
    took = best.attempts[-1].seconds if best is not None and best.attempts else 0.0
    left = max(0.0, settings.time_limit - state.active_seconds) * settings.search.num_workers
    room = n if n * took <= left else int(left / took)
    smaller = (
        [
            f"{room} decide effects from {effect.smallest * (count / max(room, 1)) ** 0.5:.3g}"
            for name, count in asked.items()
            if count > room
            for one in state.data_plan.hypotheses
            if one.id == name
            for effect in one.effects[:1]
        ]
        if state.data_plan is not None
        else []
    )
    need = ", ".join(f"{name} {count}" for name, count in asked.items())
    if not need:
        return ""
    why = "search.max_seeds" if room == n else "the time that is left"
    return f"fresh seeds that decide: {need}" + (
        f"; {why} allows {room}: {'; '.join(smaller)} (scientist amend, or more of either)"
        if smaller
        else f"; {n} are set aside"
    )


def _step(state: RunState, phase: Phase) -> str:
    """A step of the state machine in words."""
    if phase not in STAGES:
        return PHASE_TEXT.get(phase, phase)
    if state.stages[phase].settled:
        return f"report on the {phase} stage"
    ended = state.end_of(phase) is not None
    return f"settle on the best node of the {phase} stage" if ended else f"search the {phase} stage"


def ahead_of(state: RunState) -> Ahead | None:
    """What a run is likely to take from here to its end: the forecast for its settings, less what was done.

    None before the data plan, after the end, and where the settings cannot be read.
    """
    settings = _settings(state)
    if settings is None or state.data_plan is None or state.phase == "done":
        return None
    whole, searching = forecast(state.data_plan, state.datasets, settings), state.limited is None and state.stage
    made = Counter[str]()
    for usage in (state.usage, *(one.usage for one in state.ancestry)):  # calls before a branching count too
        made.update({role: one.calls for role, one in usage.items()})
    made["summary"] = sum(one.summary is not None for one in state.stages.values())  # some without a model
    calls = {
        one.role: max(0, one.likely - made[one.role])
        for one in whole.calls
        if one.role not in PREPARING and (searching or one.role in WRITE_UP)
    }
    asked = {role: settings.models.candidates(ROLES[role])[:1] for role in calls}
    used = sum(one.gpu_seconds for one in (*state.settled.values(), *(one.spent for one in state.ancestry)))
    return Ahead(
        design=_design(state, settings),
        calls=sum(calls.values()),
        usd=usd_of(calls, settings.models),
        tokens=sum(
            number * sum(ROLES[role].usual)
            for role, number in calls.items()
            if any(one.name != "offline" for one in asked[role])
        ),
        gpu_hours=None if whole.gpu_hours is None else max(0.0, whole.gpu_hours.likely - used / 3600),
    )
