"""A column whose values are images or lists of one length, as an array of examples: the other columns are refused."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.data import images
from sandbox.data.untyped import pyarrow
from sandbox.errors import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def nested(table: Any, names: Sequence[str], limit: int) -> Array | None:
    """x, where the one feature column holds images (`bytes`, `path`) or lists; None for plain columns.

    Raises `DatasetError` where such a column does not stand alone, or its lists differ in length.
    """
    pa = pyarrow()
    found = [name for name in names if pa.types.is_nested(table.schema.field(name).type)]
    if not found:
        return None
    if len(names) > 1:
        others = next(name for name in names if name != found[0])
        raise DatasetError(f"column {found[0]!r} holds {table.schema.field(found[0]).type}, and such a column must be "
                           f"the only feature: leave the others out (drop={others} ...), or drop={found[0]}")
    column = table.column(found[0])
    if pa.types.is_struct(column.type) and {"bytes", "path"} <= {field.name for field in column.type}:
        return _images(column, limit)
    return _lists(found[0], column)


def _images(column: Any, limit: int) -> Array:
    sources: list[tuple[str, Any]] = []
    for row, one in enumerate(column.to_pylist(), start=1):
        where = f"image in row {row}"
        if one is None or (one["bytes"] is None and not one["path"]):
            raise DatasetError(f"{where} is missing")
        sources.append((where, io.BytesIO(one["bytes"]) if one["bytes"] is not None else Path(one["path"])))
    return images.stacked(sources, limit).x


def _lists(name: str, column: Any) -> Array:
    """(n, length, ...) int64 or float32."""
    import numpy as np

    try:
        array = np.array(column.to_pylist())
    except ValueError:  # numpy's word for lists of different lengths
        raise DatasetError(f"column {name!r} holds lists of different lengths: pad them to one length") from None
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise DatasetError(f"column {name!r} holds lists of {column.type}, which are not all numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DatasetError(f"column {name!r} holds lists with values that are missing or not finite")
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
