"""Group values by other values of their record, for example by patience 2 or epsilon 0.5 if rows are seeds.

A record is a line, or the innermost JSON object. If another number of the records has few distinct values, each of them
forms a group; so do values with one key in files whose names differ in numbers. A printed mean is often the mean of a
group.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from labwright.review.external_papers.result_files import ValueSeries, label_words

MAX_RECORDS, MAX_FIELDS, MAX_GROUPS = 5_000, 12, 12


def group_series(series: Sequence[ValueSeries]) -> Iterator[ValueSeries]:
    """Yield the groups of all series, as series."""
    files: dict[str, list[ValueSeries]] = defaultdict(list)
    for one in series:
        if not one.from_prose:
            files[one.file].append(one)
    yield from _group_over_files([one for own in files.values() for one in own])
    for own in files.values():
        yield from _group_by_place(own)
        yield from _group_by_field(own)


def _group_over_files(series: Sequence[ValueSeries]) -> Iterator[ValueSeries]:
    """Group values with the same key in files of one kind, such as one file a seed."""
    kinds: dict[tuple[str, str], list[ValueSeries]] = defaultdict(list)
    for one in series:
        kinds[re.sub(r"\d+", "#", one.file), one.key].append(one)
    for (_, key), together in kinds.items():
        values = [(value, place) for one in together for value, place in zip(one.values, one.places, strict=True)]
        if len(together) > 1 and len(values) <= MAX_RECORDS:
            yield _make_group(together[0], f"{key} over {len(together)} files", values)


def _group_by_place(series: Sequence[ValueSeries]) -> Iterator[ValueSeries]:
    """Group values by JSON list if the keys of several lists differ only in numbers."""
    for one in series:
        lists: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for value, place in zip(one.values[:MAX_RECORDS], one.places, strict=False):
            lists[re.sub(r"\[\d+\]", "[#]", place)].append((value, place))
        if 1 < len(lists) < len(one.values) and len(lists) <= 200:
            for path, values in lists.items():
                if len(values) > 1:
                    yield _make_group(one, path, values)


def _group_by_field(series: Sequence[ValueSeries]) -> Iterator[ValueSeries]:
    records: dict[str, dict[int, tuple[float, str]]] = defaultdict(dict)
    for at, one in enumerate(series[:400]):
        for value, place in zip(one.values[:MAX_RECORDS], one.places, strict=False):
            records[_record_of_place(place)][at] = (value, place)
    together: dict[tuple[int, ...], list[dict[int, tuple[float, str]]]] = defaultdict(list)
    for fields in records.values():
        if 1 < len(fields) <= MAX_FIELDS:
            together[tuple(fields)].append(fields)
    for fields, rows in together.items():
        for by in fields:
            values = {row[by][0] for row in rows}
            if 1 < len(values) <= MAX_GROUPS and len(values) < len(rows):
                for field in fields:
                    if field != by:
                        yield from _iter_groups(series[field], series[by], field, by, rows)


def _iter_groups(
    one: ValueSeries, other: ValueSeries, field: int, by: int, rows: Sequence[dict[int, tuple[float, str]]]
) -> Iterator[ValueSeries]:
    found: dict[float, list[tuple[float, str]]] = defaultdict(list)
    for row in rows:
        found[row[by][0]].append(row[field])
    for value, values in found.items():
        if len(values) > 1:
            yield _make_group(one, f"{one.key} where {other.key} = {value:g}", values)


def _make_group(one: ValueSeries, key: str, values: Sequence[tuple[float, str]]) -> ValueSeries:
    return ValueSeries(
        one.file, key, one.words | label_words(key), [value for value, _ in values], [place for _, place in values]
    )


def _record_of_place(place: str) -> str:
    """Return the record of a value: its line, or its path without the last name."""
    line = re.match(r"line \d+", place)
    return line[0] if line else place.rpartition(".")[0] or place
