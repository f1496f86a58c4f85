"""Check whether a paper is consistent with itself: changes, bold values, and the numbers of the abstract.

A change must follow from the two numbers that it compares, a bold value must be the best of its column, and a number in
the abstract must appear in the rest of the paper. Every printed number stands for an interval as wide as its last
place; overlapping intervals agree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

from labwright.review.external_papers.number_matching import (
    Operand,
    derive_values,
    first_match,
    group_by_table_line,
    is_rounding_of,
)
from labwright.review.external_papers.passages import ClaimedNumber, PaperPassage, PaperTableCell
from labwright.review.external_papers.printed_numbers import PrintedNumber, extract_numbers

InconsistencyKind = Literal["delta", "bold", "abstract"]


@dataclass(frozen=True)
class Inconsistency:
    """Two passages of the paper that contradict each other."""

    kind: InconsistencyKind
    where: str
    description: str


def find_inconsistencies(
    passages: Sequence[PaperPassage],
    claims: Sequence[ClaimedNumber],
    text: Sequence[PrintedNumber],
    *,
    backed_claims: Collection[int] = (),
) -> tuple[Inconsistency, ...]:
    """Return all inconsistencies.

    `text` has every number outside the abstract; `backed_claims` are the indices of claims that are in result
    files.
    """
    open_ones = [claim for at, claim in enumerate(claims) if at not in backed_claims]
    found = [
        *_check_columns(claims),
        *_check_sentences(claims),
        *_check_bold(passages),
        *_check_abstract(open_ones, claims, text),
    ]
    return tuple(dict.fromkeys(found))


# --- changes --------------------------------------------------------------------------------------------------------

_CHANGE = re.compile(r"\b(?:improve\w*|change|gain|reduction|decrease|increase|speed-?up|delta)\b|\u0394|\\Delta", re.I)
_FROM_TO = re.compile(r"\bfrom\b[^.;]{0,30}\bto\b|\bvs\b|\bversus\b|compared (?:to|with)", re.I)
CHANGE_AFTER_NUMBER = re.compile(
    r"[\s)]*(?:\w+ )?(?:reduc\w+|improve\w+|increase|decrease|gain|drop|"
    r"lower|higher|faster|slower|speed-?ups?|fewer|less|more|better)\b",
    re.I,
)


def _check_columns(claims: Sequence[ClaimedNumber]) -> Iterator[Inconsistency]:
    """Check a column of changes: each must follow from two numbers of its row, or of a neighbouring column."""
    for claim in claims:
        few = claim.number.digits < 2 and not claim.number.percent
        if claim.cell is None or few or not _CHANGE.search(claim.cell.column_label):
            continue
        table = [
            (one.cell, one.number)
            for one in claims
            if one.passage is claim.passage and one.cell is not None and not _CHANGE.search(one.cell.label)
        ]
        row_cells = [(cell, number) for cell, number in table if cell.row == claim.cell.row]
        row = [number for _, number in row_cells]
        pairs = [
            *permutations(row[:8], 2),
            *(
                pair
                for own, number in row_cells
                for cell, other in table
                if cell.column == own.column and other is not number
                for pair in ((number, other), (other, number))
            ),
        ]
        if len(row) >= 2 and not any(gives_change(a, b, claim.number) for a, b in pairs):
            yield Inconsistency(
                "delta",
                claim.where,
                f"{claim.number.text} does not follow from any two numbers of its row "
                f"({', '.join(number.text for number in row[:8])})",
            )


def _check_sentences(claims: Sequence[ClaimedNumber]) -> Iterator[Inconsistency]:
    """Check sentences such as "from A to B (a reduction of C)": C must follow from A and B."""
    sentences: dict[tuple[int, str], list[ClaimedNumber]] = {}
    for claim in claims:
        if claim.cell is None:
            sentences.setdefault((id(claim.passage), claim.context), []).append(claim)
    for (_, context), stated in sentences.items():
        changes = [one for one in stated if _is_change(one)]
        others = [one.number for one in stated if not _is_change(one)]
        others = [one for one in others if not (one.factor or one.sign == "+" or (one.percent and one.sign))]
        if len(changes) != 1 or len(others) < 2:
            continue
        pairs = [(a, b) for a, b in permutations(others, 2) if a.percent == b.percent and a.step == b.step]
        named = len(others) == 2 or _FROM_TO.search(context)
        change = changes[0].number
        if named and pairs and not change.bound and not any(gives_change(a, b, change) for a, b in pairs):
            shown = ", ".join(one.text for one in others)
            yield Inconsistency(
                "delta", changes[0].where, f"{change.text} does not follow from {shown}: {context[:200]!r}"
            )


def _is_change(claim: ClaimedNumber) -> bool:
    """Return whether the next word calls a percentage or factor a change."""
    number = claim.number
    after = claim.passage.text[number.at + len(number.text) :][:40]
    return (number.percent or number.factor) and bool(CHANGE_AFTER_NUMBER.match(after))


def gives_change(a: PrintedNumber, b: PrintedNumber, change: PrintedNumber) -> bool:
    """Return whether a change is a difference, relative change or ratio of two numbers, within rounding."""

    def forms(x: float, y: float) -> tuple[float, ...]:
        if change.percent:
            return 100 * (x - y) / abs(y), 100 * x / y, (x - y) * (1 if a.percent else 100)
        return x / y, (x - y) / abs(y), *(() if change.factor else (x - y, 100 * (x - y) / abs(y)))

    low, high = abs(change.value) - change.rounding_slack, abs(change.value) + change.rounding_slack
    corners = list(
        product(
            (a.value - a.rounding_slack, a.value + a.rounding_slack),
            (b.value - b.rounding_slack, b.value + b.rounding_slack),
        )
    )
    if any(y == 0 for _, y in corners):
        return True
    for values in zip(*(forms(x, y) for x, y in corners), strict=True):
        sizes = [abs(value) for value in values]
        least = 0.0 if min(values) < 0 < max(values) else min(sizes)
        if least <= high and max(sizes) >= low:
            return True
    return False


# --- bold face ------------------------------------------------------------------------------------------------------

_LOWER_IS_BETTER = re.compile(
    r"\u2193|loss|error|latency|perplexity|\bppl\b|\bmse\b|\bmae\b|rmse|time|memory|\bece\b|fid\b|cost|regret|wer\b",
    re.I,
)
_HIGHER_IS_BETTER = re.compile(
    r"\u2191|accura|\bf1\b|auc|auroc|precision|recall|\bmrr\b|bleu|rouge|throughput|reward|\bmap\b|score", re.I
)


def _check_bold(passages: Sequence[PaperPassage]) -> Iterator[Inconsistency]:
    """Check that a bold number is the best of its column or row; an entirely bold row marks a method."""
    for passage in passages:
        bold_rows = {
            row
            for row in {cell.row for cell in passage.cells}
            if all(cell.bold for cell in passage.cells if cell.row == row and extract_numbers(cell.text, "cell"))
        }
        bold = [cell for cell in passage.cells if cell.bold and cell.row not in bold_rows]
        by_column = [_bold_problem(cell, [one for one in passage.cells if one.column == cell.column]) for cell in bold]
        by_row = [_bold_problem(cell, [one for one in passage.cells if one.row == cell.row]) for cell in bold]
        for what, cell in zip(min(by_column, by_row, key=lambda way: sum(map(bool, way))), bold, strict=True):
            if what:
                yield Inconsistency("bold", f"table {passage.table}, {cell.row_label} / {cell.column_label}", what)


def _bold_problem(cell: PaperTableCell, line: Sequence[PaperTableCell]) -> str:
    """Describe the error of a bold number in its line; return "" if there is none."""
    own, values = (
        extract_numbers(cell.text, "cell")[:1],
        [number.value for one in line for number in extract_numbers(one.text, "cell")[:1]],
    )
    lower, higher = bool(_LOWER_IS_BETTER.search(cell.label)), bool(_HIGHER_IS_BETTER.search(cell.label))
    if not own or len(values) < 2 or sum(one.bold for one in line) > 2:
        return ""
    low, high = min(values), max(values)
    best_of = {low, high} if lower == higher else {low} if lower else {high}
    if own[0].value in best_of:
        return ""
    which = f" ({best_of.pop():g} is)" if lower != higher else ""
    return f"{own[0].text} is in bold, but is not the best of {low:g} to {high:g}{which}"


# --- abstract -------------------------------------------------------------------------------------------------------


def _check_abstract(
    claims: Sequence[ClaimedNumber], every: Sequence[ClaimedNumber], text: Sequence[PrintedNumber]
) -> Iterator[Inconsistency]:
    """Check that a number of the abstract is in the rest of the paper, or follows from a row or column of a table."""
    lines = group_by_table_line(Operand(one, one.number.value) for one in every)
    for claim in claims:
        if claim.passage.role != "abstract" or claim.number.digits < 2 or _is_count(claim):
            continue
        if not any(is_rounding_of(claim.number, one.value) for one in text) and not any(
            first_match(claim.number, derive_values(claim.number, line)) for _, line in lines
        ):
            yield Inconsistency(
                "abstract",
                claim.where,
                f"{claim.number.text} does not occur elsewhere in the paper: {claim.context[:160]!r}",
            )


_COUNTED_THING = re.compile(
    r"\s*(?:\w+[- ]){0,2}(?:samples|examples|instances|features|rows|images|documents|classes|patients|points|"
    r"variables|datasets|seeds|runs|epochs|parameters|steps|rounds|clients|users|tasks|arms|trees|layers|units|dimensions|folds)\b"
)


def _is_count(claim: ClaimedNumber) -> bool:
    """Return whether a number of the abstract counts things that were used, which is a setting rather than a result."""
    number = claim.number
    after = claim.passage.text[number.at + len(number.text) :][:60]
    if re.match(r"\s*times\b", after):
        return True  # a ratio of numbers elsewhere in the paper
    return not number.percent and "." not in number.text and bool(_COUNTED_THING.match(after))
