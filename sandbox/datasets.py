"""Datasets of a run, split into a part that a kernel may see and a part that it may not.

`views/<name>.npz` holds train and dev with labels, validation and test without them. `labels/<name>.npz` holds the
labels of validation and test and the columns that metrics use, for the host only; `labels/order.salt` is the secret
from which the order of sorted rows is drawn. All are the run's own copies, so the original files may change or be
deleted. `sandbox.data.preparation` makes splits and features; see docs/data.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labwright.record.run_folder import write_file
from labwright.record.schema.data_plan import DatasetFacts
from labwright.sandbox.content_store import default_store_root
from labwright.sandbox.data import Examples
from labwright.sandbox.data.preparation import (
    SPLIT_SHARES,
    ArrayFingerprint,
    ArrayStream,
    discard,
    list_keys,
    open_array,
    prepare_dataset,
    write_archives,
)
from labwright.sandbox.data.spec import DataSpec
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.job import DatasetError
from labwright.sandbox.repository.predictions import read_truth, write_labels


@dataclass(frozen=True)
class BundledDataset:
    """A dataset that needs no network. `classes` is 0 for regression."""

    name: str
    title: str
    example_count: int
    features: int
    classes: int = 0

    @property
    def source(self) -> str:
        return f"sklearn:load_{self.name}"

    def build_facts(self, seed: int) -> DatasetFacts:
        """Return what a plan needs to know, without loading the data; sizes are exact to within an example."""
        sizes = {split: round(share * self.example_count) for split, share in SPLIT_SHARES.items()}
        sizes["train"] += self.example_count - sum(sizes.values())
        return DatasetFacts(
            name=self.name,
            title=self.title,
            source=self.source,
            features=self.features,
            classes=self.classes,
            sizes=sizes,
            fingerprint="",
            seed=seed,
        )

    def load(self) -> Examples:
        """Load all examples, always in the same order. scikit-learn is imported here so that listing datasets stays
        fast."""
        from sklearn import datasets

        loaded = getattr(datasets, f"load_{self.name}")()
        return Examples(
            np.asarray(loaded.data, dtype=np.float64),
            np.asarray(loaded.target, dtype=np.int64 if self.classes else np.float32),
            names=tuple(str(column) for column in loaded.feature_names),
            class_names=tuple(str(label) for label in loaded.target_names) if self.classes else (),
        )


BUNDLED_DATASETS = (
    BundledDataset("digits", "Optical recognition of handwritten digits (8 x 8 pixels)", 1797, 64, classes=10),
    BundledDataset("breast_cancer", "Breast cancer Wisconsin (diagnostic)", 569, 30, classes=2),
    BundledDataset("wine", "Wine recognition (chemical analysis of three cultivars)", 178, 13, classes=3),
    BundledDataset("iris", "Iris plants", 150, 4, classes=3),
    BundledDataset("diabetes", "Diabetes progression (regression)", 442, 10),
)


MAX_DATA_BYTES = 2 * 2**30
"""Default limit in bytes, for the memory used while reading a dataset and for a file that is read whole."""
SALT_FILE = "order.salt"
_LABEL_ARRAYS = ("validation_y", "test_y", "validation_meta", "test_meta")


@dataclass(frozen=True)
class RepositoryDataset:
    """The data of a user's repository, which only the repository's own code can interpret."""

    name: str
    commit: str
    tree: str
    command: str = ""
    truth: Path | None = None
    """Labels against which its predictions are scored; None if it computes its metrics itself."""

    def build_facts(self, seed: int) -> DatasetFacts:
        """Return the facts that a run records: the files used, and facts derived from their labels. Raises
        `RepositoryError`.
        """
        unknown: dict[str, Any] = {"features": 0, "classes": 0, "sizes": {}, "task": "none"}
        facts = DatasetFacts(
            **unknown,
            name=self.name,
            title="the repository's own data",
            source=f"git:{self.commit[:12]}",
            fingerprint=hashlib.sha256(self.tree.encode()).hexdigest(),
            seed=seed,
            origin=self.tree,
            command=self.command,
            split_rule="made by the repository's own code",
            form="as its code reads it",
        )
        return facts if self.truth is None else read_truth(self.truth).add_facts(facts)


DatasetSource = BundledDataset | UserDataset | RepositoryDataset
DatasetSources = Mapping[str, DatasetSource]


def build_registry(
    own: Iterable[DataSpec] = (), limit: int = MAX_DATA_BYTES
) -> dict[str, BundledDataset | UserDataset]:
    """Return every available dataset by name; reads no data. `limit` is in bytes. Raises `DatasetError`."""
    sources: dict[str, BundledDataset | UserDataset] = {source.name: source for source in BUNDLED_DATASETS}
    for spec in own:
        if spec.name in sources:
            raise DatasetError(f"data {spec.name!r}: a bundled dataset has this name; choose another name")
        sources[spec.name] = UserDataset(spec, limit)
    return sources


def list_source_files(sources: DatasetSources) -> tuple[Path, ...]:
    """Return the files and folders of user datasets, including labels."""
    own = (source.spec.path for source in sources.values() if isinstance(source, UserDataset))
    return tuple(path for path in own if path is not None)


def list_choices(sources: DatasetSources, *, seed: int) -> tuple[DatasetFacts, ...]:
    """Return the datasets that a plan may choose from, the user's first. Only those are read. Raises `DatasetError`."""
    own_first = sorted(sources.values(), key=lambda source: isinstance(source, BundledDataset))
    return tuple(source.build_facts(seed) for source in own_first)


def materialise(
    name: str, *, views: Path, labels: Path, seed: int, sources: DatasetSources | None = None
) -> DatasetFacts:
    """Write the view and labels of a dataset and return its facts. Idempotent.

    An undamaged copy made with the same seed is kept. Raises `DatasetError` if the name is unknown, if user data
    changed since the run started, or if the folder contains a split made with another seed, which running experiments
    may use.
    """
    known = sources if sources is not None else build_registry()
    source = known.get(name)
    if source is None:
        raise DatasetError(f"unknown dataset {name!r}; available: {', '.join(known)}")
    if isinstance(source, RepositoryDataset):
        facts = source.build_facts(seed)
        if source.truth is not None:
            write_labels(read_truth(source.truth), facts, labels)
        return facts
    existing = read_materialised(name, views, labels)
    if existing is not None and existing.seed != seed:
        raise DatasetError(f"{views} holds {name!r} split with seed {existing.seed}, not {seed}: use another folder")
    if existing is not None:
        return existing
    examples = source.load()
    about = source.build_facts(seed).model_dump(include={"name", "title", "source", "origin"})
    places = [folder / f"{name}.npz" for folder in (views, labels)][: 1 if examples.folder else 2]
    naming = source.name_errors() if isinstance(source, UserDataset) else nullcontext()
    with naming, write_archives(*places) as archives:

        def keep(key: str, stream: ArrayStream) -> None:
            archives[key in _LABEL_ARRAYS].add(key, stream)

        facts = prepare_dataset(examples, seed, salt=_provide_salt(labels), keep=keep, **about)
        if isinstance(source, UserDataset):
            source.check_unchanged()  # large datasets are read in chunks
        # by the fingerprint, code could check guesses of all labels
        seen = facts.model_copy(update={"fingerprint": ""})
        for archive, content in zip(archives, (seen, facts), strict=False):
            archive.add("meta", ArrayStream.from_array(np.array(content.model_dump_json())))
        served = {"names": examples.names, "path": str(examples.folder) if examples.folder else ""}
        archives[0].add("about", ArrayStream.from_array(np.array(json.dumps(served))))
    return facts


def _provide_salt(labels: Path) -> str:
    """Return the secret in the folder of the labels, which is written once: that of the user, so that runs of one user
    with equal seeds have equal data."""
    if not (path := labels / SALT_FILE).is_file():
        write_file(path, _read_user_salt())
    return path.read_text()


def find_user_salt() -> Path:
    """Return the path of the user's secret, in the user's cache."""
    return default_store_root().with_name(SALT_FILE)


def _read_user_salt() -> str:
    """Return the user's secret, created on first use, by one of several processes; a new one if the cache cannot be
    written to."""
    path, new = find_user_salt(), secrets.token_hex(16)
    with suppress(OSError):
        if not path.is_file():
            own = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            write_file(own, new)
            try:
                with suppress(FileExistsError):
                    os.link(own, path)
            finally:
                own.unlink()
        return path.read_text()
    return new


def read_materialised(name: str, views: Path, labels: Path) -> DatasetFacts | None:
    """Return the facts about the dataset in these folders; None if a file is missing or damaged."""
    try:
        digest, places = ArrayFingerprint(), [folder / f"{name}.npz" for folder in (views, labels)]
        if (facts := _read_facts(places[0])).task == "none":
            return facts
        facts = _read_facts(places[1])
        arrays = sorted((key, place) for place in places for key in list_keys(place) if key not in ("meta", "about"))
        for key, place in arrays:
            with open_array(place, key) as stream:
                discard(key, digest.hash_stream(key, stream))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return facts if str(digest) == facts.fingerprint else None


def _read_facts(place: Path) -> DatasetFacts:
    with open(place, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return DatasetFacts.model_validate_json(str(archive["meta"]))
