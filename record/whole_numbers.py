"""Parse whole numbers in untrusted strings: code, model answers, servers, file names."""

from __future__ import annotations

MAX_DIGITS = 15
"""Maximum number of digits: longer numbers are never valid here, and Python limits conversion to some thousand
digits."""


def parse_whole_number(text: str) -> int | None:
    """Parse a string that consists only of the digits 0 to 9; None for others (Python counts `²` as a digit)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None
