"""CSV and Parquet files, sets of the Hugging Face hub and saved ones, as Arrow tables.

A file that is at fault is refused in one line that says where; rows are counted from 1, without the header. pandas
would read the same files, but neither says the row of a fault nor keeps texts as they are written.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sandbox.data.columns import MISSING, part_named
from sandbox.data.files import hugging_face, pyarrow
from sandbox.data.spec import DataSpec
from sandbox.errors import DatasetError

CSV = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
USUAL_TARGETS = ("target", "label", "labels", "class", "y")
_PEEK = 65536


@dataclass(frozen=True)
class Frame:
    """A table (pyarrow) as it was read, with the split of each row where the source says it."""

    table: Any
    parts: NDArray[Any] | None = None
    class_order: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read(path: Path) -> Any:
    """The table of a CSV or Parquet file. Raises `DatasetError`."""
    try:
        table = _csv(path) if path.suffix.lower() in CSV else _parquet(path)
        _check_names(table.column_names)
    except UnicodeDecodeError:
        raise DatasetError("it is not UTF-8 text: save it as UTF-8") from None
    if not table.num_rows:
        raise DatasetError("it holds no rows, only a header")
    return table


def _csv(path: Path) -> Any:
    """Of comma, semicolon, tab and bar, the delimiter is the one that the first line holds most of."""
    with open(path, "rb") as file:
        start = file.read(_PEEK)
    if not start.strip():
        raise DatasetError("it is empty")
    if b"\0" in start:
        raise DatasetError("it is not a CSV text file but a binary one (or UTF-16): save it as CSV in UTF-8")
    first = start.decode("utf-8-sig", errors="replace").lstrip("\r\n").splitlines()[0]
    delimiter = max(",;\t|", key=first.count)
    names = next(csv.reader([first], delimiter=delimiter))
    _check_names(names)
    arrow = pyarrow("csv")
    try:
        return arrow.read_csv(
            path, read_options=arrow.ReadOptions(use_threads=False),  # with threads, a fault has no row
            parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, pyarrow().string()),
                                                 null_values=list(MISSING), strings_can_be_null=True))
    except pyarrow().ArrowInvalid as error:
        message = " ".join(str(error).split())
        if "invalid UTF8" in message:
            raise DatasetError("it is not UTF-8 text: save it as UTF-8") from None
        plain = message.removeprefix("CSV parse error: ").replace("Row #", "line ")
        raise DatasetError(f"it is not a well-formed CSV: {plain[:200]}") from None


def _parquet(path: Path) -> Any:
    try:
        return pyarrow("parquet").ParquetFile(path).read()
    except (pyarrow().ArrowException, OSError) as error:
        raise DatasetError(f"it is not a Parquet file that can be read: {' '.join(str(error).split())[:160]}") from None


def _check_names(names: Sequence[str]) -> None:
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DatasetError(f"column {position} has no name: give it one, or write the file without its index")
        if names.count(name) > 1:
            raise DatasetError(f"column {name!r} appears twice: rename or remove one")


def is_saved(folder: Path) -> bool:
    """Whether a folder is what `save_to_disk` writes."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))


def from_library(spec: DataSpec, limit: int, *, saved: Path | None = None) -> Frame:
    """The rows of a dataset that `save_to_disk` wrote to a folder, else of one of the hub. Raises `DatasetError`.

    What the hub gave once is taken from the cache. The library shows no progress bars meanwhile.
    """
    datasets = hugging_face()
    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        try:
            loaded = datasets.load_from_disk(str(saved)) if saved is not None else datasets.load_dataset(
                spec.hub, spec.config or None, revision=spec.revision or None)
        except Exception as error:  # noqa: BLE001  whatever the network and the library's many readers raise
            message = f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
            raise DatasetError(f"the datasets library cannot read it: {message}" if saved is not None
                               else _hub_fault(spec.hub, error, message)) from None
        return _frame(loaded, spec, limit)
    finally:
        if shown:
            datasets.enable_progress_bars()


def _hub_fault(name: str, error: Exception, message: str) -> str:
    if isinstance(error, ConnectionError) or any(word in message for word in (
            "Offline", "offline", "Connection", "reach", "resolve", "Timeout", "timed out", "LocalEntryNotFound")):
        return (f"the hub cannot be reached and {name!r} is not in the local cache: fetch it once where there is a "
                f"network, or save it with save_to_disk and give the folder ({message})")
    if "Config name is missing" in message or "BuilderConfig" in message:
        return f"it needs one of its configurations: say config=NAME ({message})"
    return f"the hub does not give {name!r}: {message}"


# --- splits and columns ---------------------------------------------------------------------------------------------


def target_name(names: Sequence[str], spec: DataSpec) -> str:
    """The column to predict: the one that the spec names, else the only one with a usual name."""
    if spec.target:
        return spec.target
    usual = [name for name in names if name.lower() in USUAL_TARGETS]
    if len(usual) != 1:
        raise DatasetError(f"which column is the target? say target=COLUMN; there are {listed(names)}")
    return usual[0]


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a message, the first `most` of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _frame(loaded: Any, spec: DataSpec, limit: int) -> Frame:
    """One table of all splits. A split without labels is left out, as is one of a name that we do not know."""
    splits: dict[str, Any] = dict(cast("Mapping[str, Any]", loaded)) if isinstance(loaded, dict) else {"": loaded}
    size = sum(int(split.data.nbytes) for split in splits.values())
    if size > limit:
        raise DatasetError(f"it holds {size} bytes, more than sandbox.data_bytes ({limit}): take a part of it, "
                           "or raise it")
    warnings: list[str] = []
    if len(splits) > 1:
        splits = _known_splits(splits, warnings)
    target = target_name(next(iter(splits.values())).column_names, spec)
    labelled = {name: split for name, split in splits.items() if _has_labels(split, target)}
    warnings += [f"its split {name!r} has no labels and is left out" for name in splits if name not in labelled]
    if not labelled:
        raise DatasetError(f"no split has labels in the column {target!r}")
    order = tuple(getattr(next(iter(labelled.values())).features.get(target), "names", None) or ())
    tables = [_with_class_names(split.with_format("arrow")[:], target, order) for split in labelled.values()]
    parts = np.repeat([part_named(name) for name in labelled], [table.num_rows for table in tables])
    table = pyarrow().concat_tables(tables, promote_options="default")
    if not table.num_rows:
        raise DatasetError("it holds no rows")
    return Frame(table, parts if len(labelled) > 1 else None, order, tuple(warnings))


def _known_splits(splits: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name, split in splits.items():
        part = part_named(name)
        if part and part not in known:
            known[part] = split
        else:
            warnings.append(f"its split {name!r} is not used: it is none of train, validation and test")
    if "train" not in known:
        raise DatasetError(f"it has no split named train; there are {', '.join(splits)}")
    return known


def _has_labels(split: Any, target: str) -> bool:
    """False where every label is missing, or -1, as hubs write a withheld one."""
    pc = pyarrow("compute")
    if target not in split.column_names:
        return target not in USUAL_TARGETS  # a column that the user named and that is not there is said later
    column = split.with_format("arrow")[:].column(target)
    if column.null_count == len(column):
        return False
    return not ("ClassLabel" in type(split.features[target]).__name__ and pc.all(pc.less(column, 0)).as_py())


def _with_class_names(table: Any, target: str, order: tuple[str, ...]) -> Any:
    """The table with its class numbers replaced by the classes' names; -1 is missing."""
    pa = pyarrow()
    plain = table.replace_schema_metadata(None)
    if not order or target not in plain.column_names:
        return plain
    numbers: list[int | None] = plain.column(target).to_pylist()
    names = [order[i] if i is not None and 0 <= i < len(order) else None for i in numbers]
    return plain.set_column(plain.column_names.index(target), target, pa.array(names, type=pa.string()))
