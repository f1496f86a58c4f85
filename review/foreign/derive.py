"""Values that follow from others by one step: a difference, a relative change, a ratio, a mean.

The operands are numbers that were themselves found, and that stand together: in the row or column of a cell, in the
paragraph, in a row or column of any table. Which steps are tried depends on the form of the number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from review.foreign.matching import Values
from review.foreign.passages import Claim
from review.foreign.printed import Printed
from review.foreign.results import Results, Series, words_of

MOST_OPERANDS = 40
"""Numbers of one row, column or paragraph that are combined with one another."""


@dataclass(frozen=True)
class Operand:
    """A number that was found: as it is printed, and the value behind it."""

    claim: Claim
    value: float


@dataclass(frozen=True)
class Derived:
    """A value and the formula that gives it."""

    value: float
    formula: str


def groups(claim: Claim, operands: Sequence[Operand]) -> Iterator[list[Operand]]:
    """Operands that stand together, from the nearest to the number to the farthest; never the number itself."""
    others = [one for one in operands if one.claim is not claim]
    if claim.cell is not None:
        here = [one for one in others if one.claim.passage is claim.passage and one.claim.cell is not None]
        yield [one for one in here if one.claim.cell and one.claim.cell.row == claim.cell.row]
        yield [one for one in here if one.claim.cell and one.claim.cell.column == claim.cell.column]
        return
    yield [one for one in others if one.claim.context == claim.context]
    yield [one for one in others if one.claim.passage is claim.passage]


def lines(claim: Claim, operands: Sequence[Operand]) -> list[list[Operand]]:
    """The rows and columns of all tables whose labels share a word with the sentence of the number."""
    words = words_of(claim.context)
    found: dict[tuple[int, str, int], list[Operand]] = {}
    labels: dict[tuple[int, str, int], str] = {}
    for one in operands:
        cell = one.claim.cell
        if cell is None or one.claim is claim:
            continue
        for key, label in (((id(one.claim.passage), "row", cell.row), cell.row_label),
                           ((id(one.claim.passage), "column", cell.column), cell.column_label)):
            found.setdefault(key, []).append(one)
            labels[key] = label
    return [line for key, line in found.items() if len(line) > 1 and words & words_of(labels[key])]


def derived(number: Printed, operands: Sequence[Operand], *, change: bool = False) -> Iterator[Derived]:
    """What one step makes of operands that stand together; `change` says that a number without a sign of percent
    may be a relative change, as its column is called one."""
    chosen = operands[:MOST_OPERANDS]
    for one, other in permutations(chosen, 2):
        if one.claim.number.percent == other.claim.number.percent:
            shown = _shown(one.claim.number), _shown(other.claim.number)
            for a, b in {(one.claim.number.value, other.claim.number.value), (one.value, other.value)}:
                yield from _pair(number, a, b, *shown, relative=change or number.percent)
    if number.percent or change:
        for one in chosen:
            whole = 100.0 if abs(one.claim.number.value) > 1 else 1.0
            yield Derived(whole - one.claim.number.value, f"{whole:g} - {_shown(one.claim.number)}")
    if len(chosen) > 1 and not number.factor and len({one.claim.number.percent for one in chosen}) == 1:
        shown_all = ", ".join(_shown(one.claim.number) for one in chosen)
        yield Derived(float(np.mean([one.value for one in chosen])), f"mean of {shown_all}")


def _pair(number: Printed, a: float, b: float, left: str, right: str, *, relative: bool) -> Iterator[Derived]:
    if not number.factor:
        yield Derived(a - b, f"{left} - {right}")
    if b and relative:
        yield Derived((a - b) / abs(b), f"({left} - {right}) / {right}")
    if b and (number.factor or relative):
        yield Derived(a / b, f"{left} / {right}")


def states_change(claim: Claim) -> bool:
    """Whether the column or row of a cell is called a change, or a score out of a hundred."""
    return claim.cell is not None and bool(_CHANGE.search(claim.cell.label))


_CHANGE = re.compile(
    r"improve|change|gain|drop|reduction|decrease|increase|degradation|difference|delta|\u0394|\\Delta|gap|score|rel\b",
    re.I)


def _shown(number: Printed) -> str:
    return f"({number.text})" if number.text[0] in "+-\u2212" else number.text


# --- of result files ------------------------------------------------------------------------------------------------


def statistics(results: Results) -> Results:
    """Mean, standard deviation, median of each series of at least two values: as series of one value each."""
    found = Results()
    for one in results.series:
        if 2 <= len(one.values) <= 20_000 and not one.written and len(set(one.values)) > 1:
            values = np.array(one.values)
            where = f"{len(one.values)} values of {one.key}"
            statistic = {"mean": values.mean(), "median": np.median(values),
                         "standard deviation (n - 1)": values.std(ddof=1), "standard deviation (n)": values.std()}
            found.series += [
                Series(one.file, f"{name} of {where}", one.words, [float(value)], [""])
                for name, value in statistic.items()]
    return found


def best(number: Printed, found: Sequence[Derived]) -> tuple[Derived | None, float]:
    """The first that the number is a rounding of, and the chance of any match among all of them."""
    if not found:
        return None, 0.0
    values = Values.of(np.array([one.value for one in found]))
    matched = values.matches(number)
    return (found[min(matched)], values.chance(number)) if matched else (None, 0.0)
