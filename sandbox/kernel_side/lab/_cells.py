"""Register the function that measures cells, and restrict each cell's output to its own dataset and condition."""

from __future__ import annotations

import inspect
import os.path
from collections.abc import Callable
from typing import Any

from lab._job import LabCell, LabError, read_job, require_experiment

_MAX_FILE_NAME_CHARS = 115
"""Maximum length of a file name that the host accepts, in characters."""
_registered: list[Callable[[LabCell], Any]] = []


def measure(function: Callable[[LabCell], Any], reads: dict[str, str] | None = None) -> None:
    """Call the function for each cell of the study, `function(cell)`, each time in a separate process; it may be
    `async`.

    `reads` maps an arm to the arm whose artifacts it reads (`lab.artifact(name, arm=...)`); it is read from the source,
    so it must be a literal. Raises `LabError` if called twice or with invalid arguments.
    """
    if require_experiment("measure").cell is None:
        raise LabError("lab.measure: this program was started without cells: choose some (exec --cells, --on)")
    if not callable(function):
        raise LabError(f"lab.measure takes a function of one cell, not {function!r}")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        name = getattr(function, "__name__", function)
        raise LabError(
            f"lab.measure takes a function of one argument, the cell; {name!r} takes other arguments"
        ) from None
    except ValueError:  # no signature available
        pass
    if not isinstance(reads or {}, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  (callers are not checked)
        raise LabError(f"lab.measure: reads must be a dict {{arm: arm that it reads}}, not {reads!r}")
    if _registered:
        raise LabError("lab.measure was called twice: distinguish arms in one function, with cell.arm")
    _registered.append(function)


def get_registered() -> Callable[[LabCell], Any]:
    """Return the function that measures a cell. Raises `LabError` if the program registered none."""
    if not _registered:
        raise LabError(f"{read_job().entry} does not call lab.measure: end it with lab.measure(run)")
    return _registered[0]


def resolve_cell(where: str, dataset: str, condition: str) -> tuple[str, str]:
    """Return dataset and condition, by default those of the cell. Raises `LabError` if they belong to another cell."""
    cell = read_job().cell
    if cell is None:
        return dataset, condition
    if dataset and dataset != cell.dataset:
        raise LabError(f"{where}: this cell is {cell}; it cannot report on dataset {dataset!r}")
    if condition and condition != cell.condition:
        raise LabError(f"{where}: this cell is {cell}; it cannot report on condition {condition!r}")
    return cell.dataset, cell.condition


def add_cell_name(name: str, cell: str | None = None) -> str:
    """Add the name of the current cell (or of the given one) to a file name, before its extension:
    `net__digits__cnn.pt`.

    Raises `LabError` if the result is too long.
    """
    current = read_job().cell
    own = cell if cell is not None else current and current.name
    if own is None:
        return name
    stem, ending = os.path.splitext(name)
    full = f"{stem}__{own}{ending}"
    if len(full) > _MAX_FILE_NAME_CHARS:
        raise LabError(f"the name {name!r} becomes {full!r}: choose a shorter one")
    return full
