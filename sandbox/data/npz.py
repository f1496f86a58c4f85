"""NPZ archives as examples: `x` and `y`, or `train_x`, `train_y`, ... where they bring splits. Served as they are."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandbox.data import Examples
from sandbox.data.columns import PARTS
from sandbox.data.files import pyarrow
from sandbox.data.frames import Frame
from sandbox.data.spec import DataSpec
from sandbox.data.tables import MAX_CLASSES, with_roles
from sandbox.errors import DatasetError

Array = NDArray[Any]
Arrays = dict[str, Array]


def from_npz(path: Path, spec: DataSpec, limit: int) -> Examples:
    """The examples of an archive; `limit` bytes may be unpacked. Raises `DatasetError`.

    64-bit floats become 32-bit, as they are served; grey pictures get their channel.
    """
    if spec.categorical:
        raise DatasetError("categorical= is for tables, an NPZ archive is served as it is")
    arrays = {name: array for name, array in _arrays(path, limit).items() if name not in spec.drop}
    arrays, parts = _joined(arrays, spec.target or "y")
    roles = list(dict.fromkeys(
        name for name in (spec.target or "y", spec.group, spec.time, spec.split, *spec.aside) if name))
    others = [name for name in arrays if name not in roles]
    feature = "x" if "x" in others else others[0] if len(others) == 1 else ""
    if not feature or not arrays.keys() >= set(roles):
        raise DatasetError(f"it must hold x and {' and '.join(roles)}, or train_x, train_y, ...; it holds "
                           f"{', '.join(arrays) or 'nothing'} (name the labels with target=)")
    x = arrays[feature]
    if x.ndim < 2 or x.dtype.kind not in "biuf":
        raise DatasetError(f"{feature} must hold numbers of shape (examples, ...), not {x.dtype} of shape {x.shape}")
    for name in roles:
        if arrays[name].shape != x.shape[:1] or arrays[name].dtype.kind not in "biufU":
            raise DatasetError(f"{name} must hold one number or text an example, as many as {feature} of shape "
                               f"{x.shape}, not {arrays[name].dtype} of shape {arrays[name].shape}")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        row = int(np.argwhere(~np.isfinite(x))[0][0])
        raise DatasetError(f"{feature} holds a value that is not finite in example {row + 1}: fill or remove it")
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        x = x if x.ndim == 4 else x[..., None]
    else:
        x = x.astype(np.float32 if x.dtype.kind == "f" else np.int64)
    table = pyarrow().table({name: arrays[name] for name in roles})
    most = MAX_CLASSES if arrays[roles[0]].dtype.kind == "f" else max(MAX_CLASSES, len(x) // 20)
    return with_roles(Examples(x, np.empty(0)), Frame(table, parts), spec, roles[0], most_classes=most)


def _arrays(path: Path, limit: int) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as archive:
            size = sum(member.file_size for member in archive.zip.infolist())
            if size > limit:
                raise DatasetError(f"it unpacks to {size} bytes, more than sandbox.data_bytes ({limit}): make it "
                                   "smaller, or raise it")
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, zipfile.BadZipFile) as error:
        raise DatasetError("it is not an NPZ archive that numpy can read: write numbers and texts with numpy.savez; "
                           f"Python objects are never unpickled ({type(error).__name__})") from None


def _joined(arrays: Arrays, target: str) -> tuple[Arrays, Array | None]:
    """x and the target of all splits with the split of each row, where the archive is laid out by splits."""
    parts = {PARTS[name[:-2].lower()]: (array, arrays[f"{name[:-2]}_y"]) for name, array in arrays.items()
             if name.endswith("_x") and name[:-2].lower() in PARTS and f"{name[:-2]}_y" in arrays}
    if "train" not in parts:
        return arrays, None
    if len({x.shape[1:] for x, _ in parts.values()}) > 1 or any(len(x) != len(y) for x, y in parts.values()):
        raise DatasetError("its splits hold examples of different shapes: " + ", ".join(
            f"{part} {x.shape} and {y.shape}" for part, (x, y) in parts.items()))
    x, y = (np.concatenate([pair[i] for pair in parts.values()]) for i in (0, 1))
    return {"x": x, target: y}, np.repeat(list(parts), [len(labels) for _, labels in parts.values()])
