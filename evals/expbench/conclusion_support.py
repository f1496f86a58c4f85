"""Check whether measurements support a conclusion: every number must be found or derivable, every direction as
recorded.

This distinguishes a conclusion that follows from the numbers from one that is right by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Literal, NamedTuple

ROUNDING_SLACK = 1e-12
NUMBER_PATTERN = re.compile(r"(?<![\w.])[-+−]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?\s*%?")

EffectDirection = Literal["lower", "higher", "same", "unclear"]
NumberSupport = Literal["found", "derivable", "unsupported"]
DirectionSupport = Literal["supported", "contradicted", "untested"]
REVERSED_DIRECTIONS: dict[str, EffectDirection] = {
    "lower": "higher",
    "higher": "lower",
    "same": "same",
    "unclear": "unclear",
}


COMPARATIVES: dict[str, str] = {
    "lower": "lower than",
    "higher": "higher than",
    "same": "the same as",
    "unclear": "not clearly different from",
}


class ArmComparison(NamedTuple):
    """Comparison of the second arm with the first on a metric."""

    metric: str
    first: str
    second: str
    second_is: EffectDirection

    def __str__(self) -> str:
        return f"{self.metric}: {self.second} is {COMPARATIVES[self.second_is]} {self.first}"


def parse_interval(text: str) -> tuple[float, float, bool]:
    """Return the bounds of a printed number (plus and minus half a unit of its last place), and whether it is a
    percentage.
    """
    bare = text.strip().replace("−", "-")
    percent = bare.endswith("%")
    bare = bare.rstrip("% ").replace(",", "")
    digits, _, exponent = bare.lower().partition("e")
    places = len(digits.partition(".")[2])
    half = 0.5 * 10.0 ** (int(exponent or 0) - places)
    value = float(bare)
    return value - half, value + half, percent


def number_support(text: str, measured: Mapping[str, float]) -> NumberSupport:
    """Return whether a number was measured, follows from two measured numbers, or neither of these."""
    low, high, percent = parse_interval(text)

    def there(*values: float) -> bool:
        return any(low - ROUNDING_SLACK <= one <= high + ROUNDING_SLACK for one in values)

    if any(there(value, *([100 * value] if percent else [])) for value in measured.values()):
        return "found"
    for a, b in permutations(measured.values(), 2):
        changes = (
            [100 * (a - b), 100 * (a - b) / b if b else float("nan"), 100 * abs(a - b) / abs(b) if b else float("nan")]
            if percent
            else [a / b if b else float("nan")]
        )
        if there(a - b, abs(a - b), *changes):
            return "derivable"
    return "unsupported"


def direction_support(comparison: ArmComparison, comparisons: Iterable[ArmComparison]) -> DirectionSupport:
    """Return whether the recorded comparisons support a claim."""
    for measured in comparisons:
        if measured.metric != comparison.metric or {measured.first, measured.second} != {
            comparison.first,
            comparison.second,
        }:
            continue
        way = measured.second_is if measured.first == comparison.first else REVERSED_DIRECTIONS[measured.second_is]
        if way == "unclear":
            return "untested"
        return "supported" if way == comparison.second_is else "contradicted"
    return "untested"


def is_supported(
    correct: bool,
    numbers: Sequence[str],
    claims: Sequence[ArmComparison],
    measured: Mapping[str, float],
    comparisons: Sequence[ArmComparison],
) -> bool:
    """Return whether a correct conclusion follows from its measurements."""
    return (
        correct
        and bool(claims)
        and all(direction_support(one, comparisons) == "supported" for one in claims)
        and all(number_support(one, measured) != "unsupported" for one in numbers)
    )


def list_stated_results(text: str, question_text: str, counts: Iterable[int] = ()) -> list[str]:
    """Return the numbers of a conclusion that need a measurement: not numbers of the question or counts of seeds
    or arms."""
    given, whole = set(find_numbers(question_text)), {str(one) for one in counts}
    return [one for one in find_numbers(text) if one not in given and one not in whole]


def find_numbers(text: str) -> list[str]:
    """Return the numbers printed in a string, each with its `%` if present."""
    return [found.group().strip() for found in NUMBER_PATTERN.finditer(text)]
