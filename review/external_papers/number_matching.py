"""Match a printed number to a value that it rounds, or derive it in one step, with the probability of a chance match.

A match is weak evidence if many numbers would match. The probability is counted: the share of numbers with as many
decimal places, between half and twice the size, that the values would also match; for a round number, only equally
round numbers are counted. A one-digit number has nine alternatives, whatever the values.

A step is a difference, relative change, ratio or mean of numbers that were found and are close together: in the row
or column of a cell, in the paragraph, or in a row or column of any table. The form of the number decides which
steps are tried.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from labwright.review.external_papers.passages import ClaimedNumber
from labwright.review.external_papers.printed_numbers import PrintedNumber
from labwright.review.external_papers.result_files import ValueSeries, label_words

MAX_MATCH_CHANCE = 0.1
"""Probability of a chance match above which a match proves nothing."""

CHANCE_WINDOW = 60
"""Number of neighbours on either side over which the probability is counted."""


Floats = NDArray[np.float64]


def find_matches(values: Floats, number: PrintedNumber) -> list[int]:
    """Return the indices of values that the number rounds, unchanged or as a percentage.

    A printed sign must match; a number without one may state the size of a decrease.
    """
    low, high = number.magnitude_range
    sizes = np.abs(values)
    near = np.any([(sizes >= low / scale) & (sizes <= high / scale) for scale in list_scales(number)], axis=0)
    if number.sign:
        near &= (values == 0) | ((values < 0) == (number.sign == "-"))
    return np.flatnonzero(near).tolist()


def compute_match_chance(values: Floats, number: PrintedNumber) -> float:
    """Return the probability of a match for a number with as many places and equally round (see the module
    docstring).
    """
    size = round(abs(number.value) / number.step) if number.step else 0
    zeros = len(str(size)) - len(str(size).rstrip("0")) if size else 0
    sizes = np.sort(np.abs(values))
    return max(
        1 / 9 if number.digits == 1 else 0.0,
        *(_matching_share(sizes, number, step) for step in {number.step, number.step * 10**zeros}),
    )


def _matching_share(sizes: Floats, number: PrintedNumber, step: float) -> float:
    size, (least, most) = abs(number.value), number.magnitude_range
    grid = size + step * np.concatenate([np.arange(-CHANCE_WINDOW, 0), np.arange(1, CHANCE_WINDOW + 1)])
    grid = grid[(grid >= size / 2) & (grid <= size * 2) & (grid > 0)]
    if len(grid) < 4:
        grid = step * np.arange(1, 10)
    hits = [
        np.searchsorted(sizes, (grid + (most - size)) / scale, "right")
        > np.searchsorted(sizes, (grid - (size - least)) / scale, "left")
        for scale in list_scales(number)
    ]
    return float(np.any(hits, axis=0).mean())


def list_scales(number: PrintedNumber) -> tuple[float, ...]:
    """Return the factors that may have been applied before printing: share to percentage and back, and units."""
    if number.percent:
        return (1.0, 100.0)
    if number.factor or number.value == 0:
        return (1.0,)
    if number.unit_scales:
        return (1.0, *number.unit_scales)
    if abs(number.value) <= 1 and number.digits > 1:
        return (1.0, 0.01)
    return (1.0, 100.0) if number.step < 1 and abs(number.value) <= 100 else (1.0,)


MAX_LABELS = 5
"""Maximum labels of a row by which its values are grouped."""
MAX_OPERANDS = 40
"""Maximum numbers of one row, column or paragraph that are combined."""


@dataclass(frozen=True)
class Operand:
    """A number that was found: as printed, and the value behind it."""

    claim: ClaimedNumber
    value: float


@dataclass(frozen=True)
class DerivedValue:
    """A value, its formula, and the probability that some formula matches by chance."""

    value: float
    formula: str
    chance: float = 0.0


def find_derivation(claim: ClaimedNumber, operands: Sequence[Operand]) -> DerivedValue | None:
    """Return the step that derives the number, or None.

    Operands close together are tried first, nearest first, then a row or column of any table whose label shares a
    word with the number's sentence.
    """
    others = [one for one in operands if one.claim is not claim]
    same_passage = [one for one in others if one.claim.passage is claim.passage]
    if claim.cell is not None:
        near = [
            [one for one in same_passage if one.claim.cell and one.claim.cell.row == claim.cell.row],
            [one for one in same_passage if one.claim.cell and one.claim.cell.column == claim.cell.column],
        ]
    else:
        near = [[one for one in others if one.claim.context == claim.context], same_passage]
    change = claim.cell is not None and bool(_CHANGE.search(claim.cell.label))
    for group in near:
        step = first_match(claim.number, derive_values(claim.number, group, change=change))
        if step is not None:
            return step
    words = label_words(claim.context)
    lines = [line for label, line in group_by_table_line(others) if len(line) > 1 and words & label_words(label)]
    return first_match(claim.number, (step for line in lines for step in derive_values(claim.number, line)))


_CHANGE = re.compile(
    r"improve|change|gain|drop|reduction|decrease|increase|degradation|difference|delta|\u0394|\\Delta|gap|score|rel\b",
    re.I,
)
"""Names of columns and rows that hold a change, or a score out of a hundred."""


def group_by_table_line(operands: Iterable[Operand]) -> list[tuple[str, list[Operand]]]:
    """Return the label and the numbers of every row and column of all tables."""
    lines: dict[tuple[int, str, int], tuple[str, list[Operand]]] = {}
    for one in operands:
        if (cell := one.claim.cell) is not None:
            table = id(one.claim.passage)
            lines.setdefault((table, "row", cell.row), (cell.row_label, []))[1].append(one)
            lines.setdefault((table, "column", cell.column), (cell.column_label, []))[1].append(one)
    return list(lines.values())


def first_match(number: PrintedNumber, steps: Iterable[DerivedValue]) -> DerivedValue | None:
    """Return the first step whose rounded result is the number, with the probability that any step matches by
    chance; or None.
    """
    tried = list(steps)
    values = np.array([step.value for step in tried], dtype=np.float64)
    matched = find_matches(values, number)
    return replace(tried[matched[0]], chance=compute_match_chance(values, number)) if matched else None


def derive_values(
    number: PrintedNumber, operands: Sequence[Operand], *, change: bool = False
) -> Iterator[DerivedValue]:
    """Yield the results of one step on neighbouring operands.

    `change` means that a number without a percent sign may be a relative change according to its column.
    """
    chosen = operands[:MAX_OPERANDS]
    for one, other in permutations(chosen, 2):
        if one.claim.number.percent == other.claim.number.percent:
            left, right = _number_text(one.claim.number), _number_text(other.claim.number)
            for a, b in {(one.claim.number.value, other.claim.number.value), (one.value, other.value)}:
                if not number.factor:
                    yield DerivedValue(a - b, f"{left} - {right}")
                if b and (change or number.percent):
                    yield DerivedValue((a - b) / abs(b), f"({left} - {right}) / {right}")
                if b and (change or number.percent or number.factor):
                    yield DerivedValue(a / b, f"{left} / {right}")
    if number.percent or change:
        for one in chosen:
            whole = 100.0 if abs(one.claim.number.value) > 1 else 1.0
            yield DerivedValue(whole - one.claim.number.value, f"{whole:g} - {_number_text(one.claim.number)}")
    if len(chosen) > 1 and not number.factor and len({one.claim.number.percent for one in chosen}) == 1:
        shown = ", ".join(_number_text(one.claim.number) for one in chosen)
        yield DerivedValue(float(np.mean([one.value for one in chosen])), f"mean of {shown}")


def _number_text(number: PrintedNumber) -> str:
    return f"({number.text})" if number.text[0] in "+-\u2212" else number.text


def compute_statistics(series: Iterable[ValueSeries]) -> Iterator[ValueSeries]:
    """Yield mean, median, deviations and standard error of each series of two or more values, each as a series."""
    for one in series:
        if 2 <= len(one.values) <= 20_000 and not one.from_prose and len(set(one.values)) > 1:
            values = np.array(one.values)
            for name, value in (
                ("mean", values.mean()),
                ("median", np.median(values)),
                ("standard deviation (n - 1)", values.std(ddof=1)),
                ("standard deviation (n)", values.std()),
                ("standard error", values.std(ddof=1) / np.sqrt(len(values))),
            ):
                key = f"{name} of {len(one.values)} values of {one.key}"
                yield ValueSeries(one.file, key, one.words, [float(value)], [""])


_SETTING = re.compile(r"[^=]+=[-+\d.eE]+")
"""Label of a row by the number of a column."""


def pool_series(series: Iterable[ValueSeries]) -> Iterator[ValueSeries]:
    """Yield the values with one key in files whose names differ only in numbers, such as one file a seed, and those of
    the rows of a file that share one or two of their labels, or all names and up to two settings."""
    kinds: dict[tuple[str, str], list[ValueSeries]] = defaultdict(list)
    for one in series:
        if not one.from_prose:
            kinds[re.sub(r"\d+", "#", one.file), one.key].append(one)
            if found := re.search(r"\{([^{}]*)\}", one.key):
                labels = [each for each in found[1].split("; ")[:MAX_LABELS] if each]
                settings = tuple(each for each in labels if _SETTING.fullmatch(each))
                names = tuple(each for each in labels if each not in settings)
                groups = {each for size in (1, 2) for each in combinations(names, size)}
                groups |= {(*names, *each) for size in range(3) for each in combinations(settings, size)}
                for shared in groups - {(), tuple(labels), (*names, *settings)}:
                    key = f"{one.key[: found.start()]}{{{'; '.join(shared)}}}{one.key[found.end() :]}"
                    kinds[one.file, key].append(one)
    for (_, key), some in kinds.items():
        if len(some) > 1:
            values = [value for one in some for value in one.values]
            places = [place for one in some for place in one.places]
            words = frozenset[str].intersection(*(one.words for one in some))
            yield ValueSeries(some[0].file, f"{key} over {len(some)} series", words, values, places)
