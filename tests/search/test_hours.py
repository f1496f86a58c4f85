"""What decides the study has its time; exploration gets the rest."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from labwright.record.estimands import list_main_arms
from labwright.record.schema.decisions import ExpandTree, VisibleDecisions
from labwright.search.design_forecast import CONFIRMATION_SHARE
from labwright.search.hours import SURPRISE_SHARE, estimate_first_ablation, explain_no_exploration, plan_hours
from labwright.search.replication import FRESH_SEED_OFFSET
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
        hours = plan_hours(view, given, run_seconds=run_seconds)
        assert hours is not None
        return estimate_first_ablation(view, given.model_copy(update=changes), hours)

    whole = 6 * SECONDS / len(list_main_arms(DECIDED))
    assert keep(10_000.0) == whole, "one arm, and five replicates"
    assert keep(100.0) == SURPRISE_SHARE * 200.0 < whole, "but at most a tenth of the slot-seconds"
    assert keep(10_000.0, planned_ablations=0) == keep(inf) == 0.0
    hours = plan_hours(view, given, run_seconds=10_000.0)
    assert hours is not None and view.best_node is not None
    draft = ExpandTree(stage="preliminary", kind="improve", parent=view.best_node.id, seed=0)
    enough = (hours.set_aside + SECONDS + whole) / 2
    assert explain_no_exploration(draft, (), view, given, run_seconds=10_000.0, seconds_left=enough) is None
    reason = explain_no_exploration(draft, (), view, given, run_seconds=10_000.0, seconds_left=enough - 1)
    assert reason is not None and f"{whole:.0f} kept for the first ablation" in reason
    ablation = replace(view, stage="ablation")
    assert estimate_first_ablation(ablation, given, hours) == 0.0, "it runs now"
