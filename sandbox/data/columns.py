"""One column of a table, read as numbers or as a few categories."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sandbox.data.frames import MISSING
from sandbox.data.untyped import pyarrow
from sandbox.errors import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

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
    codes: Array | None = None
    levels: tuple[str, ...] = ()
    share: float = 0.0
    stray: tuple[int, str] | None = None
    other: str = ""

    @property
    def gaps(self) -> Array:
        """(n,) bool: where the value is missing."""
        import numpy as np

        return np.isnan(self.numbers) if self.numbers is not None else _some(self.codes) < 0

    def refused_as_number(self) -> DatasetError:
        """What to say where numbers were expected."""
        row, value = self.stray or (0, "")
        return DatasetError(f"column {self.name!r} holds the text {value[:60]!r} in row {row}, where most values are "
                            f"numbers: correct it, leave it empty, or leave the column out with drop={self.name}")

    def as_categories(self) -> Column:
        """The same with every distinct number as a category."""
        import numpy as np

        if self.numbers is None:
            return self
        known = ~np.isnan(self.numbers)
        levels, inverse = np.unique(self.numbers[known], return_inverse=True)
        codes = np.full(len(self.numbers), -1, dtype=np.int64)
        codes[known] = inverse
        return replace(self, numbers=None, codes=codes, levels=tuple(f"{level:.15g}" for level in levels))


def read(name: str, values: Any) -> Column:
    """A column (pyarrow). Raises `DatasetError` for numbers that are not finite."""
    import numpy as np

    pa = pyarrow()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _finite(_text(name, values))
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return Column(name, other=str(kind))
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    return _finite(Column(name, numbers=np.asarray(numbers, dtype=np.float64), share=1.0))


def _text(name: str, values: Any) -> Column:
    import numpy as np

    encoded = pyarrow("compute").utf8_trim_whitespace(values).combine_chunks().dictionary_encode()
    words: list[str] = [str(word) for word in encoded.dictionary.to_pylist()]
    gaps = np.array([word in MISSING for word in words], dtype=bool)
    codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    known = codes >= 0
    known[known] = ~gaps[codes[known]]
    numbers = np.array([_number(word) for word in words] or [math.nan])
    strange = np.isnan(numbers)
    if not strange[codes[known]].any():
        return Column(name, numbers=np.where(known, numbers[codes], np.nan), share=1.0)
    odd = known.copy()
    odd[known] = strange[codes[known]]
    first = int(np.argmax(odd))
    levels: list[str] = sorted(word for word, gap in zip(words, gaps, strict=True) if not gap)
    place = {word: i for i, word in enumerate(levels)}
    ranked = np.array([place.get(word, -1) for word in words], dtype=np.int64)
    return Column(name, codes=np.where(known, ranked[codes], -1), levels=tuple(levels),
                  share=float(1 - odd.sum() / known.sum()), stray=(first + 1, words[int(codes[first])]))


def _number(word: str) -> float:
    """The number that a text is; NaN where it is none. Python alone would also read 1_000."""
    try:
        return math.nan if "_" in word else float(word)
    except ValueError:
        return math.nan


def _finite(column: Column) -> Column:
    import numpy as np

    if column.numbers is not None and np.isinf(column.numbers).any():
        row = int(np.argmax(np.isinf(column.numbers)))
        raise DatasetError(f"column {column.name!r} holds {column.numbers[row]} in row {row + 1}: leave it empty or "
                           "give a finite number")
    return column


def _some(codes: Array | None) -> Array:
    assert codes is not None
    return codes
