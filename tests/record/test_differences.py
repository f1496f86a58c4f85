"""What may be called of differences: corrected for their family, supported by seeds and by test examples."""

from __future__ import annotations

import random
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from benchmarks.statistics import simulate_false_alarms
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import (
    SIGNIFICANCE_LEVEL,
    TARGET_TEST_POWER,
    Claim,
    adjust_p_values,
    compute_detectable_effect,
    compute_p_value,
    compute_test_claims,
)
from labwright.record.claims.formatting import format_claims
from labwright.record.event_log import MemoryLog
from labwright.record.events.search_events import SealedTestResampled
from labwright.record.schema.data_plan import Arm, DatasetUse, ResampledInterval
from tests.hypotheses import make_hypotheses
from tests.record.test_claims import recorded

stats: Any = scipy_stats
P = st.floats(0.0, 1.0)
METHOD, BASELINE = [0.1, 0.2, 0.1, 0.2, 0.15], [0.5, 0.6, 0.55, 0.6, 0.5]


def only(log: MemoryLog) -> ClaimDifference:
    [found] = compute_differences(log.state, compute_test_claims(log.state))
    return found


# --- Holm -----------------------------------------------------------------------------------------------------------


def test_holm_on_an_example_worked_by_hand() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_p_values([0.02, None, 0.04]) == pytest.approx([0.06, None, 0.08]), "what was not tested counts"
    assert adjust_p_values([]) == []


@given(st.lists(P, max_size=30))
def test_holm_never_calls_more_and_keeps_the_order(given_: list[float]) -> None:
    found = [q for q in adjust_p_values(given_) if q is not None]
    assert all(p <= q <= 1.0 for p, q in zip(given_, found, strict=True))
    assert all(q <= r for p, q in zip(given_, found, strict=True) for s, r in zip(given_, found, strict=True) if p < s)


@given(st.lists(P, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_tests_does_not_matter(given_: list[float], rng: random.Random) -> None:
    places = list(range(len(given_)))
    rng.shuffle(places)
    found, shuffled = adjust_p_values(given_), adjust_p_values([given_[one] for one in places])
    assert [found[one] for one in places] == shuffled


@given(st.lists(P, min_size=1, max_size=12), P)
def test_a_further_test_never_lowers_an_adjusted_p(given_: list[float], more: float) -> None:
    assert all(
        (q or 0.0) <= (r or 0.0)
        for q, r in zip(adjust_p_values(given_), adjust_p_values([*given_, more])[:-1], strict=True)
    )


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=10))
def test_p_is_that_of_a_paired_t_test(values: list[float]) -> None:
    found = compute_p_value(values)
    if found is None:
        assert len(set(values)) == 1 or np.std(values) == 0.0
    elif np.std(values) > 1e-6:
        assert found == pytest.approx(float(stats.ttest_1samp(values, 0.0).pvalue), rel=1e-6, abs=1e-12)


# --- verdicts -------------------------------------------------------------------------------------------------------


def test_a_method_that_is_worse_is_called_so() -> None:
    found = only(recorded(BASELINE, METHOD))
    assert found.significance == "worsened" and found.better == "baseline" and found.condition == "method"
    assert only(recorded(METHOD, BASELINE)).significance == "improved"


def test_what_binary_fractions_leave_of_a_sum_is_no_difference() -> None:
    some, same = [109, 101, 111, 106, 114], [112, 103, 104, 108, 114]  # right answers of 115
    found = only(recorded([one / 115 for one in some], [one / 115 for one in same]))
    assert fmean(found.values) != 0.0 and found.mean == 0.0


def claims_of(*shifts: float, name: str = "log_loss", n: int = 6, condition: str = "method") -> list[Claim]:
    """A baseline and another arm on as many datasets as there are shifts."""
    found: list[Claim] = []
    for k, shift in enumerate(shifts):
        noise = [0.01 * ((7 * i + 3 * k) % 5 - 2) for i in range(n)]
        other = "baseline" if condition == "method" else "method"
        for arm, values in ((condition, [0.5 + shift + one for one in noise]), (other, [0.5] * n)):
            found.append(
                Claim(
                    key=f"test/d{k}/{name}/{arm}",
                    name=name,
                    dataset=f"d{k}",
                    condition=arm,
                    split="test",
                    values=tuple(values),
                    seeds=tuple(range(n)),
                    nodes=tuple(f"n{i}" for i in range(n)),
                    grade="computed",
                    mean=0.5,
                    sd=None,
                    low=None,
                    high=None,
                )
            )
    return found


def test_what_one_comparison_shows_many_may_not() -> None:
    state = recorded(METHOD, BASELINE).state
    [alone] = compute_differences(state, claims_of(-0.016))
    many = compute_differences(state, claims_of(-0.016, *[0.0] * 19))
    assert alone.significance == "improved" and alone.family_size == 1 and alone.p == alone.p_adjusted
    assert many[0].significance == "not significant" and many[0].family_size == 20
    assert many[0].p == alone.p and (many[0].p_adjusted or 0) > SIGNIFICANCE_LEVEL > (alone.p or 1)
    assert (many[0].detectable_effect or 0) > (alone.detectable_effect or 1)
    assert (many[0].low, many[0].high) == (alone.low, alone.high), "intervals are not corrected"
    assert alone.high is not None and alone.high < 0, "one without zero may stand beside it"
    assert many[0].verdict_text == "not significant after Holm over 20 comparisons" and alone.verdict_text == "improved"
    assert compute_differences(state, claims_of(0.0))[0].verdict_text == "not significant"


def test_what_a_hypothesis_reads_is_of_the_family_that_was_asked_for() -> None:
    """Of an ablation, too: what nobody asked for takes no power from it."""
    state = recorded(METHOD, BASELINE).state
    assert state.data_plan is not None
    part = Arm(name="part", role="ablation")
    read = make_hypotheses("part", "method", higher=False, smallest=0.01)[0].model_copy(update={"rival": None})
    state.data_plan = state.data_plan.model_copy(
        update={
            "arms": (*state.data_plan.arms, part),
            "datasets": tuple(DatasetUse(name=f"d{k}") for k in range(3)),
            "hypotheses": (read,),
        }
    )
    found = [
        *claims_of(0.0, 0.0, 0.0),
        *(
            one.model_copy(update={"condition": "part", "key": f"{one.key} part"})
            for one in claims_of(-0.02, -0.02, -0.02)
            if one.condition == "method"
        ),
    ]
    family = {(one.dataset, one.condition): (one.family, one.family_size) for one in compute_differences(state, found)}
    assert family["d0", "part"] == ("primary", 4) and family["d0", "method"] == ("primary", 4)
    assert family["d1", "part"] == ("other", 2), "the hypothesis reads the main dataset"


def test_other_metrics_and_ablations_are_a_family_of_their_own() -> None:
    state = recorded(METHOD, BASELINE).state
    main, ablated = claims_of(-0.03, -0.03), claims_of(0.02, 0.02, condition="no-warmup")
    others = claims_of(-0.02, name="accuracy")
    every = {one.key: one for one in (*main, *ablated, *others)}
    found = compute_differences(state, list(every.values()))
    assert {(one.family, one.name, one.family_size) for one in found if one.condition == "method"} >= {
        ("primary", "log_loss", 2)
    }
    assert {one.family for one in found if one.condition == "no-warmup" or one.name != "log_loss"} <= {"other"}
    sizes = {one.family: one.family_size for one in found}
    assert sizes == {"primary": 2, "other": len(found) - 2}


@given(st.lists(st.floats(-0.05, 0.05), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_claims_does_not_matter(shifts: list[float], rng: random.Random) -> None:
    state = recorded(METHOD, BASELINE).state
    claims = claims_of(*shifts)
    found = {one.key: one for one in compute_differences(state, claims)}
    rng.shuffle(claims)
    assert {one.key: one for one in compute_differences(state, claims)} == found


def test_few_seeds_count_in_their_family_and_are_not_called() -> None:
    state = recorded(METHOD, BASELINE).state
    few = claims_of(0.0, -0.3, n=3)[2:]
    found = compute_differences(state, [*claims_of(-0.03), *few])
    assert [(one.significance, one.family_size, one.p is None) for one in found] == [
        ("improved", 2, False),
        ("unknown", 2, True),
    ]
    assert found[1].detectable_effect is None


# --- test examples --------------------------------------------------------------------------------------------------


def over(one: ClaimDifference, low: float | None, high: float | None, **changes: Any) -> ResampledInterval:
    return ResampledInterval(
        key=one.key, nodes=one.nodes, others=one.others, low=low, high=high, examples=360, draws=2000
    ).model_copy(update=changes)


@pytest.mark.parametrize(
    ("low", "high", "called"),
    [(-0.6, -0.1, "improved"), (-0.6, 0.1, "not significant"), (0.1, 0.2, "not significant"), (None, None, "improved")],
)
def test_a_difference_that_other_test_examples_may_not_show_is_not_called(
    low: float | None, high: float | None, called: str
) -> None:
    log = recorded(METHOD, BASELINE)
    log.append(SealedTestResampled(found=(over(only(log), low, high),)))
    found = only(log)
    assert found.significance == called and found.is_limited_by_examples == (called != "improved")
    text = format_claims([found])[f"{found.key}.ci_examples"].tex
    assert text == ("n/a" if low is None else text) and ("n/a" in text) == (low is None)


def test_what_was_resampled_of_other_nodes_says_nothing() -> None:
    log = recorded(METHOD, BASELINE)
    log.append(SealedTestResampled(found=(over(only(log), -1.0, 1.0, nodes=("n0009",)),)))
    assert only(log).resampled_interval is None and only(log).significance == "improved"


def test_forms_of_a_difference() -> None:
    found = only(recorded(METHOD, BASELINE))
    texts = {key.rpartition(".")[2]: value.tex for key, value in format_claims([found]).items()}
    assert texts["p"] == texts["p_adjusted"] == r"\ensuremath{<}0.001" and texts["ci_examples"] == "n/a"
    assert texts["mde"] == f"{found.detectable_effect:.3f}"
    near = found.model_copy(update={"p_adjusted": 0.05004})
    assert format_claims([near])[f"{near.key}.p_adjusted"].tex == "0.05004", "not printed as if it were at the level"


# --- what could have been seen --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "compared"), [(5, 1), (6, 6), (10, 20)])
def test_the_detectable_difference_is_found_as_often_as_promised(n: int, compared: int) -> None:
    rng = np.random.default_rng(3)
    found = compute_detectable_effect(n, 2.0, compared)
    assert found is not None
    drawn = rng.normal(found, 2.0, size=(40_000, n))
    t = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / np.sqrt(n))
    critical = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / compared / 2, n - 1))
    assert float((t > critical).mean()) == pytest.approx(TARGET_TEST_POWER, abs=0.01)


@given(st.integers(5, 40), st.integers(1, 60), st.floats(0.01, 100))
def test_it_falls_with_more_seeds_and_grows_with_the_family_and_the_spread(n: int, compared: int, sd: float) -> None:
    here = compute_detectable_effect(n, sd, compared) or 0.0
    assert (
        0
        < (compute_detectable_effect(n + 1, sd, compared) or 0.0)
        < here
        < (compute_detectable_effect(n, sd, compared + 1) or 0.0)
    )
    assert compute_detectable_effect(n, 2 * sd, compared) == pytest.approx(2 * here)


def test_fewer_than_five_seeds_detect_nothing() -> None:
    assert compute_detectable_effect(4, 1.0) is None


# --- false alarms ---------------------------------------------------------------------------------------------------


PAPERS = 80


@pytest.mark.slow
@pytest.mark.parametrize("dependence", [0.0, pytest.param(0.8, marks=pytest.mark.bench)])
def test_papers_without_any_effect_seldom_call_one(dependence: float) -> None:
    found = simulate_false_alarms(papers=PAPERS, comparisons=20, n=6, dependence=dependence, seed=11)
    assert found.corrected <= SIGNIFICANCE_LEVEL + 3 * (SIGNIFICANCE_LEVEL * (1 - SIGNIFICANCE_LEVEL) / PAPERS) ** 0.5
    assert found.uncorrected > (0.5 if dependence == 0.0 else 0.15)
