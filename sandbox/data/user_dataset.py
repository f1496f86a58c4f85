"""A user dataset as a data source: detect its kind, read it and collect its facts.

Every error is a one-line `DatasetError` that begins with the dataset's name and location.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.data_plan import DatasetFacts
from labwright.sandbox.data import Examples, frames, tables
from labwright.sandbox.data.frames import compute_fingerprint, list_files
from labwright.sandbox.data.preparation import iterate_slices, prepare_dataset, to_bytes
from labwright.sandbox.data.spec import HUB_PREFIX, LIST_FIELDS, DataSpec
from labwright.sandbox.job import DatasetError


@dataclass(frozen=True)
class UserDataset:
    """The dataset that a `DataSpec` names. `limit` (bytes) applies to the file and to arrays in memory."""

    spec: DataSpec
    limit: int

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def title(self) -> str:
        return self.spec.name.replace("_", " ")

    @property
    def source(self) -> str:
        """Kind and file name, or the id on the hub; without the folder, which does not belong in a paper."""
        path = self.spec.path
        if path is None:
            return HUB_PREFIX + self.spec.hub + (f"@{self.spec.revision}" if self.spec.revision else "")
        return f"{'folder' if path.is_dir() else path.suffix.lower().lstrip('.')}:{path.name}"

    def build_facts(self, seed: int) -> DatasetFacts:
        """Read the dataset and return its facts for a seed. Raises `DatasetError` if it is unusable."""
        self.check_unchanged()
        unpinned = replace(self, spec=self.spec.model_copy(update={"sha256": ""}))
        return _build_facts(unpinned, seed, self.compute_origin())

    def compute_origin(self) -> str:
        """Return the sha256 of the file or folder; empty for hub datasets, whose examples are hashed instead."""
        path = self.spec.path
        if path is None:
            return ""
        with self.name_errors():
            place = _resolve(path)
            return compute_fingerprint(place, ends_only=place.is_dir() and _detect_kind(self.spec, place) == "folder")

    def load(self) -> Examples:
        """Return all examples. Raises `DatasetError`, including when they changed since the run began."""
        self.check_unchanged()
        with self.name_errors():
            examples = _read_examples(self.spec, self.limit)
            if self.spec.hub and self.spec.sha256 not in ("", _hash_examples(examples)):
                raise DatasetError("it changed on the hub since the run began: set revision= to the one used then")
            return examples

    def describe_columns(self) -> tuple[int, tuple[tables.ColumnReading, ...]]:
        """Return the number of rows and how each column is read; nothing if the data are no table. Raises
        `DatasetError`."""
        with self.name_errors():
            path = _resolve(self.spec.path) if self.spec.path is not None else None
            if path is not None and _detect_kind(self.spec, path) != "table":
                return 0, ()
            frame = _load_table(self.spec, self.limit, path, "table")
            return frame.table.num_rows, tuple(tables.describe_columns(frame, self.spec))

    def check_unchanged(self) -> None:
        """Raise `DatasetError` if the file or folder changed since the run began."""
        then = self.spec.sha256 if self.spec.path is not None else ""
        if then and (now := self.compute_origin()) != then:
            with self.name_errors():
                raise DatasetError(f"it changed since the run began (sha256 {then[:12]}, now {now[:12]}): restore it")

    def pin(self, seed: int) -> DataSpec:
        """Return the spec with the current fingerprint, and with task "none" if the data are used as a path."""
        facts = self.build_facts(seed)
        task = "none" if facts.task == "none" else self.spec.task
        return self.spec.model_copy(update={"sha256": facts.origin, "task": task})

    @contextmanager
    def name_errors(self) -> Generator[None]:
        """Prefix a `DatasetError` raised inside with the dataset's name and location."""
        try:
            yield
        except DatasetError as error:
            place = self.spec.path.name if self.spec.path is not None else HUB_PREFIX + self.spec.hub
            raise DatasetError(f"data {self.name!r} ({place}): {error}") from None


@lru_cache(maxsize=64)
def _build_facts(source: UserDataset, seed: int, origin: str) -> DatasetFacts:
    """Cached by fingerprint, because the facts are needed for checking, starting and planning a run."""
    examples = source.load()
    origin = origin or _hash_examples(examples)
    with source.name_errors():
        return prepare_dataset(
            examples, seed, name=source.name, title=source.title, source=source.source, origin=origin
        )


def _hash_examples(examples: Examples) -> str:
    """Hash the examples, for datasets without a local file."""
    digest = hashlib.sha256()
    for array in (examples.x, examples.y):
        digest.update(f"{array.dtype}{array.shape}".encode())
        for part in iterate_slices(len(array), array[:1].nbytes):
            digest.update(to_bytes(array[part]))
    return digest.hexdigest()


def _read_examples(spec: DataSpec, limit: int) -> Examples:
    path = _resolve(spec.path) if spec.path is not None else None
    kind = _detect_kind(spec, path) if path is not None else "saved"
    if path is None or kind in ("table", "saved"):
        return tables.examples_from_table(_load_table(spec, limit, path, kind), spec, limit)
    if kind == "npz":
        _check_size(path, limit)
        return tables.examples_from_npz(path, spec, limit)
    given = [name for name in ("target", "group", "time", "split", *LIST_FIELDS) if getattr(spec, name)]
    if given or spec.task == "regression":
        raise DatasetError(
            f"{given[0] if given else 'task'}= is for tables: in an image folder, subfolders are classes and splits"
        )
    if kind == "images":
        return replace(tables.examples_from_folder(tables.list_images(path), path), dev_from=spec.dev_from)
    return _folder_examples(path)


def _check_size(path: Path, limit: int) -> None:
    if path.is_file() and (size := path.stat().st_size) > limit:
        raise DatasetError(
            f"it has {size} bytes, more than sandbox.data_bytes ({limit}): use a part or raise the limit"
        )


def _load_table(spec: DataSpec, limit: int, path: Path | None, kind: str) -> frames.LoadedTable:
    """Load a table file, or a set of the datasets library (saved, or without a path on the hub)."""
    if path is None or kind == "saved":
        return frames.load_library_dataset(spec, limit, saved=path)
    _check_size(path, limit)
    return frames.LoadedTable(frames.read_table(path), is_file=True)


def _detect_kind(spec: DataSpec, path: Path) -> Literal["table", "npz", "saved", "images", "folder"]:
    suffix = path.suffix.lower()
    if path.is_dir():
        if spec.task == "none":
            return "folder"
        if any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json")):  # by `save_to_disk`
            return "saved"
        if any(path.glob("*.npy")):
            return "npz"
        return "images" if tables.list_images(path) else "folder"
    if suffix in (*frames.CSV_SUFFIXES, *frames.PARQUET_SUFFIXES):
        return "table"
    if suffix == ".npz":
        return "npz"
    raise DatasetError(f"{suffix or 'a file without an extension'} is not CSV, TSV, Parquet, NPZ or a folder")


def _resolve(path: Path) -> Path:
    resolved = Path(os.path.realpath(path))
    if not (resolved.is_file() or resolved.is_dir()):
        raise DatasetError(f"{path} does not exist or cannot be opened")
    return resolved


def _folder_examples(path: Path) -> Examples:
    """Return a folder that experiment code reads itself. There are no labels to score with, except through a user
    scorer."""
    files = list_files(path, path)
    if not files:
        raise DatasetError("it is an empty folder")
    empty: NDArray[Any] = np.empty(0)
    kinds = sorted({file.suffix.lower() or "no extension" for file in files})
    warning = (
        f"a folder of {len(files)} files ({', '.join(kinds[:6])}) without known labels: experiment code reads it "
        "itself, so metrics not computed by your own scorer are graded `logged`"
    )
    return Examples(empty, empty, folder=path, columns=tuple(kinds), warnings=(warning,))
