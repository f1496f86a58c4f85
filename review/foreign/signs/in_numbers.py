"""Numbers of a table of results, and of sentences on them, that the result files do not give."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from review.foreign.matching import Floats, chance_of, matches
from review.foreign.origins import SCORE
from review.foreign.printed import Printed
from review.foreign.results import Series
from review.foreign.signs.sign import Sign
from review.foreign.verdicts import Verdict

_SETUP = re.compile(
    r"epoch|batch|learning rate|layers?\b|hidden|param|dimension|samples?\b|seeds?\b|steps?\b|fold|"
    r"iterations?\b|trees\b|depth|"
    r"\bdf\b|\bp\s*[<=]|confidence|interval|size|rows|features|classes|budget|threshold|weight|version",
    re.I,
)


def of_numbers(verdicts: Sequence[Verdict], series: Sequence[Series], code: str) -> Iterator[Sign]:
    """A table of which some numbers are nowhere in the results that hold the others; prose only "
    "where it names a score."""
    quantities = [*_quantities(series), *_printed(verdicts)]
    typed = frozenset(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", code))
    tables: dict[int, list[Verdict]] = defaultdict(list)
    for one in verdicts:
        if _is_result(one, typed):
            tables[one.claim.passage.table].append(one)
    for number, inside in tables.items():
        missing = [one for one in inside if one.kind == "unsupported" and not _is_step(one, quantities)]
        if missing:
            shown = "; ".join(f"{one.claim.number.text} ({one.claim.where.partition(', ')[2]})" for one in missing[:4])
            few = len(missing) <= MISSING * len(inside)
            yield Sign("numbers of the table", f"{len(missing)} of {len(inside)} numbers are in no result file",
                       f"table {number}", shown, .6 if few else .35)
        yield from _rows(number, inside)
    in_tables = {one.claim.number.value for one in verdicts if one.claim.cell is not None}
    prose = [
        one for one in verdicts
        if one.claim.cell is None and one.kind == "unsupported" and one.claim.number.digits >= 3
        and one.claim.number.value not in in_tables
        and (one.claim.number.percent or SCORE.search(one.claim.context)) and not _SETUP.search(_around(one))
        and not _is_step(one, quantities)]
    if prose:
        yield Sign("numbers of the table", f"{len(prose)} numbers of the text are in no result file",
                   prose[0].claim.where,
                   prose[0].claim.context[:160], .5 if len(prose) > 1 or prose[0].claim.number.percent else .4)


MISSING = .34
"""Where more of a table is in no result, it was made from them in a way that is not seen here: a note."""
_SHARE = re.compile(r"% of|share of|per\b|of all|of total|normali", re.I)
_SETTINGS = re.compile(r"^\W*(?:setting|parameter|hyper|option|quantity|item|property|key|symbol|name)s?\b[^|]*\|\W*"
                       r"(?:value|setting|meaning|default|number)", re.I)
_CITED = re.compile(r"source|cite|citation|published|reported|reference|year|paper|et al|\(\d{4}\)|\[\d+\]", re.I)


def _is_result(one: Verdict, typed: Collection[str]) -> bool:
    """Whether a number of a table is a result: no setting of the code, nothing cited, no deviation beside its mean."""
    cell = one.claim.cell
    if cell is None or one.claim.number.digits < 3 or _SHARE.search(cell.column_label):
        return False
    if _SETUP.search(cell.label) or _SETTINGS.search(one.claim.passage.text):
        return False
    row = " ".join(other.text for other in one.claim.passage.cells if other.row == cell.row)
    if _CITED.search(f"{cell.label} {row}") or one.claim.number.text in typed:
        return False
    return not re.search(r"(?:\u00b1|\+/-|\\pm|\()\s*\$?$", cell.text[:one.claim.number.at])


def _rows(number: int, inside: Sequence[Verdict]) -> Iterator[Sign]:
    """Rows of which no number is in the results that hold nearly all of the others."""
    rows: dict[str, list[bool]] = defaultdict(list)
    for one in inside:
        if one.claim.cell is not None and one.claim.number.digits >= 3:
            rows[one.claim.cell.row_label].append(one.kind in ("found", "derivable"))
    for label, given in rows.items():
        others = [there for name, them in rows.items() if name != label for there in them]
        missing = len(given) >= 2 and sum(given) <= (.35 if len(given) >= 4 else 0) * len(given)
        if missing and len(others) >= 3 and sum(others) >= .8 * len(others):
            what = (f"of {label} {sum(given)} of {len(given)} numbers are in the results, of the other rows "
                    f"{sum(others)} of {len(others)}")
            yield Sign("numbers of the table", what, f"table {number}, {label}", "", .65)


MOST_VALUES = 120
"""Values of one quantity that are combined with one another."""
OFTEN = .6
"""A share of numbers that follow from some pair, above which it says nothing that one does."""


def _quantities(series: Sequence[Series]) -> list[Floats]:
    """Values that stand together in the results, with the means of those of one kind: by file, first and last key."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in series:
        if not one.written:
            means = [sum(one.values) / len(one.values)] if 1 < len(one.values) <= 1000 else []
            values = [*one.values[:10], *means]
            first, last = re.split(r"[.|]", one.key)[0], re.split(r"[.|]", one.key)[-1]
            for name in {f"{one.file} {first}", f"{one.file} {last}", one.file}:
                found[name] += values
    return [np.unique(np.array(values, dtype=np.float64))[:MOST_VALUES] for values in found.values() if len(values) > 1]


def _printed(verdicts: Sequence[Verdict]) -> list[Floats]:
    """The numbers that stand in a column, or in a row, of a table."""
    found: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for one in verdicts:
        if one.claim.cell is not None and one.kind != "unsupported":
            table = one.claim.passage.table
            found["column", table, one.claim.cell.column].append(one.claim.number.value)
            found["row", table, one.claim.cell.row].append(one.claim.number.value)
    return [np.unique(np.array(values, dtype=np.float64)) for values in found.values() if len(values) > 1]


def _is_step(one: Verdict, quantities: Sequence[Floats]) -> bool:
    """Whether a number that is said to be a change or a ratio follows from two values of one quantity."""
    number = one.claim.number
    said = _COLUMN.search(one.claim.cell.label) if one.claim.cell is not None else _STEP.search(_around(one))
    if not (said or number.factor or (number.sign in ("-", "+") and one.claim.cell is None)):
        return False
    return any(_follows(number, values) for values in quantities)


def _follows(number: Printed, values: Floats) -> bool:
    differences = np.subtract.outer(values, values)
    with np.errstate(divide="ignore", invalid="ignore"):
        given = np.concatenate([differences.ravel(), (values[:, None] / values[None, :]).ravel(),
                                (differences / np.abs(values[None, :])).ravel()])
    given, unsigned = given[np.isfinite(given)], replace(number, sign="")
    return bool(matches(given, unsigned)) and chance_of(given, unsigned) < OFTEN


_COLUMN = re.compile(r"\bvs\b|versus|chang|relative|gain|drop|improv|reduc|differ|diff\b|delta|\u0394|gap|ratio", re.I)
_STEP = re.compile(
    rf"{_COLUMN.pattern}|adds?\b|gives|times|lower|higher|rise|rose|fall|fell|increas|decreas|points", re.I)


def _around(one: Verdict) -> str:
    """The words beside a number of the text."""
    at, text = one.claim.number.at, one.claim.passage.text
    return text[max(0, at - 25):at] + " " + text[at + len(one.claim.number.text):][:30]
