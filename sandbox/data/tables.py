"""A table as examples: features as numbers, one-hot categories and marks of what is missing; a target; given splits.

Numbers stay in their unit here, with NaN for missing: median and scale come from train, once the splits are known.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandbox.data import Examples, columns
from sandbox.data.columns import NUMERIC_SHARE, Column, groups_of, parts_of, times_of
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
                       *(("drop", name) for name in spec.drop), *(("categorical", name) for name in spec.categorical)):
        if name:
            _check_present(name, names, role)
    features = [name for name in names if name not in {target, spec.group, spec.time, spec.split, *spec.drop}]
    if not features:
        raise DatasetError(f"no column is left to learn from beside the target {target!r}")
    y, classes = _target(_column(frame, target), spec, frame.class_order)
    parts = frame.parts if not spec.split else parts_of(_column(frame, spec.split))
    return replace(
        _features(frame, features, spec, limit), y=y, class_names=classes, target=target, columns=tuple(features),
        parts=parts, groups=groups_of(_column(frame, spec.group)) if spec.group else None,
        times=times_of(spec.time, frame.table.column(spec.time)) if spec.time else None)


def _column(frame: Frame, name: str) -> Column:
    return columns.read(name, frame.table.column(name))


def _check_present(name: str, names: Sequence[str], role: str) -> None:
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or difflib.get_close_matches(
        name.lower(), [longer for longer in names if name.lower() in longer.lower()], n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DatasetError(f"there is no column {name!r} for {role}=: {hint}there are {listed(names)}")


# --- features -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Block:
    """The columns of x that come of one column of the table."""

    names: list[str]
    values: list[Array]
    numeric: list[bool]
    gaps: int = 0

    @property
    def counts_rows(self) -> bool:
        first = self.values[0]
        return self.numeric[0] and len(first) > 2 and bool(np.all(np.diff(first) == 1.0))


def _features(frame: Frame, names: Sequence[str], spec: DataSpec, limit: int) -> Examples:
    if (served := nested(frame.table, names, limit)) is not None:
        return Examples(served, np.empty(0), warnings=frame.warnings)
    blocks = {name: _block(_column(frame, name), categorical=name in spec.categorical) for name in names}
    encoded = tuple(name for block in blocks.values() for name in block.names)
    size = frame.table.num_rows * len(encoded) * 8
    if size > limit:
        raise DatasetError(f"{frame.table.num_rows} rows of {len(encoded)} features take {size} bytes in memory, "
                           f"more than sandbox.data_bytes ({limit}): take fewer, or raise it")
    counted = tuple(f"column {name!r} counts the rows (an identifier?): leave it out with drop={name}"
                    for name, block in blocks.items() if block.counts_rows)
    values = [column for block in blocks.values() for column in block.values]
    return Examples(
        np.stack(values, axis=1).astype(np.float64), np.empty(0), names=encoded,
        numeric=np.array([measured for block in blocks.values() for measured in block.numeric]),
        missing={name: block.gaps for name, block in blocks.items() if block.gaps},
        warnings=(*frame.warnings, *counted))


def _block(column: Column, *, categorical: bool) -> _Block:
    if column.other:
        raise DatasetError(f"column {column.name!r} is of type {column.other}, which is no feature: turn it into "
                           f"numbers, or leave it out with drop={column.name}")
    gaps = column.gaps
    if gaps.all():
        raise DatasetError(f"column {column.name!r} is empty: leave it out with drop={column.name}")
    if column.numbers is None or categorical:
        return _one_hot(column.as_categories(), categorical)
    if not gaps.any():
        return _Block([column.name], [column.numbers], [True])
    return _Block([column.name, f"{column.name} missing"], [column.numbers, gaps.astype(np.float64)], [True, False],
                  int(gaps.sum()))


def _one_hot(column: Column, categorical: bool) -> _Block:
    if column.share >= NUMERIC_SHARE and column.stray and not categorical:
        raise column.refused_as_number()
    if len(column.levels) > MAX_LEVELS:
        raise DatasetError(f"column {column.name!r} holds {len(column.levels)} different texts, more than the "
                           f"{MAX_LEVELS} that are made one-hot: turn it into numbers, or leave it out with "
                           f"drop={column.name}")
    gaps = int((column.codes < 0).sum())
    levels = [*enumerate(column.levels), *([(-1, "(missing)")] if gaps else [])]
    return _Block([f"{column.name}={level}" for _, level in levels],
                  [(column.codes == code).astype(np.float64) for code, _ in levels], [False] * len(levels), gaps)


# --- target ---------------------------------------------------------------------------------------------------------


def _target(column: Column, spec: DataSpec, order: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """y, and the names of its classes (none for regression)."""
    if column.other:
        raise DatasetError(f"the target {column.name!r} is of type {column.other}: give numbers or class names")
    if (gaps := column.gaps).any():
        raise DatasetError(f"the target {column.name!r} is missing in {int(gaps.sum())} rows (the first is row "
                           f"{int(np.argmax(gaps)) + 1}): fill them in, or remove these rows")
    if spec.task == "none":
        raise DatasetError("task=none is for folders: a table has a target")
    numbers = column.numbers
    if column.stray and column.share >= NUMERIC_SHARE and spec.task != "classification":
        raise column.refused_as_number()
    if numbers is None and spec.task == "regression":
        raise DatasetError(f"the target {column.name!r} holds texts ({column.levels[0][:60]!r} is one): a regression "
                           "needs numbers")
    if numbers is not None and (spec.task == "regression" or (spec.task is None and (
            len(np.unique(numbers)) > MAX_CLASSES or bool(np.any(numbers != np.rint(numbers)))))):
        if np.ptp(numbers) == 0:
            raise DatasetError(f"the target {column.name!r} is {numbers[0]:g} in every row: nothing can be learned")
        return numbers.astype(np.float32), ()
    classes = column.as_categories()
    if len(classes.levels) < 2:
        only = "".join(classes.levels)
        raise DatasetError(f"the target {column.name!r} holds one class only ({only!r} in all "
                           f"{len(gaps)} rows): a classification needs at least two")
    if order and set(classes.levels) <= set(order):
        places = np.array([order.index(level) for level in classes.levels])
        return places[classes.codes].astype(np.int64), order
    return classes.codes.astype(np.int64), classes.levels
