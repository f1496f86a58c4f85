"""CSV and Parquet files as Arrow tables. A file that is at fault is refused in one line that says where.

Rows are counted from 1, without the header.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.data.untyped import pyarrow
from sandbox.errors import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CSV = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""How a missing value may be written in a text."""
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
        said = " ".join(str(error).split())
        if "invalid UTF8" in said:
            raise DatasetError("it is not UTF-8 text: save it as UTF-8") from None
        raise DatasetError(f"it is not a well-formed CSV: {_plain(said)[:200]}") from None


def _plain(said: str) -> str:
    """Arrow's words, with its rows named as what they are: lines of the file."""
    return said.removeprefix("CSV parse error: ").replace("Row #", "line ")


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
