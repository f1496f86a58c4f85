"""Values over training that a command left in its checkout: TensorBoard's and W&B's files, tables with a step.

A table is a .csv, .tsv or .jsonl file that the run wrote, with a column `step`, `iteration`, `epoch` or the like, whose
other numbers are curves. Withheld whole: a curve whose folder, file, name or row says `test`, and one of which a line
of output would be withheld; values are compared with the test result where no name says that it is training's or
validation's. Nothing is chosen by a curve, so what cannot be read is left out without a word. Not found: test results
under a name that says something else, in other numbers.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import cast

from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import LARGEST, MOST_STEPS, Measurement, Split
from labwright.sandbox.repository.event_files import EVENTS, newest_last, scalars_of
from labwright.sandbox.repository.hiding import WITHHELD, Hidden
from labwright.sandbox.repository.wandb_files import newest_run
from labwright.sandbox.untrusted import BadFile, open_regular, read_as

CURVES, POINTS = 16, 250
"""Of one cell, the first; and of one curve, evenly over its steps, with the last."""
_FILES, _ROWS, _BYTES, _NAME = 20, 100_000, 64 * 2**20, 100
_STEPS = ("step", "global_step", "_step", "iteration", "iter", "epoch")
_SPLITS: Mapping[str, Split] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "dev",
    "eval": "dev",
    "evaluation": "dev",
}
_BEGINNING = re.compile(rf"(?i)^(?:{'|'.join(_SPLITS)})[/_. -]+(?=.)")
"""Of a name, which its split says as well."""


@dataclass
class _Found:
    """Points by split and name. Of one that several places hold, the newest place's are kept."""

    curves: dict[tuple[Split | None, str], dict[int, float]] = field(
        default_factory=dict[tuple[Split | None, str], dict[int, float]]
    )
    places: dict[tuple[Split | None, str], str] = field(default_factory=dict[tuple[Split | None, str], str])

    def add(self, place: str, name: str, step: int, value: float, told: str = "") -> None:
        """A point of a curve; `told`: what else says of what it is."""
        shown, split = _named(f"{place} {told} {name}")
        if not shown or not 0 < len(name) <= _NAME or not name.isprintable():
            return
        if not abs(value) <= LARGEST or abs(step) > MOST_STEPS:
            return
        key = split, _BEGINNING.sub("", name)
        if self.places.get(key) != place:
            self.places[key], self.curves[key] = place, {}
        self.curves[key][step] = value


@lru_cache(4096)
def _named(text: str) -> tuple[bool, Split | None]:
    """Whether a curve of that name is shown, and the split that it is of: the last that is named."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower())
    split: Split | None = next((_SPLITS[one] for one in reversed(words) if one in _SPLITS), None)
    return not any(one.startswith("test") for one in words), split


def curves_of(folder: Path, cell: Cell, hidden: Hidden, since: float) -> Iterator[Measurement]:
    """The points of a cell's curves, graded `logged`, from files that are no older than `since`."""
    found = _Found()
    for read in (_of_tables, _of_events, _of_offline):
        with suppress(BadFile), read_as("curves", BadFile, csv.Error):
            read(folder, since, found)
    shown = (one for one in found.curves.items() if not _tells(*one, hidden))
    for (split, name), points in islice(shown, CURVES):
        steps = sorted(points)
        for step in sorted({*steps[:: math.ceil(len(steps) / POINTS)], steps[-1]}):
            yield Measurement(
                name=name,
                value=points[step],
                condition=cell.condition,
                dataset=cell.dataset,
                split=split or "train",
                seed=cell.seed,
                step=step,
                grade="logged",
            )


def _tells(key: tuple[Split | None, str], points: Mapping[int, float], hidden: Hidden) -> bool:
    split, name = key
    lines = "\n".join(f"{name} {value:.6g}" for value in points.values())
    return WITHHELD in (Hidden(hidden.patterns) if split in ("train", "validation") else hidden).shown(lines)


def _of_events(folder: Path, since: float, found: _Found) -> None:
    for file in newest_last(folder, ".", EVENTS, since)[-_FILES:]:
        with suppress(BadFile), read_as(file):
            for step, tag, value in islice(scalars_of(folder, file), _ROWS):
                found.add(os.path.dirname(file), tag, step, value)


def _of_offline(folder: Path, since: float, found: _Found) -> None:
    _add_rows("", islice(newest_run(folder, ".", since).rows, _ROWS), found)


def _of_tables(folder: Path, since: float, found: _Found) -> None:
    names = [
        one
        for ending in (".csv", ".tsv", ".jsonl")
        for one in newest_last(folder, ".", ending, since)
        if one.endswith(ending)
    ]
    for name in names[-_FILES:]:
        with (
            suppress(BadFile),
            read_as(name, BadFile, csv.Error),
            open_regular(folder, name, _BYTES) as raw,
            TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="") as text,
        ):
            rows = (
                (json.loads(line) for line in text if line.strip())
                if name.endswith(".jsonl")
                else (csv.DictReader(text, delimiter="\t" if name.endswith(".tsv") else ",", skipinitialspace=True))
            )
            _add_rows(name, cast(Iterable[Mapping[str, object]], islice(rows, _ROWS)), found)


def _add_rows(place: str, rows: Iterable[Mapping[str, object]], found: _Found) -> None:
    """Numbers beside a step; what a row holds in words says of what its numbers are."""
    for row in rows:
        cells = {str(name).strip(): _number(value) for name, value in row.items()}
        at = next(
            (value for one in _STEPS for name, value in cells.items() if name.lower() == one and value == value),
            math.nan,
        )
        if not at.is_integer():
            continue
        told = " ".join(one for one in row.values() if isinstance(one, str) and math.isnan(_number(one)))[:_NAME]
        for name, value in cells.items():
            if name.lower() not in _STEPS and not name.startswith("_"):
                found.add(place, name, int(at), value, told)


def _number(value: object) -> float:
    """NaN for what is none."""
    with suppress(ValueError, OverflowError):
        return math.nan if isinstance(value, bool) or not isinstance(value, int | float | str) else float(value)
    return math.nan
