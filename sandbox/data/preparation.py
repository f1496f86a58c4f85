"""Split and preprocess examples for a run and collect the facts. The result is deterministic for given examples and
seed.

Tables: missing values become the median of train, then numeric columns are standardised with the mean and standard
deviation of train (columns that are constant in train are only centred). Images become float32 in [0, 1] if they then
take at most `MAX_SCALED_BYTES`. All other data are served unchanged, and all data except tables are processed in
pieces, never loaded whole. scikit-learn's imputer and scaler would change the last bits and thus the fingerprints of
recorded runs.

Assign rows to splits: by the given splits, by group, by time, or at random from a seed, stratified by class.

Splits that the data do not define are taken from the train rows by the same rule; dev is always taken from train,
unless `dev_from` is validation.

scikit-learn's splitters are not used, since they make two parts or equal folds. Dividing a class of five rows or five
groups into four unequal parts needs other rules, and changing them would change the data of recorded studies.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.data_plan import SERIES_FORM, DatasetFacts
from labwright.sandbox.data import Examples
from labwright.sandbox.job import DatasetError

# Store views and labels on disk in the format of `numpy.savez`, written and read in pieces. Members are uncompressed,
# and their values start at multiples of 64 bytes, so kernels can memory-map them (`lab._data`). Archives are written
# atomically.

Array = NDArray[Any]

PIECE_BYTES = 2**26
"""Approximate number of bytes in memory at a time."""
_ALIGNMENT_BYTES = 64
_PADDING_FIELD_ID = 0xD935
"""Type of the zip extra field used as padding (as in APK files); readers ignore it."""


@dataclass(frozen=True)
class ArrayStream:
    """An array that is read in pieces along its first axis."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[Array]

    @classmethod
    def from_array(cls, array: Array) -> ArrayStream:
        """Return a stream with the whole array as one piece."""
        return cls(array.dtype, array.shape, (array,))


def iterate_slices(rows: int, row_bytes: int) -> Iterator[slice]:
    """Return slices of about `PIECE_BYTES` bytes that cover the rows."""
    step = max(1, PIECE_BYTES // max(1, row_bytes))
    return (slice(start, min(rows, start + step)) for start in range(0, rows, step))


def to_bytes(piece: Array) -> Any:
    """Return the bytes of an array in row order; strings are NUL-terminated."""
    if piece.dtype == object:
        return b"".join(text.encode() + b"\0" for text in piece)
    return np.ascontiguousarray(piece).reshape(-1).view(np.uint8) if piece.size else b""


class ArrayFingerprint:
    """The sha256 of several arrays, which must be added in the order of their names."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def hash_stream(self, key: str, stream: ArrayStream) -> ArrayStream:
        """Return the same stream; it is hashed while it is read."""
        self._digest.update(json.dumps([key, str(stream.dtype), stream.shape]).encode())

        def hashed() -> Iterator[Array]:
            for piece in stream.pieces:
                self._digest.update(to_bytes(piece))
                yield piece

        return ArrayStream(stream.dtype, stream.shape, hashed())

    def __str__(self) -> str:
        return self._digest.hexdigest()


class ArrayArchive:
    """An archive open for writing."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    def add(self, key: str, stream: ArrayStream) -> None:
        """Write an array piece by piece. Raises `OSError`."""
        info = zipfile.ZipInfo(f"{key}.npy")
        begins = cast("Any", self._file).start_dir + 30 + len(info.filename) + 20 + 4  # header, sizes, this extra field
        padding = -begins % _ALIGNMENT_BYTES
        info.extra = struct.pack("<HH", _PADDING_FIELD_ID, padding) + bytes(padding)
        header = {"descr": np.lib.format.dtype_to_descr(stream.dtype), "fortran_order": False, "shape": stream.shape}
        with self._file.open(info, "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for piece in stream.pieces:
                member.write(to_bytes(piece))


@contextmanager
def write_archives(*paths: Path) -> Generator[tuple[ArrayArchive, ...]]:
    """Open archives for writing. Its files appear at their paths together or not at all."""
    parts = [path.with_name(f".{path.name}.{os.getpid()}.part") for path in paths]
    try:
        with ExitStack() as stack:
            for part in parts:
                part.parent.mkdir(parents=True, exist_ok=True)
            yield tuple(ArrayArchive(stack.enter_context(zipfile.ZipFile(part, "w"))) for part in parts)
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def list_keys(path: Path) -> list[str]:
    """Return the names of the arrays in an archive."""
    with zipfile.ZipFile(path) as file:
        return [name.removesuffix(".npy") for name in file.namelist()]


@contextmanager
def open_array(path: Path, key: str) -> Generator[ArrayStream]:
    """Open an array of an archive; its pieces are bytes. Raises `ValueError`, `OSError` and the errors of zipfile."""
    with zipfile.ZipFile(path) as file, file.open(f"{key}.npy") as member:
        version = np.lib.format.read_magic(member)
        formats = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = formats[version](member)

        def pieces() -> Iterator[Array]:
            while data := member.read(PIECE_BYTES):
                yield np.frombuffer(data, dtype=np.uint8)

        yield ArrayStream(dtype, shape, pieces())


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
    examples: Examples, seed: int, *, salt: str = "", keep: Callable[[str, ArrayStream], None] = discard, **about: str
) -> DatasetFacts:
    """Return the facts of the examples; `keep` receives the arrays `train_x`, `train_y` and so on.

    `salt` is a secret on which the order of sorted rows depends; `about` has name, title, source and origin of the
    dataset. Raises `DatasetError`.
    """
    common: dict[str, Any] = {**about, "seed": seed, "columns": examples.columns}
    if examples.folder is not None:
        rule = "none: experiment code splits the data"
        nothing: dict[str, Any] = {"features": 0, "classes": 0, "sizes": {}, "fingerprint": "", "task": "none"}
        return DatasetFacts(**common, **nothing, split_rule=rule, warnings=examples.warnings)
    splits = split_rows(examples, seed, salt)
    digests: dict[str, list[bytes]] = {split: [] for split in splits.rows}
    digest = ArrayFingerprint()
    for key, stream in sorted(_build_streams(examples, splits.rows, digests).items()):
        keep(key, digest.hash_stream(key, stream))
    distinct = {split: set(of_split) for split, of_split in digests.items()}
    counts = {
        (later, earlier): sum(digest in distinct[earlier] for digest in digests[later])
        for earlier, later in combinations(digests, 2)
    }
    shared = {pair: count for pair, count in counts.items() if count}
    sizes = {split: len(index) for split, index in splits.rows.items()}
    repeated = tuple(
        f"{count} of {sizes[split]} rows of {split} ({count / sizes[split]:.1%}) also occur in {other} "
        "with identical features"
        for (split, other), count in shared.items()
        if count / sizes[split] > MIN_WARNED_SHARE
    )
    shape = examples.x.shape[1:]
    classes = 0 if examples.y.dtype.kind != "i" else len(examples.class_names) or int(examples.y.max()) + 1
    values = {name: tuple(map(str, np.unique(texts))) for name, texts in examples.meta.items()}
    return DatasetFacts(
        **common,
        features=math.prod(shape),
        classes=classes,
        sizes=sizes,
        duplicates=sum(shared.get((split, "train"), 0) for split in ("validation", "test")),
        fingerprint=str(digest),
        task="classification" if classes else "regression",
        target=examples.target,
        class_names=examples.class_names,
        shape=shape if len(shape) > 1 else (),
        split_rule=splits.rule,
        form=_describe_form(examples),
        duplicates_by={f"{later} in {earlier}": count for (later, earlier), count in shared.items()},
        missing=dict(examples.missing),
        meta={name: few if len(few) <= MAX_VALUES_LISTED else () for name, few in values.items()},
        meta_in_test={name: len(np.unique(texts[splits.rows["test"]])) for name, texts in examples.meta.items()},
        meta_shown=examples.meta_shown,
        warnings=(*examples.warnings, *splits.warnings, *repeated),
    )


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
        rows, columns = examples.x.shape[1:]
        return f"{SERIES_FORM} {rows} rows by {columns} columns, past values of the target first"
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
            columns = np.stack([examples.meta[name][index] for name in names], axis=1)
            streams[f"{split}_meta"] = ArrayStream.from_array(columns)
    return streams


def _standardise(examples: Examples, train: Array) -> Array:
    """Return the standardised table, (n, features) float32."""
    x = _fill_missing(examples.x, train)
    spread = x[train].std(axis=0)
    scaled = ((x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
    return scaled if examples.numeric is None else np.where(examples.numeric, scaled, x).astype(np.float32)


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


# --- splits -----------------------------------------------------------------------------------------------------------


Rows = dict[str, Array]

SPLIT_SHARES = {"train": 0.5, "dev": 0.1, "validation": 0.2, "test": 0.2}
"""In chronological order for data with times."""
MIN_ROWS = 50
"""Validation and test get a fifth each; with fewer than ten examples in each, arms could not be distinguished."""
MIN_SPLIT_ROWS = 5
"""Minimum number of examples per split."""
MAX_ORDER_SIGMAS = 4.0
"""Correlation of the labels of neighbouring rows, in standard errors, above which a split is shuffled."""
MIN_CLASS_ROWS = 5
"""Minimum number of examples per class, so that every split gets one."""


@dataclass(frozen=True)
class Splits:
    """Row numbers by split, with a description of the rule. They are sorted, except as `_hide_order` says."""

    rows: Rows
    rule: str
    warnings: tuple[str, ...] = ()


def split_rows(examples: Examples, seed: int, salt: str = "") -> Splits:
    """Split the examples. Raises `DatasetError` if that is impossible."""
    if len(examples.y) < MIN_ROWS:
        raise DatasetError(f"it has {len(examples.y)} examples, at least {MIN_ROWS} are needed")
    given: Rows = {}
    if examples.split_names is not None:
        found = [split for split in SPLIT_SHARES if split in examples.split_names]
        given = {split: np.flatnonzero(examples.split_names == split) for split in found}
        if "train" not in given:
            raise DatasetError(f"no row belongs to train (splits found: {', '.join(given) or 'none'})")
    pool = given.pop("train", np.arange(len(examples.y)))
    shares = {split: share for split, share in SPLIT_SHARES.items() if split not in given}
    if examples.dev_from == "validation":
        if "validation" not in given:
            raise DatasetError("dev_from=validation needs a given validation split")
        dev, rest = shares.pop("dev"), SPLIT_SHARES["validation"]
        cut = {"dev": dev / (dev + rest), "validation": rest / (dev + rest)}
        given |= _divide_rows(examples, given["validation"], cut, seed)
    total = sum(shares.values()) if given else 1.0
    rows = given | _divide_rows(examples, pool, {split: share / total for split, share in shares.items()}, seed)
    rows = {split: np.sort(rows[split]) for split in SPLIT_SHARES}
    warnings: tuple[str, ...] = ()
    if examples.target_times is None:
        rows |= {split: _hide_order(examples, rows[split], salt) for split in ("validation", "test")}
    elif examples.times is not None:
        rows, warnings = _drop_overlapping(examples.times, examples.target_times, rows)
    return Splits(rows, _describe_rule(examples, given, seed), (*_check_splits(examples, rows), *warnings))


def _hide_order(examples: Examples, rows: Array, salt: str) -> Array:
    """Return the rows of a split in another order if neighbours have similar labels, as in a file that is sorted by
    class: code could tell the labels from the places of the rows.

    The order depends on the whole file and on the salt, since code may know the file.
    """
    labels = examples.y[rows]
    with np.errstate(all="ignore"):  # labels that are all equal
        likeness = np.corrcoef(labels[1:], labels[:-1])[0, 1] if len(rows) >= MIN_SPLIT_ROWS else 0.0
    if not abs(likeness) * math.sqrt(len(rows)) > MAX_ORDER_SIGMAS:
        return rows
    digest = hashlib.sha256(salt.encode())
    digest.update(to_bytes(examples.y))
    for part in iterate_slices(len(examples.y), math.prod(examples.x.shape[1:]) * examples.x.dtype.itemsize):
        digest.update(to_bytes(examples.x[part]))
    return np.random.default_rng(int.from_bytes(digest.digest())).permutation(rows)


def _drop_overlapping(times: Array, ends: Array, rows: Rows) -> tuple[Rows, tuple[str, ...]]:
    """Drop the examples whose target time reaches the first time of the next split."""
    kept = dict(rows)
    for split, later in pairwise(SPLIT_SHARES):
        if len(rows[later]):
            kept[split] = rows[split][ends[rows[split]] < times[rows[later]].min()]
    dropped = sum(map(len, rows.values())) - sum(map(len, kept.values()))
    note = f"{dropped} examples are left out because their target lies in the period of the next split"
    return kept, (note,) if dropped else ()


def _divide_rows(examples: Examples, pool: Array, shares: Mapping[str, float], seed: int) -> Rows:
    """Divide rows at random, stratified by class, or by groups or times."""
    rng = np.random.default_rng(seed)
    if examples.groups is not None:
        return _divide_by_group(examples, pool, shares, rng)
    if examples.times is not None:
        return _divide_by_time(examples.times[pool], pool, shares)
    strata = [pool]
    if examples.y.dtype.kind == "i":
        strata = [pool[examples.y[pool] == label] for label in range(int(examples.y.max()) + 1)]
        if few := [label for label, rows in enumerate(strata) if len(rows) < MIN_CLASS_ROWS]:
            shown = ", ".join(f"{_class_label(examples, label)} has {len(strata[label])}" for label in few[:3])
            where = (" in train" if "train" in shares else " in validation") if len(pool) < len(examples.y) else ""
            raise DatasetError(
                f"{len(few)} of {len(strata)} classes have too few examples{where} ({shown}): merge or remove classes "
                f"of fewer than {MIN_CLASS_ROWS}, since every split needs one"
            )
    parts: dict[str, list[Array]] = {split: [] for split in shares}
    bounds = np.cumsum(list(shares.values()))[:-1]
    for stratum in strata:
        places = np.rint(bounds * len(stratum)).astype(int)
        for split, part in zip(shares, np.split(rng.permutation(stratum), places), strict=True):
            parts[split].append(part)
    return {split: np.concatenate(part) for split, part in parts.items()}


def _divide_by_group(examples: Examples, pool: Array, shares: Mapping[str, float], rng: np.random.Generator) -> Rows:
    """Assign groups, largest first, to the split whose shares of all classes then come closest to their targets."""
    assert examples.groups is not None
    names, group = np.unique(examples.groups[pool], return_inverse=True)
    if len(names) < len(shares):
        raise DatasetError(f"it cannot be split by group: {len(names)} groups are too few for {len(shares)} splits")
    label = examples.y[pool] if examples.y.dtype.kind == "i" else np.zeros(len(pool), dtype=np.int64)
    counts = np.zeros((len(names), int(label.max()) + 1))
    np.add.at(counts, (group, label), 1)
    totals = np.maximum(counts.sum(axis=0), 1.0)
    wanted = np.array(list(shares.values()))[:, None] * totals
    have = np.zeros_like(wanted)
    home = np.zeros(len(names), dtype=np.int64)
    order = rng.permutation(len(names))
    for i in order[np.argsort(-counts[order].sum(axis=1), kind="stable")]:
        after = ((have + counts[i] - wanted) ** 2 / totals).sum(axis=1)
        before = ((have - wanted) ** 2 / totals).sum(axis=1)
        home[i] = int(np.argmin(after - before))
        have[home[i]] += counts[i]
    return {split: pool[home[group] == i] for i, split in enumerate(shares)}


def _divide_by_time(times: Array, pool: Array, shares: Mapping[str, float]) -> Rows:
    """Divide rows by time; rows with equal times stay together, in the later split."""
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    places = np.rint(np.cumsum(list(shares.values()))[:-1] * len(pool)).astype(int)
    bounds = [int(np.searchsorted(ordered, ordered[place], "left")) for place in places]
    parts = np.split(pool[order], bounds)
    if any(not len(part) for part in parts):
        raise DatasetError(
            f"it cannot be split by time: {len(np.unique(times))} distinct times are too few, or one has too many rows"
        )
    return dict(zip(shares, parts, strict=True))


def _check_splits(examples: Examples, rows: Mapping[str, Array]) -> tuple[str, ...]:
    """Return warnings. Raises `DatasetError` for a split that is too small or a class that is missing from train.

    Groups spread over several given splits cause only a warning, because given splits are kept.
    """
    for split, index in rows.items():
        if len(index) < MIN_SPLIT_ROWS:
            raise DatasetError(f"{split} has only {len(index)} rows, at least {MIN_SPLIT_ROWS} are needed")
    warnings: list[str] = []
    if examples.y.dtype.kind == "i":
        classes = np.arange(int(examples.y.max()) + 1)
        lacking = {split: np.setdiff1d(classes, examples.y[index]) for split, index in rows.items()}
        if len(lacking["train"]):
            label = _class_label(examples, int(lacking["train"][0]))
            raise DatasetError(f"train has no example of class {label}: change the split or remove the class")
        warnings += [
            f"{split} has no example of class {', '.join(_class_label(examples, int(i)) for i in missing[:3])}"
            for split, missing in lacking.items()
            if len(missing)
        ]
    if (groups := examples.groups) is not None:
        learned, scored = (
            np.concatenate([groups[rows[split]] for split in splits])
            for splits in (("train", "dev"), ("validation", "test"))
        )
        if len(shared := np.intersect1d(learned, scored)):
            warnings.append(f"{len(shared)} groups occur both in train and in validation or test in the given splits")
    return tuple(warnings)


def _class_label(examples: Examples, i: int) -> str:
    return repr(examples.class_names[i]) if examples.class_names else str(i)


def _describe_rule(examples: Examples, given: Rows, seed: int) -> str:
    by = f"stratified by class, seed {seed}" if examples.y.dtype.kind == "i" else f"at random, seed {seed}"
    if examples.groups is not None:
        by = f"whole groups, seed {seed}"
    elif examples.times is not None:
        by = "in order of time"
    if not given:
        return f"automatic, {by}"
    made = " and ".join(split for split in SPLIT_SHARES if split not in given and split != "train")
    cut = ["dev taken from validation"] * ("dev" in given) + [f"{made} taken from train"] * bool(made)
    return f"given train, {', '.join(split for split in given if split != 'dev')}; {', '.join(cut)}, {by}"
