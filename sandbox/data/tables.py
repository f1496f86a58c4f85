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

from sandbox.data import Examples, columns
from sandbox.data.columns import Column, complete, parts_of, times_of
from sandbox.data.frames import Frame, listed, target_name
from sandbox.data.images import nested
from sandbox.data.spec import DataSpec
from sandbox.errors import DatasetError

Array = NDArray[Any]

MAX_LEVELS = 20
"""Distinct texts of a column that becomes one-hot; with more it is refused."""
MAX_CLASSES = 20
"""Distinct whole numbers of a target that is taken for classes where no task is named."""


def table_examples(frame: Frame, spec: DataSpec, limit: int) -> Examples:
    """The examples of a table; `limit` bytes may be taken up in memory. Raises `DatasetError`."""
    names = list(frame.table.column_names)
    target = target_name(names, spec)
    for role, name in (("target", target), ("group", spec.group), ("time", spec.time), ("split", spec.split),
                       *(("meta", name) for name in spec.meta), *(("meta_shown", name) for name in spec.meta_shown),
                       *(("drop", name) for name in spec.drop), *(("categorical", name) for name in spec.categorical)):
        if name and name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise DatasetError(f"there is no column {name!r} for {role}=: {hint}there are {listed(names)}")
    features = [name for name in names if name not in {
        target, spec.group, spec.time, spec.split, *spec.drop, *spec.aside}]
    if not features:
        raise DatasetError(f"no column is left to learn from beside the target {target!r}")
    examples = replace(_features(frame, features, spec, limit), columns=tuple(features))
    return with_roles(examples, frame, spec, target)


def with_roles(
    examples: Examples, frame: Frame, spec: DataSpec, target: str, *, most_classes: int = MAX_CLASSES,
) -> Examples:
    """The examples with the target, splits, groups and times that columns of the frame give. Raises `DatasetError`."""
    y, classes = _target(_column(frame, target), spec, frame.class_order, most_classes)
    return replace(
        examples, y=y, class_names=classes, target=target,
        parts=parts_of(_column(frame, spec.split)) if spec.split else frame.parts,
        groups=complete(_column(frame, spec.group), "group").as_categories().codes if spec.group else None,
        times=times_of(spec.time, frame.table.column(spec.time)) if spec.time else None,
        meta={name: _texts(_column(frame, name)) for name in spec.aside}, meta_shown=spec.meta_shown,
        dev_from=spec.dev_from)


def _texts(column: Column) -> Array:
    """(n,) texts; what is missing is a value of its own."""
    if column.other:
        raise DatasetError(f"the meta column {column.name!r} is of type {column.other}: give numbers or texts")
    words = column.as_categories()
    return np.array([*words.levels, "(missing)"])[words.codes]


def _column(frame: Frame, name: str) -> Column:
    return columns.read(name, frame.table.column(name))


# --- features -------------------------------------------------------------------------------------------------------


def _features(frame: Frame, names: Sequence[str], spec: DataSpec, limit: int) -> Examples:
    if (served := nested(frame.table, names, limit)) is not None:
        return Examples(served, np.empty(0), warnings=frame.warnings)
    encoded: list[tuple[str, Array]] = []
    measured: list[bool] = []
    missing: dict[str, int] = {}
    warnings = list(frame.warnings)
    for name in names:
        column = _column(frame, name)
        own = list(_encoded(column, categorical=name in spec.categorical))
        encoded += own
        measured += [title == name for title, _ in own]
        if gaps := int(column.gaps.sum()):
            missing[name] = gaps
        if own[0][0] == name and len(own[0][1]) > 2 and np.all(np.diff(own[0][1]) == 1.0):
            warnings.append(f"column {name!r} counts the rows (an identifier?): leave it out with drop={name}")
    size = frame.table.num_rows * len(encoded) * 8
    if size > limit:
        raise DatasetError(f"{frame.table.num_rows} rows of {len(encoded)} features take {size} bytes in memory, "
                           f"more than sandbox.data_bytes ({limit}): take fewer, or raise it")
    return Examples(np.stack([values for _, values in encoded], axis=1).astype(np.float64), np.empty(0),
                    names=tuple(title for title, _ in encoded), numeric=np.array(measured), missing=missing,
                    warnings=tuple(warnings))


def _encoded(column: Column, *, categorical: bool) -> Iterator[tuple[str, Array]]:
    """Title and values of each column of x that comes of one column of the table. A measured one keeps its name."""
    name = column.name
    if column.other:
        raise DatasetError(f"column {name!r} is of type {column.other}, which is not a feature: turn it into numbers, "
                           f"or leave it out with drop={name}")
    gaps = column.gaps
    if gaps.all():
        raise DatasetError(f"column {name!r} is empty: leave it out with drop={name}")
    if column.numbers is not None and not categorical:
        yield name, column.numbers
        if gaps.any():
            yield f"{name} missing", gaps
        return
    if not categorical:
        column.refuse_stray()
    words = column.as_categories()
    if len(words.levels) > MAX_LEVELS:
        raise DatasetError(f"column {name!r} holds {len(words.levels)} different texts, more than the {MAX_LEVELS} "
                           f"that are made one-hot: turn it into numbers, or leave it out with drop={name}")
    for code, level in [*enumerate(words.levels), *([(-1, "(missing)")] if gaps.any() else [])]:
        yield f"{name}={level}", words.codes == code


# --- target ---------------------------------------------------------------------------------------------------------


def _target(column: Column, spec: DataSpec, order: tuple[str, ...], most: int) -> tuple[Array, tuple[str, ...]]:
    """y, and the names of its classes (none for regression)."""
    if spec.task == "none":
        raise DatasetError("task=none is for folders: a table has a target")
    classes, numbers = complete(column, "target").as_categories(), column.numbers
    if spec.task != "classification":
        column.refuse_stray()
    if numbers is None and spec.task == "regression":
        raise DatasetError(f"the target {column.name!r} holds texts ({column.levels[0][:60]!r} is one): a regression "
                           "needs numbers")
    if len(classes.levels) < 2:
        raise DatasetError(f"the target {column.name!r} holds one class only ({''.join(classes.levels)!r} in all "
                           f"{len(classes.codes)} rows): nothing can be learned")
    if numbers is not None and (spec.task == "regression" or (
            spec.task is None and (len(classes.levels) > most or np.any(numbers != np.rint(numbers))))):
        return numbers.astype(np.float32), ()
    if order and set(classes.levels) <= set(order):
        places = np.array([order.index(level) for level in classes.levels])
        return places[classes.codes].astype(np.int64), order
    return classes.codes.astype(np.int64), classes.levels
