"""While no arm is better than a constant prediction, the search goes on, and nothing is claimed."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from labwright.record.claims.hypothesis_tests import decide_hypotheses, list_undecided
from labwright.record.event_log import MemoryLog
from labwright.record.events.search_events import DecisionMade, PlanPrepared
from labwright.record.schema.data_plan import DatasetFacts, Measurement
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.search.settings import SearchSettings, StageLimits
from tests.search import virtual_time
from tests.search.scripted_search import PLAN, SearchWorld, comparable_tree, make_settings, measure, new_log, run_search

FLOOR = 1.1
"""Loss of a constant prediction."""
CLAIM = Hypothesis(
    id="gain",
    statement="the method loses less",
    reason="less is noise",
    effects=(Effect(estimand="baseline - method", smallest=0.05),),
)
COMPARED = PLAN.model_copy(update={"hypotheses": (CLAIM,), "objective": "measure"})


class Deaf(SearchWorld):
    """No arm learns before the improvement `learns_from`; from then on the method loses less than the baseline."""

    learns_from: float = inf

    def draw_measurements(self, action: ExpandTree, rng: Random) -> tuple[Measurement, ...]:
        made = (one.action for one in self.log.state.decisions.values())
        improved = sum(isinstance(one, ExpandTree) and one.kind == "improve" for one in made)
        off = {arm.name: 0.01 * Random(f"{arm.name} {action.seed}").random() for arm in PLAN.arms}
        value = FLOOR if improved < self.learns_from else 0.5
        return tuple(
            measure(value + off[arm.name] - 0.2 * (value < FLOOR and arm.name == "method"), arm.name, seed=action.seed)
            for arm in PLAN.arms
        )


class Quick(Deaf):
    learns_from = 3


def prepare() -> MemoryLog:
    log = new_log(plan=COMPARED)
    facts = DatasetFacts(
        name="digits", source="x", features=1, classes=3, sizes={"validation": 500}, fingerprint="", seed=0
    )
    constants = {"log_loss": {"digits": FLOOR}}
    log.append(PlanPrepared(data_plan=COMPARED, datasets=(facts,), constants=constants))
    return log


def search(world: type[Deaf], given: SearchSettings, log: MemoryLog | None = None, seconds: float = inf) -> MemoryLog:
    log = log or prepare()
    made = world(log, buggy=0.0, delay=lambda k: 1.0, seconds=1.0)
    made.settings, made.run_seconds = given, seconds
    virtual_time.run(run_search(log, made, given))
    return log


GIVEN = make_settings(num_seeds=5, max_seeds=8, tuning=StageLimits(nodes=4, num_seeds=3))


def list_stages(log: MemoryLog, kind: str) -> list[str]:
    made = (one.action for one in log.state.decisions.values())
    return [one.stage for one in made if isinstance(one, ExpandTree) and one.kind == kind]


@pytest.mark.parametrize("order", ["ticket", "arrival"])
def test_the_prototype_is_improved_until_an_arm_learns(order: str) -> None:
    log = search(Quick, GIVEN.model_copy(update={"order": order}))
    improved = list_stages(log, "improve")
    assert improved.count("preliminary") == 3, "no node limit had to end the stage"
    assert improved.count("tuning") == 0
    [decided] = decide_hypotheses(log.state)
    assert decided.verdict == "supported"
    assert not decided.floored and decided.parts[0].direction == "positive"


def test_at_the_floor_stages_go_on_to_their_limits_before_the_lock_and_nothing_is_claimed() -> None:
    log = search(Deaf, GIVEN)
    state = log.state
    assert len([one for one in state.list_stage_nodes("preliminary") if one.kind in ("draft", "improve")]) == 8
    assert list_stages(log, "improve").count("tuning") == 2, "each is tuned"
    assert [state.search.stages[one].end_reason for one in ("preliminary", "tuning")] == [
        "limit of 8 nodes",
        "limit of 4 nodes",
    ]
    assert state.search.current_lock is not None and state.search.looks, "the run goes on"
    [decided] = decide_hypotheses(state)
    assert decided.verdict == decided.parts[0].verdict == decided.parts[0].direction == "open"
    assert decided.parts[0].why == decided.floored
    assert decided.floored.startswith(
        "no arm is better than a constant prediction (log_loss on validation: at best 1.1"
    )
    assert decided.floored.endswith("constant 1.1)") and decided.p is None
    assert not list_undecided([decided]), "no further seed is spent on it"


def test_time_ends_the_search_at_the_floor_and_the_run_goes_on() -> None:
    log = search(Deaf, GIVEN.model_copy(update={"order": "arrival"}), seconds=14.0)
    state = log.state
    limited = [one.limit_reason for one in state.search.stages.values() if one.limit_reason]
    assert limited and "set aside for 5 fresh seeds" in limited[0], "no more than these is set aside"
    assert state.search.current_lock is not None
    assert decide_hypotheses(state)[0].floored


@pytest.mark.slow
def test_a_search_at_the_floor_survives_a_kill() -> None:
    whole = search(Quick, GIVEN)
    cuts = [k for k, one in enumerate(whole.events) if isinstance(one, DecisionMade)][4:40:9]
    for cut in cuts:
        log = search(Quick, GIVEN, MemoryLog(whole.events[: cut + 1]))
        assert comparable_tree(log) == comparable_tree(whole)
