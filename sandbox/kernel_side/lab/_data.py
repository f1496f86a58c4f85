"""Datasets as visible to experiments: validation and test come without labels."""

from __future__ import annotations

import functools
import json
import os
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lab._job import LabError, require_experiment

Array = NDArray[Any]

# scikit-learn includes these datasets with all labels. Without isolation their files are accessible, so at least the
# loaders are replaced: this prevents mistakes but not attacks.
REPLACED_LOADERS = {f"load_{name}": name for name in ("digits", "breast_cancer", "wine", "iris", "diabetes")}


MIN_MAPPED_BYTES = 2**24
"""Minimum size of an array that is mapped from disk instead of loaded."""


@dataclass(frozen=True)
class Labelled:
    """A split for learning: x (examples, ...), y (examples,) int64, or float32 for regression.

    x of a table is (examples, features) float32; of images (examples, height, width, channels) float32 in [0, 1], or
    uint8 for large sets; of other arrays the original type (int64 tokens stay int64); of texts (examples,) str. Large
    arrays are mapped from disk: rows are read when they are used.
    """

    x: Any
    y: Array
    meta: dict[str, Array] = field(default_factory=dict[str, Array])
    """Column -> (examples,) strings, for columns shown in addition to the features; empty for most datasets."""


@dataclass(frozen=True)
class Unlabelled:
    """A split to predict: x as in train."""

    x: Any
    name: str

    @property
    def y(self) -> NoReturn:
        raise LabError(
            f"the labels of {self.name} are withheld: submit predictions with lab.submit, and use `dev` for choices"
        )


@dataclass(frozen=True)
class Dataset:
    """A registered dataset. `classes` is 0 for regression; `names` are the columns of x, if known."""

    name: str
    title: str
    classes: int
    train: Labelled
    dev: Labelled
    validation: Unlabelled
    test: Unlabelled
    names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()

    @property
    def path(self) -> NoReturn:
        raise LabError(f"{self.name} consists of arrays, not a folder: use .train, .dev, .validation and .test")

    def rows(self, split: str) -> int:
        """Return the number of predictions that a submission for `split` needs. Raises `LabError` for another split."""
        if split not in ("validation", "test"):
            raise LabError(f"cannot submit for split {split!r}: give 'validation' or 'test'")
        return len(self.validation.x if split == "validation" else self.test.x)


@dataclass(frozen=True)
class Folder:
    """A dataset that the code reads directly and to which it never writes. The host has no labels for scoring it."""

    name: str
    title: str
    path: Path
    classes: int = 0

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        what = "lab.submit" if name == "rows" else f".{name}"
        raise LabError(
            f"{self.name} is a folder whose labels are unknown to the host, so it has no {what}: read the files under "
            ".path, and report values with lab.result"
        )


@functools.cache
def data(name: str) -> Dataset | Folder:
    """Return the dataset with that name. Raises `LabError` if it is not in the data plan."""
    current = require_experiment("data")
    views = current.datasets
    if current.cell is not None and name != current.cell.dataset:
        raise LabError(f"lab.data({name!r}): this cell is {current.cell}: read lab.data(cell.dataset)")
    if name not in views:
        has = ", ".join(sorted(views)) or "none"
        raise LabError(f"no dataset {name!r} in the data plan of this run; it has: {has}")
    with zipfile.ZipFile(current.folder / views[name]) as file:
        view = {info.filename.removesuffix(".npy"): _read_array(file, info) for info in file.infolist()}
        meta: dict[str, Any] = json.loads(str(view["meta"]))
        about: dict[str, Any] = json.loads(str(view["about"])) if "about" in view else {}
        if about.get("path"):
            return Folder(name, meta["title"], Path(about["path"]))
        return Dataset(
            name=name,
            title=meta["title"],
            classes=meta["classes"],
            names=tuple(about.get("names", ())),
            class_names=tuple(meta.get("class_names", ())),
            train=_read_labelled(view, meta, "train"),
            dev=_read_labelled(view, meta, "dev"),
            validation=Unlabelled(_read_x(view, "validation"), f"{name}/validation"),
            test=Unlabelled(_read_x(view, "test"), f"{name}/test"),
        )


def _read_array(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """Return an array of a view, loaded if small, mapped from disk if large. Changes to the array are not written back
    to the file.
    """
    if info.file_size < MIN_MAPPED_BYTES:
        with file.open(info) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    with open(str(file.filename), "rb") as whole:
        whole.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", whole.read(4))
        whole.seek(name + extra, os.SEEK_CUR)
        np.lib.format.read_magic(whole)
        shape, _, dtype = np.lib.format.read_array_header_1_0(whole)
        return np.asarray(np.memmap(whole, dtype, "c", whole.tell(), shape))


def _read_labelled(view: Any, meta: dict[str, Any], split: str) -> Labelled:
    shown = {name: view[f"{split}_meta"][:, i] for i, name in enumerate(meta.get("meta_shown", ()))}
    return Labelled(_read_x(view, split), view[f"{split}_y"], shown)


def _read_x(view: dict[str, Array], split: str) -> Any:
    if f"{split}_ends" not in view:
        return view[f"{split}_x"]
    texts = MappedTexts(view[f"{split}_x"], view[f"{split}_ends"])
    return texts if texts.nbytes >= MIN_MAPPED_BYTES else texts[:]


class MappedTexts:
    """Strings on disk: (examples,) str, read when accessed."""

    def __init__(self, data: Array, ends: Array) -> None:
        self._data, self._ends = data, ends
        self.shape, self.ndim, self.dtype, self.nbytes = ends.shape, 1, np.dtype(object), data.nbytes

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer):
            row = range(len(self))[index]
            return self._data[self._ends[row - 1] if row else 0 : self._ends[row]].tobytes().decode()
        texts = np.empty(len(rows := np.arange(len(self))[index]), dtype=object)
        texts[:] = [self[int(row)] for row in rows]
        return texts


def replace_loaders(datasets: ModuleType) -> None:
    """Replace the loaders of `sklearn.datasets` whose labels are withheld by an error that names the alternative."""

    def refuse(loader: str, name: str, *_: object, **__: object) -> NoReturn:
        raise LabError(f"sklearn's {loader} returns labels that are withheld here: use lab.data({name!r})")

    for loader, name in REPLACED_LOADERS.items():
        setattr(datasets, loader, functools.partial(refuse, loader, name))
