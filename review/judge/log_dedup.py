"""Fold lines of a log that repeat earlier lines with other numbers.

The first two lines of a kind and the last of each run are kept. Limits: the numbers of a folded line may differ
from those shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from labwright.models.prompt_filters import format_mark

KEPT_LINES = 2
"""Number of lines of a kind that are shown before further ones are folded."""
MIN_FOLDED_LINES = 3
"""Minimum number of lines to fold."""

_NUMBER = re.compile(r"\d[\d.,:/eE%+-]*")
_PROGRESS_BAR = re.compile(r"[|#=>█▏▎▍▌▋▊▉ -]+")


def fold_log(text: str) -> str:
    """Return the text with runs of lines that repeat earlier ones, apart from numbers, replaced by a count.

    Each state of a progress bar counts as a line.
    """
    lines = re.split(r"\r\n|\r|\n", text)
    return "\n".join(_fold_lines(lines, _find_repeats(lines)))


def _find_repeats(lines: Sequence[str]) -> list[bool]:
    """Return which lines repeat earlier ones apart from numbers and bars."""
    seen: Counter[str] = Counter()
    found: list[bool] = []
    for line in lines:
        kind = _PROGRESS_BAR.sub(" ", _NUMBER.sub("0", line)).strip()
        found.append(seen[kind] >= KEPT_LINES)
        seen[kind] += 1
    return found


def _fold_lines(lines: Sequence[str], repeats: Sequence[bool]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = next((k for k in range(at, len(lines)) if not repeats[k]), len(lines))
        if end - at > MIN_FOLDED_LINES:
            yield format_mark(f"{end - at - 1} lines like those above, with other numbers")
            at = end - 1
        yield lines[at]
        at += 1
