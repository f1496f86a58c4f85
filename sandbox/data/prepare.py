"""Examples as the splits that a run works with, and the facts of it. Pure: the same examples and seed give the same.

Tables: what is missing becomes the median of train, then measured columns are standardised with mean and deviation of
train (columns constant there are only centred). Images become float32 in [0, 1]. All else is served as it is.
scikit-learn's imputer and scaler do the same but for the last bits, which fingerprints of recorded runs hold.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from record.nouns.data import DatasetFacts
from sandbox.data import Examples
from sandbox.data.splits import split_rows

Array = NDArray[Any]
Arrays = dict[str, Array]

MOST_VALUES = 20
"""Of a meta column, so that they are told."""
WARN_SHARE = 0.01
"""Share of a split's rows that also stand in another one, above which it is said."""


@dataclass(frozen=True)
class Prepared:
    """`train_x`, `train_y` and so on, and what is recorded of them."""

    arrays: Arrays
    facts: DatasetFacts
    names: tuple[str, ...] = ()


def prepare(examples: Examples, seed: int, *, name: str, title: str, source: str) -> Prepared:
    """The splits of some examples. Raises `DatasetError` where they cannot be made."""
    if examples.folder is not None:
        return Prepared({}, DatasetFacts(
            name=name, title=title, source=source, features=0, classes=0, sizes={}, fingerprint="", seed=seed,
            task="none", split_rule="none: the code splits it", columns=examples.columns, warnings=examples.warnings))
    made = split_rows(examples, seed)
    arrays = _arrays(examples, made.rows)
    shared = duplicates(examples.x, made.rows)
    sizes = {split: len(index) for split, index in made.rows.items()}
    repeated = tuple(
        f"{count} of {sizes[split]} rows of {split} ({count / sizes[split]:.1%}) also stand in {other}, "
        "with exactly the same features"
        for (split, other), count in shared.items() if count / sizes[split] > WARN_SHARE)
    shape = examples.x.shape[1:]
    classes = 0 if examples.y.dtype.kind != "i" else len(examples.class_names) or int(examples.y.max()) + 1
    return Prepared(arrays, DatasetFacts(
        name=name, title=title, source=source, features=math.prod(shape), classes=classes, sizes=sizes,
        duplicates=sum(shared.get((split, "train"), 0) for split in ("validation", "test")),
        fingerprint=fingerprint(arrays), seed=seed, task="classification" if classes else "regression",
        target=examples.target, columns=examples.columns, class_names=examples.class_names,
        shape=shape if len(shape) > 1 else (), split_rule=made.rule,
        duplicates_by={f"{later} in {earlier}": count for (later, earlier), count in shared.items()},
        missing=dict(examples.missing), meta={name: values if len(values) <= MOST_VALUES else () for name, values in (
            (name, tuple(map(str, np.unique(texts)))) for name, texts in examples.meta.items())},
        meta_shown=examples.meta_shown, warnings=(*examples.warnings, *made.warnings, *repeated)), examples.names)


def duplicates(x: Array, rows: Mapping[str, Array]) -> dict[tuple[str, str], int]:
    """(later, earlier split) -> rows of the later one whose exact features also stand in the earlier; without zeros.

    A NaN equals a NaN.
    """
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    if flat.dtype.kind == "f":
        flat = flat + 0.0  # -0.0 is 0.0
    digests = {split: [hashlib.blake2b(flat[i].tobytes(), digest_size=16).digest() for i in index]
               for split, index in rows.items()}
    distinct = {split: set(of_split) for split, of_split in digests.items()}
    counts = {(later, earlier): sum(digest in distinct[earlier] for digest in digests[later])
              for earlier, later in combinations(rows, 2)}
    return {pair: count for pair, count in counts.items() if count}


def _arrays(examples: Examples, rows: Mapping[str, Array]) -> Arrays:
    x = examples.x
    if x.dtype == np.float64:
        x = _filled(x, rows["train"])
        spread = x[rows["train"]].std(axis=0)
        scaled = ((x - x[rows["train"]].mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
        x = scaled if examples.numeric is None else np.where(examples.numeric, scaled, x).astype(np.float32)
    arrays: Arrays = {}
    for split, index in rows.items():
        part = x[index]
        arrays[f"{split}_x"] = part.astype(np.float32) / np.float32(255.0) if x.dtype == np.uint8 else part
        arrays[f"{split}_y"] = examples.y[index]
        scored = split in ("validation", "test")
        if names := tuple(examples.meta) if scored else examples.meta_shown:
            arrays[f"{split}_meta"] = np.stack([examples.meta[name][index] for name in names], axis=1)
    return arrays


def _filled(x: Array, train: Array) -> Array:
    """What is missing is the median of train; 0 where train has no value at all."""
    gaps = np.isnan(x)
    if not gaps.any():
        return x
    filled = x.copy()
    for column in np.flatnonzero(gaps.any(axis=0)):
        known = x[train, column][~gaps[train, column]]
        filled[gaps[:, column], column] = np.median(known) if len(known) else 0.0
    return filled


def fingerprint(arrays: Mapping[str, Array]) -> str:
    """The sha256 of all splits."""
    digest = hashlib.sha256()
    for key in sorted(arrays):
        array = arrays[key]
        digest.update(json.dumps([key, str(array.dtype), array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
