"""Read the result of a program from its output files or its standard output.

    FILE.json:a.b.0                  a JSON value; keys and list indices joined by dots
    FILE.csv:column                  the last row with a value; also FILE.tsv and FILE.jsonl (one row per line)
        ...@last                     the same
        ...@min(c), ...@max(c)       the row where column c is smallest or largest
        ...@epoch=3                  the row where a column has this value
    FILE.txt:REGEX                   the first group of the last match in a text file, of any other suffix;
                                     `^` and `$` match at the start and end of each line
    stdout:REGEX                     the same in standard output
    output:REGEX                     the same in standard output and standard error together
        ...@mean, ...@min, ...@max   the mean, the smallest or the largest of all matches instead of the last one

A file name may contain * and ** if the program chooses folder names: the newest match is read. `{out}` stands for the
output folder of the run. The files are written by untrusted repository code: links are not followed, sizes are limited,
and anything unreadable is a failure of kind `no measurement` with a message.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from statistics import fmean
from typing import Any, Literal, cast

from labwright.record.errors import UsageError
from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import (
    BadFile,
    iterate_entries,
    make_folder,
    open_regular,
    raise_read_errors_as,
    read_status,
    remove_path,
)
from labwright.sandbox.job import RepositoryError, SubmissionRefused
from labwright.sandbox.limited_process import call_limited

MAX_METRIC_BYTES = 64 * 2**20
"""Maximum size of a file with a metric or curves."""
_MAX_ENTRIES = 20_000
"""Maximum number of files and folders examined for a pattern."""

MetricKind = Literal["json", "table", "text", "stdout", "output", "predictions"]
PRINTED_KINDS = ("stdout", "output")
PREDICTIONS_KIND = "predictions"
_ROW_PATTERN = re.compile(r"(?P<column>.+?)(?:@(?:last|(?P<end>min|max)\((?P<by>[^()]+)\)|(?P<at>[^@=]+)=(?P<is>.+)))?")
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl")
_METRIC_FORMS = "FILE.json:a.b, FILE.csv:column@last, FILE.txt:REGEX or stdout:REGEX"
METRIC_FORMS = (__doc__ or "").partition("\n\n")[2]
"""The forms of a metric, as a person or a model is shown them."""
_REDUCTION = re.compile(r"(.*)@(last|mean|min|max)", re.DOTALL)


class MetricError(UsageError):
    """Raised for a metric in an unknown format."""


class MetricNotFound(BadFile):
    """The metric value was not found."""


@dataclass(frozen=True)
class ResultMetric:
    """Location of a metric. `place`: file; `name`: keys, column, regular expression, or the metric for scored
    predictions (FILE[:COLUMN])."""

    text: str
    """The original text."""
    kind: MetricKind
    place: str
    name: str
    extremum: str = ""
    """`min` or `max`: the row is selected by `by_column`, or the match by its value; `mean`: of all matches."""
    by_column: str = ""
    """Column that selects the row; empty: the last row."""
    equal_to: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class MetricReading:
    """A finite value, or the reason why there is none."""

    value: float | None = None
    failure: Failure | None = None


def parse_metric(text: str, out: str = "out") -> ResultMetric:
    """Parse a metric. Raises `MetricError`, whose message explains the format."""
    kind, _, rest = text.partition(":")
    if kind == "stdout" or kind == "output":
        return _parse_expression(text, kind, "", rest)
    if kind == PREDICTIONS_KIND:
        place, _, name = rest.rpartition("@")
        return ResultMetric(text, kind, _check_inside(place.replace("{out}", out), text), name)
    place = _check_inside(kind.replace("{out}", out), text)
    if place.endswith(TABLE_SUFFIXES):
        return _parse_row_metric(place, rest, text)
    if not rest or not PurePosixPath(place).suffix:
        raise MetricError(f"cannot read the metric {text!r}: write {_METRIC_FORMS}")
    if place.endswith(".json"):
        return ResultMetric(text, "json", place, rest)
    return _parse_expression(text, "text", place, rest)


def _parse_expression(text: str, kind: MetricKind, place: str, written: str) -> ResultMetric:
    found = _REDUCTION.fullmatch(written)
    expression, reduction = (found[1], found[2]) if found else (written, "")
    try:
        groups = re.compile(expression).groups
    except re.error as error:
        raise MetricError(f"invalid regular expression {expression!r}: {error}") from error
    if not groups:
        raise MetricError(f"{text} has no group: put the number in parentheses, as in stdout:accuracy ([0-9.]+)")
    return ResultMetric(text, kind, place, expression, "" if reduction == "last" else reduction)


def _check_inside(place: str, text: str) -> str:
    path = PurePosixPath(place)
    if not place or path.is_absolute() or ".." in path.parts:
        raise MetricError(f"the metric {text!r} does not name a file in the repository: write {_METRIC_FORMS}")
    return str(path)


def _parse_row_metric(place: str, rest: str, text: str) -> ResultMetric:
    found = _ROW_PATTERN.fullmatch(rest)
    if found is None or "@" in found["column"]:
        raise MetricError(f"cannot tell which row {text!r} selects: write column@last, @min(other) or @epoch=3")
    by, wanted = found["by"] or found["at"] or "", found["is"] or ""
    return ResultMetric(text, "table", place, found["column"].strip(), found["end"] or "", by.strip(), wanted.strip())


# --- files ------------------------------------------------------------------------------------------------------------


def list_oldest_first(folder: Path, location: str) -> list[tuple[float, str]]:
    """Return time of change and relative name of the plain files that a name or pattern matches, up to a limit.

    `*` matches anything except a slash, `**/` any folders. Links are not followed.
    """
    if "*" not in location:
        status = read_status(folder, location)
        return [] if status is None else [(status.st_mtime, location)]
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", location)
    regex = re.compile("".join(words.get(part) or re.escape(part) for part in parts))
    entries = islice(iterate_entries(folder), _MAX_ENTRIES)
    return sorted((one.st_mtime, name) for name, one in entries if S_ISREG(one.st_mode) and regex.fullmatch(name))


def find_file(location: str, folder: Path, since: float | None) -> str:
    """Return the newest file that matches. Raises `MetricNotFound` if there is none or it is too old; `BadFile` if a
    folder on the way is a link.
    """
    files = list_oldest_first(folder, location)
    if not files:
        raise MetricNotFound(f"no such file: {location} (one that is older than the run does not count)")
    changed, newest = files[-1]
    if since is not None and changed < since:
        raise MetricNotFound(f"{newest} is older than the run")
    return newest


def read_rows(folder: Path, name: str) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a .csv, .tsv or .jsonl file, by column. Raises `BadFile`, and the errors of json and csv."""
    with open_regular(folder, name, MAX_METRIC_BYTES) as raw:
        text = TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
        if name.endswith(".jsonl"):
            yield from (json.loads(line) for line in text if line.strip())
            return
        rows = csv.DictReader(text, delimiter="\t" if name.endswith(".tsv") else ",", skipinitialspace=True)
        rows.fieldnames = [column.strip() for column in rows.fieldnames or ()]
        yield from cast("Iterator[Mapping[str, object]]", rows)


# --- values -----------------------------------------------------------------------------------------------------------


def read_metric(metric: ResultMetric, folder: Path, stdout: str = "", *, since: float | None = None) -> MetricReading:
    """Read the metric of a run from its folder.

    `since`: start of the run by the file system's clock (`sandbox.content_store`): older files do not come from this
    run.
    """
    try:
        return MetricReading(call_limited(_read_value, metric, folder, stdout, since, subject=str(metric)))
    except SubmissionRefused as error:
        return MetricReading(failure=Failure(kind="no measurement", message=str(error)))


def _read_value(metric: ResultMetric, folder: Path, stdout: str, since: float | None) -> float:
    with raise_read_errors_as(f"{metric} cannot be read"):
        value: Any
        name = "" if metric.kind in PRINTED_KINDS else find_file(metric.place, folder, since)
        if metric.kind == "json":
            value = _descend(json.loads(_read_bytes(folder, name)), metric.name.split("."), metric)
        elif metric.kind == "table":
            value = _choose_row(read_rows(folder, name), metric)
        else:
            text = _read_bytes(folder, name).decode(errors="replace") if metric.kind == "text" else stdout
            value = _reduce_matches(metric, text)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MetricNotFound(f"{metric} is not a number: {str(value)[:80]!r}")
        if not math.isfinite(value):
            raise MetricNotFound(f"{metric} is not finite: {value}")
        return float(value)


def _read_bytes(folder: Path, name: str) -> bytes:
    with open_regular(folder, name, MAX_METRIC_BYTES) as file:
        return file.read()


def _parse_number(text: object, metric: ResultMetric) -> float:
    try:
        return float(text) if isinstance(text, str | int | float) else math.nan
    except ValueError:
        raise MetricNotFound(f"{metric} is not a number: {str(text)[:80]!r}") from None


def _reduce_matches(metric: ResultMetric, text: str) -> float:
    """Return the number of the last match, or the mean, minimum or maximum over all of them."""
    found = [match[1] for match in re.finditer(metric.name, text, re.MULTILINE)]
    if not found:
        raise MetricNotFound(f"no {'line' if metric.place else 'printed line'} matches {metric.name!r}")
    reduce = {"mean": fmean, "min": min, "max": max, "": max}[metric.extremum]
    return reduce([_parse_number(one, metric) for one in (found if metric.extremum else found[-1:])])


def _descend(value: object, keys: list[str], metric: ResultMetric) -> object:
    """Return the value under these keys. A key may contain dots."""
    if not keys:
        return value
    key, named = keys[0], cast("dict[str, object]", value) if isinstance(value, dict) else {}
    for count in range(len(keys), 0, -1):
        if (whole := ".".join(keys[:count])) in named:
            return _descend(named[whole], keys[count:], metric)
    listed = cast("list[object]", value) if isinstance(value, list) else []
    if re.fullmatch(r"-?\d+", key) and -len(listed) <= int(key) < len(listed):
        return _descend(listed[int(key)], keys[1:], metric)
    known_keys = ", ".join(map(str, islice(named, 12)))
    raise MetricNotFound(f"{metric}: no such key: {key!r}" + (f"; the keys are {known_keys}" if known_keys else ""))


def _choose_row(rows: Iterable[Mapping[str, object]], metric: ResultMetric) -> float:
    """Return the metric of the last row that has one, or of the row that another column selects (in case of a tie, the
    first).
    """
    rows, needed = list(rows), [metric.name, *filter(None, [metric.by_column])]
    columns = dict.fromkeys(chain.from_iterable(rows))
    if missing := [name for name in needed if name not in columns]:
        shown = ", ".join(map(str, islice(columns, 12))) or "none"
        raise MetricNotFound(f"{metric}: no column {missing[0]!r}; the columns are {shown}")
    chosen = [row for row in rows if all(row.get(name) not in (None, "") for name in needed)]
    if metric.extremum:
        ranked = [(_parse_number(row[metric.by_column], metric), row) for row in chosen]
        known = [one for one in ranked if not math.isnan(one[0])]
        extremum = min if metric.extremum == "min" else max
        chosen = [extremum(known, key=itemgetter(0))[1]] if known else []
    elif metric.by_column:
        chosen = [row for row in chosen if _is_equal(row[metric.by_column], metric.equal_to)]
    if not chosen:
        which = f" where {metric.by_column} is {metric.equal_to}" if metric.equal_to else ""
        raise MetricNotFound(f"{metric}: no such row{which}")
    return _parse_number(chosen[-1][metric.name], metric)


def _is_equal(found: object, wanted: str) -> bool:
    try:
        return float(str(found)) == float(wanted)
    except ValueError:
        return str(found).strip() == wanted


def prepare_checkout(checkout: Path, metrics: Iterable[ResultMetric], out: str) -> None:
    """Remove the metric files before the run and ensure that `out` is a folder inside the checkout.

    Raises `RepositoryError` if a folder on a file's path is a link: the file might belong to the user, and would not be
    read after the run either.
    """
    status = read_status(checkout, out)
    if status is None or not S_ISDIR(status.st_mode):
        remove_path(checkout, out)
        make_folder(checkout, out)
    try:
        for place in (metric.place.partition(":")[0] for metric in metrics if metric.place):
            for _, name in list_oldest_first(checkout, place):
                remove_path(checkout, name)
    except BadFile as error:
        raise RepositoryError(
            f"the metric file is behind a link in the repository ({error}): replace the link by a folder"
        ) from None
