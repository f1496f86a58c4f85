"""Whole numbers in texts of strangers: code, models, servers, names of files."""

from __future__ import annotations

MAX_DIGITS = 15
"""At most: longer ones name nothing that there is, and Python reads no more than some thousand."""


def parse_whole_number(text: str) -> int | None:
    """The number that a text consists of, in the digits 0 to 9; None where it is no such number (`²` is a
    digit, too).
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None
