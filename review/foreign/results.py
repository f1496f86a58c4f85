"""The numbers in a folder of result files, as series: values that stand at the same place of the same kind of line.

Read: json, jsonl, csv, tsv, txt, log, md, out, yaml, yml, npy, npz and the outputs of ipynb. Nothing is executed or
unpickled. A file or a folder over a limit is read in part, and what was left out is listed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml
from numpy.typing import NDArray

from labwright.record.errors import WrongUse
from labwright.record.yaml_text import load_foreign_yaml
from labwright.review.foreign.printed import Printed, numbers_of
from labwright.sandbox.untrusted import BadFile, read_as

FORMS = (".json", ".jsonl", ".csv", ".tsv", ".txt", ".log", ".out", ".md", ".yaml", ".yml", ".npy", ".npz", ".ipynb")
MOST_FILES, MOST_BYTES, MOST_VALUES = 2000, 20_000_000, 500_000
"""Files of a folder; bytes of one file, or of an array in one; values in all."""
_YAML_BYTES = 1_000_000
"""Bytes of a YAML file: reading one takes a hundred times as long."""
_DEPTH, _KEY = 20, 60
"""Lists and mappings in each other, and characters of a key: each value is named by all keys above it."""

WRITTEN = frozenset({".md"})
"""Reports in prose: somebody, often the same model, wrote their numbers down."""


class ResultsError(WrongUse):
    """The result files cannot be used. The message is one line that says why, and how to fix it."""


@dataclass
class Series:
    """Values of one kind: a column for one row label, one key of JSON, one place of a line that repeats.

    `places[i]` is the line or row of `values[i]`; `words` name what is measured; `step` is the coarsest last printed
    place (0 for values that are not printed text).
    """

    file: str
    key: str
    words: frozenset[str]
    values: list[float] = field(default_factory=list[float])
    places: list[str] = field(default_factory=list[str])
    written: bool = False


@dataclass
class Results:
    """All series of a folder; `files` were read; `left_out` says what was not."""

    series: list[Series] = field(default_factory=list[Series])
    files: list[str] = field(default_factory=list[str])
    left_out: list[str] = field(default_factory=list[str])

    @property
    def count(self) -> int:
        return sum(len(one.values) for one in self.series)


def read_results(folder: Path, *, but: Path | None = None) -> Results:
    """Every number of the result files under a folder, or in one file; `but` (the paper itself) is passed over.

    Raises: `ResultsError` when there is no such folder, or no number in it.
    """
    if not folder.exists():
        raise ResultsError(f"there is no {folder}: give --results the folder that holds the paper's result files")
    results, count = Results(), 0
    paths = (
        [folder]
        if folder.is_file()
        else sorted(
            path
            for path in folder.rglob("*")
            if path.suffix.lower() in FORMS and not path.is_symlink() and path.is_file()
        )
    )
    if len(paths) > MOST_FILES:
        results.left_out.append(f"{len(paths) - MOST_FILES} files: only the first {MOST_FILES} are read")
    for path in paths[:MOST_FILES]:
        name = str(path.relative_to(folder)) if folder.is_dir() else path.name
        try:
            if but is not None and _same(path, but):
                continue
            with read_as(name, BadFile, yaml.YAMLError, csv.Error):
                found = _series_of(path, name, results)
        except (OSError, BadFile) as error:
            cause = str(error.__cause__ or error)
            results.left_out.append(f"{name}: {cause.splitlines()[0][:120] if cause else 'cannot be read'}")
            continue
        results.files.append(name)
        for one in found:
            count += len(one.values)
            if count > MOST_VALUES:
                results.left_out.append(f"{name} and what follows: more than {MOST_VALUES} values in all")
                return results
            results.series.append(one)
    if not results.count:
        raise ResultsError(f"no number was found in {folder}: give a folder with files such as {', '.join(FORMS)}")
    return results


def _same(path: Path, paper: Path) -> bool:
    copied = path.stem == paper.stem and path.suffix in (".md", ".txt")
    return (
        copied
        or path.samefile(paper)
        or (path.stat().st_size == paper.stat().st_size and path.read_bytes() == paper.read_bytes())
    )


Row = tuple[str, str, float, str]
"""Key of a series, words that name what is measured, value, and its place."""


def _series_of(path: Path, name: str, results: Results) -> list[Series]:
    series: dict[str, Series] = {}
    rows = _rows_of(path, name, results)
    for key, words, value, place in islice(rows, MOST_VALUES + 1):
        if math.isfinite(value):
            if key not in series:
                written = path.suffix.lower() in WRITTEN
                series[key] = Series(name, key, words_of(f"{words} {Path(name).stem}"), written=written)
            series[key].values.append(value)
            series[key].places.append(place)
    return list(series.values())


def _rows_of(path: Path, name: str, results: Results) -> Iterator[Row]:
    form = path.suffix.lower()
    if form == ".npy":
        yield from _array(np.load(path, mmap_mode="r", allow_pickle=False), Path(name).stem, name)
        return
    if form == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            large = {one.filename.removesuffix(".npy") for one in arrays.zip.infolist() if one.file_size > MOST_BYTES}
            results.left_out += [f"{name} {key}: larger than {MOST_BYTES // 10**6} MB" for key in sorted(large)[:20]]
            for key in [one for one in arrays.files if one not in large][:200]:
                with contextlib.suppress(ValueError):  # texts, or pickled objects
                    yield from _array(arrays[key], key, f"{name} {key}")
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        most = _YAML_BYTES if form in (".yaml", ".yml") else MOST_BYTES
        text = file.read(most + 1)
    if len(text) > most:
        results.left_out.append(f"{name}: only its first {most // 10**6} MB were read")
        text = text[:most]
    if form in (".csv", ".tsv"):
        yield from _table(list(csv.reader(io.StringIO(text), delimiter="\t" if form == ".tsv" else ",")), 1)
    elif form in (".json", ".yaml", ".yml"):
        yield from _walk(json.loads(text) if form == ".json" else load_foreign_yaml(text), "")
    elif form == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield from _walk(json.loads(line), "", place=f"line {number}")
    elif form == ".ipynb":
        for cell in cast("list[dict[str, Any]]", json.loads(text).get("cells", [])):
            for output in cast("list[dict[str, Any]]", cell.get("outputs", [])):  # code and prose are no result
                data = cast("dict[str, Any]", output.get("data") or {})
                shown: Any = output.get("text") or data.get("text/plain") or ""
                yield from _lines("".join(cast("list[str]", shown)) if isinstance(shown, list) else str(shown))
    else:
        yield from _lines(text)


_WORD = re.compile(r"[A-Za-z]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_IDLE = frozenset(
    "the of and to in for a an is are was were with on by at from that this as it its be or than which we our results "
    "result value values mean std info main root table figure per all vs versus line file log metrics metric "
    "model models method methods test name best experiment experiments analysis performance baseline compared shows "
    "show achieves achieved only while respectively has have had their summary average avg".split()
)


def words_of(text: str) -> frozenset[str]:
    """The words of a label that tell one result from another, in small letters."""
    return frozenset(
        word
        for word in _WORD.findall(_CAMEL.sub(" ", text).lower())
        if word not in _IDLE and (len(word) > 1 or word.isdigit())
    )


def _walk(value: Any, path: str, *, place: str = "", depth: int = 0) -> Iterator[Row]:
    if depth > _DEPTH:
        raise ValueError(f"lists and mappings are nested more than {_DEPTH} deep")
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield re.sub(r"\d+", "#", path), path, float(value), place or path
    elif isinstance(value, str):
        for at, number in enumerate(numbers_of(value[:2000], "results")):
            yield f"{re.sub(r'[0-9]+', '#', path)} {at}", f"{path} {value[:200]}", number.value, place or path
    elif isinstance(value, dict):
        parts = cast("dict[Any, Any]", value)
        label = " ".join(one for one in parts.values() if isinstance(one, str) and len(one) <= 40)[:80] if path else ""
        path = f"{path}{{{label}}}" if label else path
        for key, inner in parts.items():
            key = str(key)[:_KEY]
            yield from _walk(inner, f"{path}.{key}" if path else key, place=place and f"{place} {key}", depth=depth + 1)
    elif isinstance(value, list):
        for at, inner in enumerate(cast("list[Any]", value)):
            yield from _walk(inner, f"{path}[{at}]", place=place, depth=depth + 1)


def _table(rows: list[list[str]], begins: int, above: str = "") -> Iterator[Row]:
    """The numbers of a table whose first row stands on line `begins`, named by the head of their column, if it has any,
    and by the words of their row; `above` names the table."""
    headed = any(cell.strip() and _float(cell) is None for cell in rows[0]) if rows else False
    heads = rows[0] if headed else []
    for at, row in enumerate(rows[headed:], begins + headed):
        named = (cell for cell in row if not re.search(r"\d", cell) or re.match(r"[A-Za-z]", cell.strip()))
        labels = " ".join(named)[:200]
        for column, cell in enumerate(row):
            head = heads[column].strip() if column < len(heads) else f"column {column + 1}"
            number = _float(cell)
            for order, value in enumerate([number] if number is not None else [one.value for one in _logged(cell)]):
                key = "|".join(part for part in (above, head, labels, str(order)) if part)
                yield key, f"{above} {head} {labels}", value, f"line {at}, {head}"


def _float(cell: str) -> float | None:
    try:
        return float(cell.strip().rstrip("%"))
    except ValueError:
        return None


def _lines(text: str) -> Iterator[Row]:
    """The numbers of text, those of tables of Markdown among them. Lines that differ in their numbers only are the same
    kind of line; the words of the heading above name their numbers as well."""
    above, rows = "", list[list[str]]()
    for at, line in enumerate((*text.split("\n"), ""), 1):
        line = _LISTED.sub("", _STAMP.sub("", line[:4000]))
        if line.count("|") >= 2:
            rows.append(line.strip().strip("|").split("|"))
            continue
        yield from _table(rows, at - len(rows), above)
        rows = []
        numbers = _logged(line)
        if not numbers and re.search(r"[A-Za-z]{3}", line):
            above = re.sub(r"^.*(?:INFO|WARNING|DEBUG)\W+", "", line).strip(" #*-=:")[:120]
        for order, number in enumerate(numbers):
            template = re.sub(r"-?\d[\d.,:]*", "#", line)[:200].strip()
            near = f"{above if len(numbers) < 3 else ''} {template.replace('#', ' ')}"
            yield f"{template} [{order + 1}]", near, number.value, f"line {at}"


_STAMP = re.compile(r"^\W*(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[\d.,]*\W*")
_LISTED = re.compile(r"^\s*\d{1,2}[.)]\s+(?=[A-Z*])")


def _logged(line: str) -> tuple[Printed, ...]:
    """The numbers of a line, `name=3` among them."""
    return numbers_of(re.sub(r"(?<=[A-Za-z_])[=:](?=[-+\d.])", " = ", line), "results")


def _array(array: NDArray[Any], key: str, words: str) -> Iterator[Row]:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"an array of {array.dtype}, not of numbers")
    flat = np.asarray(array.flat[:50_000], dtype=np.float64)
    for at, value in enumerate(flat[np.isfinite(flat)].tolist()):
        yield key, words, value, f"[{at}]"
