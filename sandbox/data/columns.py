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
PARTS = {"train": "train", "training": "train", "dev": "validation", "val": "validation", "valid": "validation",
         "validation": "validation", "test": "test", "testing": "test", "holdout": "test"}
"""How splits are called in the wild, and what we call them."""


@dataclass(frozen=True)
class Column:
    """Either `numbers` (n,) float64 with NaN for missing, or `codes` (n,) into `levels` with -1 for missing.

    `stray` is the first value that is no number, where most are: row from 1, and value. `other` names the kind of a
    column that is neither.
    """

    name: str
    numbers: Array | None = None
    codes: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    levels: tuple[str, ...] = ()
    stray: tuple[int, str] | None = None
    other: str = ""

    @property
    def gaps(self) -> Array:
        """(n,) bool: where the value is missing."""
        return np.isnan(self.numbers) if self.numbers is not None else self.codes < 0

    def refuse_stray(self) -> None:
        """Raises `DatasetError` where most values are numbers and some are not."""
        if self.stray is not None:
            row, value = self.stray
            raise DatasetError(f"column {self.name!r} holds the text {value[:60]!r} in row {row}, where most values "
                               f"are numbers: correct it, leave it empty, or leave it out with drop={self.name}")

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
        column = Column(name, numbers=np.asarray(numbers, dtype=np.float64))
    else:
        return Column(name, other=str(kind))
    if column.numbers is not None and np.isinf(column.numbers).any():
        row = int(np.argmax(np.isinf(column.numbers)))
        raise DatasetError(f"column {name!r} holds {column.numbers[row]} in row {row + 1}: leave it empty or "
                           "give a finite number")
    return column


def _read_texts(name: str, values: Any) -> Column:
    encoded = pyarrow("compute").utf8_trim_whitespace(values).combine_chunks().dictionary_encode()
    words: list[str] = encoded.dictionary.to_pylist()
    levels = tuple(sorted(set(words).difference(MISSING)))
    ranks = {level: rank for rank, level in enumerate(levels)}
    codes = np.array([*(ranks.get(word, -1) for word in words), -1])[
        encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    numbers = np.array([*map(_number, levels), math.nan])[codes]
    strays = (codes >= 0) & np.isnan(numbers)
    if not strays.any():
        return Column(name, numbers=numbers)
    first, share = int(np.argmax(strays)), 1 - strays.sum() / (codes >= 0).sum()
    return Column(name, codes=codes, levels=levels,
                  stray=(first + 1, levels[int(codes[first])]) if share >= NUMERIC_SHARE else None)


def _number(word: str) -> float:
    """The number that a text is; NaN where it is none. Python alone would also read 1_000."""
    try:
        return math.nan if "_" in word else float(word)
    except ValueError:
        return math.nan


def complete(column: Column, role: str) -> Column:
    """A column that every row needs. Raises `DatasetError` where one lacks it, or it is of no kind that is read."""
    if column.other:
        raise DatasetError(f"the {role} column {column.name!r} is of type {column.other}: give numbers or texts")
    if (gaps := column.gaps).any():
        raise DatasetError(f"the {role} column {column.name!r} is missing in {int(gaps.sum())} rows (the first is row "
                           f"{int(np.argmax(gaps)) + 1}): fill them in, or remove these rows")
    return column


def parts_of(column: Column) -> Array:
    """(n,) our name of each row's split. Raises `DatasetError` for a name that is none."""
    words = complete(column, "split").as_categories()
    names = [PARTS.get(level.lower(), "") for level in words.levels]
    if "" in names:
        raise DatasetError(f"the split column {column.name!r} says {words.levels[names.index('')]!r} in some row: "
                           "write train, validation or test in every row")
    return np.array(names)[words.codes]


def times_of(name: str, values: Any) -> Array:
    """(n,) numbers that grow with time, of a date its microseconds. Raises `DatasetError`."""
    pa = pyarrow()
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    column = complete(read(name, values), "time")
    if column.numbers is not None:
        return column.numbers
    try:
        moments = np.array([level.removesuffix("Z") for level in column.levels], dtype="datetime64[us]")
    except ValueError as error:
        raise DatasetError(f"the time column {name!r} holds neither numbers nor ISO dates such as 2024-05-31 or "
                           f"2024-05-31T12:00 ({error})") from None
    return moments.astype(np.int64)[column.codes]
