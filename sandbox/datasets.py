"""Datasets that a run may use, written as what a kernel may see and what it may not.

`views/<name>.npz` holds train and dev with labels, validation and test without; `labels/<name>.npz` the labels of
validation and test and the columns that metrics go by, for the host. Both are the run's own copy: the files that they
came from may change or go. How rows are cut is in `sandbox.data.splits`, how features are made in
`sandbox.data.prepare`; docs/data.md tells all of it.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from record.nouns.data import DatasetFacts
from sandbox.data import Examples
from sandbox.data.own import OwnData
from sandbox.data.prepare import fingerprint, prepare
from sandbox.data.spec import DataSpec
from sandbox.errors import DatasetError


@dataclass(frozen=True)
class Bundled:
    """A dataset that needs no network. `classes` is 0 for regression."""

    name: str
    title: str
    examples: int
    features: int
    classes: int = 0

    @property
    def source(self) -> str:
        return f"sklearn:load_{self.name}"

    def load(self) -> Examples:
        """All examples, always in the same order. scikit-learn is imported here, and not to list them."""
        from sklearn import datasets  # pyright: ignore[reportMissingTypeStubs]

        loaded = getattr(datasets, f"load_{self.name}")()
        return Examples(np.asarray(loaded.data, dtype=np.float64),
                        np.asarray(loaded.target, dtype=np.int64 if self.classes else np.float32),
                        names=tuple(str(column) for column in loaded.feature_names),
                        class_names=tuple(str(label) for label in loaded.target_names) if self.classes else ())


BUNDLED = (
    Bundled("digits", "Optical recognition of handwritten digits (8 x 8 pixels)", 1797, 64, classes=10),
    Bundled("breast_cancer", "Breast cancer Wisconsin (diagnostic)", 569, 30, classes=2),
    Bundled("wine", "Wine recognition (chemical analysis of three cultivars)", 178, 13, classes=3),
    Bundled("iris", "Iris plants", 150, 4, classes=3),
    Bundled("diabetes", "Diabetes progression (regression)", 442, 10),
)


Array = NDArray[Any]
Arrays = dict[str, Array]

DATA_BYTES = 2 * 2**30
"""Default of the most that one dataset may hold, as a file and as arrays in memory."""
_IN_LABELS = ("validation_y", "test_y", "validation_meta", "test_meta")

Source = Bundled | OwnData
Sources = Mapping[str, Source]


def registry(own: Iterable[DataSpec] = (), limit: int = DATA_BYTES) -> dict[str, Source]:
    """Every dataset that can be had, by name; reads nothing. `limit` is in bytes. Raises `DatasetError`."""
    sources: dict[str, Source] = {source.name: source for source in BUNDLED}
    for spec in own:
        if spec.name in sources:
            raise DatasetError(f"data {spec.name!r}: a bundled dataset has that name; give another name")
        sources[spec.name] = OwnData(spec, limit)
    return sources


def files_of(sources: Sources) -> tuple[Path, ...]:
    """The files and folders that own data come from, labels and all."""
    return tuple(source.spec.path for source in sources.values()
                 if isinstance(source, OwnData) and source.spec.path is not None)


def catalogue(sources: Sources | None = None, *, seed: int = 0) -> tuple[Bundled | DatasetFacts, ...]:
    """What a plan may choose from: own data first, which are read. Bundled ones are not. Raises `DatasetError`."""
    known = (sources or registry()).values()
    return (*(source.facts(seed) for source in known if isinstance(source, OwnData)),
            *(source for source in known if isinstance(source, Bundled)))


def materialise(
    name: str, *, views: Path, labels: Path, seed: int, sources: Sources | None = None,
) -> DatasetFacts:
    """The facts of the dataset, after its view and labels have been written. Idempotent.

    What is there from the same seed is kept if it is undamaged. Raises `DatasetError` for an unknown name, for own data
    that changed since the run began, and where the folder holds a cut by another seed, which running experiments may
    be using.
    """
    known = sources if sources is not None else registry()
    source = known.get(name)
    if source is None:
        raise DatasetError(f"no dataset {name!r}; there are: {', '.join(known)}")
    existing = undamaged(name, views, labels)
    if existing is not None and existing.seed != seed:
        raise DatasetError(f"{views} holds {name!r} cut with seed {existing.seed}, not {seed}: use another folder")
    if existing is not None:
        return existing
    examples = source.load()
    prepared = prepare(examples, seed, name=name, title=source.title, source=source.source)
    facts = prepared.facts
    if isinstance(source, OwnData):
        facts = facts.model_copy(update={"origin": source.facts(seed).origin})
    meta = np.array(facts.model_dump_json())
    about = np.array(json.dumps({"names": prepared.names, "path": str(examples.folder) if examples.folder else ""}))
    hidden = {key: prepared.arrays[key] for key in _IN_LABELS if key in prepared.arrays}
    seen = {key: array for key, array in prepared.arrays.items() if key not in hidden}
    if hidden:
        _save(labels / f"{name}.npz", hidden | {"meta": meta})
    _save(views / f"{name}.npz", seen | {"meta": meta, "about": about})
    return facts


def undamaged(name: str, views: Path, labels: Path) -> DatasetFacts | None:
    """The facts of what stands in the folders; None where something is missing or damaged."""
    try:
        arrays = _load(views / f"{name}.npz")
        facts = DatasetFacts.model_validate_json(str(arrays["meta"]))
        if facts.task == "none":
            return facts
        arrays |= _load(labels / f"{name}.npz")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    splits = {key: array for key, array in arrays.items() if key not in ("meta", "about")}
    return facts if fingerprint(splits) == facts.fingerprint else None


def _load(path: Path) -> Arrays:
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _save(path: Path, arrays: Arrays) -> None:
    """Write an archive whole or not at all; the same arrays give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with open(part, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    os.replace(part, path)
