"""Registered datasets, cut into splits and written as what a kernel may see and what it may not.

`views/<name>.npz` holds train and dev with labels, validation and test without; `labels/<name>.npz` the labels of
validation and test, for the host. The cut is stratified by class (not for regression) and depends on the seed alone.
Features are standardised with the mean and standard deviation of train; features constant there are only centred.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from record.nouns import DatasetFacts
from sandbox.bundled import BUNDLED
from sandbox.errors import DatasetError
from sandbox.sources import DatasetSource, Examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Arrays = dict[str, Array]

SHARES = {"train": 0.5, "dev": 0.1, "validation": 0.2, "test": 0.2}
_IN_LABELS = ("validation_y", "test_y")


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue. `classes` is 0 for regression."""

    name: str
    title: str
    examples: int
    features: int
    classes: int


def registry() -> dict[str, DatasetSource]:
    """Every dataset that can be had, by name. A further source of data is a further line here."""
    sources: Iterable[DatasetSource] = BUNDLED
    return {source.name: source for source in sources}


def catalogue() -> tuple[Entry, ...]:
    """What a plan may choose from, without loading anything."""
    return tuple(Entry(one.name, one.title, one.examples, one.features, one.classes) for one in registry().values())


def materialise(name: str, *, views: Path, labels: Path, seed: int) -> DatasetFacts:
    """The facts of the dataset, after its view and labels have been written. Idempotent.

    What is there from the same seed is kept if it is undamaged. Raises `DatasetError` for an unknown name, and where
    the folder holds a cut by another seed, which running experiments may be using.
    """
    source = registry().get(name)
    if source is None:
        raise DatasetError(f"no dataset {name!r}; there are: {', '.join(registry())}")
    existing = _existing(name, views, labels)
    if existing is not None and existing.seed != seed:
        raise DatasetError(f"{views} holds {name!r} cut with seed {existing.seed}, not {seed}: use another folder")
    return existing or _write(source, views=views, labels=labels, seed=seed)


def _write(source: DatasetSource, *, views: Path, labels: Path, seed: int) -> DatasetFacts:
    import numpy as np

    examples = source.load()
    rows = _cut(examples, source.classes, seed)
    arrays = _arrays(examples, rows)
    facts = DatasetFacts(
        name=source.name, title=source.title, source=source.source, features=examples.x.shape[1],
        classes=source.classes, sizes={split: len(index) for split, index in rows.items()},
        duplicates=_duplicates(examples.x, rows), fingerprint=_fingerprint(arrays), seed=seed,
    )
    meta = np.array(facts.model_dump_json())
    hidden = {key: arrays[key] for key in _IN_LABELS}
    seen = {key: array for key, array in arrays.items() if key not in hidden}
    _save(labels / f"{source.name}.npz", hidden | {"meta": meta})
    _save(views / f"{source.name}.npz", seen | {"meta": meta})
    return facts


def _existing(name: str, views: Path, labels: Path) -> DatasetFacts | None:
    """The facts of what stands in the folders; None where something is missing or damaged."""
    import zipfile

    import numpy as np

    arrays: Arrays = {}
    try:
        for folder in (views, labels):
            with open(folder / f"{name}.npz", "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays |= {key: archive[key] for key in archive.files}
        facts = DatasetFacts.model_validate_json(str(arrays.pop("meta")))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return facts if _fingerprint(arrays) == facts.fingerprint else None


def _cut(examples: Examples, classes: int, seed: int) -> dict[str, Array]:
    """Row numbers of every split, sorted. Class by class, so that each split has each class in its share."""
    import numpy as np

    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(examples.y == label) for label in range(classes)] or [np.arange(len(examples.y))]
    parts: dict[str, list[Array]] = {split: [] for split in SHARES}
    bounds = np.cumsum(list(SHARES.values()))[:-1]
    for group in groups:
        places = np.rint(bounds * len(group)).astype(int)
        for split, part in zip(SHARES, np.split(rng.permutation(group), places), strict=True):
            parts[split].append(part)
    return {split: np.sort(np.concatenate(part)) for split, part in parts.items()}


def _arrays(examples: Examples, rows: Mapping[str, Array]) -> Arrays:
    import numpy as np

    train = examples.x[rows["train"]]
    spread = train.std(axis=0)
    scaled = ((examples.x - train.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
    arrays: Arrays = {}
    for split, index in rows.items():
        arrays[f"{split}_x"] = scaled[index]
        arrays[f"{split}_y"] = examples.y[index]
    return arrays


def _duplicates(x: Array, rows: Mapping[str, Array]) -> int:
    """Rows of validation and test whose exact features also stand in train."""
    known = {row.tobytes() for row in x[rows["train"]]}
    return sum(row.tobytes() in known for split in ("validation", "test") for row in x[rows[split]])


def _fingerprint(arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for key in sorted(arrays):
        array = arrays[key]
        digest.update(json.dumps([key, str(array.dtype), array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _save(path: Path, arrays: Arrays) -> None:
    """Write an archive whole or not at all; the same arrays give the same bytes."""
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with open(part, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    os.replace(part, path)
