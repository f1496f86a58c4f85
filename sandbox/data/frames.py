"""Read CSV and Parquet files and Hugging Face datasets (from the hub or from disk) as Arrow tables, and their columns
as numbers, as categories, or as the split, group or time of each row.

Errors are one line and name the row, counted from 1 without the header. pandas would neither name the row nor keep
strings unchanged.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.run_folder import hash_file
from labwright.sandbox.data.spec import DataSpec
from labwright.sandbox.job import DatasetError

_END_BYTES = 2**20
"""Bytes at the start and end of each file used for the fingerprint of a folder passed as a path."""


def list_files(folder: Path, root: Path) -> list[Path]:
    """Return all files under a folder, sorted, without hidden ones. Raises `DatasetError` for a link out of `root`."""

    def refuse(error: OSError) -> None:
        raise DatasetError(f"{error.filename} cannot be read: {error.strerror}")

    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        visible = [Path(parent, name) for name in (*folders, *names) if not name.startswith(".")]
        folders[:] = [name for name in folders if not name.startswith(".")]
        for link in filter(Path.is_symlink, visible):
            target = Path(os.path.realpath(link))
            if not target.is_file() or not target.is_relative_to(root.resolve()):
                raise DatasetError(
                    f"{link.relative_to(root)} is a link to no file of the dataset: replace it with the file"
                )
        files += filter(Path.is_file, visible)
    return sorted(files)


def compute_fingerprint(path: Path, *, ends_only: bool = False) -> str:
    """Return the sha256 of a file's bytes, or of a folder's file names and bytes. Raises `DatasetError`.

    With `ends_only`, only the size, start and end of each file are read, for folders that may be very large.
    """
    hash_content = _hash_ends if ends_only else hash_file
    try:
        if path.is_file():
            return hash_content(path)
        lines = (f"{file.relative_to(path)}\0{hash_content(file)}\n" for file in list_files(path, path))
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    except OSError as error:
        raise DatasetError(f"it cannot be read: {error.strerror}") from None


def _hash_ends(path: Path) -> str:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(f"{size}\0".encode() + file.read(_END_BYTES))
        file.seek(max(_END_BYTES, size - _END_BYTES))
        digest.update(file.read(_END_BYTES))
        return digest.hexdigest()


def import_pyarrow(part: str = "") -> Any:
    """Import pyarrow or one of its modules, such as "compute", on first use. It has no type annotations."""
    return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")


def import_datasets_library() -> Any:
    """Import the `datasets` library on first use."""
    return importlib.import_module("datasets")


Array = NDArray[Any]

MISSING_VALUES = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""Strings that count as missing values."""
MIN_NUMERIC_SHARE = 0.8
"""A text column with at least this share of numbers counts as a numeric column with errors."""
DATE_PATTERN = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[ T]\d{1,2}:.*)?")
"""A date, with or without a time of day."""
_OTHER_NOTATION_PATTERN = re.compile(r"[^\w.,]*\d{1,3}(?:[.,'\s]?\d{3})*(?:[.,]\d+)?[^\w.,]*")
"""A number with a decimal comma, separated thousands, a sign of currency or percent."""
SPLIT_ALIASES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing", "holdout"), "test"),
}
"""Common split names -> names used here."""


@dataclass(frozen=True)
class TableColumn:
    """A column with `numbers` (n,) float64 (NaN: missing) or with `codes` (n,) into `levels` (-1: missing).

    `stray_value` is the first non-numeric value of a mostly numeric column, or of numbers in another notation: row
    (from 1) and text. `other_kind` is the type of an unsupported column.
    """

    name: str
    numbers: Array | None = None
    codes: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    levels: tuple[str, ...] = ()
    stray_value: tuple[int, str] | None = None
    other_kind: str = ""

    @property
    def is_missing(self) -> Array:
        """(n,) bool: whether the value is missing."""
        return np.isnan(self.numbers) if self.numbers is not None else self.codes < 0

    def check_no_stray(self) -> None:
        """Raise `DatasetError` if a mostly numeric column contains other strings, or numbers in another notation."""
        if self.stray_value is not None:
            row, value = self.stray_value
            raise DatasetError(
                f"column {self.name!r} contains the text {value[:60]!r} in row {row}, but most values are numbers: "
                f"write it like 1234.5, clear it, or use drop={self.name}"
            )

    @property
    def is_dates(self) -> bool:
        """Whether all of its values are dates."""
        return bool(self.levels) and all(map(DATE_PATTERN.fullmatch, self.levels))

    def as_categories(self) -> TableColumn:
        """Return the column with every distinct number as a category."""
        if self.numbers is None:
            return self
        known = ~np.isnan(self.numbers)
        levels, inverse = np.unique(self.numbers[known], return_inverse=True)
        codes = np.full(len(self.numbers), -1, dtype=np.int64)
        codes[known] = inverse
        return replace(self, numbers=None, codes=codes, levels=tuple(f"{level:.15g}" for level in levels))


def read_column(name: str, values: Any) -> TableColumn:
    """Read a pyarrow column. Raises `DatasetError` for infinite numbers."""
    types = import_pyarrow().types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if types.is_string(kind) or types.is_large_string(kind):
        column = _read_text_column(name, values)
    elif types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast(import_pyarrow().float64(), safe=False).to_numpy()
        column = TableColumn(name, numbers=np.asarray(numbers, dtype=np.float64))
    else:
        return TableColumn(name, other_kind=str(kind))
    if column.numbers is not None and np.isinf(column.numbers).any():
        row = int(np.argmax(np.isinf(column.numbers)))
        raise DatasetError(f"column {name!r} contains {column.numbers[row]} in row {row + 1}: use a finite number")
    return column


def _read_text_column(name: str, values: Any) -> TableColumn:
    encoded = import_pyarrow("compute").utf8_trim_whitespace(values).combine_chunks().dictionary_encode()
    words: list[str] = encoded.dictionary.to_pylist()
    levels = tuple(sorted(set(words).difference(MISSING_VALUES)))
    ranks = {level: rank for rank, level in enumerate(levels)}
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes = np.array([*(ranks.get(word, -1) for word in words), -1])[places]
    numbers = np.array([*map(_parse_number, levels), math.nan])[codes]
    strays = (codes >= 0) & np.isnan(numbers)
    if not strays.any():
        return TableColumn(name, numbers=numbers)
    first, share = int(np.argmax(strays)), 1 - strays.sum() / (codes >= 0).sum()
    is_numeric = share >= MIN_NUMERIC_SHARE or all(map(_OTHER_NOTATION_PATTERN.fullmatch, levels))
    stray = (first + 1, levels[int(codes[first])]) if is_numeric else None
    return TableColumn(name, None, codes, levels, stray)


def _parse_number(word: str) -> float:
    """Return the number that a string represents, or NaN. Rejects 1_000, which `float` accepts."""
    try:
        return math.nan if "_" in word else float(word)
    except ValueError:
        return math.nan


def require_complete(column: TableColumn, role: str) -> TableColumn:
    """Return the column unchanged. Raises `DatasetError` if a value is missing or the type is not supported."""
    where = f"the {role} column {column.name!r}"
    if column.other_kind:
        raise DatasetError(f"{where} is of type {column.other_kind}: use numbers or strings")
    if (gaps := column.is_missing).any():
        first = int(np.argmax(gaps)) + 1
        raise DatasetError(
            f"{where} is missing in {int(gaps.sum())} rows (the first is row {first}): fill in or remove them; NA, "
            "None and the like count as missing"
        )
    return column


def read_split_names(column: TableColumn) -> Array:
    """Return (n,) split names. Raises `DatasetError` for an unknown name."""
    words = require_complete(column, "split").as_categories()
    names = [SPLIT_ALIASES.get(level.lower(), "") for level in words.levels]
    if "" in names:
        odd = words.levels[names.index("")]
        raise DatasetError(
            f"the split column {column.name!r} contains {odd!r}: use train, validation or test in every row"
        )
    return np.array(names)[words.codes]


def read_times(name: str, values: Any) -> Array:
    """Return (n,) numbers that increase with time; dates become microseconds. Raises `DatasetError`."""
    pa = import_pyarrow()
    if pa.types.is_temporal(values.type):
        try:
            values = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        except pa.ArrowException:
            raise DatasetError(f"the time column {name!r} is of type {values.type}: use dates or numbers") from None
    column = require_complete(read_column(name, values), "time")
    if column.numbers is not None:
        return column.numbers
    try:
        moments = np.array([level.removesuffix("Z") for level in column.levels], dtype="datetime64[us]")
    except ValueError as error:
        raise DatasetError(
            f"the time column {name!r} contains neither numbers nor ISO dates such as 2024-05-31T12:00 ({error})"
        ) from None
    return moments.astype(np.int64)[column.codes]


# --- tables -----------------------------------------------------------------------------------------------------------


CSV_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")
USUAL_TARGETS = ("target", "label", "labels", "class", "y")
_PEEK_CHARS = 65536


@dataclass(frozen=True)
class LoadedTable:
    """A pyarrow table as read, with the split of each row if the source defines splits."""

    table: Any
    split_names: NDArray[Any] | None = None
    class_order: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_file: bool = False
    """Whether it is a file, not a set of the datasets library."""


def read_table(path: Path) -> Any:
    """Read a CSV or Parquet file. Raises `DatasetError`."""
    try:
        table = _read_csv(path) if path.suffix.lower() in CSV_SUFFIXES else import_pyarrow("parquet").read_table(path)
        _check_column_names(table.column_names)
    except (import_pyarrow().ArrowException, UnicodeDecodeError, OSError) as error:
        message = " ".join(str(error).removeprefix("CSV parse error: ").replace("Row #", "line ").split())
        if "UTF8" in message or isinstance(error, UnicodeDecodeError):
            raise DatasetError("it is not UTF-8 text: save it as UTF-8") from None
        kind = "valid CSV file" if path.suffix.lower() in CSV_SUFFIXES else "readable Parquet file"
        raise DatasetError(f"it is not a {kind}: {message[:200]}") from None
    if not table.num_rows:
        raise DatasetError("it has a header but no rows")
    return table


def _read_csv(path: Path) -> Any:
    """Read a CSV file. The delimiter is the most frequent of comma, semicolon, tab and bar in the first line. Trailing
    columns without names and values, which some programs write, are dropped."""
    with open(path, "rb") as file:
        start = file.read(_PEEK_CHARS)
    if b"\0" in start:
        raise DatasetError("it is a binary (or UTF-16) file: save it as CSV in UTF-8")
    lines = start.decode("utf-8-sig", errors="replace").lstrip("\r\n").splitlines()
    if not "".join(lines).strip():
        raise DatasetError("it is empty")
    first = lines[0]
    delimiter = max(",;\t|", key=first.count)
    names = next(csv.reader([first], delimiter=delimiter))
    count = len(names)
    while count > 1 and not names[count - 1].strip():
        count -= 1
    _check_column_names(names[:count])
    arrow = import_pyarrow("csv")
    table = arrow.read_csv(
        path,
        read_options=arrow.ReadOptions(use_threads=False),  # with threads, errors do not name the row
        parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=arrow.ConvertOptions(
            column_types=dict.fromkeys(names, import_pyarrow().string()), null_values=[""], strings_can_be_null=True
        ),
    )
    if all(table.column(at).null_count == table.num_rows for at in range(count, len(names))):
        table = table.select(range(count))
    return table


def _check_column_names(names: Sequence[str]) -> None:
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DatasetError(f"column {position} has no name: name it, or write the file without its index")
        if names.count(name) > 1:
            raise DatasetError(f"column {name!r} appears twice: rename or remove one")


def find_target(names: Sequence[str], spec: DataSpec) -> str:
    """Return the target column: the one named by the spec, otherwise the only one with a usual name."""
    if spec.target:
        return spec.target
    usual = [name for name in names if name.lower() in USUAL_TARGETS]
    if len(usual) != 1:
        raise DatasetError(f"no target column is given: add target=COLUMN; the columns are {format_names(names)}")
    return usual[0]


def format_names(names: Sequence[str]) -> str:
    """Format up to 12 names for a message."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


# --- the datasets library -------------------------------------------------------------------------------------------


_NOT_CACHED = (
    "; without a network it must be in the local cache, or be a folder written by save_to_disk; a dataset with several "
    "configurations needs config=NAME"
)


def load_library_dataset(spec: DataSpec, limit: int, *, saved: Path | None = None) -> LoadedTable:
    """Load a dataset that `save_to_disk` wrote, or one from the hub or its local cache. Raises `DatasetError`."""
    datasets = import_datasets_library()
    datasets.disable_progress_bars()
    try:
        loaded = (
            datasets.load_from_disk(str(saved))
            if saved is not None
            else datasets.load_dataset(spec.hub, spec.config or None, revision=spec.revision or None)
        )
    except Exception as error:  # noqa: BLE001  the network and the library's readers raise many types
        remedy = "" if saved is not None else _NOT_CACHED
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
        raise DatasetError(f"the datasets library could not load it{remedy} ({why})") from None
    return _join_splits(loaded, spec, limit)


def _join_splits(loaded: Any, spec: DataSpec, limit: int) -> LoadedTable:
    """Join all splits into one table. Splits without labels or with an unknown name are left out."""
    splits: dict[str, Any] = {**loaded} if isinstance(loaded, dict) else {"train": loaded}
    size = sum(int(split.data.nbytes) for split in splits.values())
    if size > limit:
        raise DatasetError(
            f"it has {size} bytes, more than sandbox.data_bytes ({limit}): use a part of it or raise the limit"
        )
    if len(splits) == 1:
        splits = {"train": next(iter(splits.values()))}
    names = list(dict.fromkeys(name for split in splits.values() for name in split.column_names))
    target = find_target(names, spec)
    tables: dict[str, Any] = {}
    order: tuple[str, ...] = ()
    warnings: list[str] = []
    for name, split in splits.items():
        part = SPLIT_ALIASES.get(name.lower(), "")
        order = order or tuple(getattr(split.features.get(target), "names", None) or ())
        table = _replace_class_numbers(split, target, order)
        if not part or part in tables:
            warnings.append(f"the split {name!r} is not used: it is not one of train, validation and test")
        elif target not in table.column_names or table.column(target).null_count == len(table):
            warnings.append(f"the split {name!r} has no labels and is not used")
        else:
            tables[part] = table
    train = tables.get("train")
    for part in [one for one in tables if one != "train" and _has_withheld_labels(tables[one], train, target)]:
        warnings.append(f"the split {part!r} has no labels ({target} is -1 in all rows) and is not used")
        del tables[part]
    if train is None:
        raise DatasetError(f"it has no split named train with labels in {target!r}: it has {format_names([*splits])}")
    parts = np.repeat(list(tables), [len(table) for table in tables.values()])
    table = import_pyarrow().concat_tables(tables.values(), promote_options="default")
    return LoadedTable(table, parts if len(tables) > 1 else None, order, tuple(warnings))


def _has_withheld_labels(table: Any, train: Any, target: str) -> bool:
    """Return whether all labels of a split are -1, the usual mark of withheld labels, and none in train is."""
    if train is None or not import_pyarrow().types.is_integer(table.column(target).type):
        return False
    return set(table.column(target).to_pylist()) == {-1} and -1 not in train.column(target).to_pylist()


def _replace_class_numbers(split: Any, target: str, order: tuple[str, ...]) -> Any:
    """Return the table of a split with class names in place of class numbers; -1 (withheld) becomes missing."""
    pa = import_pyarrow()
    table = split.with_format("arrow")[:].replace_schema_metadata(None)
    if not order or target not in table.column_names:
        return table
    numbers: list[int | None] = table.column(target).to_pylist()
    names = [order[i] if i is not None and 0 <= i < len(order) else None for i in numbers]
    return table.set_column(table.column_names.index(target), target, pa.array(names, type=pa.string()))
