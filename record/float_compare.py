"""Differences that are floating point's own: equal numbers, reached on two ways, that differ in their last bits."""

from __future__ import annotations

from collections.abc import Sequence

MAX_RELATIVE_ROUNDING = 1e-12
"""Share of the larger number up to which a difference is none."""


def subtract_rounded(a: float, b: float) -> float:
    """`a - b`, and zero where only rounding tells them apart."""
    return 0.0 if abs(a - b) <= MAX_RELATIVE_ROUNDING * max(abs(a), abs(b)) else a - b


def differs_beyond_rounding(values: Sequence[float]) -> bool:
    """Whether more than rounding tells the largest value from the smallest."""
    return len(values) > 1 and subtract_rounded(max(values), min(values)) != 0
