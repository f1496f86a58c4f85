"""What a repository reports, as people write it, and whether the baseline is that."""

from __future__ import annotations

import pytest

from labwright.record.baseline_check import ExpectedError, check_baseline, parse_expected
from labwright.record.schema.repository import ExpectedResult


@pytest.mark.parametrize(
    ("text", "value", "tolerance"),
    [
        ("0.83±0.02", 0.83, 0.02),
        ("0.83 +- 0.02", 0.83, 0.02),
        ("0.83+/-.02", 0.83, 0.02),
        ("0.83±5%", 0.83, 0.0415),
        ("0.83", 0.83, 0.0415),
        ("-1.5±0.1", -1.5, 0.1),
        ("-2", -2.0, 0.1),
        ("1e-3±1e-4", 1e-3, 1e-4),
        ("0±0.1", 0, 0.1),
    ],
)
def test_a_value_with_and_without_tolerance(text: str, value: float, tolerance: float) -> None:
    found = parse_expected(text)
    assert (found.value, found.tolerance) == pytest.approx((value, tolerance))


@pytest.mark.parametrize("text", ["", "abc", "0.83±", "0.83±-0.1", "nan±1", "inf", "1e999", "0", "0.8±1±1"])
def test_what_cannot_be_meant_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ExpectedError) as refused:
        parse_expected(text)
    assert repr(text) in str(refused.value) and "write" in str(refused.value) and "\n" not in str(refused.value)


def test_the_mean_decides_and_better_is_not_reproduced() -> None:
    expected = ExpectedResult(value=0.83, tolerance=0.02)
    assert check_baseline([0.8, 0.88, 0.81], expected).verdict == "reproduced"
    assert check_baseline([0.85], expected).verdict == "reproduced", "a bound is reached in spite of rounding"
    assert check_baseline([0.85, 0.86, 0.855], expected).verdict == "differs"
    found = check_baseline([0.84, None, 0.82], expected)
    assert (found.seeds, found.mean, found.verdict) == (2, pytest.approx(0.83), "reproduced")
    assert check_baseline([0.5], None).verdict == "unchecked" and check_baseline([0.5], None).spread is None
    failed = check_baseline([None], expected)
    assert (failed.mean, failed.spread, failed.seeds, failed.verdict) == (None, None, 0, "failed")
