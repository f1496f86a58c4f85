"""A table as examples: features as numbers, one-hot categories and marks of what is missing; a target; given splits.

Numbers stay in their unit here, with NaN for missing: median and scale come from train, once the splits are known.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.sandbox.data import Examples, columns
from labwright.sandbox.data.columns import TableColumn, format_blanks, read_split_names, read_times, require_complete
from labwright.sandbox.data.files import import_pyarrow
from labwright.sandbox.data.frames import LoadedTable, ParquetTable, find_target, format_names
from labwright.sandbox.data.images import read_nested_column
from labwright.sandbox.data.spec import DataSpec
from labwright.sandbox.data.views import DiskTable
from labwright.sandbox.errors import DatasetError

Array = NDArray[Any]

MAX_ONE_HOT_LEVELS = 20
"""Distinct texts of a column that becomes one-hot; with more it is refused."""
MAX_CLASSES = 20
"""Distinct whole numbers of a target that is taken for classes where no task is named."""


def examples_from_table(frame: LoadedTable, spec: DataSpec, limit: int) -> Examples:
    """The examples of a table; `limit` bytes may be taken up in memory. Raises `DatasetError`."""
    names = list(frame.table.column_names)
    target = find_target(names, spec)
    for role, name in (
        ("target", target),
        ("group", spec.group),
        ("time", spec.time),
        ("split", spec.split),
        ("text", spec.text),
        *(("meta", name) for name in spec.meta),
        *(("meta_shown", name) for name in spec.meta_shown),
        *(("drop", name) for name in spec.drop),
        *(("categorical", name) for name in spec.categorical),
        *(("literal", name) for name in spec.literal),
    ):
        if name and name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise DatasetError(f"there is no column {name!r} for {role}=: {hint}there are {format_names(names)}")
    features = [
        name
        for name in names
        if name not in {target, spec.group, spec.time, spec.split, *spec.drop, *spec.metric_columns}
    ]
    if not features and not spec.horizon:
        raise DatasetError(f"no column is left to learn from beside the target {target!r}")
    if spec.horizon:
        return _read_windows(frame, [target, *features], spec, limit)
    if spec.text or _has_one_text_feature(frame, features):
        return add_roles(_read_text_examples(frame, features, spec), frame, spec, target)
    examples = replace(_read_features(frame, features, spec, limit), columns=tuple(features))
    return add_roles(examples, frame, spec, target)


def _has_one_text_feature(frame: LoadedTable, features: Sequence[str]) -> bool:
    """Whether the one feature is a text: more different ones than become one-hot, and no numbers."""
    kind, types = frame.table.schema.field(features[0]).type, import_pyarrow().types
    if len(features) > 1 or not (types.is_string(kind) or types.is_large_string(kind)):
        return False
    column = _read_column(frame, features[0])
    mistaken = column.stray_value is not None or column.unclear_reason or column.is_dates
    return column.numbers is None and not mistaken and len(column.levels) > MAX_ONE_HOT_LEVELS


def _read_text_examples(frame: LoadedTable, features: Sequence[str], spec: DataSpec) -> Examples:
    name = spec.text or features[0]
    texts: list[Any] = frame.table.column(name).to_pylist()
    row = next((row for row, text in enumerate(texts, start=1) if not (isinstance(text, str) and text.strip())), 0)
    if row:
        raise DatasetError(f"column {name!r} holds no text in row {row}: fill it in, or remove the row")
    others = [other for other in features if other != name]
    left = (f"beside the text, {format_names(others)} are left out",) if others else ()
    return Examples(np.array(texts, dtype=object), np.empty(0), columns=(name,), warnings=(*frame.warnings, *left))


def _read_windows(frame: LoadedTable, names: Sequence[str], spec: DataSpec, limit: int) -> Examples:
    """Series as examples: so many rows of all columns, the target first, and the target some rows after the last one.

    A series is the rows of one group in the order of time.
    """
    target = names[0]
    rows = _read_features(frame, names, spec, limit)
    if isinstance(rows.x, DiskTable):
        raise DatasetError(
            f"its {len(rows.x)} rows are more than series may have (sandbox.data_bytes, {limit}): take "
            "a part, or raise it"
        )
    if rows.missing or rows.names[0] != target:
        gap = next(iter(rows.missing), target)
        raise DatasetError(
            f"column {gap!r} of a series must be "
            + (
                "complete: fill it in, or leave it out with drop=" + gap
                if rows.missing
                else "numbers: it is the target"
            )
        )
    times = read_times(spec.time, frame.table.column(spec.time))
    group = require_complete(_read_column(frame, spec.group), "group").as_categories() if spec.group else None
    codes = group.codes if group is not None else np.zeros(len(times), dtype=np.int64)
    order = np.lexsort((times, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)
    if same.any():
        raise DatasetError(
            f"the time column {spec.time!r} says the same in two rows of one series (row "
            f"{int(order[int(np.argmax(same)) + 1]) + 1} is one): name the series with group=, or merge "
            "them"
        )
    reach = spec.window - 1 + spec.horizon
    starts = [
        start
        for series in np.split(np.arange(len(order)), np.flatnonzero(np.diff(codes[order])) + 1)
        for start in series[: len(series) - reach : spec.step]
        if len(series) > reach
    ]
    if not starts:
        raise DatasetError(
            f"no series has the {reach + 1} rows that window={spec.window} and horizon={spec.horizon} take"
        )
    size = len(starts) * spec.window * rows.x.shape[1] * 8
    if size > limit:
        raise DatasetError(
            f"{len(starts)} windows take {size} bytes in memory, more than sandbox.data_bytes "
            f"({limit}): take a larger step=, or raise it"
        )
    last = np.array(starts) + spec.window - 1
    x = rows.x[order][np.array(starts)[:, None] + np.arange(spec.window)]
    return Examples(
        x,
        rows.x[order[last + spec.horizon], 0].astype(np.float32),
        names=rows.names,
        numeric=rows.numeric,
        columns=tuple(names),
        target=f"{target}, {spec.horizon} rows ahead",
        warnings=rows.warnings,
        times=times[order[last]],
        target_times=times[order[last + spec.horizon]],
        dev_from=spec.dev_from,
        meta={name: _column_to_texts(_read_column(frame, name))[order[last]] for name in spec.metric_columns},
        meta_shown=spec.meta_shown,
    )


def add_roles(
    examples: Examples, frame: LoadedTable, spec: DataSpec, target: str, *, max_classes: int = MAX_CLASSES
) -> Examples:
    """The examples with the target, splits, groups and times that columns of the frame give. Raises `DatasetError`."""
    column = _read_column(frame, target)
    y, classes = _read_target(column, spec, frame.class_order, max_classes)
    return replace(
        examples,
        y=y,
        class_names=classes,
        target=target,
        warnings=(*examples.warnings, *_list_reading_notes(column)),
        split_names=read_split_names(_read_column(frame, spec.split)) if spec.split else frame.split_names,
        groups=require_complete(_read_column(frame, spec.group), "group").as_categories().codes if spec.group else None,
        times=read_times(spec.time, frame.table.column(spec.time)) if spec.time else None,
        meta={name: _column_to_texts(_read_column(frame, name)) for name in spec.metric_columns},
        meta_shown=spec.meta_shown,
        dev_from=spec.dev_from,
    )


def _column_to_texts(column: TableColumn) -> Array:
    """(n,) texts; what is missing is a value of its own."""
    if column.other_kind:
        raise DatasetError(f"the meta column {column.name!r} is of type {column.other_kind}: give numbers or texts")
    words = column.as_categories()
    return np.array([*words.levels, "(missing)"])[words.codes]


def _read_column(frame: LoadedTable, name: str) -> TableColumn:
    return columns.read_column(name, frame.table.column(name), literal=name in frame.literal)


def _list_reading_notes(column: TableColumn) -> Iterator[str]:
    """What is to be format_blanks of how numbers were read."""
    if column.example and column.numbers is not None:
        yield f"column {column.name!r} is read as numbers: {column.example}"


# --- features -------------------------------------------------------------------------------------------------------


def _read_features(frame: LoadedTable, names: Sequence[str], spec: DataSpec, limit: int) -> Examples:
    if (served := read_nested_column(frame.table, names)) is not None:
        return Examples(served, np.empty(0), warnings=frame.warnings)
    rows = frame.table.num_rows
    on_disk = isinstance(frame.table, ParquetTable) and rows * len(names) * 8 > limit
    titles: list[str] = []
    encoded = DiskTable.create_empty(rows) if on_disk else list[Array]()
    measured: list[bool] = []
    missing: dict[str, int] = {}
    warnings = list(frame.warnings)
    for name in names:
        column = _read_column(frame, name)
        own = list(_encode_column(column, categorical=name in spec.categorical))
        titles += [title for title, _ in own]
        for _, values in own:
            encoded.append(values.astype(np.float64))
        measured += [title == name for title, _ in own]
        if gaps := int(column.is_missing.sum()):
            missing[name] = gaps
        warnings += _list_reading_notes(column)
        if column.missing_words:
            warnings.append(f"column {name!r} holds {format_blanks(column)}: if that is a value, say literal={name}")
        if column.is_dates:
            warnings.append(
                f"column {name!r} holds dates, of which each is a category of its own: split by them with "
                f"time={name}, leave it out with drop={name}, or turn it into numbers"
            )
        if own[0][0] == name and len(own[0][1]) > 2 and np.all(np.diff(own[0][1]) == 1.0):
            warnings.append(f"column {name!r} counts the rows (an identifier?): leave it out with drop={name}")
    size = rows * len(titles) * 8
    if size > limit and not isinstance(encoded, DiskTable):
        raise DatasetError(
            f"{rows} rows of {len(titles)} features take {size} bytes in memory, more than "
            f"sandbox.data_bytes ({limit}): take fewer, raise it, or give it as Parquet"
        )
    x = encoded if isinstance(encoded, DiskTable) else np.stack(encoded, axis=1)
    return Examples(
        x, np.empty(0), names=tuple(titles), numeric=np.array(measured), missing=missing, warnings=tuple(warnings)
    )


def _encode_column(column: TableColumn, *, categorical: bool) -> Iterator[tuple[str, Array]]:
    """Title and values of each column of x that comes of one column of the table. A measured one keeps its name."""
    name = column.name
    if column.other_kind:
        raise DatasetError(
            f"column {name!r} is of type {column.other_kind}, which is not a feature: turn it into numbers, "
            f"or leave it out with drop={name}"
        )
    gaps = column.is_missing
    if gaps.all():
        raise DatasetError(f"column {name!r} is empty: leave it out with drop={name}")
    if column.numbers is not None and not categorical:
        yield name, column.numbers
        if gaps.any():
            yield f"{name} missing", gaps
        return
    if not categorical:
        column.check_no_stray()
    words = column.as_categories()
    if len(words.levels) > MAX_ONE_HOT_LEVELS and column.is_dates:
        raise DatasetError(
            f"column {name!r} holds {len(words.levels)} different dates ({words.levels[0][:40]!r} is "
            f"one): split by them with time={name}, leave it out with drop={name}, or turn it into "
            "numbers"
        )
    if len(words.levels) > MAX_ONE_HOT_LEVELS:
        raise DatasetError(
            f"column {name!r} holds {len(words.levels)} different texts, more than the {MAX_ONE_HOT_LEVELS} "
            f"that are made one-hot: leave it out with drop={name}, turn it into numbers, or take it "
            f"as the only feature with text={name}"
        )
    for code, level in [*enumerate(words.levels), *([(-1, "(missing)")] if gaps.any() else [])]:
        yield f"{name}={level}", words.codes == code


# --- target ---------------------------------------------------------------------------------------------------------


def _read_target(
    column: TableColumn, spec: DataSpec, order: tuple[str, ...], most: int
) -> tuple[Array, tuple[str, ...]]:
    """y, and the names of its classes (none for regression)."""
    if spec.task == "none":
        raise DatasetError("task=none is for folders: a table has a target")
    classes, numbers = require_complete(column, "target").as_categories(), column.numbers
    if spec.task != "classification":
        column.check_no_stray()
    if numbers is None and spec.task == "regression":
        raise DatasetError(
            f"the target {column.name!r} holds texts ({column.levels[0][:60]!r} is one): a regression needs numbers"
        )
    if len(classes.levels) < 2:
        raise DatasetError(
            f"the target {column.name!r} holds one class only ({''.join(classes.levels)!r} in all "
            f"{len(classes.codes)} rows): nothing can be learned"
        )
    if numbers is not None and (
        spec.task == "regression"
        or (spec.task is None and (len(classes.levels) > most or np.any(numbers != np.rint(numbers))))
    ):
        return numbers.astype(np.float32), ()
    if order and set(classes.levels) <= set(order):
        places = np.array([order.index(level) for level in classes.levels])
        return places[classes.codes].astype(np.int64), order
    return classes.codes.astype(np.int64), classes.levels
