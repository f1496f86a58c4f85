"""What tuning takes next: equal efforts, samplers by number, edges, changed code, one tree in any company."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from labwright.record.event_log import MemoryLog
from labwright.record.events.search_events import DecisionMade
from labwright.record.schema.data_plan import DataPlan, Hyperparameter, HyperparameterSetting, MetricSpec, Trial
from labwright.record.schema.decisions import ExpandTree, VisibleDecisions, WidenDimension
from labwright.record.schema.nodes import TrialResult, format_node_id
from labwright.record.tuning_results import (
    MAX_EQUAL_RATIO,
    collect_trial_results,
    compute_efforts,
    compute_expected_best,
    compute_scores,
    find_best,
    find_chosen,
    group_studies,
    rank_trials,
)
from labwright.search import tuning
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot
from tests.hypotheses import make_hypotheses
from tests.search import scripted_search
from tests.search.scripted_search import PLAN, SearchWorld, make_settings, new_log, run_whole_search

RATE, DEPTH = PLAN.space
CLOSED = tuple(one.model_copy(update={"closed": True}) for one in PLAN.space)


def is_equal_effort(given: Mapping[str, float]) -> bool:
    """Return whether efforts are equal within `MAX_EQUAL_RATIO`."""
    return max(given.values()) <= MAX_EQUAL_RATIO * min(given.values())


def dims(**changes: Any) -> DataPlan:
    """The plan with another space, or other terms of its tuning."""
    space = changes.pop("space", PLAN.space)
    return PLAN.model_copy(update={"space": space, "tuning": PLAN.tuning.model_copy(update=changes)})


def miss(setting: HyperparameterSetting, optimum: float) -> float:
    return abs(math.log10(float(setting["rate"]) / optimum))


class Bowl(SearchWorld):
    """Trials are the better, the nearer their rate is to 0.01; nothing fails, and no code changes what is computed."""

    optimum = 0.01
    by_setting = True

    def compute_value(self, arm: str, setting: HyperparameterSetting) -> float:
        return miss(setting, self.optimum) ** 2


def tuned(
    monkeypatch: pytest.MonkeyPatch, plan: DataPlan, optimum: float = 0.01, *, world: type[Bowl] = Bowl
) -> tuple[MemoryLog, list[object]]:
    """A prototype whose arms are tuned by what `tuning.step` says alone, and each of its answers."""
    monkeypatch.setattr(scripted_search, "PLAN", plan)
    log = new_log(plan=plan)
    made = world(log, buggy=0.0)
    made.optimum = optimum
    actions: list[object] = []
    finish(made, 1, ExpandTree(stage="preliminary", kind="draft", seed=0))
    while (action := tuning.next_tuning_action(at(log), log.state.nodes["n0001"])) is not None:
        actions.append(action)
        assert len(actions) < 200, "tuning does not end"
        if isinstance(action, WidenDimension):
            log.append(DecisionMade(k=len(actions) + 1, action=action))
        else:
            finish(made, len(actions) + 1, action)
    return log, actions


def at(log: MemoryLog, stage: Any = "tuning") -> StageSnapshot:
    return build_snapshot(log.state, stage, VisibleDecisions(through=10**6), settings=make_settings())


def finish(world: SearchWorld, k: int, action: ExpandTree) -> None:
    world.log.append(DecisionMade(k=k, action=action))
    world.finish(f"n{k:04d}", k, action)


def trials_of(actions: list[object]) -> Iterator[Trial]:
    for action in actions:
        if isinstance(action, ExpandTree) and action.kind == "trial":
            yield from action.trials


@pytest.mark.parametrize("sampler", ["random", "sobol", "tpe", "gp"])
def test_every_arm_gets_the_same_number_of_different_settings_in_range(
    monkeypatch: pytest.MonkeyPatch, sampler: str
) -> None:
    plan = dims(sampler=sampler, budget=5, space=(RATE, CLOSED[1]))
    log, actions = tuned(monkeypatch, plan, optimum=0.02)
    by_arm: defaultdict[str, list[Trial]] = defaultdict(list)
    for one in trials_of(actions):
        by_arm[one.arm].append(one)
    assert {arm: len(of) for arm, of in by_arm.items()} == {"baseline": 4, "method": 4}, "beside the defaults"
    assert all([one.number for one in of] == list(range(1, 5)) for of in by_arm.values())
    for of in by_arm.values():
        assert len({str(one.setting) for one in of}) == 4
        assert all(1e-4 <= float(one.setting["rate"]) <= 1 for one in of)
    assert all("depth" in one.setting for one in by_arm["method"])
    assert all("depth" not in one.setting for one in by_arm["baseline"])
    last = actions[-1]
    assert isinstance(last, ExpandTree) and last.kind == "tune"
    best = next(one for one in last.trials if one.arm == "method")
    assert best.setting == min((one.setting for one in by_arm["method"]), key=lambda one: miss(one, 0.02))
    assert tuned(monkeypatch, plan, optimum=0.02)[1] == actions, "the same again"
    given = {one.arm: float(one.evaluation_count) for one in compute_efforts(log.state)}
    assert is_equal_effort(given) and set(given.values()) == {5.0}


@pytest.mark.parametrize(("sampler", "budget"), [("tpe", 28), pytest.param("gp", 12, marks=pytest.mark.bench)])
def test_samplers_learn_of_what_they_were_told(monkeypatch: pytest.MonkeyPatch, sampler: str, budget: int) -> None:
    monkeypatch.setattr(tuning, "MAX_BUDGET_FACTOR", 1)
    _, actions = tuned(monkeypatch, dims(budget=budget, sampler=sampler), optimum=0.02)
    far = [miss(one.setting, 0.02) for one in trials_of(actions) if one.arm == "baseline"]
    assert sum(far[-budget // 4 :]) < 0.6 * sum(far[: budget // 4])


@pytest.mark.parametrize(("margin", "trials", "gaining"), [(0.02, 24, True), (0.5, 12, False), (None, 12, True)])
def test_arms_get_more_while_a_late_best_promises_a_third_of_a_margin(
    monkeypatch: pytest.MonkeyPatch, margin: float | None, trials: int, gaining: bool
) -> None:
    """Without a margin in the metric's unit nothing is added; that the best came late is said all the same."""
    tried: dict[str, int] = {}

    def ever_better(_: Bowl, arm: str, setting: HyperparameterSetting) -> float:
        return 1.0 if arm == "baseline" else 1 / (1 + tried.setdefault(str(setting), len(tried)))

    def even(_: Bowl, arm: str, setting: HyperparameterSetting) -> float:
        return 1.0

    monkeypatch.setattr(Bowl, "compute_value", ever_better)
    plan = dims(budget=12, sampler="random", space=CLOSED)
    if margin is not None:
        asked = make_hypotheses("method", "baseline", higher=False, smallest=margin)
        plan = plan.model_copy(update={"hypotheses": asked})
    log, actions = tuned(monkeypatch, plan)
    counts = {"baseline": trials, "method": trials}
    assert {one.arm: one.evaluation_count for one in compute_efforts(log.state)} == counts
    chosen = find_chosen(log.state, f"n{len(actions) + 1:04d}")
    assert (chosen["baseline"].gaining, chosen["method"].gaining) == (False, gaining)
    monkeypatch.setattr(Bowl, "compute_value", even)
    assert {one.evaluation_count for one in compute_efforts(tuned(monkeypatch, plan)[0].state)} == {12}, "nothing gains"


def test_the_best_are_tried_again_with_other_seeds_before_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    log, actions = tuned(monkeypatch, dims(budget=8, sampler="random"))
    *_, first, second, last = (one for one in actions if isinstance(one, ExpandTree))
    assert (first.seed, second.seed, last.kind) == (1000, 1001, "tune") and first.trials == second.trials
    studies = group_studies(collect_trial_results(log.state))
    known = {arm: studies[arm, "n0001's"] for arm in ("baseline", "method")}
    assert {arm: {one.number for one in first.trials if one.arm == arm} for arm in known} == {
        arm: {one.number for one in study if one.seeds == 3} for arm, study in known.items()
    }
    assert all(sum(one.seeds for one in study) == len(study) + 3 * 2 for study in known.values())
    assert is_equal_effort({one.arm: one.evaluation_count for one in compute_efforts(log.state)}), (
        "the same settings are no more looks"
    )
    lucky, steady = known["method"][0], known["method"][1]
    pair = (lucky.model_copy(update={"values": {"digits": 0.0}, "seeds": 1}), steady.model_copy(update={"seeds": 3}))
    assert find_best(pair, log.state.search.data_plan or PLAN) == pair[1], "what was tried with more seeds goes first"


def test_a_chosen_edge_widens_a_dimension_once_for_every_arm_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log, actions = tuned(monkeypatch, dims(budget=9), optimum=30.0)
    wider = [one for one in actions if isinstance(one, WidenDimension) and one.dimension == "rate"]
    assert len(wider) == 1 and wider[0].low == 1e-4 and wider[0].high == pytest.approx(100.0)
    numbers = Counter(one.arm for one in trials_of(actions))
    assert numbers["baseline"] == numbers["method"] > 5, "and everyone gets more trials"
    assert any(float(one.setting["rate"]) > 1 for one in trials_of(actions))
    assert all(one.find_space("method")[0].high == one.find_space("baseline")[0].high for one in (at(log),))
    _, actions = tuned(monkeypatch, dims(space=CLOSED), optimum=30.0)
    assert not [one for one in actions if isinstance(one, WidenDimension)]


def test_dimensions_that_hang_on_a_choice_and_small_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def choice(name: str, *options: str | float, **more: Any) -> Hyperparameter:
        return Hyperparameter(name=name, kind="choice", options=options, default=options[0], source="s", **more)

    rate, rule = choice("rate", 0.1, 0.01), choice("rule", "sgd", "adam", arms=("method",))
    space = (rate, rule, choice("momentum", 0.0, 0.9, arms=("method",), given="rule", among=("sgd",)))
    log, actions = tuned(monkeypatch, dims(space=space, budget=20))
    of = {arm: [one.setting for one in trials_of(actions) if one.arm == arm] for arm in ("baseline", "method")}
    assert of["baseline"] == [{"rate": 0.01}], "all there is beside the defaults"
    assert all(("momentum" in one) == (one["rule"] == "sgd") for one in of["method"])
    assert len({str(sorted(one.items())) for one in of["method"]}) == 5 == len(of["method"])
    assert {one.arm: one.exhausted for one in compute_efforts(log.state)} == {"baseline": True, "method": True}


def test_where_code_changed_arms_are_tuned_again_unless_what_they_compute_stayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Moved(Bowl):
        gain = 0.0

        def compute_value(self, arm: str, setting: HyperparameterSetting) -> float:
            return super().compute_value(arm, setting) - (self.gain if arm == "method" else 0)

    def improved(gain: float) -> tuple[dict[str, bool], str, object]:
        log, actions = tuned(monkeypatch, dims(budget=4), world=Moved)
        world, k = Moved(log, buggy=0.0), len(actions) + 2
        world.gain = gain
        finish(world, k, ExpandTree(stage="agenda", kind="improve", parent=f"n{k - 1:04d}", seed=0))
        last = format_node_id(k)
        stale = {arm: one.stale for arm, one in find_chosen(log.state, last).items()}
        return stale, last, tuning.next_tuning_action(at(log, "agenda"), log.state.nodes[last])

    stale, _, action = improved(0.0)
    assert not any(stale.values()) and action is None, "the same values to the last digit"
    stale, last, action = improved(0.125)
    assert stale == {"baseline": False, "method": True}
    assert isinstance(action, ExpandTree) and {one.arm for one in action.trials} == {"method"} and action.parent == last


def test_a_baseline_that_lags_in_versions_of_its_code_is_bettered_next() -> None:
    log, _ = run_whole_search(buggy=0.0)
    view = at(log, "agenda")
    spent = {"baseline": (12, 1), "method": (15, 4)}
    efforts = {
        arm: view.efforts[arm].model_copy(update={"trials": total - versions, "versions": versions})
        for arm, (total, versions) in spent.items()
    }
    lagging = replace(view, efforts=efforts)
    assert tuning.undertuned_baseline(lagging) == "baseline" and tuning.undertuned_baseline(view) == ""
    last = next(reversed(view.nodes.values()))
    on_its_way = view.nodes | {last.id: last.model_copy(update={"status": "running"})}
    improving = ExpandTree(stage="agenda", kind="improve", arm="baseline", seed=0)
    waiting = replace(lagging, nodes=on_its_way, actions={last.decision: improving})
    assert tuning.undertuned_baseline(waiting) == ""


def test_expected_best_of_k() -> None:
    draws = compute_expected_best((1.0, 2.0, 4.0))
    assert draws[0] == pytest.approx(7 / 3) and draws[0] < draws[1] < draws[2] < 4.0
    assert draws[1] == pytest.approx((1 * 1 + 2 * 3 + 4 * 5) / 9), "by counting all nine pairs"


def a_trial(number: int, **values: float) -> TrialResult:
    about = {"arm": "method", "code": "c", "node": "n", "kind": "trial", "outcome": "measured"}
    return TrialResult.model_validate(
        {**about, "number": number, "setting": {"rate": number}, "values": values, "seconds": 1}
    )


@pytest.mark.parametrize("higher", [True, False])
def test_no_dataset_decides_a_setting_alone_whatever_the_defaults_scored_there(higher: bool) -> None:
    """The defaults diverged on the third dataset, and count as an accuracy of 0 there (or as a loss of 16)."""

    def loss(accuracy: float) -> float:
        return accuracy if higher else 16 if not accuracy else 1 - accuracy

    plan = PLAN.model_copy(update={"metrics": (MetricSpec(name="log_loss", higher_is_better=higher),)})
    study = [
        a_trial(number, **{name: loss(value) for name, value in values.items()})
        for number, values in enumerate(
            ({"a": 0.90, "b": 0.90, "c": 0.0}, {"a": 0.20, "b": 0.20, "c": 0.801}, {"a": 0.95, "b": 0.95, "c": 0.800})
        )
    ]
    found = compute_scores(study, plan)
    assert rank_trials(study, plan)[0].number == 2
    assert all(-1 <= value <= 0 for value in found.values())
    scaled = [one.model_copy(update={"values": one.values | {"c": 100 * one.values["c"] - 50}}) for one in study]
    assert compute_scores(scaled, plan) == pytest.approx(found), "neither scale nor zero of a dataset matters"
    worse = [*study, a_trial(3, a=loss(0.95), b=loss(0.95), c=loss(0.1))]
    assert rank_trials(worse, plan)[0].number == 2, "one that is far off where the defaults failed is not as good"
