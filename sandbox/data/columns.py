"""One column of a table: as numbers, as a few categories, or as the split, group or time of each row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandbox.data.files import pyarrow
from sandbox.errors import DatasetError

Array = NDArray[Any]

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""How a missing value may be written in a text."""
NUMERIC_SHARE = 0.8
"""A column of texts is one of numbers with mistakes where at least this share of its values are numbers."""


@dataclass(frozen=True)
class Column:
    """Either `numbers` (n,) float64 with NaN for missing, or `codes` (n,) into `levels` with -1 for missing.

    `share` of the values of a text column are numbers; `stray` is the first that is none: row from 1, and value.
    `other` names the kind of a column that is neither.
    """

    name: str
    numbers: Array | None = None
    codes: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    levels: tuple[str, ...] = ()
    share: float = 0.0
    stray: tuple[int, str] | None = None
    other: str = ""

    @property
    def gaps(self) -> Array:
        """(n,) bool: where the value is missing."""
        return np.isnan(self.numbers) if self.numbers is not None else self.codes < 0

    def refused_as_number(self) -> DatasetError:
        """What to say where numbers were expected."""
        row, value = self.stray or (0, "")
        return DatasetError(f"column {self.name!r} holds the text {value[:60]!r} in row {row}, where most values are "
                            f"numbers: correct it, leave it empty, or leave the column out with drop={self.name}")

    def as_categories(self) -> Column:
        """The same with every distinct number as a category."""
        if self.numbers is None:
            return self
        known = ~np.isnan(self.numbers)
        levels, inverse = np.unique(self.numbers[known], return_inverse=True)
        codes = np.full(len(self.numbers), -1, dtype=np.int64)
        codes[known] = inverse
        return replace(self, numbers=None, codes=codes, levels=tuple(f"{level:.15g}" for level in levels))


def read(name: str, values: Any) -> Column:
    """A column (pyarrow). Raises `DatasetError` for numbers that are not finite."""
    types = pyarrow().types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if types.is_string(kind) or types.is_large_string(kind):
        column = _read_texts(name, values)
    elif types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast(pyarrow().float64(), safe=False).to_numpy()
        column = Column(name, numbers=np.asarray(numbers, dtype=np.float64), share=1.0)
    else:
        return Column(name, other=str(kind))
    if column.numbers is not None and np.isinf(column.numbers).any():
        row = int(np.argmax(np.isinf(column.numbers)))
        raise DatasetError(f"column {name!r} holds {column.numbers[row]} in row {row + 1}: leave it empty or "
                           "give a finite number")
    return column


def _read_texts(name: str, values: Any) -> Column:
    encoded = pyarrow("compute").utf8_trim_whitespace(values).combine_chunks().dictionary_encode()
    words: list[str] = [str(word) for word in encoded.dictionary.to_pylist()]
    codes = np.array(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    codes[np.isin(codes, [code for code, word in enumerate(words) if word in MISSING])] = -1
    numbers = np.array([_number(word) for word in words] or [math.nan])
    known = codes >= 0
    strays = known & np.isnan(numbers[codes])
    if not strays.any():
        return Column(name, numbers=np.where(known, numbers[codes], np.nan), share=1.0)
    first = int(np.argmax(strays))
    levels = sorted(set(words).difference(MISSING))
    ranks = {level: rank for rank, level in enumerate(levels)}
    ranked = np.array([ranks.get(word, -1) for word in words], dtype=np.int64)
    return Column(name, codes=np.where(known, ranked[codes], -1), levels=tuple(levels),
                  share=float(1 - strays.sum() / known.sum()), stray=(first + 1, words[int(codes[first])]))


def _number(word: str) -> float:
    """The number that a text is; NaN where it is none. Python alone would also read 1_000."""
    try:
        return math.nan if "_" in word else float(word)
    except ValueError:
        return math.nan


PARTS = {"train": "train", "training": "train", "dev": "validation", "val": "validation", "valid": "validation",
         "validation": "validation", "test": "test", "testing": "test", "holdout": "test"}
"""How splits are called in the wild, and what we call them."""


def part_named(name: str) -> str:
    """Our name of a split, or an empty text."""
    return PARTS.get(name.strip().lower(), "")


def parts_of(column: Column) -> Array:
    """(n,) our name of each row's split. Raises `DatasetError` for a name that is none."""
    words = column.as_categories()
    names = [part_named(level) for level in words.levels]
    if column.gaps.any() or "" in names:
        wrong = "nothing" if column.gaps.any() else repr(words.levels[names.index("")])
        raise DatasetError(f"the split column {column.name!r} says {wrong} in some row: write train, validation or "
                           "test in every row")
    return np.array(names)[words.codes]


def groups_of(column: Column) -> Array:
    """(n,) a number for each group. Raises `DatasetError` where a row has none."""
    if column.other or column.gaps.any():
        where = f"is missing in row {int(np.argmax(column.gaps)) + 1}" if not column.other else f"is {column.other}"
        raise DatasetError(f"the group column {column.name!r} {where}: every row needs a group")
    return column.as_categories().codes


def times_of(name: str, values: Any) -> Array:
    """(n,) numbers that grow with time, of a date its microseconds. Raises `DatasetError`."""
    pa = pyarrow()
    if pa.types.is_temporal(values.type):
        times = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_numpy()
        _refuse_gaps(name, np.isnan(times.astype(np.float64)))
        return times
    column = read(name, values)
    if column.other:
        raise DatasetError(f"the time column {name!r} is of type {column.other}: give dates or numbers")
    _refuse_gaps(name, column.gaps)
    if column.numbers is not None:
        return column.numbers
    moments: list[int] = []
    for level in column.levels:
        try:
            moments.append(int(np.datetime64(level.removesuffix("Z"), "us").astype(np.int64)))
        except ValueError:
            raise DatasetError(f"the time column {name!r} holds {level[:60]!r}, which is no number and no ISO date "
                               "such as 2024-05-31 or 2024-05-31T12:00") from None
    return np.array(moments, dtype=np.int64)[column.codes]


def _refuse_gaps(name: str, gaps: Array) -> None:
    if gaps.any():
        raise DatasetError(f"the time column {name!r} is missing in row {int(np.argmax(gaps)) + 1}: "
                           "every row needs one")
