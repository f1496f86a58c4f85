"""Find printed results that are in no result file and do not follow from numbers that are.

This is a fact about the files, not an accusation. Numbers that need not be in a file are excluded: whole numbers
(counts, sizes, pages), settings (by the words around them, or because the code has them), deviations, cited numbers,
changes (differences, ratios) between any two numbers of the paper, columns of changes from one row, and what follows
from other numbers of the same sentence.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

import numpy as np

from labwright.review.external_papers.arithmetic import (
    MIN_ESTABLISHED_ROWS,
    SCORE_LABEL,
    SETTING_LABEL,
    follows_as_change,
    gives_change,
)
from labwright.review.external_papers.number_matching import MAX_MATCH_CHANCE, compute_match_chance, find_matches
from labwright.review.external_papers.printed_numbers import PrintedNumber
from labwright.review.external_papers.verdicts import NumberVerdict

MAX_PAIRED_VALUES = 60
"""Maximum numbers of a paper between which changes are tried."""
_CHANGE = re.compile(
    r"\b(?:chang|gain|drop|improv|reduc|increas|decreas|differ|delta|\u0394|gap|ratio|relative|advantage|higher|lower"
    r"|faster|slower|more|less|fewer|better|points|times|factor|vs\b|versus)",
    re.I,
)
"""Words next to the size of a change, or in the label of a column or row of changes."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(\[])")
_SPREAD = re.compile(r"(?:\u00b1|\+/?-|\\pm)\W*$|\d\D{0,30}\[(?:[^\[\]]*[,;])?\s*[-\u2212+]?$")
"""Text before a deviation, or a bound of an interval in brackets after its estimate: many methods compute these."""
_CITED = re.compile(
    r"publish|reported (?:by|in)|as reported|taken from|from the literature|quoted|copied from|et al\b|\(\d{4}\)"
    r"|\[\d+\]|\\cite|prior work|source",
    re.I,
)


def find_missing_results(
    verdicts: Sequence[NumberVerdict], settings: Iterable[float] = ()
) -> tuple[NumberVerdict, ...]:
    """Return the numbers that are results and in no result file; `settings` are those that the code has."""
    given = {one.claim.number.text: one.claim.number for one in verdicts if one.kind != "unsupported"}
    pairs = list(permutations(list(given.values())[:MAX_PAIRED_VALUES], 2))
    missing = [one for one in verdicts if one.kind == "unsupported" and not any(_absence_reasons(one))]
    known = list(settings)
    return tuple(
        one
        for one in missing
        if not (
            (_is_change_size(one) and any(gives_change(a, b, one.claim.number) for a, b in pairs))
            or (one.claim.cell is None and _is_among(one.claim.number, known))
            or _is_among(one.claim.number, _combine_others(one, verdicts))
            or _is_change_from_row(one, verdicts)
        )
    )


def _is_among(number: PrintedNumber, values: Sequence[float]) -> bool:
    """Return whether a value rounds to the number, and not by chance."""
    sizes = np.array(values, dtype=np.float64)
    return (
        bool(values) and bool(find_matches(sizes, number)) and compute_match_chance(sizes, number) <= MAX_MATCH_CHANCE
    )


def _combine_others(one: NumberVerdict, verdicts: Sequence[NumberVerdict]) -> list[float]:
    """Return what one step gives for two other numbers of the same sentence, and what these leave of 1.

    Unsupported numbers are left out: each of "48.3 instead of 48.9, a difference of 0.6" follows from the others.
    """
    claim = one.claim
    if claim.cell is not None:
        return []
    values = [
        other.claim.number.value
        for other in verdicts
        if other.kind != "unsupported" and other.claim.passage is claim.passage and other.claim.context == claim.context
    ]
    pairs = list(permutations(dict.fromkeys(values), 2))
    combined = [value for a, b in pairs for value in (a + b, a - b, a * b, *((a / b, (a - b) / abs(b)) if b else ()))]
    return combined + [1 - value for value in combined if 0 < value < 1]


def _is_change_from_row(one: NumberVerdict, verdicts: Sequence[NumberVerdict]) -> bool:
    """Return whether the whole column of a cell has the changes of another column from one row, which has none."""
    cell = one.claim.cell
    if cell is None:
        return False
    columns: dict[int, dict[int, PrintedNumber]] = defaultdict(dict)
    for other in verdicts:
        if other.claim.passage is one.claim.passage and other.claim.cell is not None:
            columns[other.claim.cell.column].setdefault(other.claim.cell.row, other.claim.number)
    own = columns.pop(cell.column)
    return any(
        len(rows := [row for row in own if row in numbers and row != base]) >= MIN_ESTABLISHED_ROWS
        and all(follows_as_change(numbers[row], numbers[base], own[row]) for row in rows)
        for numbers in columns.values()
        for base in numbers
        if abs(numbers[base].value) > numbers[base].rounding_slack
        and (base not in own or own[base].value in (0.0, 1.0, 100.0))
    )


def _absence_reasons(one: NumberVerdict) -> Iterator[bool]:
    """Yield, for each reason why a number may be in no file, whether it applies."""
    number, cell, (before, after) = one.claim.number, one.claim.cell, _text_around(one)
    yield "." not in number.text and not number.percent  # a count
    yield _SPREAD.search(before) is not None
    if cell is not None:
        row = " ".join(other.text for other in one.claim.passage.cells if other.row == cell.row)
        yield _CITED.search(f"{cell.label} {row}") is not None
        yield SETTING_LABEL.search(cell.label) is not None and SCORE_LABEL.search(cell.label) is None
        return
    yield _CITED.search(f"{before}{after}") is not None
    yield SETTING_LABEL.search(before[-30:]) is not None


def _text_around(one: NumberVerdict) -> tuple[str, str]:
    """Return the text before and after a number, in its cell or its sentence, which may span several lines."""
    number, context = one.claim.number, one.claim.context
    if one.claim.cell is not None:
        before, _, after = context.rpartition(number.text)
        return before, after
    text, end = one.claim.passage.text.replace("\n", " "), number.at + len(number.text)
    stop = _SENTENCE_END.search(text, end)
    begin = max((match.end() for match in _SENTENCE_END.finditer(text, 0, number.at)), default=0)
    return text[begin : number.at], text[end : stop.start() if stop else len(text)]


def _is_change_size(one: NumberVerdict) -> bool:
    """Return whether a number is the size of a change, by its form or its context."""
    number, cell, (before, after) = one.claim.number, one.claim.cell, _text_around(one)
    if number.factor or "point" in number.text or "pp" in number.text or number.sign == "-":
        return True
    if cell is not None:
        return _CHANGE.search(cell.label) is not None
    return bool(number.sign) or _CHANGE.search(f"{before[-80:]} {after[:40]}") is not None
