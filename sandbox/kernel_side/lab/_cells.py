"""What a program of cells says of itself, and what its cells may say: of their own dataset and condition alone."""

from __future__ import annotations

import inspect
import os.path
from collections.abc import Callable
from typing import Any

from lab._job import LabCell, LabError, read_job, require_experiment

_MAX_FILE_NAME_CHARS = 115
"""Characters of a file's name, which the host takes."""
_registered: list[Callable[[LabCell], Any]] = []


def measure(function: Callable[[LabCell], Any], reads: dict[str, str] | None = None) -> None:
    """Have the function called for each cell of the study, `function(cell)`, each time in a process of its own.

    `reads` maps an arm to the one whose artifacts it reads (`lab.artifact(name, arm=...)`); it is read off the source,
    so it must be written out. Raises `LabError` where it is called twice, or with what cannot be called so.
    """
    if require_experiment("measure").cell is None:
        raise LabError(
            "lab.measure: this program was started without cells: name those to measure (scientist exec "
            "FILE --cells ARM@LEVEL,... --on DATASET), or do all at once without lab.measure"
        )
    if not callable(function):
        raise LabError(f"lab.measure takes a function of one cell, not {function!r}")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise LabError(
            f"lab.measure takes a function of one argument, the cell; "
            f"{getattr(function, '__name__', function)!r} takes others"
        ) from None
    except ValueError:  # it has no signature that could be read
        pass
    if not isinstance(reads or {}, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  (callers are not checked)
        raise LabError(f"lab.measure: reads must be a dict {{arm: the arm that it reads}}, not {reads!r}")
    if _registered:
        raise LabError(
            "lab.measure was called twice: a program has one function that measures a cell; tell arms apart "
            "in it, by cell.arm"
        )
    _registered.append(function)


def get_registered() -> Callable[[LabCell], Any]:
    """The function that measures a cell. Raises `LabError` where the program named none."""
    if not _registered:
        raise LabError(
            f"{read_job().entry} does not call lab.measure: end it with lab.measure(run), where "
            "`def run(cell): ...` trains and submits one cell"
        )
    return _registered[0]


def resolve_cell(where: str, dataset: str, condition: str) -> tuple[str, str]:
    """Dataset and condition, in a cell its own where they were left out. Raises `LabError` for those of another."""
    cell = read_job().cell
    if cell is None:
        return dataset, condition
    if dataset and dataset != cell.dataset:
        raise LabError(f"{where}: this cell is {cell}; it cannot say anything of dataset {dataset!r}")
    if condition and condition != cell.condition:
        raise LabError(f"{where}: this cell is {cell}; it cannot say anything of condition {condition!r}")
    return cell.dataset, cell.condition


def add_cell_name(name: str, cell: str | None = None) -> str:
    """A name for a file, in a cell with that of the cell (or the one given) before its ending: `net__digits__cnn.pt`.

    Raises `LabError` where that is too long.
    """
    current = read_job().cell
    own = cell if cell is not None else current and current.name
    if own is None:
        return name
    stem, ending = os.path.splitext(name)
    full = f"{stem}__{own}{ending}"
    if len(full) > _MAX_FILE_NAME_CHARS:
        raise LabError(
            f"the name {name!r} becomes {full!r}, which has more than {_MAX_FILE_NAME_CHARS} characters: choose "
            f"a shorter one"
        )
    return full
