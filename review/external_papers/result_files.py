"""Read the numbers of a results folder as series: values at the same place of the same kind of line.

Formats: json, jsonl, csv, tsv, txt, log, md, out, yaml, yml, npy, npz and the outputs of ipynb. Nothing is executed or
unpickled. A file or folder that exceeds a limit is read in part, and omissions are listed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from labwright.record.errors import UsageError
from labwright.record.untrusted_files import BadFile, raise_read_errors_as
from labwright.record.yaml_text import load_untrusted_yaml
from labwright.review.external_papers.printed_numbers import PrintedNumber, extract_numbers

RESULT_SUFFIXES = tuple(".json .jsonl .csv .tsv .txt .log .out .md .yaml .yml .npy .npz .ipynb".split())
MAX_FILES, MAX_FILE_BYTES, MAX_VALUES = 2000, 20_000_000, 500_000
"""Limits: files of a folder; bytes of a file or an array; values in total."""
MAX_FACTOR_LEVELS = 12
"""Maximum different numbers of a column by which rows are grouped."""
_MAX_YAML_BYTES = 1_000_000
"""Bytes of a YAML file, which takes a hundred times as long to read."""
_MAX_DEPTH, _MAX_KEY_LENGTH = 20, 60
"""Maximum nesting depth, and maximum characters of a key; each value is named by all keys above it."""

PROSE_SUFFIXES = frozenset({".md"})
"""Prose reports: a human or a model wrote their numbers."""


class ResultsError(UsageError):
    """The result files cannot be used. The one-line message gives the reason and the fix."""


@dataclass
class ValueSeries:
    """Values of one kind: a column for one row label, a JSON key, a position in a repeated line.

    `places[i]` is the line or row of `values[i]`; `words` name the quantity; `step` is one unit of the coarsest last
    printed place (0 for values that were not text).
    """

    file: str
    key: str
    words: frozenset[str]
    values: list[float] = field(default_factory=list[float])
    places: list[str] = field(default_factory=list[str])
    from_prose: bool = False


@dataclass
class ResultFolder:
    """All series of a folder; `files` were read, `left_out` lists what was not read."""

    series: list[ValueSeries] = field(default_factory=list[ValueSeries])
    files: list[str] = field(default_factory=list[str])
    left_out: list[str] = field(default_factory=list[str])

    @property
    def value_count(self) -> int:
        return sum(len(one.values) for one in self.series)


def read_results(folder: Path, *, excluded: Path | None = None) -> ResultFolder:
    """Read every number of the result files in a folder, or of one file; `excluded` (the paper itself) is skipped.

    Raises `ResultsError` if the folder does not exist or has no number.
    """
    if not folder.exists():
        raise ResultsError(f"{folder} does not exist: give --results the folder with the paper's result files")
    results, count = ResultFolder(), 0
    paths = [folder]
    if folder.is_dir():
        every = sorted(path for path in folder.rglob("*") if path.suffix.lower() in RESULT_SUFFIXES)
        paths = [path for path in every if path.is_file() and not path.is_symlink()]
    if len(paths) > MAX_FILES:
        results.left_out.append(f"{len(paths) - MAX_FILES} files: only the first {MAX_FILES} are read")
    for path in paths[:MAX_FILES]:
        name = str(path.relative_to(folder)) if folder.is_dir() else path.name
        try:
            if excluded is not None and _is_same_file(path, excluded):
                continue
            with raise_read_errors_as(name):
                found = _read_series(path, name, results)
        except (OSError, BadFile) as error:
            cause = str(error.__cause__ or error)
            results.left_out.append(f"{name}: {cause.splitlines()[0][:120] if cause else 'cannot be read'}")
            continue
        results.files.append(name)
        for one in found:
            count += len(one.values)
            if count > MAX_VALUES:
                results.left_out.append(f"{name} and following files: more than {MAX_VALUES} values in total")
                return results
            results.series.append(one)
    if not results.value_count:
        raise ResultsError(
            f"{folder} contains no numbers: give a folder with files such as {', '.join(RESULT_SUFFIXES)}"
        )
    return results


def summarize_groups(path: Path) -> Iterator[str]:
    """Yield count, mean, deviation (n - 1) and range of each group of numbers in a file, largest groups first."""
    with contextlib.suppress(ResultsError):
        for one in sorted(read_results(path).series, key=lambda one: -len(one.values)):
            if len(one.values) > 1 and not one.from_prose:
                n, values = len(one.values), np.array(one.values)
                spread = f"sd {values.std(ddof=1):.3g}, from {values.min():.5g} to {values.max():.5g}"
                yield f"{one.key}: n {n}, mean {values.mean():.5g}, {spread}"


def _is_same_file(path: Path, paper: Path) -> bool:
    copied = path.stem == paper.stem and path.suffix in (".md", ".txt")
    return (
        copied
        or path.samefile(paper)
        or (path.stat().st_size == paper.stat().st_size and path.read_bytes() == paper.read_bytes())
    )


ValueRow = tuple[str, str, float, str]
"""Key of a series, words that name the quantity, value, and place."""


def _read_series(path: Path, name: str, results: ResultFolder) -> list[ValueSeries]:
    series: dict[str, ValueSeries] = {}
    rows = _read_rows(path, name, results)
    for key, words, value, place in islice(rows, MAX_VALUES + 1):
        if math.isfinite(value):
            if key not in series:
                written = path.suffix.lower() in PROSE_SUFFIXES
                series[key] = ValueSeries(name, key, label_words(f"{words} {Path(name).stem}"), from_prose=written)
            series[key].values.append(value)
            series[key].places.append(place)
    return list(series.values())


def _read_rows(path: Path, name: str, results: ResultFolder) -> Iterator[ValueRow]:
    form = path.suffix.lower()
    if form == ".npy":
        yield from _read_array(np.load(path, mmap_mode="r", allow_pickle=False), Path(name).stem, name)
        return
    if form == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            large = {
                one.filename.removesuffix(".npy") for one in arrays.zip.infolist() if one.file_size > MAX_FILE_BYTES
            }
            results.left_out += [
                f"{name} {key}: larger than {MAX_FILE_BYTES // 10**6} MB" for key in sorted(large)[:20]
            ]
            for key in [one for one in arrays.files if one not in large][:200]:
                with contextlib.suppress(ValueError):  # text, or pickled objects
                    yield from _read_array(arrays[key], key, f"{name} {key}")
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        most = _MAX_YAML_BYTES if form in (".yaml", ".yml") else MAX_FILE_BYTES
        text = file.read(most + 1)
    if len(text) > most:
        results.left_out.append(f"{name}: only its first {most // 10**6} MB were read")
        text = text[:most]
    if form in (".csv", ".tsv"):
        yield from _read_table(list(csv.reader(io.StringIO(text), delimiter="\t" if form == ".tsv" else ",")), 1)
    elif form in (".json", ".yaml", ".yml"):
        yield from _walk_json(json.loads(text) if form == ".json" else load_untrusted_yaml(text), "")
    elif form == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield from _walk_json(json.loads(line), "", place=f"line {number}")
    elif form == ".ipynb":
        for cell in cast("list[dict[str, Any]]", json.loads(text).get("cells", [])):
            for output in cast("list[dict[str, Any]]", cell.get("outputs", [])):  # code and prose are not results
                data = cast("dict[str, Any]", output.get("data") or {})
                shown: Any = output.get("text") or data.get("text/plain") or ""
                yield from _read_text_lines("".join(shown))
    else:
        yield from _read_text_lines(text)


_WORD = re.compile(r"[A-Za-z]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STOP_WORDS = frozenset(
    "the of and to in for a an is are was were with on by at from that this as it its be or than which we our results "
    "result value values mean std info main root table figure per all vs versus line file log metrics metric "
    "model models method methods test name best experiment experiments analysis performance baseline compared shows "
    "show achieves achieved only while respectively has have had their summary average avg".split()
)


def label_words(text: str) -> frozenset[str]:
    """Return the distinguishing words of a label, in lower case."""
    return frozenset(
        word
        for word in _WORD.findall(_CAMEL.sub(" ", text).lower())
        if word not in _STOP_WORDS and (len(word) > 1 or word.isdigit())
    )


def _mask_numbers(path: str) -> str:
    """Return a path without the numbers outside of its labels in braces."""
    return re.sub(r"\{[^{}]*\}|\d+", lambda found: found[0] if found[0][0] == "{" else "#", path)


def _find_factors(rows: Sequence[Mapping[Any, Any]]) -> frozenset[Any]:
    """Return the columns of a table that look like settings: few different numbers, each in several rows."""
    columns: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            number = _parse_float(str(value)) if isinstance(value, int | float | str) else None
            if number is not None and math.isfinite(number):
                columns[name].append(number)
    return frozenset(
        name
        for name, values in columns.items()
        if len(values) == len(rows) and 1 < len(set(values)) <= min(MAX_FACTOR_LEVELS, len(values) // 2)
    )


def _walk_json(
    value: Any, path: str, *, place: str = "", depth: int = 0, factors: frozenset[Any] = frozenset()
) -> Iterator[ValueRow]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"lists and mappings are nested more than {_MAX_DEPTH} deep")
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield _mask_numbers(path), path, float(value), place or path
    elif isinstance(value, str):
        for at, number in enumerate(extract_numbers(value[:2000], "results")):
            yield f"{_mask_numbers(path)} {at}", f"{path} {value[:200]}", number.value, place or path
    elif isinstance(value, dict):
        parts = cast("dict[Any, Any]", value)
        named = [
            f"{key}={one}" if key in factors else one
            for key, one in parts.items()
            if key in factors or (isinstance(one, str) and len(one) <= 40)
        ]
        label = "; ".join(map(str, named))[:80] if path else ""
        path = f"{path}{{{label}}}" if label else path
        for key, inner in parts.items():
            key = str(key)[:_MAX_KEY_LENGTH]
            yield from _walk_json(
                inner, f"{path}.{key}" if path else key, place=place and f"{place} {key}", depth=depth + 1
            )
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        rows = [cast("dict[Any, Any]", one) for one in items if isinstance(one, dict)]
        found = _find_factors(rows) if len(rows) == len(items) else frozenset[Any]()
        for at, inner in enumerate(items):
            yield from _walk_json(inner, f"{path}[{at}]", place=place, depth=depth + 1, factors=found)


def _read_table(rows: list[list[str]], begins: int, above: str = "") -> Iterator[ValueRow]:
    """Yield the numbers of a table, named by their column headings, if any, and the words of their row.

    `begins` is the line of the first row; `above` is the name of the table.
    """
    headed = any(cell.strip() and _parse_float(cell) is None for cell in rows[0]) if rows else False
    heads = rows[0] if headed else []
    factors = _find_factors([dict(enumerate(row)) for row in rows[headed:]]) if headed else frozenset[Any]()
    for at, row in enumerate(rows[headed:], begins + headed):
        named = (
            f"{heads[column].strip()}={cell.strip()}" if column in factors and column < len(heads) else cell
            for column, cell in enumerate(row)
            if column in factors or not re.search(r"\d", cell) or re.match(r"[A-Za-z]", cell.strip())
        )
        labels = "; ".join(named)[:200]
        for column, cell in enumerate(row):
            head = heads[column].strip() if column < len(heads) else f"column {column + 1}"
            number = _parse_float(cell)
            for order, value in enumerate(
                [number] if number is not None else [one.value for one in _read_log_numbers(cell)]
            ):
                key = "|".join(part for part in (above, head, labels and f"{{{labels}}}", str(order)) if part)
                yield key, f"{above} {head} {labels}", value, f"line {at}, {head}"


def _parse_float(cell: str) -> float | None:
    try:
        return float(cell.strip().rstrip("%"))
    except ValueError:
        return None


def _read_text_lines(text: str) -> Iterator[ValueRow]:
    """Yield the numbers in text, including Markdown tables.

    Lines that differ only in numbers are of one kind; the words of the heading above also name their numbers.
    """
    above, rows = "", list[list[str]]()
    for at, line in enumerate((*text.split("\n"), ""), 1):
        line = _LISTED.sub("", _STAMP.sub("", line[:4000]))
        if line.count("|") >= 2:
            rows.append(line.strip().strip("|").split("|"))
            continue
        yield from _read_table(rows, at - len(rows), above)
        rows = []
        numbers = _read_log_numbers(line)
        if not numbers and re.search(r"[A-Za-z]{3}", line):
            above = re.sub(r"^.*(?:INFO|WARNING|DEBUG)\W+", "", line).strip(" #*-=:")[:120]
        for order, number in enumerate(numbers):
            template = re.sub(r"-?\d[\d.,:]*", "#", line)[:200].strip()
            near = f"{above if len(numbers) < 3 else ''} {template.replace('#', ' ')}"
            yield f"{template} [{order + 1}]", near, number.value, f"line {at}"


_STAMP = re.compile(r"^\W*(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[\d.,]*\W*")
_LISTED = re.compile(r"^\s*\d{1,2}[.)]\s+(?=[A-Z*])")


def _read_log_numbers(line: str) -> tuple[PrintedNumber, ...]:
    """Return the numbers of a line, including those in `name=3`."""
    return extract_numbers(re.sub(r"(?<=[A-Za-z_])[=:](?=[-+\d.])", " = ", line), "results")


def _read_array(array: NDArray[Any], key: str, words: str) -> Iterator[ValueRow]:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"an array of {array.dtype}, not of numbers")
    flat = np.asarray(array.flat[:50_000], dtype=np.float64)
    for at, value in enumerate(flat[np.isfinite(flat)].tolist()):
        yield key, words, value, f"[{at}]"
