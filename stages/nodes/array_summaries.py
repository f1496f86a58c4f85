"""What recorded arrays hold, in a few numbers: for who draws from them, and who says whether a figure shows them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.roles import ArrayBrief, Range
from sandbox.untrusted import Unfit, load_array
from stages.bench import in_thread

MOST_VALUES = 1_000_000
"""Values of an array that are read; of more, every k-th row."""
NARROW = 4
"""Columns of a table whose ranges are told one by one."""


async def array_briefs(folders: Iterable[tuple[str, Path]]) -> tuple[ArrayBrief, ...]:
    """The arrays of (prefix, folder), by name. What is no array is left out."""
    files = [(path, f"{prefix}/{path.name}") for prefix, folder in folders for path in sorted(folder.glob("*.npy"))]
    found = [await in_thread(lambda one=one: _of_file(*one)) for one in files]
    return tuple(brief for brief in found if brief is not None)


def _of_file(path: Path, name: str) -> ArrayBrief | None:
    try:
        array = load_array(path)
    except Unfit:
        return None
    shape, kind = tuple(array.shape), array.dtype
    if kind.kind not in "biuf":
        return ArrayBrief(path=name, shape=shape, dtype=str(kind))
    rows = array[:: max(1, array.size // MOST_VALUES)] if array.ndim else array
    values = np.asarray(rows, dtype=np.float64)
    narrow = values.ndim == 2 and 2 <= values.shape[1] <= NARROW
    ranges = [_range(column) for column in (values.T if narrow else [values])]
    return ArrayBrief(path=name, shape=shape, dtype=str(kind), missing=int(np.sum(~np.isfinite(values))),
                      ranges=tuple(one for one in ranges if one is not None) if None not in ranges else ())


def _range(values: NDArray[np.float64]) -> Range | None:
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        mean = finite.mean() if finite.size else np.nan
    if not np.isfinite(mean):  # none is finite, or their sum is not
        return None
    return Range(low=float(finite.min()), high=float(finite.max()), mean=float(mean))
