"""Verdicts of hypotheses: intervals by hand, Holm's levels, gaps, and how often a false support comes up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats as scipy_stats

from benchmarks.decisions import Case, RuleCase, simulate, simulate_rule
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL
from labwright.record.claims.floor import ConstantScores, find_floored
from labwright.record.claims.hypothesis_tests import (
    ReplicateValues,
    classify_claim,
    classify_direction,
    compute_holm_levels,
    compute_joint_levels,
    decide_from_runs,
    list_chains,
    list_undecided,
)
from labwright.record.claims.planned_seeds import compute_planned_seeds, predict_seeds
from labwright.record.estimands import CellRef, is_contrast
from labwright.record.schema.data_plan import DataPlan, ResampledInterval
from labwright.record.schema.hypotheses import (
    ClaimForm,
    Effect,
    EffectDecision,
    HypothesisDecision,
    IntervalUnit,
    RivalExplanation,
)
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


def decide(
    asked: DataPlan,
    runs: Sequence[ReplicateValues],
    *,
    find_resampled: Callable[[str], ResampledInterval | None] = lambda key: None,
    levels: Mapping[str, float] | None = None,
) -> HypothesisDecision:
    return only(decide_from_runs(asked, runs, confirmed=True, find_resampled=find_resampled, levels=levels or {}))


def test_interval_and_p_are_those_of_a_t_test_on_paired_values() -> None:
    pairs = [(0.86, 0.80), (0.90, 0.82), (0.88, 0.83), (0.87, 0.80), (0.91, 0.84)]
    found = decide(plan(hypothesis(DIFFERENCE)), runs_of(pairs))
    values = np.array([a - b for a, b in pairs])
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    [part] = found.parts
    assert (part.low, part.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(2 * stats.ttest_1samp(values, 0.03, alternative="greater").pvalue)
    assert found.verdict == "supported"
    assert found.confirmed


def test_p_is_the_level_at_which_the_interval_ends_at_the_bound() -> None:
    over = ResampledInterval(key="", nodes=(), sd=0.02, shared=(0.02**2,), worth=200)
    asked = plan(hypothesis(DIFFERENCE))
    found = decide(asked, runs_of(CLEAR), find_resampled=lambda key: over)
    assert found.p is not None and found.parts[0].examples
    at = decide(asked, runs_of(CLEAR), find_resampled=lambda key: over, levels={"excess-drop": found.p})
    assert at.parts[0].low == pytest.approx(0.03)
    alone = decide(plan(hypothesis(DIFFERENCE, unit="seeds")), runs_of(CLEAR), find_resampled=lambda key: over).parts[0]
    assert found.parts[0].low is not None and alone.low is not None
    assert alone.low > found.parts[0].low, "with seeds as the unit examples add nothing"


@pytest.mark.parametrize(
    ("low", "high", "direction", "verdict"),
    [
        (0.031, 0.05, "positive", "supported"),
        (0.001, 0.029, "positive", "refuted"),
        (-0.02, 0.02, "equivalent", "refuted"),
        (-0.08, -0.04, "negative", "refuted"),
        (-0.04, 0.05, "open", "open"),
    ],
)
def test_direction_and_claim_of_at_least_the_smallest_effect(
    low: float, high: float, direction: str, verdict: str
) -> None:
    effect = Effect(estimand=DIFFERENCE, smallest=0.03)
    assert (classify_direction(low, high, effect), classify_claim(low, high, effect)) == (direction, verdict)


@pytest.mark.parametrize(
    ("claim", "bound", "low", "high", "verdict"),
    [
        ("positive", None, 0.001, 0.2, "supported"),
        ("positive", None, -0.001, 0.2, "open"),
        ("at least", 0.5, 0.1, 0.49, "refuted"),
        ("at most", 0.5, 0.1, 0.49, "supported"),
        ("at most", 0.5, 0.4, 0.6, "open"),
        ("within", None, -0.02, 0.029, "supported"),
        ("within", None, 0.031, 0.05, "refuted"),
        ("within", None, 0.01, 0.05, "open"),
    ],
)
def test_every_form_of_claim(claim: ClaimForm, bound: float | None, low: float, high: float, verdict: str) -> None:
    effect = Effect(estimand=DIFFERENCE, smallest=0.03, claim=claim, bound=bound)
    assert classify_claim(low, high, effect) == verdict


@pytest.mark.parametrize(
    ("estimand", "contrast"),
    [
        (DIFFERENCE, True),
        ("change(adam@a0, sgd@a0)", True),
        ("mean(drop(adam, from=a0), over=[a0.1])", True),
        ("adam@a0", False),
        ("adam@a0 / sgd@a0", False),
        ("0.5 * (adam@a0 - sgd@a0) - (adam@a0.1 - sgd@a0.1)", False),
    ],
)
def test_only_where_zero_means_no_effect_is_it_called_equivalent(estimand: str, contrast: bool) -> None:
    assert is_contrast(estimand) == contrast
    effect = Effect(estimand=estimand, smallest=0.03)
    assert classify_direction(-0.01, 0.01, effect) == ("equivalent" if contrast else "open")


def test_one_refuted_part_refutes_the_whole_though_another_was_not_measured() -> None:
    pairs = [(0.80, 0.90), (0.81, 0.90), (0.80, 0.91)]
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.03), Effect(estimand="adam-rotated@a0 - sgd@a0", smallest=0.03))
    )
    found = decide(plan(both), runs_of(pairs))
    assert [part.verdict for part in found.parts] == ["refuted", "open"] and found.verdict == "refuted"
    assert found.p is None


def test_a_cell_that_no_seed_measured_leaves_it_undecided_and_is_named() -> None:
    runs = [
        run._replace(values={key: value for key, value in run.values.items() if "adam" in key[1]})
        for run in runs_of(CLEAR)
    ]
    gap = decide(plan(hypothesis(DIFFERENCE)), runs)
    assert gap.verdict == "open" and len(gap.parts[0].left_out) == 5
    assert gap.parts[0].why == "sgd@a0 on fashion with seed 0 was not measured by the node that decides"


def test_an_open_claim_tells_the_seeds_for_a_third_of_the_smallest_effect() -> None:
    rng = np.random.default_rng(3)
    pairs = [(0.80 + 0.05 + e, 0.80) for e in rng.normal(0, 0.04, 5)]
    found = decide_from_runs(plan(hypothesis(DIFFERENCE)), runs_of(pairs), confirmed=True)
    part = only(found).parts[0]
    assert part.verdict == "open" and list_undecided(found)
    assert part.needed is not None and part.sd is not None

    def half_width(n: int) -> float:
        return float(stats.t.ppf(0.975, n - 1) * part.sd / np.sqrt(n))

    assert half_width(part.needed) <= 0.01 < half_width(part.needed - 1)
    many = decide_from_runs(
        plan(hypothesis(DIFFERENCE)), runs_of([(0.83 + e, 0.80) for e in rng.normal(0, 0.04, 90)]), confirmed=True
    )
    assert only(many).parts[0].is_precise and not list_undecided(many), "whatever the verdict"


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
    found = decide(plan(asked), runs_of([(0.9, 0.8), (0.91, 0.8), (0.9, 0.82), (0.9, 0.8)]))
    assert found.holds == 1


@pytest.mark.parametrize(("claim", "effect"), [("at least", 0.06), ("positive", 0.06), ("within", 0.0)])
@pytest.mark.slow
def test_the_planned_seeds_support_four_of_five_claims(claim: ClaimForm, effect: float) -> None:
    rng, right, equal = np.random.default_rng(7), 0, 0
    registered = Effect(estimand=DIFFERENCE, smallest=0.03, claim=claim)
    planned, asked = compute_planned_seeds(registered, 0.03), plan(hypothesis(effects=(registered,)))
    assert planned.n is not None
    for _ in range(400):
        found = decide(asked, _study(rng, effect, planned.n))
        zero = decide(asked, _study(rng, 0.0, planned.n))
        right += found.verdict == "supported"
        equal += zero.parts[0].direction == "equivalent"
    assert right / 400 == pytest.approx(planned.power, abs=0.06) and planned.power >= 0.8
    assert equal / 400 == pytest.approx(planned.equivalent, abs=0.07)


def test_more_seeds_do_not_help_where_the_test_examples_leave_too_wide_an_interval() -> None:
    effect = Effect(estimand=DIFFERENCE, smallest=0.03)
    planned = compute_planned_seeds(effect, 0.03, examples=0.03**2)
    assert planned.n is None and planned.floor == pytest.approx(1.96 * 0.03, rel=1e-3)
    at_bound = effect.model_copy(update={"design": 0.03})
    assert predict_seeds(at_bound, 500, 0.03).power == pytest.approx(0.025, abs=0.002), "whatever the number of seeds"


def _study(rng: np.random.Generator, effect: float, n: int) -> list[ReplicateValues]:
    return runs_of([(0.8 + effect + e, 0.8) for e in rng.normal(0, 0.03, n)])


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
        name: decide(asked, runs, levels=levels[name]).verdict for name, runs in (("clear", clear), ("close", close))
    }
    assert again == {"clear": "supported", "close": "open"}


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
        return decide(
            asked,
            runs_of(CLEAR),
            find_resampled=lambda key: ResampledInterval(
                key=key, nodes=(), sd=0.005, shared=(0.005**2,), clusters=clusters, worth=worth
            ),
        ).parts[0]

    values = np.array([a - b for a, b in CLEAR])
    half = np.sqrt(stats.t.ppf(0.975, 4) ** 2 * values.var(ddof=1) / 5 + stats.t.ppf(0.975, 2.5) ** 2 * 0.005**2)
    many = over(5, 3.5)
    assert many.low == pytest.approx(values.mean() - half) and many.high == pytest.approx(values.mean() + half)
    few = over(4, 4.0)
    assert (few.verdict, few.low, few.why) == ("open", None, "4 clusters, at least 5 needed")
    lost = decide(
        asked,
        runs_of(CLEAR),
        find_resampled=lambda key: ResampledInterval(key=key, nodes=(), reason="there is no such column"),
    )
    assert lost.verdict == "open" and "the spread over clusters is unknown: there is no such" in lost.parts[0].why


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
@pytest.mark.slow
def test_at_the_boundary_hardly_anything_is_supported(unit: IntervalUnit, clusters: int, unequal: bool) -> None:
    """`benchmarks.decisions` at small size; it decides some of them one by one, and fails where these differ."""
    for form in ("difference", "difference of worsts"):
        case = Case(form, unit, 3, clusters, unequal, datasets=5 if unit == "datasets" else 1)
        assert simulate((case, 500, 0.001))["holds"]


def test_rules_over_looks_families_and_chains_support_hardly_any_false_claim() -> None:
    """`benchmarks.decisions` at small size, decided one by one as well."""
    single = RuleCase("one effect", (0.0,), ((0,),), (-1,), 5, looks=4)
    three = replace(single, shifts=(1.0, 0.0, 0.0), groups=((0,), (1, 2), (2,)), after=(-1, 0, -1), correlation=0.5)
    for case in (single, three, replace(single, ratio=True, looks=1)):
        assert simulate_rule((case, 1000, 0.001))["holds"]


@pytest.mark.parametrize("arm", ["adam", "sgd"])
def test_a_seed_that_diverged_is_left_out_and_the_rate_of_each_arm_told(arm: str) -> None:
    runs = runs_of([*CLEAR, (0.9, 0.8)])
    found = decide(plan(hypothesis(DIFFERENCE)), [*runs[:5], without(runs[5], arm)]).parts[0]
    alone = decide(plan(hypothesis(DIFFERENCE)), runs[:5]).parts[0]
    assert (found.low, found.high, found.verdict) == (alone.low, alone.high, "supported")
    assert found.diverged == {"sgd": int(arm == "sgd"), "adam": int(arm == "adam")} and found.ran == 6
    assert alone.diverged == {"sgd": 0, "adam": 0} and not found.left_out
    every = decide(plan(hypothesis(DIFFERENCE)), [without(run, arm) for run in runs]).parts[0]
    assert (every.verdict, every.why) == ("open", "training diverged with every seed")


def test_a_choice_among_levels_of_which_one_diverged_takes_another() -> None:
    chosen = "tuned(adam, over=[a0, a0.1], by=validation) - sgd@a0"
    runs = runs_of(CLEAR, **{f"s{seed}": {"adam@a0.1": 0.7} for seed in range(5)})
    runs = [run._replace(values_by_split={"validation": dict(run.values)}) for run in runs]
    gone = without(runs[0], "adam")
    gone = gone._replace(values_by_split={"validation": dict(gone.values)})
    part = decide(plan(hypothesis(chosen)), [gone, *runs[1:]]).parts[0]
    assert part.values[0] == pytest.approx(0.7 - 0.8) and part.values[1] == pytest.approx(0.08)
    assert part.diverged == {"sgd": 0, "adam": 0}, "it read no cell that diverged"


# --- ratios, crossed intervals, chains --------------------------------------------------------------------------------


def test_a_quotient_is_the_ratio_of_means_with_the_interval_of_fieller() -> None:
    pairs = [(0.41, 0.82), (0.35, 0.80), (0.45, 0.84), (0.38, 0.81), (0.42, 0.79), (0.36, 0.83)]
    asked = hypothesis(effects=(Effect(estimand="adam@a0 / sgd@a0", smallest=0.1, claim="at most", bound=0.6),))
    found = decide(plan(asked), runs_of(pairs))
    [part] = found.parts
    a, b = np.array(pairs).T
    variances: Any = cast("Any", np).cov(a, b) / len(a)
    t = float(stats.t.ppf(0.975, 5)) ** 2
    coefficients: list[float] = [
        b.mean() ** 2 - t * variances[1, 1],
        -2 * (a.mean() * b.mean() - t * variances[0, 1]),
        a.mean() ** 2 - t * variances[0, 0],
    ]
    roots: Any = np.roots(coefficients)
    assert part.mean == pytest.approx(a.mean() / b.mean())
    assert (part.low, part.high) == pytest.approx((min(roots), max(roots)))
    assert found.p == pytest.approx(2 * stats.ttest_1samp(a - 0.6 * b, 0, alternative="less").pvalue)
    assert found.verdict == "supported" and part.direction == "positive"


def test_a_quotient_whose_divisor_may_be_zero_is_open() -> None:
    pairs = [(0.41, 0.1), (0.35, -0.12), (0.45, 0.14), (0.38, -0.11)]
    found = decide(plan(hypothesis("adam@a0 / sgd@a0")), runs_of(pairs))
    assert found.verdict == "open" and found.parts[0].why == "the divisor is not clearly different from zero"


def test_the_change_of_a_negative_score_has_the_sign_of_the_difference() -> None:
    pairs = [(-0.4, -0.8), (-0.41, -0.82), (-0.38, -0.79)]
    part = decide(plan(hypothesis("change(adam@a0, sgd@a0)")), runs_of(pairs)).parts[0]
    assert part.mean is not None and part.mean == pytest.approx(0.506, abs=0.01) and part.verdict == "supported"


def test_what_all_seeds_share_of_the_examples_is_added_and_left_as_the_floor() -> None:
    over = ResampledInterval(key="", nodes=(), sd=0.02, shared=(0.0001,), worth=500)
    [part] = decide(plan(hypothesis(DIFFERENCE)), runs_of(CLEAR), find_resampled=lambda key: over).parts
    values = np.array([a - b for a, b in CLEAR])
    own, q = values.var(ddof=1) / 5, stats.t.ppf(0.975, 499)
    banerjee = np.sqrt(stats.t.ppf(0.975, 4) ** 2 * own + q**2 * 0.0001)
    assert part.half_width is not None and q * np.sqrt(own + 0.0001) < part.half_width < banerjee
    assert part.floor == pytest.approx(q * 0.01)


def test_what_presupposes_another_is_tested_after_it_at_the_same_level() -> None:
    head, tail = hypothesis(DIFFERENCE, id="gain"), hypothesis(DIFFERENCE, id="why", presupposes="gain")
    other = hypothesis("sgd@a0 - adam@a0", id="other")
    assert [[one.id for one in chain] for chain in list_chains([tail, other, head])] == [["gain", "why"], ["other"]]
    found = {
        one.hypothesis.id: one for one in decide_from_runs(plan(tail, other, head), runs_of(CLEAR), confirmed=True)
    }
    assert found["gain"].verdict == found["why"].verdict == "supported" and found["other"].verdict == "refuted"
    assert found["gain"].level == found["why"].level == SIGNIFICANCE_LEVEL / 2 and found["gain"].family == 2
    lost = decide_from_runs(
        plan(other, hypothesis(DIFFERENCE, id="late", presupposes="other")), runs_of(CLEAR), confirmed=True
    )
    assert [one.verdict for one in lost] == ["refuted", "open"] and lost[1].after == "other"
    assert not list_undecided(lost)
    assert lost[1].parts[0].why == "tested only after other is supported"


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
    found = decide(plan(hypothesis(DIFFERENCE, rival=rival)), runs_of([(0.8 + e, 0.8) for e in values]))
    assert found.rival_sign == sign


@pytest.mark.parametrize(
    ("values", "examples", "constant", "floored"),
    [
        ((0.34, 0.33), 1000, 0.336, True),
        ((0.36, 0.33), 1000, 0.336, True),
        ((0.36, 0.33), 100_000, 0.336, False),
        ((0.9, 0.33), 1000, 0.336, False),
        ((0.34, 0.33), 1000, None, False),
        ((0.34, 0.33), 1000, 1.0 - 1e-16, False),
    ],
)
def test_a_claim_about_arms_that_a_constant_prediction_equals_stays_open(
    values: tuple[float, float], examples: int, constant: float | None, floored: bool
) -> None:
    """0.36 of 1,000 examples may be chance, of 100,000 it is none; a metric that a constant makes perfect has no
    floor."""
    known = {"accuracy": {"fashion": constant}} if constant is not None else {}
    seeds = ((0.03, 0.0001), (-0.03, 0.0002), (0.02, -0.0001), (-0.02, -0.0002), (0.0, 0.0), (0.01, 0.0001))
    pairs = [(values[0] + e + own, values[1] + e) for e, own in seeds]
    runs = [one._replace(values_by_split={"validation": one.values}) for one in runs_of(pairs)]
    rival = RivalExplanation(statement="none", estimand=DIFFERENCE, ours="above zero", theirs="near zero")
    asked = plan(hypothesis(DIFFERENCE, smallest=0.05, rival=rival))
    [found] = decide_from_runs(asked, runs, confirmed=True, scores=ConstantScores(known, {"fashion": examples}))
    one_seed = find_floored(asked, ConstantScores(known, {"fashion": examples}), [runs[4].values])
    assert bool(one_seed) is floored
    assert (found.verdict == "open") is floored and (found.rival_sign is None) is floored
    if floored:
        assert found.p is None and found.parts[0].direction == "open" and not list_undecided([found])
        assert found.parts[0].why == found.floored
        assert f"at best {max(np.mean(pairs, axis=0)):.4g}, constant 0.336" in found.floored
        assert "0.336 if every prediction is the same" in one_seed["excess-drop"].line


def test_arms_that_are_all_perfect_are_said_to_be_equal_by_saturation() -> None:
    asked = plan(hypothesis(DIFFERENCE))
    perfect = decide(asked, runs_of([(1.0, 1.0)] * 5))
    assert perfect.saturated == (
        "every arm is at the best possible accuracy with every seed: they are equal by saturation"
    )
    assert not decide(asked, runs_of([(1.0, 1.0)] * 4 + [(1.0, 0.99)])).saturated
