"""Columns that say how rows are to be cut: given splits, groups and times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandbox.data import columns
from sandbox.data.columns import Column
from sandbox.data.untyped import pyarrow
from sandbox.errors import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PARTS = {"train": "train", "training": "train", "dev": "validation", "val": "validation", "valid": "validation",
         "validation": "validation", "test": "test", "testing": "test", "holdout": "test"}
"""How splits are called in the wild, and what we call them."""


def parts_of(column: Column) -> Array:
    """(n,) our name of each row's split. Raises `DatasetError` for a name that is none."""
    import numpy as np

    words = column.as_categories()
    names = [part_named(level) for level in words.levels]
    if column.gaps.any() or "" in names:
        wrong = "nothing" if column.gaps.any() else repr(words.levels[names.index("")])
        raise DatasetError(f"the split column {column.name!r} says {wrong} in some row: write train, validation or "
                           "test in every row")
    return np.array(names)[words.codes]


def part_named(name: str) -> str:
    """Our name of a split, or an empty text."""
    return PARTS.get(name.strip().lower(), "")


def groups_of(column: Column) -> Array:
    """(n,) a number for each group. Raises `DatasetError` where a row has none."""
    import numpy as np

    if column.other or column.gaps.any():
        where = f"is missing in row {int(np.argmax(column.gaps)) + 1}" if not column.other else f"is {column.other}"
        raise DatasetError(f"the group column {column.name!r} {where}: every row needs a group")
    codes = column.as_categories().codes
    assert codes is not None
    return codes


def times_of(name: str, values: Any) -> Array:
    """(n,) numbers that grow with time, of a date its microseconds. Raises `DatasetError`."""
    import numpy as np

    pa = pyarrow()
    if pa.types.is_temporal(values.type):
        return _all_there(name, values.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_numpy())
    column = columns.read(name, values)
    if column.other:
        raise DatasetError(f"the time column {name!r} is of type {column.other}: give dates or numbers")
    _all_there(name, np.where(column.gaps, np.nan, 0.0))
    if column.numbers is not None:
        return column.numbers
    moments: Mapping[str, int] = {level: _moment(level, column) for level in column.levels}
    assert column.codes is not None
    return np.array(list(moments.values()), dtype=np.int64)[column.codes]


def _moment(text: str, column: Column) -> int:
    import numpy as np

    try:
        return int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))
    except ValueError:
        raise DatasetError(f"the time column {column.name!r} holds {text[:60]!r}, which is no number and no ISO date "
                           "such as 2024-05-31 or 2024-05-31T12:00") from None


def _all_there(name: str, values: Array) -> Array:
    import numpy as np

    gaps = np.isnan(values.astype(np.float64))
    if gaps.any():
        raise DatasetError(f"the time column {name!r} is missing in row {int(np.argmax(gaps)) + 1}: "
                           "every row needs one")
    return values
