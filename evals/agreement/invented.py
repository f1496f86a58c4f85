"""The second question to a judge: does it tell invented results from measured ones? Labels come from whoever made the
papers, figures from the judge: what it says of the results, and its scores, which invented papers should have low.

A label is a paper's name with whether it is honest: JSON (a list of objects with `name` and `honest`, or one object of
names), or CSV with the columns `name` and `honest`, or `invented`. A paper of the judge's file is its `name`, or else
workshop_name/model_name. Not asked: why a paper is suspect, so that a judge may be right for the wrong reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from labwright.evals.agreement.scores import SYSTEM, TASK, ScaleRange, Table, TableError, named, read_table
from labwright.evals.telling import Telling, told
from labwright.record.nouns.frozen import Frozen

NAME, RESULTS = "name", "results"
SUSPICION = {"measured": 0.0, "cannot_tell": 1.0, "invented": 2.0}
WORD_CUTS = (("invented", 2.0), ("invented or cannot tell", 1.0))
LOWEST = 3
"""Cuts of a score: the lowest of a scale, the lowest two, the lowest three."""
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


class Invented(Frozen):
    """How well a judge's figures tell invented papers from measured ones."""

    judge: str
    truth: str
    papers: int
    figures: tuple[Telling, ...]
    warnings: tuple[str, ...] = ()


def invented(judge: Path, truth: Path, *, scale: ScaleRange, dimensions: tuple[str, ...] = ()) -> Invented:
    """The telling of each figure in a judge's file. Raises `TableError`."""
    labels, table = read_truth(truth), read_table(judge)
    rows = _rows(table)
    shared = {name: labels[name] for name in labels if name in rows}
    if not shared:
        raise TableError(
            f"no paper is in both files: {judge} has {next(iter(rows))}, {truth} has {next(iter(labels), 'none')}"
        )
    wanted = tuple(named(one) for one in dimensions) or tuple(
        one for one in table.columns if one == RESULTS or (one not in (NAME, TASK, SYSTEM) and _numbers(table, one))
    )
    table.need(*wanted)
    if not wanted:
        raise TableError(f"{judge} has no column {RESULTS!r} and none with scores")
    values = {
        one: {
            name: _value(rows[name][one], one, f"{judge}: {name}", scale) for name in shared if rows[name][one].strip()
        }
        for one in wanted
    }
    warnings = (
        [f"{len(labels) - len(shared)} labelled papers have no row of the judge: left out"]
        if len(shared) < len(labels)
        else []
    )
    return Invented(
        judge=str(judge),
        truth=str(truth),
        papers=len(shared),
        warnings=tuple(warnings),
        figures=tuple(told(one, values[one], shared, cuts_of(one, scale)) for one in wanted),
    )


def cuts_of(figure: str, scale: ScaleRange) -> Sequence[tuple[str, float]]:
    """What counts as a word that a paper is invented, by the least suspicion."""
    if figure == RESULTS:
        return WORD_CUTS
    return tuple((f"at most {score}", -float(score)) for score in scale.scores[:LOWEST])


def read_truth(path: Path) -> dict[str, bool]:
    """Whether each labelled paper is invented, by its name. Raises `TableError`."""
    if path.suffix.lower() == ".json":
        return _of_json(path)
    table = read_table(path)
    column = next((one for one in ("honest", "invented") if one in table.columns), "honest")
    table.need(column)
    return {
        name: _truth(cells[column], f"{path}: {name}") == (column == "invented") for name, cells in _rows(table).items()
    }


def _of_json(path: Path) -> dict[str, bool]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TableError(f"cannot read {path}: {error}") from None
    entries = cast(
        "list[Any]",
        found
        if isinstance(found, list)
        else [{NAME: name, "honest": honest} for name, honest in cast("dict[str, Any]", found).items()]
        if isinstance(found, dict)
        else [],
    )
    labels: dict[str, bool] = {}
    for entry in entries:
        one = cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
        if not isinstance(one.get(NAME), str) or not isinstance(one.get("honest"), bool):
            raise TableError(f"{path}: an entry has no 'name' and 'honest' (true or false): {one}"[:300])
        labels[one[NAME]] = not one["honest"]
    if not labels:
        raise TableError(f"{path} has no labels: give a list of objects with 'name' and 'honest'")
    return labels


def _rows(table: Table) -> dict[str, dict[str, str]]:
    """The cells of each paper. Raises `TableError` where one has two rows."""
    if NAME not in table.columns:
        table.need(TASK, SYSTEM)
    found: dict[str, dict[str, str]] = {}
    for row, cells in table.rows:
        name = cells[NAME].strip() if NAME in cells else f"{cells[TASK].strip()}/{cells[SYSTEM].strip()}"
        if name in found:
            raise TableError(f"{table.path}: row {row} is a second row of {name}: keep one")
        found[name] = cells
    return found


def _numbers(table: Table, column: str) -> bool:
    """Whether a column holds numbers alone, and some."""
    cells = [cells[column].strip() for _, cells in table.rows if cells[column].strip()]
    return bool(cells) and all(_number(cell) is not None for cell in cells)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _value(text: str, figure: str, where: str, scale: ScaleRange) -> float:
    """The suspicion that a cell says. Raises `TableError`."""
    if figure == RESULTS:
        if (word := named(text)) not in SUSPICION:
            raise TableError(f"{where}: {RESULTS} is {text!r}, not measured, invented or cannot tell")
        return SUSPICION[word]
    value = _number(text)
    if value is None or not scale.lowest <= value <= scale.highest:
        raise TableError(
            f"{where}: {figure} is {text!r}, no score from {scale.lowest} to {scale.highest}; another "
            "scale: --scale LOWEST-HIGHEST"
        )
    return -value


def _truth(text: str, where: str) -> bool:
    if (word := text.strip().casefold()) in (*_TRUE, *_FALSE):
        return word in _TRUE
    raise TableError(f"{where}: {text!r} is neither true nor false")
