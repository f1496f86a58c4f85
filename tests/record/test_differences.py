"""Differences that nobody registered: estimates with an interval over seeds and test examples; Holm, power."""

from __future__ import annotations

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
METHOD, BASELINE = [0.1, 0.2, 0.1, 0.2, 0.15], [0.5, 0.6, 0.55, 0.6, 0.5]


def only(log: MemoryLog) -> ClaimDifference:
    [found] = compute_differences(log.state, compute_test_claims(log.state))
    return found


# --- Holm -----------------------------------------------------------------------------------------------------------


def test_holm_on_an_example_worked_by_hand() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_p_values([0.02, None, 0.04]) == pytest.approx([0.06, None, 0.08]), "what was not tested counts"
    assert adjust_p_values([]) == []


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
