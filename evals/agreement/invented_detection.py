"""Measure whether a judge detects fabricated results.

Labels come from the authors of the papers. Scores come from the judge: its statement on the results, and its
ratings, which should be low for fabricated papers. Labels are JSON (a list of objects with `name` and `honest`) or
CSV with the columns `name` and `honest`, or `invented`. A paper in the judge's file is identified by `name`, or else
workshop_name/model_name. The judge's reasons are not checked, so it may be right for the wrong reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, StrictBool, TypeAdapter, ValidationError

from labwright.evals.agreement.scores import (
    SYSTEM_COLUMN,
    TASK_COLUMN,
    ScaleRange,
    ScoreTable,
    TableError,
    normalize_column,
    parse_score,
    read_table,
)
from labwright.evals.detection import Detection, compute_detection
from labwright.record.schema import FrozenModel, describe_validation_error

NAME_COLUMN, RESULTS_COLUMN = "name", "results"
SUSPICION = {"measured": 0.0, "cannot_tell": 1.0, "invented": 2.0}
WORD_CUTS = (("invented", 2.0), ("invented or cannot tell", 1.0))
MIN_GROUP_SIZE = 3
"""Cuts of a rating: the lowest, the lowest two and the lowest three of the scale."""
_TRUE_WORDS, _FALSE_WORDS = ("true", "yes", "1"), ("false", "no", "0")


class InventedDetection(FrozenModel):
    """How well a judge's scores separate fabricated from measured papers."""

    judge: str
    truth: str
    papers: int
    figures: tuple[Detection, ...]
    warnings: tuple[str, ...] = ()


def measure_detection(
    judge: Path, truth: Path, *, scale: ScaleRange, dimensions: tuple[str, ...] = ()
) -> InventedDetection:
    """Measure the detection of each score in a judge's file. Raises `TableError`."""
    labels, table = read_truth(truth), read_table(judge)
    rows = _rows_by_paper(table)
    shared = {name: labels[name] for name in labels if name in rows}
    if not shared:
        raise TableError(
            f"no paper is in both files: {judge} has {next(iter(rows))}, {truth} has {next(iter(labels), 'none')}"
        )
    wanted = tuple(normalize_column(one) for one in dimensions) or tuple(
        one
        for one in table.columns
        if one == RESULTS_COLUMN
        or (one not in (NAME_COLUMN, TASK_COLUMN, SYSTEM_COLUMN) and _is_numeric_column(table, one))
    )
    table.require_columns(*wanted)
    if not wanted:
        raise TableError(f"{judge} has neither a column {RESULTS_COLUMN!r} nor columns with scores")
    values = {
        one: {
            name: _parse_suspicion(rows[name][one], one, f"{judge}: {name}", scale)
            for name in shared
            if rows[name][one].strip()
        }
        for one in wanted
    }
    warnings = (
        [f"{len(labels) - len(shared)} labelled papers have no row in the judge's file: ignored"]
        if len(shared) < len(labels)
        else []
    )
    return InventedDetection(
        judge=str(judge),
        truth=str(truth),
        papers=len(shared),
        warnings=tuple(warnings),
        figures=tuple(compute_detection(one, values[one], shared, list_thresholds(one, scale)) for one in wanted),
    )


def list_thresholds(figure: str, scale: ScaleRange) -> Sequence[tuple[str, float]]:
    """Return the cuts at which a paper counts as called fabricated, by minimum suspicion."""
    if figure == RESULTS_COLUMN:
        return WORD_CUTS
    return tuple((f"at most {score}", -float(score)) for score in scale.scores[:MIN_GROUP_SIZE])


def read_truth(path: Path) -> dict[str, bool]:
    """Return whether each labelled paper is fabricated, by name. Raises `TableError`."""
    if path.suffix.lower() == ".json":
        return _read_json_truth(path)
    table = read_table(path)
    column = next((one for one in ("honest", "invented") if one in table.columns), "honest")
    table.require_columns(column)
    return {
        name: _parse_truth(cells[column], f"{path}: {name}") == (column == "invented")
        for name, cells in _rows_by_paper(table).items()
    }


class _Label(BaseModel):
    name: str
    honest: StrictBool


def _read_json_truth(path: Path) -> dict[str, bool]:
    try:
        labels = TypeAdapter(list[_Label]).validate_json(path.read_bytes())
    except OSError as error:
        raise TableError(f"cannot read {path}: {error}") from None
    except ValidationError as error:
        why = describe_validation_error(error)
        raise TableError(f"{path} is not a list of objects with 'name' and 'honest' (true or false): {why}") from None
    if not labels:
        raise TableError(f"{path} has no labels: give a list of objects with 'name' and 'honest'")
    return {one.name: not one.honest for one in labels}


def _rows_by_paper(table: ScoreTable) -> dict[str, dict[str, str]]:
    """Return the row of each paper. Raises `TableError` if a paper has two rows."""
    if NAME_COLUMN not in table.columns:
        table.require_columns(TASK_COLUMN, SYSTEM_COLUMN)
    found: dict[str, dict[str, str]] = {}
    for row, cells in table.rows:
        name = (
            cells[NAME_COLUMN].strip()
            if NAME_COLUMN in cells
            else f"{cells[TASK_COLUMN].strip()}/{cells[SYSTEM_COLUMN].strip()}"
        )
        if name in found:
            raise TableError(f"{table.path}: row {row} is a second row of {name}: keep one")
        found[name] = cells
    return found


def _is_numeric_column(table: ScoreTable, column: str) -> bool:
    """Return whether a column has only numbers, and at least one."""
    cells = [cells[column].strip() for _, cells in table.rows if cells[column].strip()]
    return bool(cells) and all(_parse_number(cell) is not None for cell in cells)


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _parse_suspicion(text: str, figure: str, where: str, scale: ScaleRange) -> float:
    """Return the suspicion that a cell expresses. Raises `TableError`."""
    if figure == RESULTS_COLUMN:
        if (word := normalize_column(text)) not in SUSPICION:
            raise TableError(f"{where}: {RESULTS_COLUMN} is {text!r}, not measured, invented or cannot tell")
        return SUSPICION[word]
    return -parse_score(text.strip(), f"{where}: {figure}", scale)


def _parse_truth(text: str, where: str) -> bool:
    if (word := text.strip().casefold()) in (*_TRUE_WORDS, *_FALSE_WORDS):
        return word in _TRUE_WORDS
    raise TableError(f"{where}: {text!r} is neither true nor false")
