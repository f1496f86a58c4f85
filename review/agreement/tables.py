"""Scores from CSV files: human reviews, one row a review; a judge's scores, one row a paper.

A paper is the pair (workshop_name, model_name). Headers are read without regard to case, spaces, hyphens and a byte
order mark; cells without the space around them. Every other column of the human file is a dimension, unless dimensions
are named; the judge's file may have more columns, which are not looked at.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from review.agreement.errors import TableError

REVIEWER, SYSTEM, TASK = "reviewer_id", "model_name", "workshop_name"
MOST_BYTES = 20_000_000


@dataclass(frozen=True, order=True)
class PaperName:
    """Which paper: the task it was made for and the system that made it."""

    task: str
    system: str

    def __str__(self) -> str:
        return f"{self.task}/{self.system}"


@dataclass(frozen=True)
class Review:
    """One reading of a paper. `reviewer` is empty for the judge; `row` counts from 1, the header."""

    reviewer: str
    paper: PaperName
    scores: dict[str, float]
    row: int


@dataclass(frozen=True)
class ScaleRange:
    """The lowest and the highest score that may be given."""

    lowest: int = 1
    highest: int = 10

    @property
    def scores(self) -> range:
        return range(self.lowest, self.highest + 1)


@dataclass(frozen=True)
class Table:
    """A CSV file: names of columns as we write them, and rows of as many cells."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]

    def need(self, *names: str) -> None:
        """Raises `TableError` if one of the columns is missing."""
        for name in names:
            if name not in self.columns:
                raise TableError(f"{self.path} has no column {name!r}, only {', '.join(self.columns)}: add it, or name "
                                 "the dimensions to compare with --dimensions")


def read_humans(path: Path, scale: ScaleRange, dimensions: tuple[str, ...] = ()) -> tuple[Review, ...]:
    """The human reviews of a file, in its order. Raises `TableError`."""
    table = _table(path)
    table.need(REVIEWER, SYSTEM, TASK)
    wanted = dimensions or tuple(name for name in table.columns if name not in (REVIEWER, SYSTEM, TASK))
    if not wanted:
        raise TableError(f"{path} has no column with scores beside {REVIEWER}, {SYSTEM} and {TASK}")
    table.need(*wanted)
    return tuple(_review(table, row, cells, wanted, scale) for row, cells in table.rows)


def read_judge(path: Path, scale: ScaleRange, dimensions: tuple[str, ...]) -> dict[PaperName, Review]:
    """The judge's scores by paper, for these dimensions. Raises `TableError`, also where a paper has two rows."""
    table = _table(path)
    table.need(SYSTEM, TASK, *dimensions)
    found: dict[PaperName, Review] = {}
    for row, cells in table.rows:
        one = _review(table, row, cells, dimensions, scale)
        if one.paper in found:
            raise TableError(f"{path}: rows {found[one.paper].row} and {row} both score {one.paper}: a judge has one "
                             "row a paper; take the mean, or one of them")
        found[one.paper] = one
    return found


def named(text: str) -> str:
    """A column's name as we write it: `Workshop Name` is `workshop_name`."""
    return "_".join(text.replace("-", " ").replace("_", " ").casefold().split())


def _table(path: Path) -> Table:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TableError(f"{path} is larger than {MOST_BYTES // 10**6} MB: give the scores alone")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}; give a CSV file") from None
    except UnicodeDecodeError:
        raise TableError(f"{path} is not text in UTF-8: give a CSV file") from None
    try:
        lines = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(text), strict=True), 1)
                 if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise TableError(f"{path} is not CSV: {error}") from None
    if len(lines) < 2:
        raise TableError(f"{path} has no rows under a header")
    columns = tuple(named(cell) for cell in lines[0][1])
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise TableError(f"{path} has the column {twice[0]!r} twice: keep one")
    for number, row in lines[1:]:
        if len(row) != len(columns):
            raise TableError(f"{path}: row {number} has {len(row)} cells under {len(columns)} columns")
    return Table(path, columns, tuple((number, dict(zip(columns, row, strict=True))) for number, row in lines[1:]))


def _review(
    table: Table, row: int, cells: dict[str, str], dimensions: tuple[str, ...], scale: ScaleRange
) -> Review:
    for name in (TASK, SYSTEM, REVIEWER):
        if not cells.get(name, "unasked").strip():
            raise TableError(f"{table.path}: row {row}: {name} is empty")
    scores = {name: _score(cells[name].strip(), f"{table.path}: row {row}: {name}", scale) for name in dimensions}
    return Review(cells.get(REVIEWER, "").strip(), PaperName(cells[TASK].strip(), cells[SYSTEM].strip()), scores, row)


def _score(text: str, where: str, scale: ScaleRange) -> float:
    try:
        value = float(text)
    except ValueError:
        raise TableError(f"{where} is {text!r}, which is no number") from None
    if not math.isfinite(value) or not scale.lowest <= value <= scale.highest:
        raise TableError(f"{where} is {text}, outside the scale {scale.lowest}-{scale.highest}; another scale: --scale "
                         "LOWEST-HIGHEST")
    return value
