"""Read arrays as examples: `x` and `y`, or `train_x`, `train_y`, ... if they define splits. Arrays are served
unchanged.

An NPZ archive is read into memory; .npy files in a folder (images, token ids) are memory-mapped. In a folder an array
may be split into shards along its first axis: `train_x-000.npy`, `train_x-001.npy`, ...
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.untrusted_files import raise_read_errors_as
from labwright.sandbox.data import Examples
from labwright.sandbox.data.frames import SPLIT_ALIASES, LoadedTable, import_pyarrow, list_files
from labwright.sandbox.data.preparation import iterate_slices
from labwright.sandbox.data.spec import DataSpec
from labwright.sandbox.data.tables import MAX_CLASSES, add_roles
from labwright.sandbox.job import DatasetError

Array = NDArray[Any]
Arrays = dict[str, Any]


class JoinedArray:
    """Arrays concatenated along their first axis; rows are read on demand, floats as float32, integers as stored."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        if len({(array.shape[1:], str(array.dtype)) for array in arrays}) > 1:
            found = sorted({f"{array.dtype} of shape {array.shape[1:]}" for array in arrays})
            raise DatasetError(f"its arrays contain examples of different shapes or types: {', '.join(found)}")
        if arrays[0].dtype == np.uint8 and arrays[0].ndim == 3:  # grey images
            arrays = [array[..., None] for array in arrays]
        self._arrays: Sequence[Any] = arrays
        kind: np.dtype[Any] = arrays[0].dtype
        self.dtype = np.dtype(np.float32) if kind.kind == "f" else kind
        self._ends = np.cumsum([len(array) for array in arrays])
        self.shape = (int(self._ends[-1]), *arrays[0].shape[1:])
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        chosen = np.arange(len(self))[rows]
        found = np.empty((len(chosen), *self.shape[1:]), dtype=self.dtype)
        which = np.searchsorted(self._ends, chosen, "right")
        for i in np.unique(which):
            array = self._arrays[int(i)]
            found[which == i] = array[chosen[which == i] - (self._ends[i] - len(array))]
        return found


def examples_from_npz(path: Path, spec: DataSpec, limit: int) -> Examples:
    """Read the examples of an archive (at most `limit` bytes unpacked) or of a folder of .npy files.

    64-bit floats become 32-bit; grey images get a channel axis. Raises `DatasetError`.
    """
    if spec.categorical:
        raise DatasetError("categorical= applies to tables only: arrays are served unchanged")
    on_disk = path.is_dir()
    given = _map_folder(path) if on_disk else _load_arrays(path, limit)
    arrays, parts = _join_splits(
        {name: array for name, array in given.items() if name not in spec.drop},
        spec.target or "y",
        JoinedArray if on_disk else np.concatenate,
    )
    named = spec.target or "y", spec.group, spec.time, spec.split, *spec.metric_columns
    roles = list(dict.fromkeys(name for name in named if name))
    others = [name for name in arrays if name not in roles]
    feature = "x" if "x" in others else others[0] if len(others) == 1 else ""
    if not feature or not arrays.keys() >= set(roles):
        has = ", ".join(arrays) or "nothing"
        raise DatasetError(
            f"it must contain x and {' and '.join(roles)}, or train_x, train_y, ...; it contains {has} (see target=)"
        )
    x = arrays[feature]
    if x.ndim == 1 and x.dtype.kind == "U":
        x = x.astype(object)
    elif x.ndim < 2 or x.dtype.kind not in "biuf":
        raise DatasetError(f"{feature} must contain numbers of shape (examples, ...), not {x.dtype} of shape {x.shape}")
    for name in roles:
        if arrays[name].shape != x.shape[:1] or arrays[name].dtype.kind not in "biufU":
            raise DatasetError(
                f"{name} must contain one number or text per example of {feature} (shape {x.shape}), not "
                f"{arrays[name].dtype} of shape {arrays[name].shape}"
            )
    for part in iterate_slices(len(x), math.prod(x.shape[1:]) * x.dtype.itemsize) if x.dtype.kind == "f" else ():
        if not (fine := np.isfinite(piece := x[part])).all():
            row = part.start + int(np.argwhere(~fine)[0][0])
            raise DatasetError(f"{feature} contains a non-finite value in example {row + 1}: fix or remove it")
        del piece
    if not on_disk and x.ndim > 1:
        image = x.dtype == np.uint8 and x.ndim in (3, 4)
        x = x.astype(x.dtype if image else np.float32 if x.dtype.kind == "f" else np.int64, copy=False)
    if x.dtype == np.uint8 and x.ndim == 3:
        x = x[..., None]
    table = import_pyarrow().table({name: arrays[name] for name in roles})
    most = MAX_CLASSES if arrays[roles[0]].dtype.kind == "f" else max(MAX_CLASSES, len(x) // 20)
    frame = LoadedTable(table, parts)
    return add_roles(Examples(x, np.empty(0)), frame, spec, roles[0], max_classes=most)


def _load_arrays(path: Path, limit: int) -> Arrays:
    with (
        raise_read_errors_as("numpy cannot read it as an NPZ archive of numbers and strings", DatasetError),
        np.load(path, allow_pickle=False) as archive,
    ):
        size = sum(member.file_size for member in archive.zip.infolist())
        if size > limit:
            raise DatasetError(f"it unpacks to {size} bytes, more than sandbox.data_bytes ({limit})")
        return {name: archive[name] for name in archive.files}


_SHARD_PATTERN = re.compile(r"(?P<name>.+?)[-_.]\d+")


def _map_folder(folder: Path) -> Arrays:
    """Map the arrays of a folder by name, with shards joined."""
    shards: dict[str, list[Array]] = defaultdict(list)
    for file in list_files(folder, folder):
        name = file.relative_to(folder)
        if file.suffix.lower() != ".npy":
            raise DatasetError(f"{name} is not a .npy file like the others: remove it from the folder")
        with raise_read_errors_as(f"{name} cannot be mapped: it is truncated or contains objects", DatasetError):
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        if not array.ndim or not len(array):
            raise DatasetError(f"{name} contains no examples")
        shard = _SHARD_PATTERN.fullmatch(file.stem)
        shards[shard["name"] if shard else file.stem].append(array)
    roles = {name for name, arrays in shards.items() if arrays[0].ndim == 1}
    return {name: np.concatenate(arrays) if name in roles else JoinedArray(arrays) for name, arrays in shards.items()}


def _join_splits(arrays: Arrays, target: str, join: Callable[[Sequence[Any]], Any]) -> tuple[Arrays, Array | None]:
    """Join x and target of all splits, with the split of each row, if the arrays are organised by split."""
    parts = {
        SPLIT_ALIASES[name[:-2].lower()]: (array, arrays[f"{name[:-2]}_y"])
        for name, array in arrays.items()
        if name.endswith("_x") and name[:-2].lower() in SPLIT_ALIASES and f"{name[:-2]}_y" in arrays
    }
    if "train" not in parts:
        return arrays, None
    if len({x.shape[1:] for x, _ in parts.values()}) > 1 or any(len(x) != len(y) for x, y in parts.values()):
        found = ", ".join(f"{part} {x.shape} and {y.shape}" for part, (x, y) in parts.items())
        raise DatasetError(f"its splits contain examples of different shapes: {found}")
    xs, ys = zip(*parts.values(), strict=True)
    return {"x": join(xs), target: np.concatenate(ys)}, np.repeat(list(parts), [len(labels) for labels in ys])
