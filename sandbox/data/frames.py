"""CSV and Parquet files, sets of the Hugging Face hub and saved ones, as Arrow tables.

A file that is at fault is refused in one line that says where; rows are counted from 1, without the header. pandas
would read the same files, but neither says the row of a fault nor keeps texts as they are written.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
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
    arrow = pyarrow("csv")
    names, delimiter = _header(path)
    _check_names(names)
    text = pyarrow().string()
    try:
        return arrow.read_csv(
            path, read_options=arrow.ReadOptions(use_threads=False),  # with threads, a fault has no row
            parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, text), null_values=list(MISSING),
                                                 strings_can_be_null=True))
    except pyarrow().ArrowInvalid as error:
        message = " ".join(str(error).split())
        if "invalid UTF8" in message:
            raise DatasetError("it is not UTF-8 text: save it as UTF-8") from None
        raise DatasetError(f"it is not a well-formed CSV: {_plain(message)[:200]}") from None


def _plain(message: str) -> str:
    """Arrow's words, with its rows named as what they are: lines of the file."""
    return message.removeprefix("CSV parse error: ").replace("Row #", "line ")


def _header(path: Path) -> tuple[list[str], str]:
    """Column names and delimiter: of comma, semicolon, tab and bar the one that the first line holds most of."""
    with open(path, "rb") as file:
        start = file.read(_PEEK)
    if not start.strip():
        raise DatasetError("it is empty")
    if b"\0" in start:
        raise DatasetError("it is not a CSV text file but a binary one (or UTF-16): save it as CSV in UTF-8")
    first = start.decode("utf-8-sig", errors="replace").lstrip("\r\n").splitlines()[0]
    delimiter = max(",;\t|", key=first.count)
    return next(csv.reader([first], delimiter=delimiter)), delimiter


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
            raise DatasetError(f"column {name!r} stands there twice: rename or remove one")


_SAVED = ("dataset_dict.json", "dataset_info.json")


def is_saved(folder: Path) -> bool:
    """Whether a folder is what `save_to_disk` writes."""
    return any((folder / name).is_file() for name in _SAVED)


def from_disk(folder: Path, spec: DataSpec, limit: int) -> Frame:
    """The rows of a saved dataset or dictionary of splits. Raises `DatasetError`."""
    with _quiet():
        try:
            loaded = hugging_face().load_from_disk(str(folder))
        except Exception as error:  # noqa: BLE001  the library raises what its many readers raise
            raise DatasetError(f"the datasets library cannot read it: {_describe(error)}") from None
        return _frame(loaded, spec, limit)


def from_hub(spec: DataSpec, limit: int) -> Frame:
    """The rows of a dataset of the hub, fetched once and then taken from the cache. Raises `DatasetError`."""
    with _quiet():
        try:
            loaded = hugging_face().load_dataset(spec.hub, spec.config or None, revision=spec.revision or None)
        except Exception as error:  # noqa: BLE001  as above, and whatever the network raises
            raise DatasetError(_hub_fault(spec, error)) from None
        return _frame(loaded, spec, limit)


def _hub_fault(spec: DataSpec, error: Exception) -> str:
    message = _describe(error)
    if isinstance(error, ConnectionError) or any(word in f"{type(error).__name__} {message}" for word in (
            "Offline", "offline", "Connection", "reach", "resolve", "Timeout", "timed out", "LocalEntryNotFound")):
        return (f"the hub cannot be reached and {spec.hub!r} is not in the local cache: fetch it once where there is a "
                f"network, or save it with save_to_disk and give the folder ({message})")
    if "Config name is missing" in message or "BuilderConfig" in message:
        return f"it needs one of its configurations: say config=NAME ({message})"
    return f"the hub does not give {spec.hub!r}: {message}"


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"


@contextmanager
def _quiet() -> Generator[None]:
    """No progress bars of the library while inside."""
    datasets = hugging_face()
    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


# --- splits and columns ---------------------------------------------------------------------------------------------


def _frame(loaded: Any, spec: DataSpec, limit: int) -> Frame:
    """One table of all splits. A split without labels is left out, as is one of a name that we do not know."""
    pa = pyarrow()
    splits: dict[str, Any] = dict(cast("Mapping[str, Any]", loaded)) if isinstance(loaded, dict) else {"": loaded}
    size = sum(int(one.data.nbytes) for one in splits.values())
    if size > limit:
        raise DatasetError(f"it holds {size} bytes, more than sandbox.data_bytes ({limit}): take a part of it, "
                           "or raise it")
    warnings: list[str] = []
    if len(splits) > 1:
        splits = _known(splits, warnings)
    target = spec.target or _target(splits)
    labelled = {name: one for name, one in splits.items() if _has_labels(one, target)}
    warnings += [f"its split {name!r} has no labels and is left out" for name in splits if name not in labelled]
    if not labelled:
        raise DatasetError(f"no split has labels in the column {target!r}")
    order = _class_order(next(iter(labelled.values())), target)
    tables = [_with_names(one.with_format("arrow")[:], target, order) for one in labelled.values()]
    parts = np.repeat([part_named(name) for name in labelled], [one.num_rows for one in tables])
    table = pa.concat_tables(tables, promote_options="default")
    if not table.num_rows:
        raise DatasetError("it holds no rows")
    return Frame(table, parts if len(labelled) > 1 else None, order, tuple(warnings))


def _known(splits: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in splits.items():
        part = part_named(name)
        if part and part not in found:
            found[part] = one
        else:
            warnings.append(f"its split {name!r} is not used: it is none of train, validation and test")
    if "train" not in found:
        raise DatasetError(f"it has no split named train; there are {', '.join(splits)}")
    return found


def _target(splits: Mapping[str, Any]) -> str:
    names: list[str] = next(iter(splits.values())).column_names
    usual = [name for name in names if name.lower() in USUAL_TARGETS]
    if len(usual) != 1:
        raise DatasetError(f"which column is the target? say target=COLUMN; there are {', '.join(names)}")
    return usual[0]


def _has_labels(split: Any, target: str) -> bool:
    """False where every label is missing, or -1, as hubs write a withheld one."""
    pc = pyarrow("compute")
    if target not in split.column_names:
        return target not in USUAL_TARGETS  # a column that the user named and that is not there is said later
    column = split.with_format("arrow")[:].column(target)
    if column.null_count == len(column):
        return False
    return not ("ClassLabel" in type(split.features[target]).__name__ and pc.all(pc.less(column, 0)).as_py())


def _class_order(split: Any, target: str) -> tuple[str, ...]:
    feature = split.features.get(target)
    return tuple(getattr(feature, "names", None) or ())


def _with_names(table: Any, target: str, order: tuple[str, ...]) -> Any:
    """The table with its class numbers replaced by the classes' names; -1 is missing."""
    pa = pyarrow()
    plain = table.replace_schema_metadata(None)
    if not order or target not in plain.column_names:
        return plain
    numbers: list[int | None] = plain.column(target).to_pylist()
    names = [order[i] if i is not None and 0 <= i < len(order) else None for i in numbers]
    place = plain.column_names.index(target)
    return plain.set_column(place, target, pa.array(names, type=pa.string()))
