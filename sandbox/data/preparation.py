"""Split and preprocess examples for a run and collect the facts. The result is deterministic for given examples and
seed.

Tables: missing values become the median of train, then numeric columns are standardised with the mean and standard
deviation of train (columns that are constant in train are only centred). Images become float32 in [0, 1] if they then
take at most `MAX_SCALED_BYTES`. All other data are served unchanged, and all data except tables are processed in
pieces, never loaded whole. scikit-learn's imputer and scaler would change the last bits and thus the fingerprints of
recorded runs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.data_plan import DatasetFacts
from labwright.sandbox.data import Examples
from labwright.sandbox.data.splits import split_rows
from labwright.sandbox.data.views import ArrayFingerprint, ArrayStream, DiskTable, iterate_slices

Array = NDArray[Any]
Streams = dict[str, ArrayStream]

MAX_VALUES_LISTED = 20
"""Maximum number of distinct values of a meta column that are recorded."""
MAX_SCALED_BYTES = 2 * 2**30
"""Limit of images as float32; larger arrays are served as uint8."""
IMAGES_ON_DISK_FORM = "uint8 images, 0 to 255, memory-mapped from disk: scale each batch, never the whole array"
MIN_WARNED_SHARE = 0.01
"""Warn if more than this share of a split's rows also occur in another split."""


def discard(_: str, stream: ArrayStream) -> None:
    """Consume an array without keeping it."""
    for _piece in stream.pieces:
        pass


def prepare_dataset(
    examples: Examples,
    seed: int,
    *,
    name: str,
    title: str,
    source: str,
    keep: Callable[[str, ArrayStream], None] = discard,
) -> DatasetFacts:
    """Return the facts of the examples; `keep` receives the arrays `train_x`, `train_y` and so on. Raises
    `DatasetError`.
    """
    if examples.folder is not None:
        return DatasetFacts(
            name=name,
            title=title,
            source=source,
            features=0,
            classes=0,
            sizes={},
            fingerprint="",
            seed=seed,
            task="none",
            split_rule="none: experiment code splits the data",
            columns=examples.columns,
            warnings=examples.warnings,
        )
    splits = split_rows(examples, seed)
    digests: dict[str, list[bytes]] = {split: [] for split in splits.rows}
    digest = ArrayFingerprint()
    for key, stream in sorted(_build_streams(examples, splits.rows, digests).items()):
        keep(key, digest.hash_stream(key, stream))
    shared = count_duplicates(digests)
    sizes = {split: len(index) for split, index in splits.rows.items()}
    repeated = tuple(
        f"{count} of {sizes[split]} rows of {split} ({count / sizes[split]:.1%}) also occur in {other} "
        "with identical features"
        for (split, other), count in shared.items()
        if count / sizes[split] > MIN_WARNED_SHARE
    )
    shape = examples.x.shape[1:]
    classes = 0 if examples.y.dtype.kind != "i" else len(examples.class_names) or int(examples.y.max()) + 1
    return DatasetFacts(
        name=name,
        title=title,
        source=source,
        features=math.prod(shape),
        classes=classes,
        sizes=sizes,
        duplicates=sum(shared.get((split, "train"), 0) for split in ("validation", "test")),
        fingerprint=str(digest),
        seed=seed,
        task="classification" if classes else "regression",
        target=examples.target,
        columns=examples.columns,
        class_names=examples.class_names,
        shape=shape if len(shape) > 1 else (),
        split_rule=splits.rule,
        form=_describe_form(examples),
        duplicates_by={f"{later} in {earlier}": count for (later, earlier), count in shared.items()},
        missing=dict(examples.missing),
        meta={
            name: values if len(values) <= MAX_VALUES_LISTED else ()
            for name, values in ((name, tuple(map(str, np.unique(texts)))) for name, texts in examples.meta.items())
        },
        meta_in_test={name: len(np.unique(texts[splits.rows["test"]])) for name, texts in examples.meta.items()},
        meta_shown=examples.meta_shown,
        warnings=(*examples.warnings, *splits.warnings, *repeated),
    )


def count_duplicates(digests: Mapping[str, list[bytes]]) -> dict[tuple[str, str], int]:
    """Count rows with identical features: (later, earlier split) -> rows of the later split, zeros omitted."""
    distinct = {split: set(of_split) for split, of_split in digests.items()}
    counts = {
        (later, earlier): sum(digest in distinct[earlier] for digest in digests[later])
        for earlier, later in combinations(digests, 2)
    }
    return {pair: count for pair, count in counts.items() if count}


def hash_rows(x: Array) -> list[bytes]:
    """Return a digest of each row; NaNs are equal to each other."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    if flat.dtype.kind == "f":
        flat = flat + 0.0  # -0.0 is 0.0
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in flat]


def _describe_form(examples: Examples) -> str:
    if examples.x.dtype == object:
        return "texts"
    if examples.target_times is not None:
        return (
            f"windows of {examples.x.shape[1]} rows by {examples.x.shape[2]} columns, past values of the target first"
        )
    return IMAGES_ON_DISK_FORM if examples.x.dtype == np.uint8 and not _should_scale(examples) else ""


def _should_scale(examples: Examples) -> bool:
    return examples.x.dtype == np.uint8 and math.prod(examples.x.shape) * 4 <= MAX_SCALED_BYTES


def _build_streams(examples: Examples, rows: Mapping[str, Array], digests: Mapping[str, list[bytes]]) -> Streams:
    """Build the arrays of every split. A digest of each row of x is added to `digests`."""
    x: Any = examples.x
    if x.dtype == np.float64:
        x = _standardise(examples, rows["train"])
    scaled = _should_scale(examples)
    dtype = np.dtype(np.float32) if scaled else x.dtype
    row_bytes = math.prod(x.shape[1:]) * dtype.itemsize

    def pieces(index: Array, digested: list[bytes]) -> Iterator[Array]:
        for part in iterate_slices(len(index), row_bytes):
            piece = x[index[part]]
            digested += hash_rows(piece if x is examples.x else examples.x[index[part]])
            yield piece.astype(np.float32) / np.float32(255.0) if scaled else piece

    streams: Streams = {}
    for split, index in rows.items():
        if x.dtype == object:
            texts = [text.encode() for text in x[index]]
            digests[split].extend(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
            streams[f"{split}_ends"] = ArrayStream.from_array(np.cumsum([len(text) for text in texts], dtype=np.int64))
            streams[f"{split}_x"] = ArrayStream.from_array(np.frombuffer(b"".join(texts), dtype=np.uint8))
        else:
            streams[f"{split}_x"] = ArrayStream(dtype, (len(index), *x.shape[1:]), pieces(index, digests[split]))
        streams[f"{split}_y"] = ArrayStream.from_array(examples.y[index])
        scored = split in ("validation", "test")
        if names := tuple(examples.meta) if scored else examples.meta_shown:
            streams[f"{split}_meta"] = ArrayStream.from_array(
                np.stack([examples.meta[name][index] for name in names], axis=1)
            )
    return streams


def _standardise(examples: Examples, train: Array) -> Array | DiskTable:
    """Return the standardised table, (n, features) float32."""
    if isinstance(examples.x, DiskTable):
        return _standardise_columns(examples.x, examples.numeric, train)
    x = _fill_missing(examples.x, train)
    spread = x[train].std(axis=0)
    scaled = ((x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
    return scaled if examples.numeric is None else np.where(examples.numeric, scaled, x).astype(np.float32)


def _standardise_columns(x: DiskTable, numeric: Array | None, train: Array) -> DiskTable:
    """Standardise a table on disk column by column."""
    standardised = DiskTable(len(x), np.dtype(np.float32))
    for i, values in enumerate(x.map_columns()):
        values = _fill_missing(np.asarray(values)[:, None], train)[:, 0]
        if numeric is None or numeric[i]:
            spread = values[train].std()
            values = (values - values[train].mean()) / (spread if spread > 0 else 1.0)
        standardised.append(values)
    return standardised


def _fill_missing(x: Array, train: Array) -> Array:
    """Replace missing values by the median of train, or by 0 if train has no value."""
    gaps = np.isnan(x)
    if not gaps.any():
        return x
    filled = x.copy()
    for column in np.flatnonzero(gaps.any(axis=0)):
        known = x[train, column][~gaps[train, column]]
        filled[gaps[:, column], column] = np.median(known) if len(known) else 0.0
    return filled
