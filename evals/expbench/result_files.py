"""Read the result files of a run (values by name), and compare two arms on a metric.

Result files are JSON or CSV files written by the run. A mapping from names to numbers, or to lists of numbers, is read
as arms; lists of equal length are paired. Two arms differ if the 95% interval of their differences excludes zero.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from math import isfinite, sqrt
from pathlib import Path, PurePosixPath
from statistics import fmean, stdev
from typing import Any, NamedTuple, cast

from labwright.evals.expbench.conclusion_support import ArmComparison, EffectDirection
from labwright.record.claims.estimates import compute_t_quantile
from labwright.record.untrusted_files import BadFile, open_regular

MAX_BYTES = 5_000_000
MAX_FILES, MAX_DIGITS, MAX_DEPTH = 200, 300, 50
MAX_SAME_SHARE = 0.01
"""Share of the larger mean; a difference below it counts as none if its interval contains zero."""
RESULT_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv")


class ArmValues(NamedTuple):
    """The values of one metric in one file, by arm."""

    metric: str
    values: dict[str, tuple[float, ...]]


def list_result_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the result files that a run wrote or changed; the arguments map all files to their hashes before and after
    it."""
    written = sorted(name for name, digest in now.items() if before.get(name) != digest)
    return [name for name in written if name.lower().endswith(RESULT_SUFFIXES)][:MAX_FILES]


def read_result(folder: Path, name: str) -> Any:
    """Return the content of a result file as JSON data; None if it is not readable."""
    try:
        with open_regular(folder, name, MAX_BYTES) as file:
            text = file.read().decode("utf-8")
        suffix = PurePosixPath(name).suffix
        if suffix in (".json", ".jsonl"):
            lines = [text] if suffix == ".json" else [line for line in text.splitlines() if line.strip()]
            found = [json.loads(line, parse_int=_parse_whole_number) for line in lines]
            return None if _is_deep(found) else found[0] if suffix == ".json" else found
        rows = csv.DictReader(io.StringIO(text), delimiter="\t" if suffix == ".tsv" else ",")
        columns: dict[str, list[Any]] = {}
        for row in rows:
            for name, value in row.items():
                columns.setdefault(str(name), []).append(_parse_number(value))
        return {name: values for name, values in columns.items() if all(one is not None for one in values)}
    except (BadFile, OSError, ValueError, RecursionError, csv.Error):
        return None


def _parse_whole_number(text: str) -> int | float:
    return int(text) if len(text) <= MAX_DIGITS else float(text)  # which is infinite if no float can be as large


def _is_deep(found: list[Any]) -> bool:
    """Whether JSON data is nested more than `MAX_DEPTH` deep."""
    level: list[Any] = found
    for _ in range(MAX_DEPTH):
        level = [inner for one in level for inner in _list_items(one)]
    return bool(level)


def _list_items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _parse_number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if isfinite(value) else None


def list_measured(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a result file by its path, and the mean of each list of numbers."""
    if isinstance(content, bool) or content is None:
        return
    if isinstance(content, int | float):
        if isfinite(content):
            yield name, float(content)
    elif isinstance(content, Mapping):
        for key, value in cast("Mapping[Any, Any]", content).items():
            yield from list_measured(value, f"{name}/{key}" if name else str(key))
    elif isinstance(content, list):
        values = cast("list[Any]", content)
        if (numbers := to_numbers(values)) is not None and numbers:
            yield f"{name} (mean)", fmean(numbers)
        for index, value in enumerate(values):
            yield from list_measured(value, f"{name}[{index}]")


def to_numbers(value: Any) -> tuple[float, ...] | None:
    """Return a number, or a list of only numbers, as a tuple; None for anything else."""
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not values or any(
        isinstance(one, bool) or not isinstance(one, int | float) or not isfinite(one) for one in values
    ):
        return None
    return tuple(map(float, values))


def find_arms(content: Any, metric: str = "") -> Iterator[ArmValues]:
    """Yield mappings from names to numbers as the arms of a metric, named by a neighboring `metric` or by the key."""
    if isinstance(content, list):
        for item in cast("list[Any]", content):
            yield from find_arms(item, metric)
    if not isinstance(content, Mapping):
        return
    named = cast("Mapping[str, Any]", content)
    stated = named.get("metric")
    metric = stated if isinstance(stated, str) else metric
    values = {str(key): found for key, value in named.items() if (found := to_numbers(value)) is not None}
    if len(values) >= 2:
        yield ArmValues(metric, values)
    for key, value in named.items():
        if isinstance(value, Mapping | list) and to_numbers(value) is None:
            yield from find_arms(
                value, metric if isinstance(stated, str) or key in ("arms", "results", "values") else key
            )


def list_counts(contents: Iterable[Any]) -> set[int]:
    """Return the possible counts: the number of arms, and of values per arm."""
    every = [arms for content in contents for arms in find_arms(content)]
    return {len(arms.values) for arms in every} | {len(one) for arms in every for one in arms.values.values()}


def build_comparisons(contents: Iterable[Any]) -> list[ArmComparison]:
    """Compare every pair of arms of every metric, the second with the first."""
    return [
        ArmComparison(arms.metric, first, second, direction_of_effect(arms.values[first], arms.values[second]))
        for content in contents
        for arms in find_arms(content)
        for first, second in combinations(arms.values, 2)
    ]


def direction_of_effect(first: tuple[float, ...], second: tuple[float, ...]) -> EffectDirection:
    """Compare the second sample with the first: by the interval of paired differences, or directly if both are single
    numbers."""
    size = max(abs(fmean(first)), abs(fmean(second)), 1e-300)
    gap = fmean(second) - fmean(first)
    if abs(gap) <= 1e-9 * size:
        return "same"
    if len(first) == len(second) == 1:
        return "higher" if gap > 0 else "lower"
    if len(first) != len(second) or len(first) < 2:
        return "unclear"
    differences = [b - a for a, b in zip(first, second, strict=True)]
    half = compute_t_quantile(0.975, len(differences) - 1) * stdev(differences) / sqrt(len(differences))
    if abs(gap) > half:
        return "higher" if gap > 0 else "lower"
    return "same" if abs(gap) <= MAX_SAME_SHARE * size else "unclear"
