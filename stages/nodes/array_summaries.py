"""What recorded arrays hold, in a few numbers: for reviewers who have to say whether a figure is faithful to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.roles import ArraySummary

MOST = 60
"""Arrays that are summed up."""
MOST_VALUES = 1_000_000
"""Values of an array that are read; of more, every k-th row."""


def array_summaries(folders: Iterable[tuple[str, Path]]) -> tuple[ArraySummary, ...]:
    """The first arrays of (prefix, folder), by name; columns of narrow tables apart. What is no array is left out."""
    found: list[ArraySummary] = []
    for prefix, folder in folders:
        for path in sorted(folder.glob("*.npy")):
            if len(found) >= MOST:
                return tuple(found[:MOST])
            found += _of_file(path, f"{prefix}/{path.name}")
    return tuple(found[:MOST])


def _of_file(path: Path, name: str) -> Iterator[ArraySummary]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return
    if array.dtype.kind not in "biuf":
        return
    shape = tuple(array.shape)
    rows = array[:: max(1, array.size // MOST_VALUES)] if array.ndim else array
    values = np.asarray(rows, dtype=np.float64)
    if values.ndim == 2 and 2 <= values.shape[1] <= 4:
        for column in range(values.shape[1]):
            yield _summed(values[:, column], f"{name}[:, {column}]", shape)
    else:
        yield _summed(values, name, shape)


def _summed(values: NDArray[np.float64], name: str, shape: tuple[int, ...]) -> ArraySummary:
    finite = values[np.isfinite(values)]
    missing = int(values.size - finite.size)
    if not finite.size:
        return ArraySummary(path=name, shape=shape, missing=missing)
    return ArraySummary(path=name, shape=shape, missing=missing, low=float(finite.min()), high=float(finite.max()),
                        mean=float(finite.mean()))
