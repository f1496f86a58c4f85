"""Where a program leaves its result, and the number that is read there.

    FILE.json:a.b.0                  a value in JSON; words and places of lists joined by dots
    FILE.csv:column                  the last row that has one; so FILE.tsv, and FILE.jsonl with a row a line
        ...@last                     the same
        ...@min(c), ...@max(c)       the row where another column (or this one) is least or greatest
        ...@epoch=3                  the row where a column has that value
    tb:FOLDER:tag@last               TensorBoard's event files in a folder and below; @min, @max of tags, @step=3
    wandb:FOLDER:key                 the summary of a run that Weights & Biases kept offline; of its history as tables
    stdout:REGEX                     the last match of its first group in what was printed

A file's name may hold * and ** where the program names folders by itself: the newest match is read. `{out}` stands for
the folder of the run. The files are the repository's, written by code that is not trusted: links are not followed,
sizes are limited, and whatever cannot be read is a failure of the kind `no measurement`, in words.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from labwright.record.errors import UsageError
from labwright.record.schema.nodes import Failure
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.event_files import read_scalar_rows
from labwright.sandbox.repository.output_files import (
    MetricFileNotFound,
    MetricNotFound,
    find_file,
    list_matching,
    refuse_links,
)
from labwright.sandbox.repository.wandb_files import read_newest_run
from labwright.sandbox.safe_io import BadFile, open_regular, raise_read_errors_as, remove_path, resolve_inside

MAX_METRIC_BYTES = 64 * 2**20
"""Largest file that a metric is read from; those of trackers may hold more."""

MetricKind = Literal["json", "table", "tb", "wandb", "stdout", "predictions"]
PREDICTIONS_KIND = "predictions"
_ROW_PATTERN = re.compile(r"(?P<column>.+?)(?:@(?:last|(?P<end>min|max)\((?P<by>[^()]+)\)|(?P<at>[^@=]+)=(?P<is>.+)))?")
_TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl")
_METRIC_FORMS = "FILE.json:a.b, FILE.csv:column@last, tb:FOLDER:tag@last or stdout:REGEX"


class MetricError(UsageError):
    """A metric that is written in no known way. Who acts: whoever wrote it."""


@dataclass(frozen=True)
class ResultMetric:
    """Where a number is. `place`: file, or folder of event files; `name`: keys, column, tag, regular expression, or by
    what predictions (FILE[:COLUMN]) are scored."""

    text: str
    """As it was written."""
    kind: MetricKind
    place: str
    name: str
    extremum: str = ""
    """`min` or `max`: the row is chosen by `by`."""
    by_column: str = ""
    """The column that a row is chosen by; empty: the last row."""
    equal_to: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class MetricReading:
    """A finite number, or why there is none. `note`: what is to be known of how it was read."""

    value: float | None = None
    note: str = ""
    failure: Failure | None = None


def parse_metric(text: str, out: str = "out") -> ResultMetric:
    """Raises: MetricError, whose message says how metrics are written."""
    kind, _, rest = text.partition(":")
    if kind == "stdout":
        return ResultMetric(text, "stdout", "", _compile_expression(rest))
    if kind == PREDICTIONS_KIND:
        place, _, name = rest.rpartition("@")
        return ResultMetric(text, kind, _check_inside(place.replace("{out}", out), text), name)
    if kind == "tb" or kind == "wandb":
        place, _, rest = rest.partition(":")
        return _parse_row_metric(kind, _check_inside(place.replace("{out}", out), text), rest, text)
    place = _check_inside(kind.replace("{out}", out), text)
    if place.endswith(_TABLE_SUFFIXES):
        return _parse_row_metric("table", place, rest, text)
    if not place.endswith(".json") or not rest:
        raise MetricError(f"cannot read the metric {text!r}: write {_METRIC_FORMS}")
    return ResultMetric(text, "json", place, rest)


def _compile_expression(written: str) -> str:
    try:
        groups = re.compile(written).groups
    except re.error as error:
        raise MetricError(f"the regular expression {written!r} cannot be read: {error}") from error
    if not groups:
        raise MetricError(
            f"stdout:{written} says not which part is the number: put it in parentheses, like stdout:accuracy ([0-9.]+)"
        )
    return written


def _check_inside(place: str, text: str) -> str:
    path = PurePosixPath(place)
    if not place or path.is_absolute() or ".." in path.parts:
        raise MetricError(f"the metric {text!r} names no file in the repository: write {_METRIC_FORMS}")
    return str(path)


def _parse_row_metric(kind: MetricKind, place: str, rest: str, text: str) -> ResultMetric:
    found = _ROW_PATTERN.fullmatch(rest)
    if found is None or "@" in found["column"]:
        raise MetricError(
            f"cannot read which row {text!r} means: write column@last, column@min(other), "
            "column@max(other) or column@epoch=3"
        )
    by, wanted = found["by"] or found["at"] or "", found["is"] or ""
    return ResultMetric(text, kind, place, found["column"].strip(), found["end"] or "", by.strip(), wanted.strip())


def read_metric(
    metric: ResultMetric,
    folder: Path,
    stdout: str = "",
    *,
    scale: float = 1.0,
    stale: bool = False,
    since: float | None = None,
) -> MetricReading:
    """The number that a run left in its folder, times `scale`.

    `stale`: a file of that name lay there before and was taken away; `since`: when the run began, by the clock of the
    file system (`sandbox.file_clock`): a file that is older is not of this run.
    """
    try:
        with raise_read_errors_as(f"{metric} cannot be read", BadFile, csv.Error):
            value, note = _READERS[metric.kind](metric, folder, stdout, since)
            return MetricReading(_to_finite(value, metric) * scale, note)
    except BadFile as error:
        stale = stale and isinstance(error, MetricFileNotFound)
        said = f"{error}; the one in the repository is older than the run" if stale else str(error)
        return MetricReading(failure=Failure(kind="no measurement", message=said))


def _to_finite(value: object, metric: ResultMetric) -> float:
    """Numbers only: of text and truth values nobody said that they are numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MetricNotFound(f"{metric} is not a number: {str(value)[:80]!r}")
    if not math.isfinite(value):
        raise MetricNotFound(f"{metric} is not finite: {value}")
    return float(value)


def _parse_number(text: object, metric: ResultMetric) -> float:
    try:
        return float(text) if isinstance(text, str | int | float) else math.nan
    except ValueError:
        raise MetricNotFound(f"{metric} is not a number: {str(text)[:80]!r}") from None


def _read_stdout(metric: ResultMetric, folder: Path, stdout: str, since: float | None) -> tuple[float, str]:
    found = [one[1] for one in re.finditer(metric.name, stdout)]
    if not found:
        raise MetricNotFound(f"nothing that was printed matches {metric.name!r}")
    return _parse_number(found[-1], metric), f"{len(found)} matches, the last was taken" if len(found) > 1 else ""


def _read_json(metric: ResultMetric, folder: Path, stdout: str, since: float | None) -> tuple[Any, str]:
    name, note = find_file(metric.place, folder, since)
    with open_regular(folder, name, MAX_METRIC_BYTES) as file:
        value: Any = json.loads(file.read())
    keys = metric.name.split(".")
    while keys:
        value, keys = _descend(value, keys, metric)
    return value, note


def _descend(value: object, keys: list[str], metric: ResultMetric) -> tuple[object, list[str]]:
    """What the next key holds, and the keys that are left. A key may itself hold dots."""
    key = keys[0]
    if isinstance(value, dict):
        for count in range(len(keys), 0, -1):
            if (whole := ".".join(keys[:count])) in value:
                return cast(dict[str, object], value)[whole], keys[count:]
    listed = cast(list[object], value) if isinstance(value, list) else []
    if re.fullmatch(r"-?\d+", key) and -len(listed) <= int(key) < len(listed):
        return listed[int(key)], keys[1:]
    there = ", ".join(map(str, islice(cast(dict[str, object], value), 12))) if isinstance(value, dict) else ""
    raise MetricNotFound(f"{metric}: no such key as {key!r}" + (f"; there are {there}" if there else ""))


def _read_table(metric: ResultMetric, folder: Path, stdout: str, since: float | None) -> tuple[float, str]:
    name, note = find_file(metric.place, folder, since)
    with open_regular(folder, name, MAX_METRIC_BYTES) as raw:
        text = TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
        if name.endswith(".jsonl"):
            return _choose_row((cast(MetricRow, json.loads(line)) for line in text if line.strip()), metric), note
        rows = csv.DictReader(text, delimiter="\t" if name.endswith(".tsv") else ",", skipinitialspace=True)
        columns = [column.strip() for column in rows.fieldnames or ()]
        for wanted in filter(None, (metric.name, metric.by_column)):
            if wanted not in columns:
                raise MetricNotFound(f"{metric}: no such column as {wanted!r}; there are {', '.join(columns[:12])}")
        rows.fieldnames = columns
        return _choose_row(cast(Iterator[MetricRow], rows), metric), note


def _read_events(metric: ResultMetric, folder: Path, stdout: str, since: float | None) -> tuple[float, str]:
    refuse_links(folder, metric.place)
    found = read_scalar_rows(folder, metric.place, {metric.name, metric.by_column} - {""}, since or 0.0)
    if not found.files:
        raise MetricFileNotFound(f"no such file as events.out.tfevents.* in {metric.place}")
    if metric.name not in found.tags:
        raise MetricNotFound(f"{metric}: no such tag; there are {', '.join(sorted(found.tags)[:12])}")
    return _choose_row(found.rows, metric), f"{found.files} event files, read as one" if found.files > 1 else ""


def _read_offline(metric: ResultMetric, folder: Path, stdout: str, since: float | None) -> tuple[float, str]:
    refuse_links(folder, metric.place)
    found = read_newest_run(folder, metric.place, since or 0.0)
    if not found.files:
        raise MetricFileNotFound(f"no such file as *.wandb in {metric.place}")
    rows = found.rows if metric.by_column else [*found.rows, found.summary]
    return _choose_row(rows, metric), f"{found.files} runs there, the newest was read" if found.files > 1 else ""


MetricRow = Mapping[str, object]


def _choose_row(rows: Iterable[MetricRow], metric: ResultMetric) -> float:
    """Of the rows that hold the metric: the last, or the one that another column chooses; of equal ones the first."""
    best: object = None
    least: float | None = None
    sign = -1 if metric.extremum == "max" else 1
    for row in rows:
        if row.get(metric.name) in (None, "") or (metric.by_column and row.get(metric.by_column) in (None, "")):
            continue
        if metric.extremum:
            by = sign * _parse_number(row[metric.by_column], metric)
            if math.isnan(by) or (least is not None and by >= least):
                continue
            least = by
        elif metric.by_column and not _is_equal(row[metric.by_column], metric.equal_to):
            continue
        best = row[metric.name]
    if best is None:
        which = f" where {metric.by_column} is {metric.equal_to}" if metric.equal_to else ""
        raise MetricNotFound(f"{metric}: no such row{which}")
    return _parse_number(best, metric)


def _is_equal(found: object, wanted: str) -> bool:
    try:
        return float(str(found)) == float(wanted)
    except ValueError:
        return str(found).strip() == wanted


_READERS: dict[MetricKind, Callable[[ResultMetric, Path, str, float | None], tuple[Any, str]]] = {
    "json": _read_json,
    "table": _read_table,
    "tb": _read_events,
    "wandb": _read_offline,
    "stdout": _read_stdout,
}


def prepare_checkout(checkout: Path, metrics: Iterable[ResultMetric], out: str) -> list[bool]:
    """Take away files that hold metrics before the run, and see that `out` is a folder of the checkout's own.

    Of each metric whether there were any. Raises `RepositoryError` where a folder on the way is a link, which leads to
    files of the user: what a run left there would not be read either.
    """
    place = checkout / out
    if place.is_symlink() or not place.is_dir():
        remove_path(checkout, out)
        place.mkdir()
    try:
        return [_clear_metric_file(checkout, metric) for metric in metrics]
    except BadFile as error:
        raise RepositoryError(
            f"the metric would be read behind a link of the repository ({error}): name the file "
            "where it lies in the repository, or make that a folder"
        ) from None


def _clear_metric_file(checkout: Path, metric: ResultMetric) -> bool:
    if metric.kind in ("tb", "wandb"):
        refuse_links(checkout, metric.place)
    if metric.kind not in ("json", "table", PREDICTIONS_KIND):
        return False
    there = [
        name
        for name in list_matching(checkout, metric.place.partition(":")[0])
        if os.path.lexists(resolve_inside(checkout, name))
    ]
    for name in there:
        remove_path(checkout, name)
    return bool(there)
