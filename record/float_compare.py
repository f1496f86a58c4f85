"""Float comparison that ignores rounding: equal numbers computed in different ways may differ in their last bits."""

from __future__ import annotations

from collections.abc import Sequence

MAX_RELATIVE_ROUNDING = 1e-12
"""Maximum relative difference of two numbers that count as equal."""


def subtract_rounded(a: float, b: float) -> float:
    """Return `a - b`, or zero if the difference is only rounding."""
    return 0.0 if abs(a - b) <= MAX_RELATIVE_ROUNDING * max(abs(a), abs(b)) else a - b


def differs_beyond_rounding(values: Sequence[float]) -> bool:
    """Return whether the largest and smallest value differ by more than rounding."""
    return len(values) > 1 and subtract_rounded(max(values), min(values)) != 0


# Parse whole numbers in untrusted strings: code, model answers, servers, file names.

MAX_DIGITS = 15
"""Maximum number of digits: longer numbers are never valid here, and Python limits conversion to some thousand
digits."""


def parse_whole_number(text: str) -> int | None:
    """Parse a string that consists only of the digits 0 to 9; None for others (Python counts `²` as a digit)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None
