"""A dataset of the user's own as a source: what kind it is, how it is read, and what is known of it.

Every fault is a `DatasetError` of one line that begins with the dataset's name and place.
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
from labwright.sandbox.data import Examples, frames, images, npz, tables
from labwright.sandbox.data.files import compute_fingerprint, list_files
from labwright.sandbox.data.preparation import prepare_dataset
from labwright.sandbox.data.spec import HUB_PREFIX, LIST_FIELDS, DataSpec
from labwright.sandbox.data.views import iterate_slices, to_bytes
from labwright.sandbox.errors import DatasetError


@dataclass(frozen=True)
class UserDataset:
    """The dataset that a `DataSpec` names. `limit` is in bytes, of a file as of arrays in memory."""

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
        """Kind and file name, or the id on the hub; not the folder, which is nobody's business in a paper."""
        path = self.spec.path
        if path is None:
            return HUB_PREFIX + self.spec.hub + (f"@{self.spec.revision}" if self.spec.revision else "")
        return f"{'folder' if path.is_dir() else path.suffix.lower().lstrip('.')}:{path.name}"

    def build_facts(self, seed: int) -> DatasetFacts:
        """What materialising it with that seed records. It is read for that, and found fit or refused."""
        self.check_unchanged()
        return _build_facts(
            replace(self, spec=self.spec.model_copy(update={"sha256": ""})), seed, self.compute_origin()
        )

    def compute_origin(self) -> str:
        """The sha256 of what lies at its place; empty for the hub, where the examples are hashed instead."""
        path = self.spec.path
        if path is None:
            return ""
        with self.name_errors():
            place = _resolve(path)
            return compute_fingerprint(place, ends_only=place.is_dir() and _detect_kind(self.spec, place) == "folder")

    def load(self) -> Examples:
        """All examples. Raises `DatasetError`, also where they are not those that the run began with."""
        self.check_unchanged()
        with self.name_errors():
            examples = _read_examples(self.spec, self.limit)
            if self.spec.hub and self.spec.sha256 not in ("", _hash_examples(examples)):
                raise DatasetError("it changed on the hub since the run began: name the revision used then")
            return examples

    def check_unchanged(self) -> None:
        """Raises `DatasetError` where the file or folder is not what it was when the run began."""
        then = self.spec.sha256 if self.spec.path is not None else ""
        if then and (now := self.compute_origin()) != then:
            with self.name_errors():
                raise DatasetError(
                    f"it changed since the run began (sha256 {then[:12]}, now {now[:12]}): put back "
                    "what was there, or begin a new run"
                )

    def pin(self, seed: int) -> DataSpec:
        """The same spec with the fingerprint of what is there now, and with its task where it is a path."""
        facts = self.build_facts(seed)
        task = "none" if facts.task == "none" else self.spec.task
        return self.spec.model_copy(update={"sha256": facts.origin, "task": task})

    @contextmanager
    def name_errors(self) -> Generator[None]:
        """While inside, a `DatasetError` is raised with the dataset's name and place before its message."""
        try:
            yield
        except DatasetError as error:
            place = self.spec.path.name if self.spec.path is not None else HUB_PREFIX + self.spec.hub
            raise DatasetError(f"data {self.name!r} ({place}): {error}") from None


@lru_cache(maxsize=64)
def _build_facts(source: UserDataset, seed: int, origin: str) -> DatasetFacts:
    """Kept by fingerprint: a run asks for them when it is checked, started and planned."""
    examples = source.load()
    with source.name_errors():
        facts = prepare_dataset(examples, seed, name=source.name, title=source.title, source=source.source)
    return facts.model_copy(update={"origin": origin or _hash_examples(examples)})


def _hash_examples(examples: Examples) -> str:
    """Over the examples, for what has no bytes of its own."""
    digest = hashlib.sha256()
    for array in (examples.x, examples.y):
        digest.update(f"{array.dtype}{array.shape}".encode())
        for part in iterate_slices(len(array), array[:1].nbytes):
            digest.update(to_bytes(array[part]))
    return digest.hexdigest()


def _read_examples(spec: DataSpec, limit: int) -> Examples:
    if spec.path is None:
        return tables.examples_from_table(frames.load_library_dataset(spec, limit), spec, limit)
    path = _resolve(spec.path)
    kind = _detect_kind(spec, path)
    if path.is_file() and path.suffix.lower() not in frames.PARQUET_SUFFIXES and path.stat().st_size > limit:
        raise DatasetError(
            f"it holds {path.stat().st_size} bytes, more than sandbox.data_bytes ({limit}): take a part "
            "of it, or raise it"
        )
    if kind == "table":
        return tables.examples_from_table(
            frames.LoadedTable(frames.read_table(path), literal=spec.literal), spec, limit
        )
    if kind == "npz":
        return npz.examples_from_npz(path, spec, limit)
    if kind == "saved":
        return tables.examples_from_table(frames.load_library_dataset(spec, limit, saved=path), spec, limit)
    given = [name for name in ("target", "group", "time", "split", *LIST_FIELDS) if getattr(spec, name)]
    if given or spec.task == "regression":
        raise DatasetError(
            f"{given[0] if given else 'task'}= is for tables: classes of an image folder are its "
            "folders, splits are folders named train, validation and test around them"
        )
    if kind == "images":
        return replace(images.examples_from_folder(images.list_images(path), path), dev_from=spec.dev_from)
    return _folder_examples(path)


def _detect_kind(spec: DataSpec, path: Path) -> Literal["table", "npz", "saved", "images", "folder"]:
    suffix = path.suffix.lower()
    if path.is_dir():
        if spec.task == "none":
            return "folder"
        if any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json")):  # by `save_to_disk`
            return "saved"
        if any(path.glob("*.npy")):
            return "npz"
        return "images" if images.list_images(path) else "folder"
    if suffix in (*frames.CSV_SUFFIXES, *frames.PARQUET_SUFFIXES):
        return "table"
    if suffix == ".npz":
        return "npz"
    raise DatasetError(
        f"{suffix or 'a file without an ending'} is not a supported format: give CSV, TSV, Parquet, NPZ, or a folder"
    )


def _resolve(path: Path) -> Path:
    place = Path(os.path.realpath(path))
    if not (place.is_file() or place.is_dir()):
        raise DatasetError(f"there is no file or folder {path}, or it cannot be opened")
    return place


def _folder_examples(path: Path) -> Examples:
    """A folder that the code reads by itself. We have no labels to score with; the user may have a scorer."""
    files = list_files(path, path)
    if not files:
        raise DatasetError("it is an empty folder")
    empty: NDArray[Any] = np.empty(0)
    kinds = sorted({file.suffix.lower() or "no ending" for file in files})
    return replace(
        Examples(empty, empty, folder=path),
        columns=tuple(kinds),
        warnings=(
            f"a folder of {len(files)} files ({', '.join(kinds[:6])}) without labels that we know: the code reads it "
            "itself, so what no scorer of yours computes is graded `logged`",
        ),
    )
