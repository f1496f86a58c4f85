"""Equal numbers that were reached on two ways differ in nothing: neither in a table nor in a test."""

from __future__ import annotations

from labwright.record.claims.estimates import compute_p_value, compute_t_interval
from labwright.record.float_compare import differs_beyond_rounding, subtract_rounded

TENTHS = 0.1 + 0.2
"""Not 0.3, by one bit."""


def test_a_difference_of_last_bits_is_none() -> None:
    assert subtract_rounded(TENTHS, 0.3) == 0 and subtract_rounded(0.3, TENTHS) == 0 and subtract_rounded(0.0, 0.0) == 0
    assert subtract_rounded(3e-9, 1e-9) > 1e-9 and subtract_rounded(1.0, 1.0 - 1e-9) > 0


def test_values_that_only_rounding_tells_apart_have_no_spread_and_no_p() -> None:
    same = (0.3, TENTHS, 0.3, TENTHS, 0.3)
    assert (
        not differs_beyond_rounding(same) and differs_beyond_rounding((0.3, 0.31)) and not differs_beyond_rounding(())
    )
    assert compute_t_interval(same) == (None, None, None) and compute_p_value(same) is None
