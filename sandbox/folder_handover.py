"""Move a cell's folder into the reach of a running kernel, and back.

Guarantees: the folder is identified by its descriptor, so a replacement under its name is never used. Limits: the code
can change files in it through its own descriptors until it is killed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from labwright.record.folder_descriptors import empty_folder, remove_tree
from labwright.sandbox.safe_io import BadFile, OpenFolder, open_subfolder, raise_as_bad_file


def lend_folder(folder: Path, reach: Path, subfolder: str) -> OpenFolder:
    """Move a folder to `reach/subfolder/<its name>`, where running code may use it.

    Code that can write to `reach` cannot redirect the move. Raises `BadFile` if another file or folder is in the way,
    `OSError`.
    """
    lent_folder = OpenFolder(folder)
    try:
        with raise_as_bad_file(reach.name), open_subfolder(reach) as place:
            if left := os.listdir(place):
                raise BadFile(f"{reach.name} is not empty: it contains {left[0]}")
            os.mkdir(subfolder, dir_fd=place)
        with raise_as_bad_file(subfolder), open_subfolder(reach, subfolder) as place:
            os.rename(folder, folder.name, dst_dir_fd=place)
            if not lent_folder.is_at(folder.name, place):
                raise BadFile(f"{folder.name} was moved or removed")
    except FileNotFoundError as error:
        raise BadFile(f"{error.filename} was moved or removed") from error
    return lent_folder


def take_back_folder(lent: OpenFolder, folder: Path, reach: Path, subfolder: str) -> bool:
    """Move a lent folder back and remove everything else in `reach`.

    Return whether the folder was in its place; if not, it is replaced by an empty one. Raises `OSError`.
    """
    lent.unlock()
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
        empty_folder(place)  # if this fails, the next `lend_folder` reports it
    if lent.is_at(folder):
        return True
    remove_tree(folder)
    folder.mkdir(parents=True)
    return False
