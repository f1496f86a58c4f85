"""Equal numbers that were reached on two ways differ in nothing: neither in a table nor in a test."""

from __future__ import annotations

from labwright.record.claims.means import interval, p_value
from labwright.record.rounding import differ, minus

TENTHS = 0.1 + 0.2
"""Not 0.3, by one bit."""


def test_a_difference_of_last_bits_is_none() -> None:
    assert minus(TENTHS, 0.3) == 0 and minus(0.3, TENTHS) == 0 and minus(0.0, 0.0) == 0
    assert minus(3e-9, 1e-9) > 1e-9 and minus(1.0, 1.0 - 1e-9) > 0


def test_values_that_only_rounding_tells_apart_have_no_spread_and_no_p() -> None:
    same = (0.3, TENTHS, 0.3, TENTHS, 0.3)
    assert not differ(same) and differ((0.3, 0.31)) and not differ(())
    assert interval(same) == (None, None, None) and p_value(same) is None
