"""Differences that nobody registered: estimates with an interval over seeds and test examples; Holm, power."""

from __future__ import annotations

import random
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

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
from labwright.record.schema.data_plan import ResampledInterval
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


# --- estimates ------------------------------------------------------------------------------------------------------


def test_a_pair_has_an_estimate_and_an_interval_and_is_exploratory() -> None:
    found = only(recorded(BASELINE, METHOD))
    assert found.better == "baseline" and found.condition == "method" and found.basis_text == "exploratory"
    values = [a - b for a, b in zip(BASELINE, METHOD, strict=True)]
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high)) and found.excludes_zero and not found.examples


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


@given(st.lists(st.floats(-0.05, 0.05), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_claims_does_not_matter(shifts: list[float], rng: random.Random) -> None:
    state = recorded(METHOD, BASELINE).state
    claims = claims_of(*shifts)
    found = {one.key: one for one in compute_differences(state, claims)}
    rng.shuffle(claims)
    assert {one.key: one for one in compute_differences(state, claims)} == found


# --- test examples --------------------------------------------------------------------------------------------------


def over(one: ClaimDifference, **changes: Any) -> ResampledInterval:
    return ResampledInterval(
        key=one.key, nodes=one.nodes, others=one.others, shared=(0.09,), worth=360.0, examples=360, draws=2000
    ).model_copy(update=changes)


def test_the_interval_covers_what_all_seeds_share_of_the_test_examples() -> None:
    log = recorded(METHOD, BASELINE)
    alone = only(log)
    log.append(SealedTestResampled(found=(over(alone),)))
    found = only(log)
    assert found.examples and found.low is not None and found.high is not None and alone.low is not None
    q = float(stats.t.ppf(0.975, 359))
    assert found.high - found.mean > 0.29 * q and found.low < alone.low and not found.excludes_zero
    assert format_claims([found])[f"{found.key}.ci"].tex.startswith("[")


def test_what_was_resampled_of_other_nodes_says_nothing() -> None:
    log = recorded(METHOD, BASELINE)
    log.append(SealedTestResampled(found=(over(only(log), nodes=("n0009",)),)))
    assert only(log).resampled_interval is None and not only(log).examples


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
