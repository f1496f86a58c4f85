"""The folder of a cell while code lives that could get at it: moved into the reach of a kernel, and back.

Kept: it is known by its descriptor, so what stands at its name afterwards is it, or is not entered. Not kept: the code
can go on changing files in it through descriptors of its own, until it is killed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from labwright.record.folder_descriptors import empty_folder, remove_tree
from labwright.record.schema.nodes import Failure
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.execution import KernelExecution
from labwright.sandbox.safe_io import BadFile, OpenFolder, open_subfolder, raise_as_bad_file


def lend_folder(folder: Path, reach: Path, subfolder: str) -> OpenFolder:
    """Move a folder to `reach/inside/its name`, where code that lives may run in it.

    Code that has its hands in `reach` cannot have it land elsewhere. Raises `BadFile` where anything is in its way,
    `OSError`.
    """
    held = OpenFolder(folder)
    try:
        with raise_as_bad_file(reach.name), open_subfolder(reach) as place:
            if left := os.listdir(place):
                raise BadFile(f"{left[0]} lies in {reach.name}")
            os.mkdir(subfolder, dir_fd=place)
        with raise_as_bad_file(subfolder), open_subfolder(reach, subfolder) as place:
            os.rename(folder, folder.name, dst_dir_fd=place)
            if not held.is_at(folder.name, place):
                raise BadFile(f"{folder.name} was taken away")
    except FileNotFoundError as error:
        raise BadFile(f"{error.filename} was taken away") from error
    return held


def take_back_folder(lent: OpenFolder, folder: Path, reach: Path | None = None, subfolder: str = "") -> bool:
    """Move a folder that was lent back to where it was, and remove what else lies in `reach`; without `reach`, only see
    to it that it still is there.

    Whether it was where it ought to be; where not, an empty one stands there now. Raises `OSError`.
    """
    lent.unlock()
    if reach is not None:
        with (
            suppress(FileNotFoundError, BadFile),
            open_subfolder(reach, subfolder, unlock=True) as place,
            raise_as_bad_file(folder.name),
        ):
            if lent.is_at(folder.name, place):
                os.rename(folder.name, folder, src_dir_fd=place)
        with (
            suppress(FileNotFoundError, BadFile),
            open_subfolder(reach, unlock=True) as place,
            raise_as_bad_file(reach.name),
        ):
            empty_folder(place)  # where that fails, `lend` will say so
    if lent.is_at(folder):
        return True
    remove_tree(folder)
    folder.mkdir(parents=True)
    return False


def check_returned(
    lent: OpenFolder, folder: Path, execution: KernelExecution, reach: Path | None = None, subfolder: str = ""
) -> KernelExecution:
    """The execution, with the failure of code that did something to the folder that it was given; at `folder` is one
    for us to read then, empty in that case. Raises `ExecutorError`."""
    try:
        there = take_back_folder(lent, folder, reach, subfolder)
    except OSError as error:
        raise ExecutorError(f"cannot have {folder} back: {error}") from error
    return (
        execution
        if there
        else replace(
            execution,
            failure=execution.failure
            or Failure(
                kind="other",
                message=("it renamed, replaced or removed the folder that it worked in: leave that where it is"),
            ),
        )
    )
