"""Whether a printed number is a rounding of a value, and how often any number would be, by chance.

A match means little where many numbers would match. The chance is counted, not guessed: of the numbers that could have
stood in the same place with the same number of places (its neighbours up to half and twice its size), the share that
the values match as well; for a round number, the share of numbers as round. A number of one digit is one of nine, with
whatever values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from review.foreign.printed import Printed

LIKELY = 0.1
"""A chance above which a match says nothing."""

NEIGHBOURS = 60
"""Numbers to either side that the chance is counted over."""


@dataclass(frozen=True)
class Values:
    """Values sorted by size, with the index that each had."""

    sizes: NDArray[np.float64]
    signed: NDArray[np.float64]
    order: NDArray[np.intp]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Values:
        order = np.argsort(np.abs(values), kind="stable")
        return cls(np.abs(values)[order], values[order], order)

    def matches(self, number: Printed) -> list[int]:
        """Indices of the values that the number is a rounding of, as it stands or as a percentage."""
        found: list[int] = []
        for scale in scales(number):
            low, high = _bounds(number, scale)
            for at in range(np.searchsorted(self.sizes, low, "left"), np.searchsorted(self.sizes, high, "right")):
                if _sign_agrees(number, float(self.signed[at])):
                    found.append(int(self.order[at]))
        return found

    def chance(self, number: Printed) -> float:
        """How probable a match is for a number of this form: see the module."""
        return max(1 / 9 if number.digits == 1 else 0.0, *(self._share(number, step) for step in _grids(number)))

    def _share(self, number: Printed, step: float) -> float:
        size, (least, most) = abs(number.value), number.span
        grid = size + step * np.concatenate([np.arange(-NEIGHBOURS, 0), np.arange(1, NEIGHBOURS + 1)])
        grid = grid[(grid >= size / 2) & (grid <= size * 2) & (grid > 0)]
        if len(grid) < 4:
            grid = step * np.arange(1, 10)
        hit = np.zeros(len(grid), dtype=bool)
        for scale in scales(number):
            low = np.searchsorted(self.sizes, (grid - (size - least)) / scale, "left")
            hit |= np.searchsorted(self.sizes, (grid + (most - size)) / scale, "right") > low
        return float(hit.mean())


def scales(number: Printed) -> tuple[float, ...]:
    """What a value may be multiplied with before it is printed: a share as a percentage, and back."""
    if number.percent:
        return (1.0, 100.0)
    if number.factor or number.value == 0:
        return (1.0,)
    if abs(number.value) <= 1 and number.digits > 1:
        return (1.0, 0.01)
    return (1.0, 100.0) if number.step < 1 and abs(number.value) <= 100 else (1.0,)


def agrees(number: Printed, value: float) -> bool:
    """Whether the number is a rounding of the value, as it stands or as a percentage."""
    return any(low <= abs(value) <= high for low, high in (_bounds(number, scale) for scale in scales(number))) \
        and _sign_agrees(number, value)


def _bounds(number: Printed, scale: float) -> tuple[float, float]:
    low, high = number.span
    return low / scale, high / scale


def _sign_agrees(number: Printed, value: float) -> bool:
    """A printed sign must be the value's; a number without one may state the size of a fall."""
    return not number.sign or value == 0 or (value < 0) == (number.sign == "-")


def _grids(number: Printed) -> tuple[float, ...]:
    """Steps between numbers of the same form: of as many places, and as round."""
    size = round(abs(number.value) / number.step) if number.step else 0
    if size == 0 or not math.isfinite(size):
        return (number.step,)
    zeros = len(str(size)) - len(str(size).rstrip("0"))
    return (number.step, number.step * 10 ** zeros) if zeros else (number.step,)
