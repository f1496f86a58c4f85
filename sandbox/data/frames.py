"""Read CSV and Parquet files and Hugging Face datasets (from the hub or from disk) as Arrow tables.

Errors are one line and name the row, counted from 1 without the header. pandas would neither name the row nor keep
strings unchanged.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.sandbox.data.columns import SPLIT_ALIASES
from labwright.sandbox.data.files import import_datasets_library, import_pyarrow
from labwright.sandbox.data.spec import DataSpec
from labwright.sandbox.errors import DatasetError

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
    literal: tuple[str, ...] = ()
    """Columns in which only empty values count as missing."""


class ParquetTable:
    """A Parquet file as a table whose columns are read on demand."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._file = import_pyarrow("parquet").ParquetFile(path)
        self.schema = self._file.schema_arrow
        self.column_names: list[str] = list(self.schema.names)
        self.num_rows: int = self._file.metadata.num_rows

    def column(self, name: str) -> Any:
        """Return the (n,) values of a column. Raises `DatasetError`."""
        try:
            return self._file.read(columns=[name]).column(0)
        except (import_pyarrow().ArrowException, OSError) as error:
            raise DatasetError(f"column {name!r} cannot be read: {' '.join(str(error).split())[:200]}") from None


def read_table(path: Path) -> Any:
    """Read a CSV or Parquet file. Raises `DatasetError`."""
    try:
        table = _read_csv(path) if path.suffix.lower() in CSV_SUFFIXES else ParquetTable(path)
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
    if not start.strip():
        raise DatasetError("it is empty")
    if b"\0" in start:
        raise DatasetError("it is a binary (or UTF-16) file, not CSV text: save it as CSV in UTF-8")
    lines = start.decode("utf-8-sig", errors="replace").lstrip("\r\n").splitlines()
    if not lines:
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


def format_names(names: Sequence[str], max_names: int = 12) -> str:
    """Format up to `max_names` names for a message."""
    return ", ".join(names[:max_names]) + (f" and {len(names) - max_names} more" if len(names) > max_names else "")


# --- the datasets library -------------------------------------------------------------------------------------------


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
        remedy = (
            ""
            if saved is not None
            else (
                "; without a network it must be in the local cache: download it once with a network, or save it with "
                "save_to_disk and give that folder; a dataset with several configurations needs config=NAME"
            )
        )
        raise DatasetError(
            f"the datasets library could not load it{remedy} ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:240]})"
        ) from None
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
    for part in [
        other
        for other in tables
        if other != "train" and _has_withheld_labels(tables[other], tables.get("train"), target)
    ]:
        warnings.append(f"the split {part!r} has no labels ({target} is -1 in all rows) and is not used")
        del tables[part]
    if "train" not in tables:
        raise DatasetError(
            f"it has no split named train with labels in {target!r}: it has {format_names([*splits])} with "
            f"columns {format_names(names)}"
        )
    parts = np.repeat(list(tables), [len(table) for table in tables.values()])
    table = import_pyarrow().concat_tables(tables.values(), promote_options="default")
    return LoadedTable(table, parts if len(tables) > 1 else None, order, tuple(warnings), spec.literal)


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
