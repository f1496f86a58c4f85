"""Verdicts of hypotheses: intervals by hand, Holm's levels, gaps, and how often a false support comes up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from record.claims.decisions import Run, decide, holm_levels, levels_together, n_planned, verdict_of
from record.claims.means import LEVEL
from record.estimands import Place
from record.nouns.data import DataPlan
from record.nouns.hypotheses import Decision, Effect
from tests.record.test_estimands import hypothesis, plan

stats: Any = scipy_stats
DIFFERENCE = "adam@a0 - sgd@a0"


def runs_of(pairs: Sequence[tuple[float, float]], **more: dict[str, float]) -> list[Run]:
    return [Run(seed, f"n{seed}", {("fashion", "adam@a0", "accuracy"): a, ("fashion", "sgd@a0", "accuracy"): b}
                | {("fashion", condition, "accuracy"): value for condition, value in more.get(f"s{seed}", {}).items()})
            for seed, (a, b) in enumerate(pairs)]


def only(found: tuple[Decision, ...]) -> Decision:
    assert len(found) == 1
    return found[0]


def test_interval_and_p_are_those_of_a_t_test_on_paired_values() -> None:
    pairs = [(0.86, 0.80), (0.90, 0.82), (0.88, 0.83), (0.87, 0.80), (0.91, 0.84)]
    found = only(decide(plan(hypothesis(DIFFERENCE)), runs_of(pairs), confirmed=True))
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
    wide = only(decide(asked, runs_of(pairs), confirmed=True, sampled=lambda key, runs: 0.02)).parts[0]
    over_seeds = np.var([a - b for a, b in pairs], ddof=1) / 5
    error = np.sqrt(over_seeds + 0.02 ** 2)
    freedom = 4 * ((over_seeds + 0.02 ** 2) / over_seeds) ** 2
    assert wide.high is not None and wide.low is not None
    assert (wide.high - wide.low) / 2 == pytest.approx(stats.t.ppf(0.975, freedom) * error)
    alone = only(decide(plan(hypothesis(DIFFERENCE, unit="seeds")), runs_of(pairs), confirmed=True,
                        sampled=lambda key, runs: 0.02)).parts[0]
    assert alone.low is not None and alone.low > wide.low, "with seeds as the unit examples add nothing"


@pytest.mark.parametrize(("low", "high", "verdict"), [
    (0.031, 0.05, "supported"), (0.001, 0.029, "smaller"), (-0.02, 0.02, "negligible"), (-0.02, -0.01, "negligible"),
    (-0.08, -0.04, "opposite"), (0.01, 0.05, "undecided"), (-0.04, 0.02, "undecided"), (-0.04, 0.05, "undecided")])
def test_the_first_verdict_that_the_interval_supports(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high, 0.03) == verdict


def test_both_parts_are_needed() -> None:
    pairs = [(0.90, 0.80), (0.91, 0.80), (0.90, 0.81), (0.92, 0.81), (0.91, 0.82)]
    both = hypothesis(effects=(Effect(estimand=DIFFERENCE, smallest=0.03),
                               Effect(estimand="sgd@a0 - adam@a0", smallest=0.03)))
    found = only(decide(plan(both), runs_of(pairs), confirmed=True))
    assert [part.verdict for part in found.parts] == ["supported", "opposite"]
    assert found.verdict == "opposite"


def test_a_part_that_was_not_measured_leaves_the_whole_open_though_another_is_refuted() -> None:
    pairs = [(0.80, 0.90), (0.81, 0.90), (0.80, 0.91)]
    both = hypothesis(effects=(Effect(estimand=DIFFERENCE, smallest=0.03),
                               Effect(estimand="adam-rotated@a0 - sgd@a0", smallest=0.03)))
    found = only(decide(plan(both), runs_of(pairs), confirmed=True))
    assert [part.verdict for part in found.parts] == ["opposite", "undecided"] and found.verdict == "undecided"


def test_a_gap_leaves_it_undecided_and_a_divergence_counts_as_the_worst() -> None:
    asked = plan(hypothesis(DIFFERENCE))
    runs = runs_of([(0.9, 0.8), (0.91, 0.8), (0.9, 0.82), (0.92, 0.8), (0.9, 0.81)])
    lost = {key: value for key, value in runs[2].values.items() if "adam" in key[1]}
    gap = only(decide(asked, [*runs[:2], runs[2]._replace(values=lost), *runs[3:]], confirmed=True))
    assert gap.verdict == "undecided"
    assert gap.parts[0].why == "sgd@a0 on fashion with seed 2 was not measured"
    worst = only(decide(asked, [*runs[:2], runs[2]._replace(
        values=lost, diverged=frozenset({Place("fashion", "sgd", "a0")})), *runs[3:]], confirmed=True))
    assert worst.parts[0].values[2] == pytest.approx(0.9)


def test_what_would_decide_is_told_and_decides() -> None:
    rng = np.random.default_rng(3)
    pairs = [(0.80 + 0.05 + e, 0.80) for e in rng.normal(0, 0.04, 5)]
    part = only(decide(plan(hypothesis(DIFFERENCE)), runs_of(pairs), confirmed=True)).parts[0]
    assert part.verdict == "undecided"
    assert part.decides is not None and part.sd is not None and part.mean is not None
    half = stats.t.ppf(0.975, part.decides - 1) * part.sd / np.sqrt(part.decides)
    assert verdict_of(part.mean - half, part.mean + half, 0.03) != "undecided"


def test_holm_runs_over_the_confirmatory_ones_alone() -> None:
    assert holm_levels([0.001, 0.04, 0.02]) == pytest.approx([LEVEL / 3, LEVEL, LEVEL / 2])
    assert holm_levels([0.001, 0.04, 0.03]) == pytest.approx([LEVEL / 3, LEVEL / 2, LEVEL / 2]), "the first that fails"
    assert holm_levels([None, 0.001]) == pytest.approx([LEVEL, LEVEL / 2]), "what has no p comes last"
    three = [hypothesis(DIFFERENCE, id=f"h{k}", confirmatory=k < 2) for k in range(3)]
    found = decide(plan(*three), runs_of([(0.9, 0.8), (0.91, 0.8), (0.9, 0.82)]), confirmed=True)
    assert [one.family for one in found] == [2, 2, 1]
    assert [one.confirmed for one in found] == [True, True, False]


def test_alternatives_tell_in_how_many_it_holds() -> None:
    asked = hypothesis(DIFFERENCE, alternatives=(Effect(estimand=DIFFERENCE, smallest=0.01),
                                                 Effect(estimand="sgd@a0 - adam@a0", smallest=0.01)))
    found = only(decide(plan(asked), runs_of([(0.9, 0.8), (0.91, 0.8), (0.9, 0.82), (0.9, 0.8)]), confirmed=True))
    assert found.holds == 1


@pytest.mark.parametrize("effect", [0.0, 0.06])
def test_n_from_a_pilot_decides_four_of_five(effect: float) -> None:
    rng, asked, right, alarms = np.random.default_rng(7), plan(hypothesis(DIFFERENCE)), 0, 0
    for _ in range(300):
        pilot = rng.normal(effect, 0.03, 5)
        n = n_planned(float(np.std(pilot, ddof=1)), 5, 0.03, LEVEL)
        verdict = only(decide(asked, _study(rng, effect, n), confirmed=True)).verdict
        right += verdict == ("supported" if effect else "negligible") or (not effect and verdict == "smaller")
        alarms += verdict == "supported"
    assert right >= 240
    assert effect or alarms <= 19


def _study(rng: np.random.Generator, effect: float, n: int) -> list[Run]:
    return runs_of([(0.8 + effect + e, 0.8) for e in rng.normal(0, 0.03, n)])


def test_a_plan_without_hypotheses_decides_nothing() -> None:
    empty: DataPlan = plan()
    assert decide(empty, [], confirmed=False) == ()
    nothing = only(decide(plan(hypothesis(DIFFERENCE)), [], confirmed=False))
    assert (nothing.verdict, nothing.parts[0].why) == ("undecided", "nothing was measured")


def test_verdicts_of_several_studies_are_corrected_for_one_another() -> None:
    """A support that just holds within its study does not over ten; a preview takes no part."""
    asked = plan(hypothesis(DIFFERENCE))
    clear = runs_of([(0.90, 0.80), (0.91, 0.80), (0.90, 0.81), (0.92, 0.81), (0.91, 0.82)])
    close = runs_of([(0.88, 0.83), (0.86, 0.80), (0.90, 0.82), (0.87, 0.83), (0.89, 0.83)])
    alone = {f"open{number}": decide(asked, runs_of([(0.8, 0.8), (0.9, 0.8), (0.7, 0.8)]), confirmed=True)
             for number in range(8)} | {"clear": decide(asked, clear, confirmed=True),
                                        "close": decide(asked, close, confirmed=True),
                                        "preview": decide(asked, close, confirmed=False)}
    assert only(alone["close"]).verdict == only(alone["clear"]).verdict == "supported"
    levels = levels_together(alone)
    assert "preview" not in levels and sorted({level for one in levels.values() for level in one.values()}) == (
        pytest.approx([LEVEL / 10, LEVEL / 9]))
    again = {name: only(decide(asked, runs, confirmed=True, levels=levels[name])).verdict
             for name, runs in (("clear", clear), ("close", close))}
    assert again == {"clear": "supported", "close": "undecided"}
