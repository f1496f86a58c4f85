"""CSV and Parquet files, sets of the Hugging Face hub and saved ones, as Arrow tables.

A file that is at fault is refused in one line that says where; rows are counted from 1, without the header. pandas
would read the same files, but neither says the row of a fault nor keeps texts as they are written.
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
    """A table (pyarrow) as it was read, with the split of each row where the source says it."""

    table: Any
    split_names: NDArray[Any] | None = None
    class_order: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    literal: tuple[str, ...] = ()
    """Columns of which nothing but an empty text is missing."""


class ParquetTable:
    """A Parquet file as a table whose columns are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._file = import_pyarrow("parquet").ParquetFile(path)
        self.schema = self._file.schema_arrow
        self.column_names: list[str] = list(self.schema.names)
        self.num_rows: int = self._file.metadata.num_rows

    def column(self, name: str) -> Any:
        """(n,) values. Raises `DatasetError`."""
        try:
            return self._file.read(columns=[name]).column(0)
        except (import_pyarrow().ArrowException, OSError) as error:
            raise DatasetError(f"column {name!r} cannot be read: {' '.join(str(error).split())[:200]}") from None


def read_table(path: Path) -> Any:
    """The table of a CSV or Parquet file. Raises `DatasetError`."""
    try:
        table = _read_csv(path) if path.suffix.lower() in CSV_SUFFIXES else ParquetTable(path)
        _check_column_names(table.column_names)
    except (import_pyarrow().ArrowException, UnicodeDecodeError, OSError) as error:
        message = " ".join(str(error).removeprefix("CSV parse error: ").replace("Row #", "line ").split())
        if "UTF8" in message or isinstance(error, UnicodeDecodeError):
            raise DatasetError("it is not UTF-8 text: save it as UTF-8") from None
        kind = "well-formed CSV" if path.suffix.lower() in CSV_SUFFIXES else "Parquet file that can be read"
        raise DatasetError(f"it is not a {kind}: {message[:200]}") from None
    if not table.num_rows:
        raise DatasetError("it holds no rows, only a header")
    return table


def _read_csv(path: Path) -> Any:
    """Of comma, semicolon, tab and bar, the delimiter is the one that the first line holds most of. Columns at the end
    that have neither a name nor a value, as some programs write them, are left out."""
    with open(path, "rb") as file:
        start = file.read(_PEEK_CHARS)
    if not start.strip():
        raise DatasetError("it is empty")
    if b"\0" in start:
        raise DatasetError("it is not a CSV text file but a binary one (or UTF-16): save it as CSV in UTF-8")
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
        read_options=arrow.ReadOptions(use_threads=False),  # with threads, a fault has no row
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
            raise DatasetError(f"column {position} has no name: give it one, or write the file without its index")
        if names.count(name) > 1:
            raise DatasetError(f"column {name!r} appears twice: rename or remove one")


def find_target(names: Sequence[str], spec: DataSpec) -> str:
    """The column to predict: the one that the spec names, else the only one with a usual name."""
    if spec.target:
        return spec.target
    usual = [name for name in names if name.lower() in USUAL_TARGETS]
    if len(usual) != 1:
        raise DatasetError(f"which column is the target? say target=COLUMN; there are {format_names(names)}")
    return usual[0]


def format_names(names: Sequence[str], max_names: int = 12) -> str:
    """Names in a message, the first `most` of them."""
    return ", ".join(names[:max_names]) + (f" and {len(names) - max_names} more" if len(names) > max_names else "")


# --- the datasets library -------------------------------------------------------------------------------------------


def load_library_dataset(spec: DataSpec, limit: int, *, saved: Path | None = None) -> LoadedTable:
    """The rows of a dataset that `save_to_disk` wrote to a folder, else of one of the hub. Raises `DatasetError`.

    What the hub gave once is taken from the cache.
    """
    datasets = import_datasets_library()
    datasets.disable_progress_bars()
    try:
        loaded = (
            datasets.load_from_disk(str(saved))
            if saved is not None
            else datasets.load_dataset(spec.hub, spec.config or None, revision=spec.revision or None)
        )
    except Exception as error:  # noqa: BLE001  whatever the network and the library's many readers raise
        remedy = (
            ""
            if saved is not None
            else (
                "; without a network it must be in the local cache: fetch it once where there is one, or save it with "
                "save_to_disk and give the folder; one with configurations needs config=NAME"
            )
        )
        raise DatasetError(
            f"the datasets library cannot read it{remedy} ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:240]})"
        ) from None
    return _join_splits(loaded, spec, limit)


def _join_splits(loaded: Any, spec: DataSpec, limit: int) -> LoadedTable:
    """One table of all splits. A split without labels is left out, as is one of a name that we do not know."""
    splits: dict[str, Any] = {**loaded} if isinstance(loaded, dict) else {"train": loaded}
    size = sum(int(split.data.nbytes) for split in splits.values())
    if size > limit:
        raise DatasetError(
            f"it holds {size} bytes, more than sandbox.data_bytes ({limit}): take a part of it, or raise it"
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
            warnings.append(f"its split {name!r} is not used: it is not one of train, validation and test")
        elif target not in table.column_names or table.column(target).null_count == len(table):
            warnings.append(f"its split {name!r} has no labels and is left out")
        else:
            tables[part] = table
    for part in [
        one for one in tables if one != "train" and _has_withheld_labels(tables[one], tables.get("train"), target)
    ]:
        warnings.append(f"its split {part!r} has no labels ({target} is -1 in all rows) and is left out")
        del tables[part]
    if "train" not in tables:
        raise DatasetError(
            f"it has no split named train with labels in {target!r}: there are {format_names([*splits])} with "
            f"the columns {format_names(names)}"
        )
    parts = np.repeat(list(tables), [len(table) for table in tables.values()])
    table = import_pyarrow().concat_tables(tables.values(), promote_options="default")
    return LoadedTable(table, parts if len(tables) > 1 else None, order, tuple(warnings), spec.literal)


def _has_withheld_labels(table: Any, train: Any, target: str) -> bool:
    """Whether all labels of a split are -1, as withheld ones are written, and none of train is."""
    if train is None or not import_pyarrow().types.is_integer(table.column(target).type):
        return False
    return set(table.column(target).to_pylist()) == {-1} and -1 not in train.column(target).to_pylist()


def _replace_class_numbers(split: Any, target: str, order: tuple[str, ...]) -> Any:
    """The table of a split, its class numbers replaced by the classes' names; -1, a withheld one, is missing."""
    pa = import_pyarrow()
    table = split.with_format("arrow")[:].replace_schema_metadata(None)
    if not order or target not in table.column_names:
        return table
    numbers: list[int | None] = table.column(target).to_pylist()
    names = [order[i] if i is not None and 0 <= i < len(order) else None for i in numbers]
    return table.set_column(table.column_names.index(target), target, pa.array(names, type=pa.string()))
