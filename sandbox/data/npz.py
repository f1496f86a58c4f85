"""NPZ archives as examples: `x` and `y`, or `train_x`, `train_y`, ... where they bring splits. Served as they are."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandbox.data import Examples
from sandbox.data.columns import PARTS
from sandbox.data.spec import DataSpec
from sandbox.data.tables import MAX_CLASSES
from sandbox.errors import DatasetError

Array = NDArray[Any]
Arrays = dict[str, Array]


def from_npz(path: Path, spec: DataSpec, limit: int) -> Examples:
    """The examples of an archive; `limit` bytes may be unpacked. Raises `DatasetError`."""
    if spec.categorical:
        raise DatasetError("categorical= is for tables, an NPZ archive is served as it is")
    arrays = {name: array for name, array in _arrays(path, limit).items() if name not in spec.drop}
    if parts := _by_part(arrays):
        x, y = (np.concatenate([pair[i] for pair in parts.values()]) for i in (0, 1))
        return _examples(x, y, spec, {}, np.repeat(list(parts), [len(labels) for _, labels in parts.values()]))
    target = spec.target or "y"
    others = [name for name in arrays if name not in {target, spec.group, spec.time, spec.split}]
    feature = "x" if "x" in others else others[0] if len(others) == 1 else ""
    if target not in arrays or not feature:
        raise DatasetError(f"it must hold x and y, or train_x, train_y, ...; it holds {', '.join(arrays) or 'nothing'} "
                           "(name the labels with target=)")
    roles = {role: name for role, name in (("group", spec.group), ("time", spec.time), ("split", spec.split)) if name}
    for name in roles.values():
        if name not in arrays:
            raise DatasetError(f"there is no array {name!r}; there are {', '.join(arrays)}")
    return _examples(arrays[feature], arrays[target], spec, {role: arrays[name] for role, name in roles.items()}, None)


def _arrays(path: Path, limit: int) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as archive:
            size = sum(member.file_size for member in archive.zip.infolist())
            if size > limit:
                raise DatasetError(f"it unpacks to {size} bytes, more than sandbox.data_bytes ({limit}): make it "
                                   "smaller, or raise it")
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, zipfile.BadZipFile) as error:
        if "pickle" in str(error) and zipfile.is_zipfile(path):
            raise DatasetError("it holds arrays of Python objects, which are never unpickled: save numbers or texts "
                               "with a plain dtype") from None
        raise DatasetError("it is not an NPZ archive that numpy can read: write it with numpy.savez") from None


def _by_part(arrays: Arrays) -> dict[str, tuple[Array, Array]]:
    """Split -> x and y, where the archive is laid out that way."""
    parts = {PARTS[name[:-2].lower()]: (array, arrays[f"{name[:-2]}_y"]) for name, array in arrays.items()
             if name.endswith("_x") and name[:-2].lower() in PARTS and f"{name[:-2]}_y" in arrays}
    for part, (x, y) in parts.items():
        _check_lengths(x, y, f"{part}_x", f"{part}_y")
    if len({x.shape[1:] for x, _ in parts.values()}) > 1:
        raise DatasetError("its splits hold examples of different shapes: "
                           + ", ".join(f"{part} {x.shape[1:]}" for part, (x, _) in parts.items()))
    return parts if "train" in parts else {}


def _examples(x: Array, y: Array, spec: DataSpec, roles: Arrays, parts: Array | None) -> Examples:
    """64-bit floats become 32-bit, as they are served; grey pictures get their channel."""
    _check_lengths(x, y, "x", spec.target or "y")
    for role, values in roles.items():
        _check_lengths(x, values, "x", f"the array of {role}=")
    if x.ndim < 2 or x.dtype.kind not in "biuf":
        raise DatasetError(f"x must hold numbers of shape (examples, ...), not {x.dtype} of shape {x.shape}")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        row = int(np.argwhere(~np.isfinite(x))[0][0])
        raise DatasetError(f"x holds a value that is not finite in example {row + 1}: fill or remove it")
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        x = x if x.ndim == 4 else x[..., None]
    else:
        x = x.astype(np.float32 if x.dtype.kind == "f" else np.int64)
    labels, names = _labels(y, spec)
    if "split" in roles:
        parts = np.array([PARTS.get(str(name).lower(), "") for name in roles["split"]])
        if "" in parts:
            raise DatasetError(f"{spec.split!r} must say train, validation or test for every example")
    groups = np.unique(roles["group"], return_inverse=True)[1] if "group" in roles else None
    return Examples(x, labels, class_names=names, target=spec.target or "y", parts=parts, groups=groups,
                    times=roles.get("time"))


def _labels(y: Array, spec: DataSpec) -> tuple[Array, tuple[str, ...]]:
    if y.ndim != 1 or y.dtype.kind not in "biufU":
        raise DatasetError(f"y must hold one label an example, numbers or texts, not {y.dtype} of shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DatasetError(f"y holds a value that is not finite in example {int(np.argmin(np.isfinite(y))) + 1}")
    classes, codes = np.unique(y, return_inverse=True)
    few = y.dtype.kind != "f" and (y.dtype.kind == "U" or len(classes) <= max(MAX_CLASSES, len(y) // 20))
    if len(classes) < 2:
        raise DatasetError(f"y holds one value only ({classes[:1]}): nothing can be learned")
    if spec.task == "classification" or (spec.task is None and few):
        return codes.astype(np.int64), tuple(str(name) for name in classes)
    if y.dtype.kind == "U":
        raise DatasetError("y holds texts, and a regression needs numbers")
    return y.astype(np.float32), ()


def _check_lengths(x: Array, y: Array, first: str, second: str) -> None:
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise DatasetError(f"{first} has shape {x.shape} and {second} {y.shape}: they must hold one entry an example")
