"""Read training curves from a command's checkout: tables with a step column.

A table is a .csv, .tsv or .jsonl file of the run with a column `step`, `iteration`, `epoch` or similar; its other
numbers are curves. Curves whose folder, file, name or row contains `test`, or that match the output redaction, are
withheld entirely. Values are compared with the test result unless the name contains train or validation. Curves are not
used for selection, so unreadable files are skipped silently. Limits: test results under another name and with other
numbers are not found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from labwright.record.schema.data_plan import MAX_ABSOLUTE_VALUE, MAX_STEPS, Measurement, Split
from labwright.record.schema.nodes import Cell
from labwright.record.untrusted_files import BadFile, raise_read_errors_as
from labwright.sandbox.repository.command import WITHHELD_LINE, OutputRedactor
from labwright.sandbox.repository.metric import TABLE_SUFFIXES, list_oldest_first, read_rows

MAX_CURVES, MAX_POINTS = 16, 250
"""Maximum number of curves per cell (the first ones) and of points per curve (evenly spaced steps and the last)."""
_MAX_FILES, _MAX_ROWS, _MAX_NAME_CHARS = 20, 100_000, 100
_STEP_COLUMNS = ("step", "global_step", "_step", "iteration", "iter", "epoch")
_SPLIT_BY_WORD: Mapping[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
    **dict.fromkeys(("dev", "eval", "evaluation"), "dev"),
}
_SPLIT_PREFIX_PATTERN = re.compile(rf"(?i)^(?:{'|'.join(_SPLIT_BY_WORD)})[/_. -]+(?=.)")
"""Prefix of a name that merely repeats the split."""


CurveKey = tuple[Split | None, str]


@dataclass
class CollectedCurves:
    """Points by split and name. If several files contain a curve, the newest is kept."""

    curves: dict[CurveKey, dict[int, float]] = field(default_factory=dict[CurveKey, dict[int, float]])
    places: dict[CurveKey, str] = field(default_factory=dict[CurveKey, str])

    def add_point(self, source: str, name: str, step: int, value: float, hint: str = "") -> None:
        """Add a point of a curve; `hint` is further text that describes it."""
        shown, split = _classify_name(f"{source} {hint} {name}")
        if not shown or not 0 < len(name) <= _MAX_NAME_CHARS or not name.isprintable():
            return
        if not abs(value) <= MAX_ABSOLUTE_VALUE or abs(step) > MAX_STEPS:
            return
        key = split, _SPLIT_PREFIX_PATTERN.sub("", name)
        if self.places.get(key) != source:
            self.places[key], self.curves[key] = source, {}
        self.curves[key][step] = value


@lru_cache(4096)
def _classify_name(text: str) -> tuple[bool, Split | None]:
    """Return whether a curve with this name may be shown, and the last split in the name."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower())
    split: Split | None = next((_SPLIT_BY_WORD[word] for word in reversed(words) if word in _SPLIT_BY_WORD), None)
    return not any(word.startswith("test") for word in words), split


def read_command_curves(folder: Path, cell: Cell, hidden: OutputRedactor, since: float) -> list[Measurement]:
    """Return the points of a cell's curves, graded `logged`, from files not older than `since`."""
    found = CollectedCurves()
    with suppress(BadFile), raise_read_errors_as("curves"):
        files = sorted(file for suffix in TABLE_SUFFIXES for file in list_oldest_first(folder, f"**/*{suffix}"))
        for name in [name for changed, name in files if changed >= since][-_MAX_FILES:]:
            with suppress(BadFile), raise_read_errors_as(name):
                _add_rows(name, islice(read_rows(folder, name), _MAX_ROWS), found)
    shown = (curve for curve in found.curves.items() if not _reveals_result(*curve, hidden))
    about: dict[str, Any] = {"condition": cell.condition, "dataset": cell.dataset, "seed": cell.seed, "grade": "logged"}
    return [
        Measurement(name=name, value=points[step], split=split or "train", step=step, **about)
        for (split, name), points in islice(shown, MAX_CURVES)
        for step in sorted({*sorted(points)[:: math.ceil(len(points) / MAX_POINTS)], max(points)})
    ]


def _reveals_result(key: CurveKey, points: Mapping[int, float], hidden: OutputRedactor) -> bool:
    split, name = key
    lines = "\n".join(f"{name} {value:.6g}" for value in points.values())
    redactor = OutputRedactor(hidden.patterns) if split in ("train", "validation") else hidden
    return WITHHELD_LINE in redactor.redact(lines)


def _add_rows(place: str, rows: Iterable[Mapping[str, object]], found: CollectedCurves) -> None:
    """Add the numbers of rows with a step; the words in a row are hints to what its numbers mean."""
    for row in rows:
        cells = {str(name).strip(): _to_float(value) for name, value in row.items()}
        by_name = {name.lower(): value for name, value in cells.items()}
        steps = [by_name[name] for name in _STEP_COLUMNS if not math.isnan(by_name.get(name, math.nan))]
        if not steps or not steps[0].is_integer():
            continue
        words = [text for text in row.values() if isinstance(text, str) and math.isnan(_to_float(text))]
        hint = " ".join(words)[:_MAX_NAME_CHARS]
        for name, value in cells.items():
            if name.lower() not in _STEP_COLUMNS and not name.startswith("_"):
                found.add_point(place, name, int(steps[0]), value, hint)


def _to_float(value: object) -> float:
    """Return a value as float, or NaN if it is not a number."""
    with suppress(ValueError, OverflowError):
        return math.nan if isinstance(value, bool) or not isinstance(value, int | float | str) else float(value)
    return math.nan
