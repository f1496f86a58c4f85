"""Whether a printed number is a rounding of a value, or follows from others by one step, and how likely by chance.

A match means little where many numbers would match. The chance is counted, not guessed: of the numbers that could have
stood in the same place with the same number of places (its neighbours up to half and twice its size), the share that
the values match as well; for a round number, the share of numbers as round. A number of one digit is one of nine, with
whatever values.

A step is a difference, a relative change, a ratio or a mean of numbers that were themselves found and that stand
together: in the row or column of a cell, in the paragraph, in a row or column of any table. Which steps are tried
depends on the form of the number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from labwright.review.foreign.passages import Claim
from labwright.review.foreign.printed import Printed
from labwright.review.foreign.results import Series, words_of

LIKELY = 0.1
"""A chance above which a match says nothing."""

NEIGHBOURS = 60
"""Numbers to either side that the chance is counted over."""


Floats = NDArray[np.float64]


def matches(values: Floats, number: Printed) -> list[int]:
    """Indices of the values that the number is a rounding of, as it stands or as a percentage.

    A printed sign must be the value's; a number without one may state the size of a fall.
    """
    low, high = number.span
    sizes = np.abs(values)
    near = np.any([(sizes >= low / scale) & (sizes <= high / scale) for scale in scales(number)], axis=0)
    if number.sign:
        near &= (values == 0) | ((values < 0) == (number.sign == "-"))
    return np.flatnonzero(near).tolist()


def chance_of(values: Floats, number: Printed) -> float:
    """How probable a match is for a number of this form, of as many places and as round: see the module."""
    size = round(abs(number.value) / number.step) if number.step else 0
    zeros = len(str(size)) - len(str(size).rstrip("0")) if size else 0
    sizes = np.sort(np.abs(values))
    return max(
        1 / 9 if number.digits == 1 else 0.0,
        *(_share(sizes, number, step) for step in {number.step, number.step * 10**zeros}),
    )


def _share(sizes: Floats, number: Printed, step: float) -> float:
    size, (least, most) = abs(number.value), number.span
    grid = size + step * np.concatenate([np.arange(-NEIGHBOURS, 0), np.arange(1, NEIGHBOURS + 1)])
    grid = grid[(grid >= size / 2) & (grid <= size * 2) & (grid > 0)]
    if len(grid) < 4:
        grid = step * np.arange(1, 10)
    hits = [
        np.searchsorted(sizes, (grid + (most - size)) / scale, "right")
        > np.searchsorted(sizes, (grid - (size - least)) / scale, "left")
        for scale in scales(number)
    ]
    return float(np.any(hits, axis=0).mean())


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
    return bool(matches(np.array([value]), number))


MOST_OPERANDS = 40
"""Numbers of one row, column or paragraph that are combined with one another."""


@dataclass(frozen=True)
class Operand:
    """A number that was found: as it is printed, and the value behind it."""

    claim: Claim
    value: float


@dataclass(frozen=True)
class Derived:
    """A value, the formula that gives it, and the chance that some formula would give a number."""

    value: float
    formula: str
    chance: float = 0.0


def nearest_step(claim: Claim, operands: Sequence[Operand]) -> Derived | None:
    """The step that gives the number from operands that stand together, the nearest to it first, or else from a row or
    column of any table whose label shares a word with its sentence; or None."""
    others = [one for one in operands if one.claim is not claim]
    beside = [one for one in others if one.claim.passage is claim.passage]
    if claim.cell is not None:
        near = [
            [one for one in beside if one.claim.cell and one.claim.cell.row == claim.cell.row],
            [one for one in beside if one.claim.cell and one.claim.cell.column == claim.cell.column],
        ]
    else:
        near = [[one for one in others if one.claim.context == claim.context], beside]
    change = claim.cell is not None and bool(_CHANGE.search(claim.cell.label))
    for group in near:
        step = best(claim.number, derived(claim.number, group, change=change))
        if step is not None:
            return step
    words = words_of(claim.context)
    lines = [line for label, line in lines_of(others) if len(line) > 1 and words & words_of(label)]
    return best(claim.number, (step for line in lines for step in derived(claim.number, line)))


_CHANGE = re.compile(
    r"improve|change|gain|drop|reduction|decrease|increase|degradation|difference|delta|\u0394|\\Delta|gap|score|rel\b",
    re.I,
)
"""Columns and rows that are called a change, or a score out of a hundred."""


def lines_of(operands: Iterable[Operand]) -> list[tuple[str, list[Operand]]]:
    """The label and the numbers of every row and column of all tables."""
    lines: dict[tuple[int, str, int], tuple[str, list[Operand]]] = {}
    for one in operands:
        if (cell := one.claim.cell) is not None:
            table = id(one.claim.passage)
            lines.setdefault((table, "row", cell.row), (cell.row_label, []))[1].append(one)
            lines.setdefault((table, "column", cell.column), (cell.column_label, []))[1].append(one)
    return list(lines.values())


def best(number: Printed, steps: Iterable[Derived]) -> Derived | None:
    """The first step that the number is a rounding of, with the chance of any match among all of them; or None."""
    tried = list(steps)
    values = np.array([step.value for step in tried], dtype=np.float64)
    matched = matches(values, number)
    return replace(tried[matched[0]], chance=chance_of(values, number)) if matched else None


def derived(number: Printed, operands: Sequence[Operand], *, change: bool = False) -> Iterator[Derived]:
    """What one step makes of operands that stand together; `change` says that a number without a sign of percent
    may be a relative change, as its column is called one."""
    chosen = operands[:MOST_OPERANDS]
    for one, other in permutations(chosen, 2):
        if one.claim.number.percent == other.claim.number.percent:
            left, right = _shown(one.claim.number), _shown(other.claim.number)
            for a, b in {(one.claim.number.value, other.claim.number.value), (one.value, other.value)}:
                if not number.factor:
                    yield Derived(a - b, f"{left} - {right}")
                if b and (change or number.percent):
                    yield Derived((a - b) / abs(b), f"({left} - {right}) / {right}")
                if b and (change or number.percent or number.factor):
                    yield Derived(a / b, f"{left} / {right}")
    if number.percent or change:
        for one in chosen:
            whole = 100.0 if abs(one.claim.number.value) > 1 else 1.0
            yield Derived(whole - one.claim.number.value, f"{whole:g} - {_shown(one.claim.number)}")
    if len(chosen) > 1 and not number.factor and len({one.claim.number.percent for one in chosen}) == 1:
        shown = ", ".join(_shown(one.claim.number) for one in chosen)
        yield Derived(float(np.mean([one.value for one in chosen])), f"mean of {shown}")


def _shown(number: Printed) -> str:
    return f"({number.text})" if number.text[0] in "+-\u2212" else number.text


def statistics(series: Iterable[Series]) -> Iterator[Series]:
    """Mean, median, deviations and standard error of each series of at least two values: as series "
    "of one value each."""
    for one in series:
        if 2 <= len(one.values) <= 20_000 and not one.written and len(set(one.values)) > 1:
            values = np.array(one.values)
            for name, value in (
                ("mean", values.mean()),
                ("median", np.median(values)),
                ("standard deviation (n - 1)", values.std(ddof=1)),
                ("standard deviation (n)", values.std()),
                ("standard error", values.std(ddof=1) / np.sqrt(len(values))),
            ):
                key = f"{name} of {len(one.values)} values of {one.key}"
                yield Series(one.file, key, one.words, [float(value)], [""])
