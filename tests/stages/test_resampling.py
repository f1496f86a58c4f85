"""The paired bootstrap over test examples, from sealed predictions in a run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, compute_test_claims
from labwright.record.claims.hypothesis_tests import ReplicateValues, decide_from_runs, decide_hypotheses
from labwright.record.estimands import CellRef
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import RunBranched
from labwright.record.events.search_events import (
    AttemptExecuted,
    ConfirmationLocked,
    DecisionMade,
    LookTaken,
    NodeJudged,
    PlanPrepared,
    SealedTestResampled,
    SealedTestScored,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DatasetFacts, Level, MetricSpec, ResampledInterval
from labwright.record.schema.decisions import PROBE_TASK, ExpandTree, RunTask, build_look_sizes
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.record.schema.nodes import Attempt
from labwright.sandbox.job import JobOutcome
from labwright.sandbox.scoring import score_sealed, seal_test_predictions
from labwright.search.settings import SearchSettings
from labwright.stages.evidence import resampling
from labwright.stages.evidence.resampling import (
    MAX_DRAW_BYTES,
    MAX_DRAWS,
    MAX_PASSES,
    MIN_DRAWS,
    NOT_COMPUTED_REASON,
    SampleSize,
    count_draws,
    resample_differences,
    resample_effect,
)
from labwright.stages.evidence.scoring import score_tests
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from tests.fake_executor import FakeExecutor
from tests.hypotheses import make_hypotheses
from tests.jobs import make_facts_json
from tests.search.scripted_search import PLAN, new_log

EXAMPLES, CLASSES = 120, 3
Probabilities = Callable[[Any, Any, str], Any]
"""(labels, rng of the seed, condition) -> probabilities."""


def helps(truth: Any, rng: Any, condition: str) -> Any:
    """The method is surer of the right class than the baseline; both are noisy."""
    p = rng.dirichlet(np.ones(CLASSES), size=len(truth))
    p[np.arange(len(truth)), truth] += 2.0 if condition == "method" else 0.5
    return p / p.sum(axis=1, keepdims=True)


def run_of(root: Path, probabilities: Probabilities, *, score: bool = True) -> tuple[MemoryLog, RunFolder]:
    """A run whose winner has five replicates, with their sealed test predictions, scored or not yet."""
    folder, log = RunFolder(root), new_log()
    folder.create_folders()
    truth = np.random.default_rng(0).integers(0, CLASSES, size=EXAMPLES)
    np.savez(folder.labels / "digits.npz", test_y=truth, meta=make_facts_json(CLASSES))
    assert log.state.search.data_plan is not None
    facts = DatasetFacts(
        name="digits", source="made", features=2, classes=CLASSES, sizes={"test": EXAMPLES}, fingerprint="ab", seed=0
    )
    log.append(PlanPrepared(data_plan=log.state.search.data_plan, datasets=(facts,)))
    log.append(DecisionMade(k=1, action=ExpandTree(stage="agenda", kind="improve", seed=0)))
    log.append(NodeJudged(node="n0001", status="good"))
    for k in range(2, 7):
        _replicate(log, folder, k, truth, probabilities, score=score)
    log.append(StageWinnerChosen(stage="agenda", best="n0001", ended="limit"))
    return log, folder


def _replicate(
    log: MemoryLog, folder: RunFolder, k: int, truth: Any, probabilities: Probabilities, *, score: bool
) -> None:
    node, place = f"n{k:04d}", folder.get_attempt_path(f"n{k:04d}", 1)
    (place / "submissions").mkdir(parents=True)
    rng = np.random.default_rng(k)
    lines: list[str] = []
    for number, condition in enumerate(("method", "baseline")):
        np.savez(place / "submissions" / f"{number}.npz", probabilities=probabilities(truth, rng, condition))
        lines.append(
            json.dumps(
                {
                    "file": f"{number}.npz",
                    "dataset": "digits",
                    "split": "test",
                    "condition": condition,
                    "kind": "probabilities",
                }
            )
        )
    (place / "submissions.jsonl").write_text("\n".join(lines) + "\n")
    sealed = seal_test_predictions(place, folder.labels)
    log.append(DecisionMade(k=k, action=ExpandTree(stage="agenda", kind="replicate", parent="n0001", seed=k)))
    log.append(AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=1, sealed=sealed)))
    log.append(NodeJudged(node=node, status="good"))
    if score:
        log.append(
            SealedTestScored(node=node, measurements=score_sealed(place, folder.labels, seed=k, expected=sealed))
        )


def found_in(log: MemoryLog, folder: RunFolder) -> dict[str, tuple[ClaimDifference, ResampledInterval]]:
    over = resample_differences(log.state, folder)
    log.append(SealedTestResampled(found=over))
    return {
        one.name: (one, known)
        for one in compute_differences(log.state, compute_test_claims(log.state))
        if (known := one.resampled_interval) is not None
    }


def test_every_difference_has_an_interval_around_its_mean_and_the_same_one_again(tmp_path: Path) -> None:
    log, folder = run_of(tmp_path, helps)
    again = resample_differences(log.state, folder)
    found = found_in(log, folder)
    assert tuple(over for _, over in found.values()) == again, "drawn from the seed of the run"
    assert "log_loss" in found and len(found) == len(again)
    for one, over in found.values():
        assert over.low is not None and over.high is not None and over.low < one.mean < over.high
        assert (over.examples, over.draws, over.nodes) == (EXAMPLES, MAX_DRAWS, tuple(f"n{k:04d}" for k in range(2, 7)))
    assert found["log_loss"][0].examples and found["log_loss"][0].excludes_zero


def test_the_interval_is_that_of_a_plain_loop_over_draws(tmp_path: Path) -> None:
    log, folder = run_of(tmp_path, helps)
    one, over = found_in(log, folder)["log_loss"]
    truth = np.load(folder.labels / "digits.npz")["test_y"]
    costs = np.mean(
        [_costs(folder, node, truth, "0.npz") - _costs(folder, node, truth, "1.npz") for node in one.nodes], axis=0
    )
    rng = np.random.default_rng(99)
    means = [costs[rng.integers(0, EXAMPLES, EXAMPLES)].mean() for _ in range(20_000)]
    assert one.mean == pytest.approx(costs.mean()) and over.low is not None and over.high is not None
    width = over.high - over.low
    low, high = (float(np.percentile(means, end)) for end in (2.5, 97.5))
    assert (over.low, over.high) == pytest.approx((low, high), abs=0.05 * width)


def _costs(folder: RunFolder, node: str, truth: Any, file: str) -> Any:
    p = np.load(folder.get_attempt_path(node, 1) / "sealed" / file)["probabilities"]
    return -np.log(p[np.arange(len(truth)), truth])


def test_what_seeds_share_of_the_examples_is_their_covariance(tmp_path: Path) -> None:
    """Half of the gain is that of an example, whatever the seed; the other half is drawn with every seed."""

    def gain(truth: Any, rng: Any, condition: str) -> Any:
        of_example = np.random.default_rng(5).normal(0, 0.3, len(truth))
        logits = np.zeros((len(truth), CLASSES))
        if condition == "method":
            logits[np.arange(len(truth)), truth] = 0.5 + of_example + rng.normal(0, 0.3, len(truth))
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    log, folder = run_of(tmp_path, gain)
    one, over = found_in(log, folder)["log_loss"]
    truth = np.load(folder.labels / "digits.npz")["test_y"]
    each = np.array([_costs(folder, node, truth, "0.npz") - _costs(folder, node, truth, "1.npz") for node in one.nodes])
    covariance = np.cov(each) / EXAMPLES
    expected = covariance[~np.eye(5, dtype=bool)].mean()
    assert over.shared == pytest.approx((expected,), rel=0.1) and over.sd is not None and over.sd**2 > 1.1 * expected


def test_an_effect_of_a_hypothesis_varies_as_the_difference_that_it_is(tmp_path: Path) -> None:
    log, folder = run_of(tmp_path, helps)
    plan = log.state.search.data_plan
    assert plan is not None
    gain = make_hypotheses("method", "baseline", higher=False, smallest=0.1)[0]
    log.append(
        PlanPrepared(
            data_plan=plan.model_copy(
                update={"hypotheses": (gain, gain.model_copy(update={"id": "alone", "unit": "seeds"}))}
            ),
            datasets=log.state.search.datasets,
        )
    )
    by_key = {one.key: one for one in resample_differences(log.state, folder)}
    effect, difference = by_key["hypothesis/gain/0"], by_key["diff/digits/log_loss/method~baseline"]
    assert effect.low is not None and effect.high is not None and difference.low is not None
    assert (effect.low, effect.high) == pytest.approx((-(difference.high or 0.0), -difference.low))
    assert effect.shared == pytest.approx(difference.shared) and effect.shared[0] < (effect.sd or 0.0) ** 2
    assert "hypothesis/alone/0" not in by_key, "seeds are its only unit"
    before = decide_hypotheses(log.state)[0].parts[0]
    log.append(SealedTestResampled(found=(*by_key.values(),)))
    after = decide_hypotheses(log.state)[0].parts[0]
    assert after.examples and not before.examples


def test_whole_clusters_are_drawn_and_without_their_column_the_interval_is_over_seeds_alone(tmp_path: Path) -> None:
    log, folder = run_of(tmp_path, helps)
    with np.load(folder.labels / "digits.npz") as known:
        truth = known["test_y"]
    farms = np.array([f"farm {one % 6}" for one in np.argsort(np.argsort(truth, kind="stable")) // 20])
    np.savez(
        folder.labels / "digits.npz",
        test_y=truth,
        test_meta=farms[:, None],
        meta=make_facts_json(CLASSES, meta={"farm": tuple(sorted(set(farms)))}),
    )
    gain = make_hypotheses("method", "baseline", higher=False, smallest=0.1)[0]
    by_farm = gain.model_copy(update={"id": "farms", "unit": "seeds and clusters", "cluster": "farm"})
    astray = by_farm.model_copy(update={"id": "astray", "cluster": "county"})
    assert log.state.search.data_plan is not None
    log.append(
        PlanPrepared(
            datasets=log.state.search.datasets,
            data_plan=log.state.search.data_plan.model_copy(update={"hypotheses": (gain, by_farm, astray)}),
        )
    )
    found = resample_differences(log.state, folder)
    log.append(SealedTestResampled(found=found))
    over = {one.key: one for one in found}
    costs = np.mean(
        [
            _costs(folder, f"n{k:04d}", truth, "1.npz") - _costs(folder, f"n{k:04d}", truth, "0.npz")
            for k in range(2, 7)
        ],
        axis=0,
    )
    means = np.array([costs[farms == farm].mean() for farm in sorted(set(farms))])
    farmed = over["hypothesis/farms/0"]
    assert farmed.sd == pytest.approx(means.std(ddof=1) / np.sqrt(len(means))), "six farms of twenty, each left out"
    assert (farmed.clusters, farmed.worth, farmed.draws) == (6, pytest.approx(6), 0)
    assert "no column 'county'" in over["hypothesis/astray/0"].reason
    found = [one.parts[0] for one in decide_hypotheses(log.state)]
    assert [one.examples for one in found] == [True, True, False]
    assert found[2].verdict == "open" and "no column 'county'" in found[2].why, "and not decided over seeds alone"


def test_what_clusters_of_unlike_size_are_worth_is_told_and_four_decide_nothing(tmp_path: Path) -> None:
    log, folder = run_of(tmp_path, helps)
    truth = np.load(folder.labels / "digits.npz")["test_y"]
    gain = make_hypotheses("method", "baseline", higher=False, smallest=0.1)[0].model_copy(
        update={"unit": "seeds and clusters", "cluster": "farm"}
    )
    sizes = (60, 30, 20, 10)
    farms = np.repeat([f"farm {k}" for k in range(4)], sizes)
    np.savez(
        folder.labels / "digits.npz",
        test_y=truth,
        test_meta=farms[:, None],
        meta=make_facts_json(CLASSES, meta={"farm": tuple(sorted(set(farms)))}),
    )
    log.append(
        PlanPrepared(datasets=log.state.search.datasets, data_plan=PLAN.model_copy(update={"hypotheses": (gain,)}))
    )
    log.append(SealedTestResampled(found=resample_differences(log.state, folder)))
    over = log.state.search.resampled_intervals["hypothesis/gain/0"]
    assert over.worth == pytest.approx(120**2 / sum(size**2 for size in sizes)) and over.clusters == 4
    [one] = decide_hypotheses(log.state)
    assert (one.verdict, one.parts[0].why) == ("open", "4 clusters, at least 5 needed")


ESTIMANDS = (
    "worst(method, over=levels) - worst(baseline, over=levels)",
    "max(method - baseline, over=levels)",
    "min(method, over=levels) / max(baseline, over=levels)",
    "slope(method, over=levels) - slope(baseline, over=levels)",
    "tuned(method, over=levels, by=validation) - baseline@a0",
    "change(method@a1, baseline@a0)",
    "mean(drop(method, from=a0), over=[a1]) - 0.5 * (baseline@a0 - 1)",
)


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_a_cell_that_diverged_neither_ends_resampling_nor_hides_the_spread(estimand: str) -> None:
    """Whichever cell it is; the variance over examples stays that of the runs that decide."""
    plan = PLAN.model_copy(
        update={
            "factor": "x",
            "levels": (Level(name="a0", value=0.0), Level(name="a1", value=1.0)),
            "metrics": (MetricSpec(name="accuracy", higher_is_better=True, worst=0.0),),
        }
    )
    one = Hypothesis(id="h", statement="s", reason="r", effects=(Effect(estimand=estimand, smallest=0.01),))
    plan, rng = plan.model_copy(update={"hypotheses": (one,)}), np.random.default_rng(0)
    conditions = [f"{arm}@{level}" for arm in ("method", "baseline") for level in ("a0", "a1")]
    shift = {condition: 0.02 * rng.standard_normal(1000) for condition in conditions}
    for lost in (None, *conditions):
        runs: list[ReplicateValues] = []
        drawn: dict[tuple[str, ...], Any] = {}
        for seed in range(5):
            gone = {lost} if seed == 0 and lost is not None else set[str]()
            values = {
                ("digits", condition, "accuracy"): 0.8 + 0.01 * rng.standard_normal()
                for condition in conditions
                if condition not in gone
            }
            drawn |= {
                ("digits", f"n{seed}", key[1], "accuracy"): value + shift[key[1]] for key, value in values.items()
            }
            runs.append(
                ReplicateValues(
                    seed,
                    f"n{seed}",
                    values,
                    {"validation": values},
                    frozenset(CellRef("digits", *condition.split("@")) for condition in gone),
                )
            )
        over = resample_effect(
            plan, one, one.effects[0], "hypothesis/h/0", runs, drawn=drawn, samples={"digits": SampleSize(200, 200.0)}
        )
        assert over.sd is not None and over.sd > 0.001 and not over.reason, lost
        [found] = decide_from_runs(plan, runs, confirmed=True, find_resampled=lambda key, over=over: over)
        assert found.parts[0].examples and len(found.parts[0].values) == len(over.nodes)


def test_fresh_seeds_confirm_and_a_branch_after_the_test_was_scored_decides_nothing(tmp_path: Path) -> None:
    log, _ = run_of(tmp_path, helps)
    assert log.state.search.data_plan is not None
    log.append(
        PlanPrepared(
            datasets=log.state.search.datasets,
            data_plan=log.state.search.data_plan.model_copy(
                update={"hypotheses": make_hypotheses("method", "baseline", higher=False, smallest=0.1)}
            ),
        )
    )
    assert not decide_hypotheses(log.state)[0].confirmed, "nothing was locked"
    log.append(
        ConfirmationLocked(
            plan=log.state.search.plan_hash, amendments=0, winner="n0001", source="0", n=5, seeds=(2, 3, 4, 5, 6)
        )
    )
    assert decide_hypotheses(log.state)[0].confirmed
    log.append(RunBranched(parent="p", point="agenda", events=1, sha256="0", seed=1, tested=True))
    [one] = decide_hypotheses(log.state)
    assert not one.confirmed and not one.hypothesis.confirmatory


def test_each_look_reads_its_first_seeds_and_the_smallest_p_over_weight_counts(tmp_path: Path) -> None:
    log, folder = run_of(tmp_path, helps)
    assert log.state.search.data_plan is not None
    gain = make_hypotheses("method", "baseline", higher=False, smallest=0.1)[0]
    log.append(
        PlanPrepared(
            datasets=log.state.search.datasets,
            data_plan=log.state.search.data_plan.model_copy(update={"hypotheses": (gain,)}),
        )
    )
    log.append(
        ConfirmationLocked(
            plan=log.state.search.plan_hash,
            amendments=0,
            winner="n0001",
            source="0",
            n=5,
            seeds=(2, 3, 4, 5, 6),
            looks=build_look_sizes(3, 100),
        )
    )
    assert not decide_hypotheses(log.state)[0].confirmed, "no look was taken"
    resampled = {one.key: one for one in resample_differences(log.state, folder)}["hypothesis/gain/0"]
    log.append(LookTaken(look=0, seeds=(2, 3, 4), resampled=(resampled,)))
    [first] = decide_hypotheses(log.state)
    assert first.confirmed and first.look == 0 and first.parts[0].seeds == (2, 3, 4) and first.parts[0].examples
    assert first.level == SIGNIFICANCE_LEVEL and not first.parts[0].optimistic
    log.append(LookTaken(look=1, seeds=(2, 3, 4, 5, 6), ends="the claim is decided"))
    [second] = decide_hypotheses(log.state)
    assert second.look == 1 and second.n == 5 and second.parts[0].optimistic and second.verdict == "supported"
    alone = replace(
        log.state,
        search=replace(
            log.state.search, looks=[], locks=[(0, log.state.search.locks[-1][1].model_copy(update={"looks": ()}))]
        ),
    )
    assert first.p is not None and second.p is not None
    p_of_second = decide_hypotheses(alone)[0].p
    assert p_of_second is not None and second.p == pytest.approx(min(first.p, p_of_second / 0.25))


def test_one_lucky_example_that_carries_a_difference_keeps_it_from_being_called(tmp_path: Path) -> None:
    def one_example(truth: Any, rng: Any, condition: str) -> Any:
        p = np.full((len(truth), CLASSES), 1 / CLASSES)
        if condition == "baseline":
            p[0] = 1e-6 * (1 + rng.random())
            p[0, (truth[0] + 1) % CLASSES] = 1.0
        return p / p.sum(axis=1, keepdims=True)

    log, folder = run_of(tmp_path, one_example)
    assert compute_differences(log.state, compute_test_claims(log.state))[0].excludes_zero
    one, over = found_in(log, folder)["log_loss"]
    assert one.examples and not one.excludes_zero and over.high == 0.0


@pytest.mark.parametrize("grade", ["logged"])
def test_values_that_we_did_not_compute_have_a_reason_instead(tmp_path: Path, grade: str) -> None:
    log, folder = run_of(tmp_path, helps)
    for node, measured in log.state.search.test_measurements.items():
        log.state.search.test_measurements[node] = tuple(one.model_copy(update={"grade": grade}) for one in measured)
    found = resample_differences(log.state, folder)
    assert found and {(one.low, one.high, one.reason) for one in found} == {(None, None, NOT_COMPUTED_REASON)}


def test_large_test_sets_get_fewer_draws_and_then_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_draws(360, 500) == MAX_DRAWS
    assert MIN_DRAWS <= count_draws(1_000_000, 1) == MAX_DRAW_BYTES // 1_000_000 < MAX_DRAWS
    assert count_draws(100_000, 400) == MAX_PASSES // (100_000 * 400) and count_draws(10_000_000, 100) == 0
    log, folder = run_of(tmp_path, helps)
    monkeypatch.setattr(resampling, "MAX_PASSES", 10.0)
    assert {one.reason for one in resample_differences(log.state, folder)} == {
        f"{EXAMPLES} test examples are too many for {MIN_DRAWS} bootstrap draws"
    }
    gain, plan = make_hypotheses("method", "baseline", higher=False, smallest=0.1)[0], log.state.search.data_plan
    assert plan is not None
    with_gain = plan.model_copy(update={"hypotheses": (gain,)})
    log.append(PlanPrepared(datasets=log.state.search.datasets, data_plan=with_gain))
    monkeypatch.setattr(resampling, "MAX_PASSES", MIN_DRAWS * 10.0 * EXAMPLES)  # one metric of ten cells
    fits = resample_differences(log.state, folder)
    assert {one.draws for one in fits} == {MIN_DRAWS}

    def compute_more(*given: Any) -> tuple[ClaimDifference, ...]:
        found = (*compute_differences(*given),)
        return (*found, *(one.model_copy(update={"name": "accuracy"}) for one in found))

    monkeypatch.setattr(resampling, "compute_differences", compute_more)
    draws = {one.key: one.draws for one in resample_differences(log.state, folder)}
    effects = {one.key for one in fits if one.key.startswith("hypothesis/")}
    assert effects and {key: draws[key] for key in draws if draws[key]} == dict.fromkeys(effects, MIN_DRAWS)


async def test_it_is_done_once_right_after_scoring_and_not_again_when_taken_up(tmp_path: Path) -> None:
    log, folder = run_of(tmp_path, helps, score=False)
    log.append(DecisionMade(k=7, action=RunTask(task=PROBE_TASK)))
    log.append(TaskDone(k=7))  # winners are probed elsewhere
    bench = RunContext(
        recorder=log,
        folder=folder,
        search=SearchSettings(),
        paper=PaperSettings(),
        node_seconds=1.0,
        executor=FakeExecutor(lambda job: (0.0, JobOutcome(seconds=0))),
        models=Models(ScriptedModel.from_role_functions(), log, ModelSettings(), lambda: 0.0),
    )
    await score_tests(bench)
    assert len(log.state.search.test_measurements) == 5 and {
        one.draws for one in log.state.search.resampled_intervals.values()
    } == {MAX_DRAWS}
    assert compute_differences(log.state, compute_test_claims(log.state))[0].examples
    log.state.finished_decisions.discard(8)  # as after a kill between the last event and the end of the work
    found, events = log.state.search.resampled_intervals, log.state.event_count
    await score_tests(bench)
    assert log.state.search.resampled_intervals is found and log.state.event_count == events + 1
