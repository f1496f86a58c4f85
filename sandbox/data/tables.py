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
from sandbox.data.frames import USUAL_TARGETS, Frame
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
    target = _target_name(names, spec)
    for role, name in (("group", spec.group), ("time", spec.time), ("split", spec.split),
                       *(("drop", one) for one in spec.drop), *(("categorical", one) for one in spec.categorical)):
        if name:
            _present(name, names, role)
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


def _target_name(names: Sequence[str], spec: DataSpec) -> str:
    if spec.target:
        _present(spec.target, names, "target")
        return spec.target
    usual = [name for name in names if name.lower() in USUAL_TARGETS]
    if len(usual) == 1:
        return usual[0]
    raise DatasetError(f"which column is the target? say target=COLUMN; there are {_listed(names)}")


def _present(name: str, names: Sequence[str], role: str) -> None:
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or difflib.get_close_matches(
        name.lower(), [one for one in names if name.lower() in one.lower()], n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DatasetError(f"there is no column {name!r} for {role}=: {hint}there are {_listed(names)}")


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# --- features -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Block:
    """The columns of x that come of one column of the table."""

    names: list[str]
    values: list[Array]
    numeric: list[bool]
    gaps: int = 0


def _features(frame: Frame, names: Sequence[str], spec: DataSpec, limit: int) -> Examples:
    if (served := nested(frame.table, names, limit)) is not None:
        return Examples(served, np.empty(0), warnings=frame.warnings)
    blocks = [_block(_column(frame, name), categorical=name in spec.categorical) for name in names]
    flat = _Block([n for b in blocks for n in b.names], [v for b in blocks for v in b.values],
                  [k for b in blocks for k in b.numeric])
    size = frame.table.num_rows * len(flat.names) * 8
    if size > limit:
        raise DatasetError(f"{frame.table.num_rows} rows of {len(flat.names)} features take {size} bytes in memory, "
                           f"more than sandbox.data_bytes ({limit}): take fewer, or raise it")
    missing = {name: block.gaps for name, block in zip(names, blocks, strict=True) if block.gaps}
    counted = tuple(f"column {name!r} counts the rows (an identifier?): leave it out with drop={name}"
                    for name, block in zip(names, blocks, strict=True) if _counts_rows(block))
    return Examples(np.stack(flat.values, axis=1).astype(np.float64), np.empty(0), names=tuple(flat.names),
                    numeric=np.array(flat.numeric), missing=missing, warnings=(*frame.warnings, *counted))


def _block(column: Column, *, categorical: bool) -> _Block:
    if column.other:
        raise DatasetError(f"column {column.name!r} is of type {column.other}, which is no feature: turn it into "
                           f"numbers, or leave it out with drop={column.name}")
    gaps = column.gaps
    if gaps.all():
        raise DatasetError(f"column {column.name!r} is empty: leave it out with drop={column.name}")
    if column.numbers is not None and not categorical:
        marked = [gaps.astype(np.float64)] if gaps.any() else []
        return _Block([column.name, *(f"{column.name} missing" for _ in marked)], [column.numbers, *marked],
                      [True, *(False for _ in marked)], int(gaps.sum()))
    return _one_hot(column if column.numbers is None else column.as_categories(), categorical)


def _one_hot(column: Column, categorical: bool) -> _Block:
    if column.share >= NUMERIC_SHARE and column.stray and not categorical:
        raise column.refused_as_number()
    if len(column.levels) > MAX_LEVELS:
        raise DatasetError(f"column {column.name!r} holds {len(column.levels)} different texts, more than the "
                           f"{MAX_LEVELS} that are made one-hot: turn it into numbers, or leave it out with "
                           f"drop={column.name}")
    assert column.codes is not None
    levels = list(range(len(column.levels))) + ([-1] if (column.codes < 0).any() else [])
    texts: list[str] = [*column.levels, "(missing)"]
    names = [f"{column.name}={texts[level]}" for level in levels]
    return _Block(names, [(column.codes == level).astype(np.float64) for level in levels],
                  [False] * len(levels), int((column.codes < 0).sum()))


def _counts_rows(block: _Block) -> bool:
    first = block.values[0]
    return block.numeric[0] and len(first) > 2 and bool(np.all(np.diff(first) == 1.0))


# --- target ---------------------------------------------------------------------------------------------------------


def _target(column: Column, spec: DataSpec, order: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """y, and the names of its classes (none for regression)."""
    if column.other:
        raise DatasetError(f"the target {column.name!r} is of type {column.other}: give numbers or class names")
    if (gaps := column.gaps).any():
        raise DatasetError(f"the target {column.name!r} is missing in {int(gaps.sum())} rows (the first is row "
                           f"{int(np.argmax(gaps)) + 1}): fill them in, or remove these rows")
    task = spec.task or _task(column)
    if task == "none":
        raise DatasetError("task=none is for folders: a table has a target")
    if task == "regression":
        return _values(column), ()
    if column.share >= NUMERIC_SHARE and column.stray and spec.task is None:
        raise column.refused_as_number()
    coded = column.as_categories()
    if len(coded.levels) < 2:
        only = "".join(coded.levels)
        raise DatasetError(f"the target {column.name!r} holds one class only ({only!r} in all "
                           f"{len(gaps)} rows): a classification needs at least two")
    assert coded.codes is not None
    if order and set(coded.levels) <= set(order):
        place = np.array([order.index(level) for level in coded.levels])
        return place[coded.codes].astype(np.int64), order
    return coded.codes.astype(np.int64), coded.levels


def _task(column: Column) -> str:
    if column.numbers is None:
        return "classification"
    whole = bool(np.all(column.numbers == np.rint(column.numbers)))
    return "classification" if whole and len(np.unique(column.numbers)) <= MAX_CLASSES else "regression"


def _values(column: Column) -> Array:
    if column.numbers is None:
        raise column.refused_as_number() if column.share >= NUMERIC_SHARE else DatasetError(
            f"the target {column.name!r} holds texts ({column.levels[0][:60]!r} is one): a regression needs numbers")
    if np.ptp(column.numbers) == 0:
        raise DatasetError(f"the target {column.name!r} is {column.numbers[0]:g} in every row: nothing can be learned")
    return column.numbers.astype(np.float32)
