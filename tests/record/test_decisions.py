"""Verdicts of hypotheses: intervals by hand, Holm's levels, gaps, and how often a false support comes up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from benchmarks.false_support import Case, simulate
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL
from labwright.record.claims.hypothesis_tests import (
    ReplicateValues,
    classify_interval,
    compute_holm_levels,
    compute_joint_levels,
    compute_planned_n,
    decide_from_runs,
    read_replicate_values,
)
from labwright.record.estimands import CellRef
from labwright.record.schema.data_plan import DataPlan, Measurement, ResampledInterval
from labwright.record.schema.hypotheses import (
    Effect,
    EffectDecision,
    HypothesisDecision,
    IntervalUnit,
    RivalExplanation,
)
from labwright.record.schema.nodes import Attempt, Node
from tests.record.test_estimands import hypothesis, plan

stats: Any = scipy_stats
DIFFERENCE = "adam@a0 - sgd@a0"


def runs_of(pairs: Sequence[tuple[float, float]], **more: dict[str, float]) -> list[ReplicateValues]:
    return [
        ReplicateValues(
            seed,
            f"n{seed}",
            {("fashion", "adam@a0", "accuracy"): a, ("fashion", "sgd@a0", "accuracy"): b}
            | {("fashion", condition, "accuracy"): value for condition, value in more.get(f"s{seed}", {}).items()},
        )
        for seed, (a, b) in enumerate(pairs)
    ]


def only(found: tuple[HypothesisDecision, ...]) -> HypothesisDecision:
    assert len(found) == 1
    return found[0]


def test_interval_and_p_are_those_of_a_t_test_on_paired_values() -> None:
    pairs = [(0.86, 0.80), (0.90, 0.82), (0.88, 0.83), (0.87, 0.80), (0.91, 0.84)]
    found = only(decide_from_runs(plan(hypothesis(DIFFERENCE)), runs_of(pairs), confirmed=True))
    values = np.array([a - b for a, b in pairs])
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    [part] = found.parts
    assert (part.low, part.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(2 * stats.ttest_1samp(values, 0.03, alternative="greater").pvalue)
    assert found.verdict == "supported"
    assert found.confirmed


def test_the_spread_over_examples_is_added_to_that_over_seeds() -> None:
    pairs = [(0.86, 0.80), (0.90, 0.82), (0.88, 0.83), (0.87, 0.80), (0.91, 0.84)]
    asked = plan(hypothesis(DIFFERENCE))

    def over(worth: float) -> ResampledInterval:
        return ResampledInterval(key="", nodes=(), sd=0.02, worth=worth)

    found = only(decide_from_runs(asked, runs_of(pairs), confirmed=True, find_resampled=lambda key: over(200)))
    wide, over_seeds = found.parts[0], np.var([a - b for a, b in pairs], ddof=1) / 5
    half = np.sqrt(stats.t.ppf(0.975, 4) ** 2 * over_seeds + stats.t.ppf(0.975, 199) ** 2 * 0.02**2)
    assert wide.high is not None and wide.low is not None and wide.examples
    assert (wide.high - wide.low) / 2 == pytest.approx(half)
    assert found.p is not None and wide.mean is not None
    at = only(
        decide_from_runs(
            asked, runs_of(pairs), confirmed=True, find_resampled=lambda key: over(200), levels={"excess-drop": found.p}
        )
    )
    assert at.parts[0].low == pytest.approx(0.03), "p is the level at which the interval ends at the smallest effect"
    alone = only(
        decide_from_runs(
            plan(hypothesis(DIFFERENCE, unit="seeds")),
            runs_of(pairs),
            confirmed=True,
            find_resampled=lambda key: over(200),
        )
    ).parts[0]
    assert alone.low is not None and alone.low > wide.low, "with seeds as the unit examples add nothing"
    before = only(decide_from_runs(asked, runs_of(pairs), confirmed=True, find_resampled=lambda key: over(0))).parts[0]
    freedom = 4 * ((over_seeds + 0.02**2) / over_seeds) ** 2
    assert before.high is not None and before.low is not None, "a record from before has the interval of its paper"
    assert (before.high - before.low) / 2 == pytest.approx(stats.t.ppf(0.975, freedom) * np.sqrt(over_seeds + 0.02**2))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.031, 0.05, "supported"),
        (0.001, 0.029, "smaller"),
        (-0.02, 0.02, "negligible"),
        (-0.02, -0.01, "negligible"),
        (-0.08, -0.04, "opposite"),
        (0.01, 0.05, "undecided"),
        (-0.04, 0.02, "undecided"),
        (-0.04, 0.05, "undecided"),
    ],
)
def test_the_first_verdict_that_the_interval_supports(low: float, high: float, verdict: str) -> None:
    assert classify_interval(low, high, 0.03) == verdict


def test_both_parts_are_needed() -> None:
    pairs = [(0.90, 0.80), (0.91, 0.80), (0.90, 0.81), (0.92, 0.81), (0.91, 0.82)]
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.03), Effect(estimand="sgd@a0 - adam@a0", smallest=0.03))
    )
    found = only(decide_from_runs(plan(both), runs_of(pairs), confirmed=True))
    assert [part.verdict for part in found.parts] == ["supported", "opposite"]
    assert found.verdict == "opposite"


def test_a_part_that_was_not_measured_leaves_the_whole_open_though_another_is_refuted() -> None:
    pairs = [(0.80, 0.90), (0.81, 0.90), (0.80, 0.91)]
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.03), Effect(estimand="adam-rotated@a0 - sgd@a0", smallest=0.03))
    )
    found = only(decide_from_runs(plan(both), runs_of(pairs), confirmed=True))
    assert [part.verdict for part in found.parts] == ["opposite", "undecided"] and found.verdict == "undecided"


def test_a_cell_that_no_seed_measured_leaves_it_undecided_and_is_named() -> None:
    runs = [
        run._replace(values={key: value for key, value in run.values.items() if "adam" in key[1]})
        for run in runs_of(CLEAR)
    ]
    gap = only(decide_from_runs(plan(hypothesis(DIFFERENCE)), runs, confirmed=True))
    assert gap.verdict == "undecided" and len(gap.parts[0].left_out) == 5
    assert gap.parts[0].why == "sgd@a0 on fashion with seed 0 was not measured"


def test_what_would_decide_is_told_and_decides() -> None:
    rng = np.random.default_rng(3)
    pairs = [(0.80 + 0.05 + e, 0.80) for e in rng.normal(0, 0.04, 5)]
    part = only(decide_from_runs(plan(hypothesis(DIFFERENCE)), runs_of(pairs), confirmed=True)).parts[0]
    assert part.verdict == "undecided"
    assert part.decides is not None and part.sd is not None and part.mean is not None
    half = stats.t.ppf(0.975, part.decides - 1) * part.sd / np.sqrt(part.decides)
    assert classify_interval(part.mean - half, part.mean + half, 0.03) != "undecided"


def test_holm_runs_over_the_confirmatory_ones_alone() -> None:
    assert compute_holm_levels([0.001, 0.04, 0.02]) == pytest.approx(
        [SIGNIFICANCE_LEVEL / 3, SIGNIFICANCE_LEVEL, SIGNIFICANCE_LEVEL / 2]
    )
    assert compute_holm_levels([0.001, 0.04, 0.03]) == pytest.approx(
        [SIGNIFICANCE_LEVEL / 3, SIGNIFICANCE_LEVEL / 2, SIGNIFICANCE_LEVEL / 2]
    ), "the first that fails"
    assert compute_holm_levels([None, 0.001]) == pytest.approx([SIGNIFICANCE_LEVEL, SIGNIFICANCE_LEVEL / 2]), (
        "what has no p comes last"
    )
    three = [hypothesis(DIFFERENCE, id=f"h{k}", confirmatory=k < 2) for k in range(3)]
    found = decide_from_runs(plan(*three), runs_of([(0.9, 0.8), (0.91, 0.8), (0.9, 0.82)]), confirmed=True)
    assert [one.family for one in found] == [2, 2, 1]
    assert [one.confirmed for one in found] == [True, True, False]


def test_alternatives_tell_in_how_many_it_holds() -> None:
    asked = hypothesis(
        DIFFERENCE,
        alternatives=(Effect(estimand=DIFFERENCE, smallest=0.01), Effect(estimand="sgd@a0 - adam@a0", smallest=0.01)),
    )
    found = only(
        decide_from_runs(plan(asked), runs_of([(0.9, 0.8), (0.91, 0.8), (0.9, 0.82), (0.9, 0.8)]), confirmed=True)
    )
    assert found.holds == 1


@pytest.mark.parametrize("effect", [0.0, 0.06])
def test_n_from_a_pilot_decides_four_of_five(effect: float) -> None:
    rng, asked, right, alarms = np.random.default_rng(7), plan(hypothesis(DIFFERENCE)), 0, 0
    for _ in range(300):
        pilot = rng.normal(effect, 0.03, 5)
        n = compute_planned_n(float(np.std(pilot, ddof=1)), 5, 0.03, SIGNIFICANCE_LEVEL)
        verdict = only(decide_from_runs(asked, _study(rng, effect, n), confirmed=True)).verdict
        right += verdict == ("supported" if effect else "negligible") or (not effect and verdict == "smaller")
        alarms += verdict == "supported"
    assert right >= 240
    assert effect or alarms <= 19


def _study(rng: np.random.Generator, effect: float, n: int) -> list[ReplicateValues]:
    return runs_of([(0.8 + effect + e, 0.8) for e in rng.normal(0, 0.03, n)])


def test_a_plan_without_hypotheses_decides_nothing() -> None:
    empty: DataPlan = plan()
    assert decide_from_runs(empty, [], confirmed=False) == ()
    nothing = only(decide_from_runs(plan(hypothesis(DIFFERENCE)), [], confirmed=False))
    assert (nothing.verdict, nothing.parts[0].why) == ("undecided", "nothing was measured")


def test_verdicts_of_several_studies_are_corrected_for_one_another() -> None:
    """A support that just holds within its study does not over ten; a preview takes no part."""
    asked = plan(hypothesis(DIFFERENCE))
    clear = runs_of([(0.90, 0.80), (0.91, 0.80), (0.90, 0.81), (0.92, 0.81), (0.91, 0.82)])
    close = runs_of([(0.88, 0.83), (0.86, 0.80), (0.90, 0.82), (0.87, 0.83), (0.89, 0.83)])
    alone = {
        f"open{number}": decide_from_runs(asked, runs_of([(0.8, 0.8), (0.9, 0.8), (0.7, 0.8)]), confirmed=True)
        for number in range(8)
    } | {
        "clear": decide_from_runs(asked, clear, confirmed=True),
        "close": decide_from_runs(asked, close, confirmed=True),
        "preview": decide_from_runs(asked, close, confirmed=False),
    }
    assert only(alone["close"]).verdict == only(alone["clear"]).verdict == "supported"
    levels = compute_joint_levels(alone)
    assert "preview" not in levels and sorted({level for one in levels.values() for level in one.values()}) == (
        pytest.approx([SIGNIFICANCE_LEVEL / 10, SIGNIFICANCE_LEVEL / 9])
    )
    again = {
        name: only(decide_from_runs(asked, runs, confirmed=True, levels=levels[name])).verdict
        for name, runs in (("clear", clear), ("close", close))
    }
    assert again == {"clear": "supported", "close": "undecided"}


# --- clusters, divergence, seeds that were lost ----------------------------------------------------------------------


CLEAR = [(0.86, 0.80), (0.90, 0.82), (0.88, 0.83), (0.87, 0.80), (0.91, 0.84)]


def without(run: ReplicateValues, arm: str, *, diverged: bool = True) -> ReplicateValues:
    """A run in which an arm has no value at its level."""
    return run._replace(
        values={key: value for key, value in run.values.items() if key[1] != f"{arm}@a0"},
        diverged=frozenset({CellRef("fashion", arm, "a0")}) if diverged else frozenset(),
        failure="" if diverged else "not run: the time is up",
    )


def test_clusters_add_their_spread_with_their_own_freedom_and_few_decide_nothing() -> None:
    asked = plan(hypothesis(DIFFERENCE, unit="seeds and clusters", cluster="hospital"))

    def over(clusters: int, worth: float) -> EffectDecision:
        return only(
            decide_from_runs(
                asked,
                runs_of(CLEAR),
                confirmed=True,
                find_resampled=lambda key: ResampledInterval(
                    key=key, nodes=(), sd=0.005, clusters=clusters, worth=worth
                ),
            )
        ).parts[0]

    values = np.array([a - b for a, b in CLEAR])
    half = np.sqrt(stats.t.ppf(0.975, 4) ** 2 * values.var(ddof=1) / 5 + stats.t.ppf(0.975, 2.5) ** 2 * 0.005**2)
    many = over(5, 3.5)
    assert many.low == pytest.approx(values.mean() - half) and many.high == pytest.approx(values.mean() + half)
    few = over(4, 4.0)
    assert (few.verdict, few.low, few.why) == ("undecided", None, "4 clusters, at least 5 needed")
    lost = only(
        decide_from_runs(
            asked,
            runs_of(CLEAR),
            confirmed=True,
            find_resampled=lambda key: ResampledInterval(key=key, nodes=(), reason="there is no such column"),
        )
    )
    assert lost.verdict == "undecided" and "the spread over clusters is unknown: there is no such" in lost.parts[0].why


@pytest.mark.parametrize(
    ("unit", "clusters", "unequal"),
    [
        ("seeds", 0, False),
        ("seeds and examples", 0, False),
        ("seeds and clusters", 5, False),
        ("seeds and clusters", 5, True),
        ("datasets", 0, False),
    ],
)
def test_at_the_boundary_hardly_anything_is_supported(unit: IntervalUnit, clusters: int, unequal: bool) -> None:
    """`benchmarks.false_support` at small size; it decides some of them one by one, and fails where these differ."""
    for form in ("difference", "difference of worsts"):
        case = Case(form, unit, 3, clusters, unequal, datasets=5 if unit == "datasets" else 1)
        assert simulate((case, 500, 0.001))["holds"]


@pytest.mark.parametrize("arm", ["adam", "sgd"])
def test_a_seed_that_diverged_is_left_out_and_the_rate_of_each_arm_told(arm: str) -> None:
    runs = runs_of([*CLEAR, (0.9, 0.8)])
    found = only(
        decide_from_runs(plan(hypothesis(DIFFERENCE)), [*runs[:5], without(runs[5], arm)], confirmed=True)
    ).parts[0]
    alone = only(decide_from_runs(plan(hypothesis(DIFFERENCE)), runs[:5], confirmed=True)).parts[0]
    assert (found.low, found.high, found.verdict) == (alone.low, alone.high, "supported")
    assert found.diverged == {"sgd": int(arm == "sgd"), "adam": int(arm == "adam")} and found.ran == 6
    assert alone.diverged == {"sgd": 0, "adam": 0} and not found.left_out
    every = only(
        decide_from_runs(plan(hypothesis(DIFFERENCE)), [without(run, arm) for run in runs], confirmed=True)
    ).parts[0]
    assert (every.verdict, every.why) == ("undecided", "training diverged with every seed")


def test_a_study_of_one_level_with_a_replicate_that_failed_is_decided_from_the_others() -> None:
    """The other arm was not measured in that replicate, either."""
    runs = runs_of([*CLEAR, (0.9, 0.8)])
    part = only(
        decide_from_runs(
            plan(hypothesis(DIFFERENCE)), [*runs[:5], without(runs[5], "adam")._replace(values={})], confirmed=True
        )
    ).parts[0]
    assert part.verdict == "supported" and part.diverged["adam"] == 1 and not part.left_out


def test_worst_values_support_only_what_holds_at_the_upper_bound_of_every_rate() -> None:
    asked = plan(hypothesis(DIFFERENCE, diverged="worst value"))
    rng = np.random.default_rng(2)
    few, many = ([(0.9 + e, 0.8) for e in rng.normal(0, 0.01, n)] for n in (20, 60))
    naive = only(decide_from_runs(plan(hypothesis(DIFFERENCE)), runs_of(few), confirmed=True)).parts[0]
    found = only(decide_from_runs(asked, runs_of(few), confirmed=True)).parts[0]
    assert naive.verdict == "supported" and found.verdict == "undecided" and found.decides is None
    assert found.why == "20 seeds leave it open whether training diverges with up to 17% of them"
    rate = 1 - 0.025 ** (1 / 20)
    assert rate == pytest.approx(stats.beta.ppf(0.975, 1, 20))
    values = np.array([(1 - rate) * (a - b) + rate * (0 - b) for a, b in few])
    assert found.low == pytest.approx(stats.t.interval(0.95, 19, values.mean(), stats.sem(values))[0])
    wide = only(
        decide_from_runs(
            plan(hypothesis(DIFFERENCE, diverged="worst value", smallest=0.001)), runs_of(many), confirmed=True
        )
    )
    assert wide.verdict == "supported", "sixty seeds show that it is rare enough"
    lost = [*runs_of(many)[:-3], *(without(run, "adam") for run in runs_of(many)[-3:])]
    told = only(decide_from_runs(asked, lost, confirmed=True)).parts[0]
    assert told.diverged["adam"] == 3 and len(told.values) == 60 and told.values[-1] == pytest.approx(-0.8)
    ratio = plan(hypothesis("adam@a0 / sgd@a0", diverged="worst value"))
    assert (
        "has no value where training diverges"
        in only(decide_from_runs(ratio, runs_of(few), confirmed=True)).parts[0].why
    )


def test_a_choice_among_levels_of_which_one_diverged_takes_another() -> None:
    chosen = "tuned(adam, over=[a0, a0.1], by=validation) - sgd@a0"
    runs = runs_of(CLEAR, **{f"s{seed}": {"adam@a0.1": 0.7} for seed in range(5)})
    runs = [run._replace(values_by_split={"validation": dict(run.values)}) for run in runs]
    gone = without(runs[0], "adam")
    gone = gone._replace(values_by_split={"validation": dict(gone.values)})
    part = only(decide_from_runs(plan(hypothesis(chosen)), [gone, *runs[1:]], confirmed=True)).parts[0]
    assert part.values[0] == pytest.approx(0.7 - 0.8) and part.values[1] == pytest.approx(0.08)
    assert part.diverged == {"sgd": 0, "adam": 0}, "it read no cell that diverged"


def test_dev_values_are_what_the_code_said() -> None:
    said = Measurement(
        name="accuracy", value=0.8, condition="adam@a0", dataset="fashion", split="dev", seed=0, grade="logged"
    )
    node = Node(
        id="n1",
        decision=1,
        parent="n0",
        stage="agenda",
        kind="replicate",
        seed=0,
        status="good",
        attempts=(Attempt(number=1, seconds=1, self_reported=(said,)),),
    )
    assert read_replicate_values(node).values_by_split["dev"] == {("fashion", "adam@a0", "accuracy"): 0.8}


def test_what_was_not_measured_is_said_and_the_rest_decides() -> None:
    runs = runs_of([*CLEAR, (0.9, 0.8)])
    part = only(
        decide_from_runs(
            plan(hypothesis(DIFFERENCE)), [*runs[:5], without(runs[5], "adam", diverged=False)], confirmed=True
        )
    ).parts[0]
    assert part.verdict == "supported" and part.seeds == (0, 1, 2, 3, 4) and part.ran == 5
    assert part.left_out == ("adam@a0 on fashion with seed 5 was not measured (not run: the time is up)",)


def test_while_a_part_is_open_no_word_stands_for_all_of_them() -> None:
    """As a study had it: one effect undecided, the other negligible."""
    pairs = [(0.80 + 0.03 + e, 0.80) for e in (0.004, -0.006, 0.0, 0.006, -0.004)]
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.03), Effect(estimand=f"{DIFFERENCE} - 0.03", smallest=0.01))
    )
    found = only(decide_from_runs(plan(both), runs_of(pairs), confirmed=True))
    assert [part.verdict for part in found.parts] == ["undecided", "negligible"] and found.verdict == "undecided"


@pytest.mark.parametrize(
    ("values", "sign"),
    [
        ((0.013, 0.015, 0.014, 0.012, 0.016), "above zero"),
        ((-0.013, -0.015, -0.014, -0.012, -0.016), "below zero"),
        ((0.013, -0.015, 0.014, -0.012, 0.001), "near zero"),
        ((0.3, -0.3, 0.2, -0.1, 0.0), None),
    ],
)
def test_a_rival_is_near_zero_only_where_zero_is_in_its_interval(values: Sequence[float], sign: str | None) -> None:
    rival = RivalExplanation(statement="it regularises", estimand=DIFFERENCE, ours="above zero", theirs="near zero")
    found = only(
        decide_from_runs(
            plan(hypothesis(DIFFERENCE, rival=rival)), runs_of([(0.8 + e, 0.8) for e in values]), confirmed=True
        )
    )
    assert found.rival_sign == sign
