"""What decides the study has its time; exploration gets the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from math import inf

import pytest

from labwright.record.estimands import list_main_arms
from labwright.record.events.search_events import DecisionMade
from labwright.record.schema.decisions import ExpandTree, VisibleDecisions
from labwright.search.design_forecast import CONFIRMATION_SHARE
from labwright.search.hours import (
    SURPRISE_SHARE,
    RunTime,
    check_time,
    estimate_first_ablation,
    estimate_seconds,
    explain_no_exploration,
    plan_hours,
)
from labwright.search.replication import FRESH_SEED_OFFSET
from labwright.search.scheduler import ReleaseSlot
from labwright.search.settings import SearchSettings, StageLimits
from labwright.search.stage_snapshot import build_snapshot
from tests.search import virtual_time
from tests.search.scripted_search import SearchWorld, make_settings, new_log, run_search
from tests.search.test_replication import DECIDED, Quiet

SECONDS = 10.0
"""Of every node; two run at once."""


class Slow(Quiet):
    """Looks decide nothing."""


def search_for(seconds: float, objective: str, order: str) -> tuple[SearchWorld, SearchSettings]:
    """A search that would take ten times as long, cut to so many seconds."""
    log = new_log(plan=DECIDED.model_copy(update={"objective": objective}))
    world = Slow(log, buggy=0.0, delay=lambda k: SECONDS, seconds=SECONDS)
    limits = StageLimits(nodes=60)
    given = make_settings(num_workers=2, num_seeds=5, max_seeds=60, order=order, lookahead=0, agenda=limits)
    world.settings, world.run_seconds = given, seconds
    virtual_time.run(run_search(log, world, given))
    return world, given


@pytest.mark.parametrize("order", ["arrival", "ticket"])
@pytest.mark.parametrize("objective", ["measure", "improve"])
@pytest.mark.parametrize("seconds", [300.0, 500.0])
@pytest.mark.slow
def test_confirmation_is_complete_where_exploration_has_to_stop(seconds: float, objective: str, order: str) -> None:
    world, _ = search_for(seconds, objective, order)
    state = world.log.state
    lock = state.search.current_lock
    assert lock is not None and state.search.looks, "a look was reached"
    assert len(state.search.looks[-1].seeds) >= min(lock.n, lock.looks[0])
    stopped = [one.limit_reason for one in state.search.stages.values() if one.limit_reason is not None]
    assert stopped or objective == "measure", "where nothing is selected, each item takes one node"
    assert all("set aside for" in reason for reason in stopped)
    assert state.limit_reason is None, "nothing that was started had to be cut"
    fresh = [one for one in state.nodes.values() if one.seed >= FRESH_SEED_OFFSET and one.parent == lock.winner]
    assert len(fresh) * SECONDS <= CONFIRMATION_SHARE * 2 * seconds + SECONDS


def test_earlier_stages_leave_the_first_ablation_its_time() -> None:
    log, limits = new_log(plan=DECIDED), StageLimits(num_seeds=5)
    given = make_settings(num_workers=2, max_seeds=10, planned_ablations=2, ablation=limits)
    virtual_time.run(run_search(log, SearchWorld(log, buggy=0.0, seconds=SECONDS), given, ("preliminary",)))
    view = build_snapshot(log.state, "preliminary", VisibleDecisions(through=100), settings=given)

    def keep(run_seconds: float, **changes: object) -> float:
        hours = plan_hours(view, given, run_seconds)
        assert hours is not None
        return estimate_first_ablation(view, given.model_copy(update=changes), hours)

    whole = 6 * SECONDS / len(list_main_arms(DECIDED))
    assert keep(10_000.0) == whole, "one arm, and five replicates"
    assert keep(100.0) == SURPRISE_SHARE * 200.0 < whole, "but at most a tenth of the slot-seconds"
    assert keep(10_000.0, planned_ablations=0) == keep(inf) == 0.0
    hours = plan_hours(view, given, 10_000.0)
    assert hours is not None and view.best_node is not None
    draft = ExpandTree(stage="preliminary", kind="improve", parent=view.best_node.id, seed=0)
    enough = (hours.set_aside + SECONDS + whole) / 2
    assert explain_no_exploration(draft, (), view, given, RunTime(10_000.0, enough)) is None
    reason = explain_no_exploration(draft, (), view, given, RunTime(10_000.0, enough - 1))
    assert reason is not None and f"{whole:.0f} kept for the first ablation" in reason
    ablation = replace(view, stage="ablation")
    assert estimate_first_ablation(ablation, given, hours) == 0.0, "it runs now"


@pytest.mark.parametrize("second", [False, True])
def test_the_first_trials_of_all_arms_come_before_seeds_beyond_the_fewest(second: bool) -> None:
    log, seeds = new_log(plan=DECIDED), StageLimits(num_seeds=30)
    given = make_settings(num_workers=2, max_seeds=30, planned_ablations=0, agenda=seeds)
    virtual_time.run(run_search(log, SearchWorld(log, buggy=0.0, seconds=SECONDS), given, ("preliminary",)))
    best = log.state.search.stages["preliminary"].best
    trial = {"stage": "tuning", "kind": "trial", "parent": best, "seed": 0}
    first, other = (
        ExpandTree.model_validate({**trial, "trials": [{"arm": arm, "number": k, "setting": {}} for k in (1, 2)]})
        for arm in ("method", "baseline")
    )
    if second:
        log.append(DecisionMade(k=log.state.last_decision + 1, action=other))
        log.append(DecisionMade(k=log.state.last_decision + 1, action=first))
    view = build_snapshot(log.state, "tuning", VisibleDecisions(through=100), settings=given)
    hours = plan_hours(view, given, 2_000.0, swapped=False)
    assert hours is not None and hours.seeds == 30
    few = 5 * hours.seed_seconds + hours.scoring + hours.write_up
    batch = estimate_seconds(first, view)
    explain = partial(explain_no_exploration, first, (), view, given)
    refused = explain(RunTime(2_000.0, (few + 2 * batch) / 2))
    if second:
        assert refused is not None and "set aside for 30 fresh seeds" in refused, "later trials wait for every seed"
        return
    assert refused is None
    short = explain(RunTime(2_000.0, (few + 2 * batch - 1) / 2))
    assert short is not None and "set aside for 5 fresh seeds" in short, "both arms get theirs, or none"


@pytest.mark.parametrize(("seconds", "trials"), [(80.0, 1), (300.0, 5)])
def test_every_arm_gets_as_many_trials_as_fit_where_a_whole_batch_does_not(seconds: float, trials: int) -> None:
    log = new_log(plan=DECIDED.model_copy(update={"objective": "measure"}))
    world = Slow(log, buggy=0.0, delay=lambda k: SECONDS, seconds=SECONDS)
    many = {"tuning": StageLimits(nodes=20), "max_seeds": 60, "num_seeds": 5, "num_drafts": 1}
    world.settings, world.run_seconds = make_settings(num_workers=2, order="arrival", lookahead=0, **many), seconds
    virtual_time.run(run_search(log, world, world.settings))
    actions = [one.action for one in log.state.decisions.values() if isinstance(one.action, ExpandTree)]
    made = Counter(one.arm for action in actions if action.kind == "trial" and not action.seed for one in action.trials)
    assert made == {"baseline": trials, "method": trials}


class Prompt(Slow):
    """Looks and reports take no time."""

    async def perform(self, decided: DecisionMade, freed: ReleaseSlot) -> None:
        if isinstance(decided.action, ExpandTree):
            await super().perform(decided, freed)
        else:
            self._answer(decided)


@pytest.mark.parametrize("order", ["arrival", "ticket"])
def test_confirmation_goes_on_in_time_that_nothing_else_needs(order: str) -> None:
    log, few = new_log(plan=DECIDED.model_copy(update={"objective": "measure"})), StageLimits(nodes=1)
    world = Prompt(log, buggy=0.0, delay=lambda k: SECONDS, seconds=SECONDS)
    stages = dict.fromkeys(("tuning", "agenda", "ablation"), few)
    small = {"num_workers": 2, "num_seeds": 5, "max_seeds": 150, "lookahead": 0, "num_drafts": 1, **stages}
    world.settings, world.run_seconds = make_settings(order=order, planned_ablations=0, **small), 900.0
    virtual_time.run(run_search(log, world, world.settings))
    state = log.state
    lock, read = state.search.current_lock, len(state.search.looks[-1].seeds)
    assert lock is not None and read == lock.looks[9] == 114
    assert read * SECONDS > CONFIRMATION_SHARE * 2 * world.run_seconds, "its share is no limit at the end"
    view = build_snapshot(state, "ablation", VisibleDecisions(through=state.last_decision), settings=world.settings)
    hours = plan_hours(view, world.settings, world.run_seconds)
    left = 2 * (world.run_seconds - state.active_seconds)
    assert hours is not None and left >= hours.scoring + hours.write_up, "what comes after it keeps its time"
    assert sum(one.stage == "ablation" and one.kind == "replicate" for one in state.nodes.values()) >= 5
    assert state.limit_reason is None


@pytest.mark.parametrize("decided", [False, True])
def test_what_a_look_may_release_is_not_refused_for_good(decided: bool) -> None:
    log = new_log(plan=DECIDED.model_copy(update={"objective": "measure"}))
    world = Slow(log, buggy=0.0, seconds=SECONDS)
    given = make_settings(num_workers=2, num_seeds=5, max_seeds=20, order="arrival", lookahead=0, planned_ablations=0)
    world.settings, world.run_seconds = given, 2_000.0
    virtual_time.run(run_search(log, world, given, ("preliminary", "tuning", "agenda")))
    state = log.state
    lock = state.search.current_lock
    assert lock is not None
    fresh = ExpandTree(stage="agenda", kind="replicate", parent=lock.winner, seed=lock.seeds[0] + 25)
    state.search.looks[-1:] = [state.search.looks[-1].model_copy(update={"ends": "decided" * decided})]
    log.append(DecisionMade(k=state.last_decision + 1, action=fresh))
    ablate = ExpandTree(stage="ablation", kind="ablate", parent=lock.winner, seed=0)
    view = build_snapshot(state, "ablation", VisibleDecisions(through=state.last_decision), settings=given)
    hours = plan_hours(view, given, 2_000.0)
    assert hours is not None and (hours.remaining_seeds == 0) is decided
    left = (hours.scoring + hours.write_up + 6 * estimate_seconds(ablate, view)) / 2
    hit = check_time(ablate, state, given, RunTime(2_000.0, left))
    assert hit is None if decided else hit is not None and hit.may_fit_later
    if not decided:
        gone = check_time(ablate, state, given, RunTime(2_000.0, left / 2))
        assert gone is not None and not gone.may_fit_later, "it would not fit without seeds either"
