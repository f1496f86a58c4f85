"""Convert a table, images or arrays to examples: numbers, one-hot categories, missing-value indicators; target; splits.

Numbers keep their units, and missing ones are NaN: `preparation` imputes and scales them after splitting.
"""

from __future__ import annotations

import difflib
import io
import math
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.untrusted_files import raise_read_errors_as
from labwright.sandbox.data import Examples
from labwright.sandbox.data.frames import (
    SPLIT_ALIASES,
    LoadedTable,
    TableColumn,
    find_target,
    format_names,
    import_pyarrow,
    list_files,
    read_column,
    read_split_names,
    read_times,
    require_complete,
)
from labwright.sandbox.data.preparation import iterate_slices
from labwright.sandbox.data.spec import LIST_FIELDS, DataSpec
from labwright.sandbox.job import DatasetError

# Read images as one array from a folder with one subfolder per class, or from an image column of a table. Images are
# resized to the most common size (bilinear). The array has one channel if all images are grey, otherwise three;
# 16-bit grey is reduced to 8 bits, transparency is dropped. A column of images or lists must be the only feature.

Array = NDArray[Any]

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
_IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "JPEG2000")
"""Accepted formats, regardless of the file name. For other formats, Pillow may start external programs (Ghostscript
for PostScript).
"""
_GREY_MODES = frozenset({"1", "L", "LA", "I;16", "I;16B", "I", "F"})


class ImageArray:
    """Images as (n, height, width, channels) uint8; rows are read on demand.

    Each of `sources` is a name for messages and a path or file. `resized` counts images that had a different size.
    Construction and indexing raise `DatasetError`.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, sources: Sequence[tuple[str, Any]]) -> None:
        self._sources = sources
        sizes = [_read_size(*source) for source in sources]
        self._size, most = Counter(size for size, _ in sizes).most_common(1)[0]
        self._mode = "L" if all(grey for _, grey in sizes) else "RGB"
        self.shape = (len(sources), self._size[1], self._size[0], len(self._mode))
        self.resized = len(sources) - most

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, rows: Any) -> Array:
        from PIL import Image

        chosen: list[int] = np.arange(len(self))[rows].tolist()
        x = np.empty((len(chosen), *self.shape[1:]), dtype=np.uint8)
        for i, (where, source) in enumerate(self._sources[row] for row in chosen):
            picture = _read_upright(where, source).convert(self._mode)
            x[i] = np.asarray(picture.resize(self._size, Image.Resampling.BILINEAR)).reshape(x.shape[1:])
        return x


_SIDEWAYS_ORIENTATIONS = (5, 6, 7, 8)
"""EXIF orientations that swap width and height."""


def _read_size(where: str, source: Any) -> tuple[tuple[int, int], bool]:
    """Return width and height of an image after EXIF rotation, and whether it is grey."""
    with _open_image(where, source) as picture:
        width, height = picture.size
        turned = picture.getexif().get(0x0112) in _SIDEWAYS_ORIENTATIONS
        return ((height, width) if turned else (width, height)), picture.mode in _GREY_MODES


def _read_upright(where: str, source: Any) -> Any:
    """Return an image after EXIF rotation as 8-bit grey (L) or RGB."""
    from PIL import Image, ImageOps

    with _open_image(where, source) as picture:
        picture.load()
        grey = picture.mode in _GREY_MODES
        if picture.mode.startswith("I"):
            picture = Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
        return ImageOps.exif_transpose(picture).convert("L" if grey else "RGB")


@contextmanager
def _open_image(where: str, source: Any) -> Generator[Any]:
    from PIL import Image

    if hasattr(source, "seek"):
        source.seek(0)
    elif not source.is_file():  # reading a pipe might never end
        raise DatasetError(f"{where} is not a file")
    with raise_read_errors_as(f"{where} cannot be read as an image", DatasetError), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(source, formats=_IMAGE_FORMATS) as picture:
            yield picture


# --- folders --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageFile:
    """One file of an image folder."""

    path: Path
    label: str
    split: str = ""


def list_images(root: Path) -> list[ImageFile]:
    """Return the images of a folder by class, sorted; empty if it has no class folders with images.

    Folders named after splits may contain the class folders. Raises `DatasetError` for links out of the folder.
    """
    below = _list_folders(root)
    parts = {folder: SPLIT_ALIASES[folder.name.lower()] for folder in below if folder.name.lower() in SPLIT_ALIASES}
    if "train" in parts.values() and len(parts) == len(below) and all(_list_folders(folder) for folder in parts):
        return [picture for folder, part in parts.items() for picture in _iterate_class_folders(root, folder, part)]
    return list(_iterate_class_folders(root, root))


def _list_folders(root: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))


def _iterate_class_folders(root: Path, folder: Path, part: str = "") -> Iterator[ImageFile]:
    for label in _list_folders(folder):
        for path in list_files(label, root):
            if path.suffix.lower() in IMAGE_SUFFIXES:
                yield ImageFile(path, label.name, part)


def examples_from_folder(files: Sequence[ImageFile], root: Path) -> Examples:
    """Return the examples of an image folder. Raises `DatasetError` for invalid images or a single class."""
    names = sorted({file.label for file in files})
    if len(names) < 2:
        raise DatasetError(f"it has only one class ({names[0]!r}): images need one folder per class")
    x = ImageArray([(str(file.path.relative_to(root)), file.path) for file in files])
    warning = f"{x.resized} of {len(files)} images were resized to the most common size, {x.shape[2]} x {x.shape[1]}"
    return Examples(
        x,
        np.array([names.index(file.label) for file in files], dtype=np.int64),
        class_names=tuple(names),
        target="folder name",
        warnings=(warning,) if x.resized else (),
        split_names=np.array([file.split for file in files]) if files[0].split else None,
    )


def read_nested_column(table: Any, names: Sequence[str], *, is_file: bool) -> Any:
    """Return x if the only feature column contains images (`bytes`, `path`) or lists; None for plain columns.

    The table of a file (`is_file`) may come from an untrusted source, so its images must be in it. Raises
    `DatasetError` if there are other features or the lists differ in length.
    """
    types = import_pyarrow().types
    columns = [name for name in names if types.is_nested(table.schema.field(name).type)]
    if not columns:
        return None
    column = table.column(columns[0])
    if len(names) > 1:
        raise DatasetError(f"column {columns[0]!r} ({column.type}) must be the only feature: omit others with drop=")
    if not (types.is_struct(column.type) and {"bytes", "path"} <= {field.name for field in column.type}):
        return _read_lists(columns[0], column)
    sources: list[tuple[str, Any]] = []
    for row, image in enumerate(column.to_pylist(), start=1):
        if image is None or (image["bytes"] is None and (is_file or not image["path"])):
            raise DatasetError(f"image in row {row} is missing: store its bytes in the table")
        content = image["bytes"]
        sources.append((f"image in row {row}", Path(image["path"]) if content is None else io.BytesIO(content)))
    return ImageArray(sources)


def _read_lists(name: str, column: Any) -> Array:
    """Return a column of lists as (n, length, ...) int64 or float32."""
    try:
        array = np.array(column.to_pylist())
    except ValueError:  # numpy raises this for lists of different lengths
        raise DatasetError(f"column {name!r} contains lists of different lengths: pad them") from None
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise DatasetError(f"column {name!r} contains lists of {column.type}, which are not all numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DatasetError(f"column {name!r} contains lists with missing or infinite values")
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


MAX_ONE_HOT_LEVELS = 20
"""Largest number of distinct strings in a one-hot column; columns with more are rejected."""
MAX_CLASSES = 20
"""Integer targets with at most this many distinct values count as classes if no task is given."""


def examples_from_table(frame: LoadedTable, spec: DataSpec, limit: int) -> Examples:
    """Convert a table to examples that use at most `limit` bytes of memory. Raises `DatasetError`."""
    names = list(frame.table.column_names)
    target = find_target(names, spec)
    roles = {role: (getattr(spec, role),) for role in ("group", "time", "split", "text")} | {"target": (target,)}
    for role, columns in {**roles, **{role: getattr(spec, role) for role in LIST_FIELDS}}.items():
        if unknown := [name for name in columns if name and name not in names]:
            near = difflib.get_close_matches(unknown[0], names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise DatasetError(f"{role}=: no column {unknown[0]!r}; {hint}the columns are {format_names(names)}")
    others = {target, spec.group, spec.time, spec.split, *spec.drop, *spec.metric_columns}
    features = [name for name in names if name not in others]
    if not features and not spec.horizon:
        raise DatasetError(f"there is no feature column other than the target {target!r}")
    if spec.horizon:
        return _read_windows(frame, [target, *features], spec, limit)
    if spec.text or _has_one_text_feature(frame, features):
        return add_roles(_read_text_examples(frame, features, spec), frame, spec, target)
    examples = replace(_read_features(frame, features, spec, limit), columns=tuple(features))
    return add_roles(examples, frame, spec, target)


@dataclass(frozen=True)
class ColumnReading:
    """How a column of a table is read: its role, its kind (numbers, categories, dates, text), its values, and the
    number of rows without a value."""

    column: str
    role: str
    kind: str
    values: str
    missing: int


def describe_columns(frame: LoadedTable, spec: DataSpec) -> Iterator[ColumnReading]:
    """Yield how each column of a table is read. Raises `DatasetError`."""
    names = list(frame.table.column_names)
    target = find_target(names, spec)
    roles = dict.fromkeys(spec.metric_columns, "meta") | dict.fromkeys(spec.drop, "dropped")
    roles |= {spec.group: "group", spec.time: "time", spec.split: "split", target: "target"}
    features = [name for name in names if name not in roles]
    has_text = bool(features) and not spec.horizon and _has_one_text_feature(frame, features)
    text = spec.text or (features[0] if has_text else "")
    for name in names:
        column = _read_column(frame, name)
        role = roles.get(name, "left out" if text not in ("", name) else "feature")
        is_plain, kind, values = name not in spec.categorical, column.other_kind, ""
        is_number = is_plain and role not in ("group", "split", "meta")
        if role == "target" and column.numbers is not None:
            is_number = not _read_target(column, spec, (), MAX_CLASSES)[1]
        if not kind and name == text:
            kind, values = "text", f"{len(column.levels)} different"
        elif not kind and column.is_dates and is_plain:
            kind, values = "dates", f"{column.levels[0]} to {column.levels[-1]}"
        elif not kind and column.numbers is not None and is_number:
            known = column.numbers[~np.isnan(column.numbers)]
            kind, values = "numbers", f"{known.min():.6g} to {known.max():.6g}" if len(known) else ""
        elif not kind:
            levels = column.as_categories().levels
            kind = "classes" if role == "target" else "categories"
            values = f"{len(levels)}: {format_names(levels)}"
        yield ColumnReading(name, role, kind, values, 0 if column.other_kind else int(column.is_missing.sum()))


def _has_one_text_feature(frame: LoadedTable, features: Sequence[str]) -> bool:
    """Return whether the only feature is free text: not numeric, and with too many distinct values for one-hot
    encoding.
    """
    kind, types = frame.table.schema.field(features[0]).type, import_pyarrow().types
    if len(features) > 1 or not (types.is_string(kind) or types.is_large_string(kind)):
        return False
    column = _read_column(frame, features[0])
    excluded = column.stray_value is not None or column.is_dates
    return column.numbers is None and not excluded and len(column.levels) > MAX_ONE_HOT_LEVELS


def _read_text_examples(frame: LoadedTable, features: Sequence[str], spec: DataSpec) -> Examples:
    name = spec.text or features[0]
    texts: list[Any] = frame.table.column(name).to_pylist()
    row = next((row for row, text in enumerate(texts, start=1) if not (isinstance(text, str) and text.strip())), 0)
    if row:
        raise DatasetError(f"column {name!r} has no text in row {row}: fill it in or remove the row")
    others = [other for other in features if other != name]
    left = (f"the text is the only feature: {format_names(others)} left out",) if others else ()
    return Examples(np.array(texts, dtype=object), np.empty(0), columns=(name,), warnings=(*frame.warnings, *left))


def _read_windows(frame: LoadedTable, names: Sequence[str], spec: DataSpec, limit: int) -> Examples:
    """Convert time series to examples: windows of all columns, target first, and the target `horizon` rows later.

    A series consists of the rows of one group in chronological order.
    """
    target = names[0]
    rows = _read_features(frame, names, spec, limit)
    if rows.missing:
        gap = next(iter(rows.missing))
        raise DatasetError(f"column {gap!r} of a time series must be complete: fill it in, or omit it with drop={gap}")
    if rows.names[0] != target:
        raise DatasetError(f"column {target!r} of a time series must be numeric: it is the target")
    times = read_times(spec.time, frame.table.column(spec.time))
    group = require_complete(_read_column(frame, spec.group), "group").as_categories() if spec.group else None
    codes = group.codes if group is not None else np.zeros(len(times), dtype=np.int64)
    order = np.lexsort((times, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)
    if same.any():
        row = int(order[int(np.argmax(same)) + 1]) + 1
        raise DatasetError(
            f"the time column {spec.time!r} has equal values in two rows of one series (one is row {row}): "
            "identify the series with group=, or merge the rows"
        )
    reach = spec.window - 1 + spec.horizon
    starts = [
        start
        for series in np.split(np.arange(len(order)), np.flatnonzero(np.diff(codes[order])) + 1)
        for start in series[: len(series) - reach : spec.step]
        if len(series) > reach
    ]
    if not starts:
        sizes = f"window={spec.window} and horizon={spec.horizon}"
        raise DatasetError(f"no series has the {reach + 1} rows that {sizes} need")
    if (size := len(starts) * spec.window * rows.x.shape[1] * 8) > limit:
        raise DatasetError(
            f"{len(starts)} windows take {size} bytes, more than sandbox.data_bytes ({limit}): use step="
        )
    last = np.array(starts) + spec.window - 1
    x = rows.x[order][np.array(starts)[:, None] + np.arange(spec.window)]
    return Examples(
        x,
        rows.x[order[last + spec.horizon], 0].astype(np.float32),
        names=rows.names,
        numeric=rows.numeric,
        columns=tuple(names),
        target=f"{target}, {spec.horizon} rows ahead",
        warnings=rows.warnings,
        times=times[order[last]],
        target_times=times[order[last + spec.horizon]],
        dev_from=spec.dev_from,
        meta={name: _column_to_texts(_read_column(frame, name))[order[last]] for name in spec.metric_columns},
        meta_shown=spec.meta_shown,
    )


def add_roles(
    examples: Examples, frame: LoadedTable, spec: DataSpec, target: str, *, max_classes: int = MAX_CLASSES
) -> Examples:
    """Add the target, splits, groups and times from columns of the table. Raises `DatasetError`."""
    column = _read_column(frame, target)
    y, classes = _read_target(column, spec, frame.class_order, max_classes)
    return replace(
        examples,
        y=y,
        class_names=classes,
        target=target,
        split_names=read_split_names(_read_column(frame, spec.split)) if spec.split else frame.split_names,
        groups=require_complete(_read_column(frame, spec.group), "group").as_categories().codes if spec.group else None,
        times=read_times(spec.time, frame.table.column(spec.time)) if spec.time else None,
        meta={name: _column_to_texts(_read_column(frame, name)) for name in spec.metric_columns},
        meta_shown=spec.meta_shown,
        dev_from=spec.dev_from,
    )


def _column_to_texts(column: TableColumn) -> Array:
    """Return (n,) strings; missing values become "(missing)"."""
    if column.other_kind:
        raise DatasetError(f"the meta column {column.name!r} is of type {column.other_kind}: use numbers or strings")
    words = column.as_categories()
    return np.array([*words.levels, "(missing)"])[words.codes]


def _read_column(frame: LoadedTable, name: str) -> TableColumn:
    return read_column(name, frame.table.column(name))


# --- features -------------------------------------------------------------------------------------------------------


def _read_features(frame: LoadedTable, names: Sequence[str], spec: DataSpec, limit: int) -> Examples:
    if (served := read_nested_column(frame.table, names, is_file=frame.is_file)) is not None:
        return Examples(served, np.empty(0), warnings=frame.warnings)
    rows = frame.table.num_rows
    titles: list[str] = []
    encoded: list[Array] = []
    measured: list[bool] = []
    missing: dict[str, int] = {}
    warnings = list(frame.warnings)
    for name in names:
        column = _read_column(frame, name)
        own = list(_encode_column(column, categorical=name in spec.categorical))
        titles += [title for title, _ in own]
        encoded += [values.astype(np.float64) for _, values in own]
        measured += [title == name for title, _ in own]
        if gaps := int(column.is_missing.sum()):
            missing[name] = gaps
        if column.is_dates:
            warnings.append(
                f"column {name!r} contains dates, and each becomes its own category: use time={name} or drop={name}"
            )
        if own[0][0] == name and len(own[0][1]) > 2 and np.all(np.diff(own[0][1]) == 1.0):
            warnings.append(f"column {name!r} numbers the rows (an identifier?): omit it with drop={name}")
    size = rows * len(titles) * 8
    if size > limit:
        raise DatasetError(
            f"{rows} rows of {len(titles)} features take {size} bytes in memory, more than sandbox.data_bytes "
            f"({limit}): use fewer or raise the limit"
        )
    x = np.stack(encoded, axis=1)
    return Examples(
        x, np.empty(0), names=tuple(titles), numeric=np.array(measured), missing=missing, warnings=tuple(warnings)
    )


def _encode_column(column: TableColumn, *, categorical: bool) -> Iterator[tuple[str, Array]]:
    """Yield the name and values of each column of x made from a table column. Numeric columns keep their name."""
    name = column.name
    if column.other_kind:
        raise DatasetError(f"column {name!r} is of type {column.other_kind}: convert it to numbers, or use drop={name}")
    gaps = column.is_missing
    if gaps.all():
        raise DatasetError(f"column {name!r} is empty: omit it with drop={name}")
    if column.numbers is not None and not categorical:
        yield name, column.numbers
        if gaps.any():
            yield f"{name} missing", gaps
        return
    if not categorical:
        column.check_no_stray()
    words = column.as_categories()
    if len(words.levels) > MAX_ONE_HOT_LEVELS:
        what = f"dates (such as {words.levels[0][:40]!r})" if column.is_dates else "strings"
        raise DatasetError(
            f"column {name!r} contains {len(words.levels)} different {what}, more than {MAX_ONE_HOT_LEVELS}: convert "
            f"it to numbers, or use {'time' if column.is_dates else 'text'}={name} or drop={name}"
        )
    for code, level in [*enumerate(words.levels), *([(-1, "(missing)")] if gaps.any() else [])]:
        yield f"{name}={level}", words.codes == code


# --- target ---------------------------------------------------------------------------------------------------------


def _read_target(
    column: TableColumn, spec: DataSpec, order: tuple[str, ...], most: int
) -> tuple[Array, tuple[str, ...]]:
    """Return y and the class names (empty for regression)."""
    if spec.task == "none":
        raise DatasetError("task=none is for folders, not for tables")
    classes, numbers = require_complete(column, "target").as_categories(), column.numbers
    if spec.task != "classification":
        column.check_no_stray()
    if numbers is None and spec.task == "regression":
        word = column.levels[0][:60]
        raise DatasetError(f"the target {column.name!r} contains strings (such as {word!r}): regression needs numbers")
    if len(classes.levels) < 2:
        raise DatasetError(f"the target {column.name!r} has only one class ({''.join(classes.levels)!r}) in all rows")
    if numbers is not None and spec.task != "classification":
        is_continuous = len(classes.levels) > most or np.any(numbers != np.rint(numbers))
        if spec.task == "regression" or is_continuous:
            return numbers.astype(np.float32), ()
    if order and set(classes.levels) <= set(order):
        places = np.array([order.index(level) for level in classes.levels])
        return places[classes.codes].astype(np.int64), order
    return classes.codes.astype(np.int64), classes.levels


# --- arrays -----------------------------------------------------------------------------------------------------------
# `x` and `y`, or `train_x`, `train_y`, ... if they define splits, are served unchanged. An NPZ archive is read into
# memory; .npy files in a folder (images, token ids) are memory-mapped. In a folder an array may be split into shards
# along its first axis: `train_x-000.npy`, `train_x-001.npy`, ...


Arrays = dict[str, Any]


class JoinedArray:
    """Arrays concatenated along their first axis; rows are read on demand, floats as float32, integers as stored."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        if len({(array.shape[1:], str(array.dtype)) for array in arrays}) > 1:
            found = sorted({f"{array.dtype} of shape {array.shape[1:]}" for array in arrays})
            raise DatasetError(f"its arrays contain examples of different shapes or types: {', '.join(found)}")
        if arrays[0].dtype == np.uint8 and arrays[0].ndim == 3:  # grey images
            arrays = [array[..., None] for array in arrays]
        self._arrays: Sequence[Any] = arrays
        kind: np.dtype[Any] = arrays[0].dtype
        self.dtype = np.dtype(np.float32) if kind.kind == "f" else kind
        self._ends = np.cumsum([len(array) for array in arrays])
        self.shape = (int(self._ends[-1]), *arrays[0].shape[1:])
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        chosen = np.arange(len(self))[rows]
        found = np.empty((len(chosen), *self.shape[1:]), dtype=self.dtype)
        which = np.searchsorted(self._ends, chosen, "right")
        for i in np.unique(which):
            array = self._arrays[int(i)]
            found[which == i] = array[chosen[which == i] - (self._ends[i] - len(array))]
        return found


def examples_from_npz(path: Path, spec: DataSpec, limit: int) -> Examples:
    """Read the examples of an archive (at most `limit` bytes unpacked) or of a folder of .npy files.

    64-bit floats become 32-bit; grey images get a channel axis. Raises `DatasetError`.
    """
    if spec.categorical:
        raise DatasetError("categorical= applies to tables only: arrays are served unchanged")
    on_disk = path.is_dir()
    given = _map_folder(path) if on_disk else _load_arrays(path, limit)
    arrays, parts = _join_splits(
        {name: array for name, array in given.items() if name not in spec.drop},
        spec.target or "y",
        JoinedArray if on_disk else np.concatenate,
    )
    named = spec.target or "y", spec.group, spec.time, spec.split, *spec.metric_columns
    roles = list(dict.fromkeys(name for name in named if name))
    others = [name for name in arrays if name not in roles]
    feature = "x" if "x" in others else others[0] if len(others) == 1 else ""
    if not feature or not arrays.keys() >= set(roles):
        has = ", ".join(arrays) or "nothing"
        raise DatasetError(
            f"it must contain x and {' and '.join(roles)}, or train_x, train_y, ...; it contains {has} (see target=)"
        )
    x = arrays[feature]
    if x.ndim == 1 and x.dtype.kind == "U":
        x = x.astype(object)
    elif x.ndim < 2 or x.dtype.kind not in "biuf":
        raise DatasetError(f"{feature} must contain numbers of shape (examples, ...), not {x.dtype} of shape {x.shape}")
    for name in roles:
        if arrays[name].shape != x.shape[:1] or arrays[name].dtype.kind not in "biufU":
            raise DatasetError(
                f"{name} must contain one number or text per example of {feature} (shape {x.shape}), not "
                f"{arrays[name].dtype} of shape {arrays[name].shape}"
            )
    for part in iterate_slices(len(x), math.prod(x.shape[1:]) * x.dtype.itemsize) if x.dtype.kind == "f" else ():
        if not (fine := np.isfinite(piece := x[part])).all():
            row = part.start + int(np.argwhere(~fine)[0][0])
            raise DatasetError(f"{feature} contains a non-finite value in example {row + 1}: fix or remove it")
        del piece
    if not on_disk and x.ndim > 1:
        image = x.dtype == np.uint8 and x.ndim in (3, 4)
        x = x.astype(x.dtype if image else np.float32 if x.dtype.kind == "f" else np.int64, copy=False)
    if x.dtype == np.uint8 and x.ndim == 3:
        x = x[..., None]
    table = import_pyarrow().table({name: arrays[name] for name in roles})
    most = MAX_CLASSES if arrays[roles[0]].dtype.kind == "f" else max(MAX_CLASSES, len(x) // 20)
    frame = LoadedTable(table, parts)
    return add_roles(Examples(x, np.empty(0)), frame, spec, roles[0], max_classes=most)


def _load_arrays(path: Path, limit: int) -> Arrays:
    with (
        raise_read_errors_as("numpy cannot read it as an NPZ archive of numbers and strings", DatasetError),
        np.load(path, allow_pickle=False) as archive,
    ):
        size = sum(member.file_size for member in archive.zip.infolist())
        if size > limit:
            raise DatasetError(f"it unpacks to {size} bytes, more than sandbox.data_bytes ({limit})")
        return {name: archive[name] for name in archive.files}


_SHARD_PATTERN = re.compile(r"(?P<name>.+?)[-_.]\d+")


def _map_folder(folder: Path) -> Arrays:
    """Map the arrays of a folder by name, with shards joined."""
    shards: dict[str, list[Array]] = defaultdict(list)
    for file in list_files(folder, folder):
        name = file.relative_to(folder)
        if file.suffix.lower() != ".npy":
            raise DatasetError(f"{name} is not a .npy file like the others: remove it from the folder")
        with raise_read_errors_as(f"{name} cannot be mapped: it is truncated or contains objects", DatasetError):
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        if not array.ndim or not len(array):
            raise DatasetError(f"{name} contains no examples")
        shard = _SHARD_PATTERN.fullmatch(file.stem)
        shards[shard["name"] if shard else file.stem].append(array)
    roles = {name for name, arrays in shards.items() if arrays[0].ndim == 1}
    return {name: np.concatenate(arrays) if name in roles else JoinedArray(arrays) for name, arrays in shards.items()}


def _join_splits(arrays: Arrays, target: str, join: Callable[[Sequence[Any]], Any]) -> tuple[Arrays, Array | None]:
    """Join x and target of all splits, with the split of each row, if the arrays are organised by split."""
    parts = {
        SPLIT_ALIASES[name[:-2].lower()]: (array, arrays[f"{name[:-2]}_y"])
        for name, array in arrays.items()
        if name.endswith("_x") and name[:-2].lower() in SPLIT_ALIASES and f"{name[:-2]}_y" in arrays
    }
    if "train" not in parts:
        return arrays, None
    if len({x.shape[1:] for x, _ in parts.values()}) > 1 or any(len(x) != len(y) for x, y in parts.values()):
        found = ", ".join(f"{part} {x.shape} and {y.shape}" for part, (x, y) in parts.items())
        raise DatasetError(f"its splits contain examples of different shapes: {found}")
    xs, ys = zip(*parts.values(), strict=True)
    return {"x": join(xs), target: np.concatenate(ys)}, np.repeat(list(parts), [len(labels) for labels in ys])
