"""The files of a folder of the user's own, and their fingerprint. No link leads us out of the folder or in circles."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox.errors import DatasetError

_ENDS = 2**20
"""Bytes at the beginning and the end of a file that enter the fingerprint of a folder that is handed on as a path."""


def files_in(folder: Path, root: Path) -> list[Path]:
    """Every file below a folder, sorted, hidden ones left out. Raises `DatasetError` for a link out of `root`."""
    return sorted(_walk(folder, root.resolve(), root))


def _walk(folder: Path, real: Path, root: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise DatasetError(f"{folder.relative_to(root)} cannot be read: {error.strerror}") from None
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            name = path.relative_to(root)
            try:
                target = path.resolve(strict=True)
            except (OSError, RuntimeError):
                raise DatasetError(f"{name} is a link that leads nowhere or in a circle: remove it") from None
            if not target.is_relative_to(real):
                raise DatasetError(f"{name} is a link out of the folder: copy the file into it")
            if target.is_dir():
                raise DatasetError(f"{name} is a link to a folder: put the folder itself there")
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(path, real, root)
        elif entry.is_file():
            yield path


def fingerprint(path: Path, *, ends: bool = False) -> str:
    """The sha256 of a file's bytes, or of a folder's names and bytes. Raises `DatasetError`.

    With `ends`, of each file only size, beginning and end are read: for folders that may be very large.
    """
    try:
        if path.is_file():
            return _of_file(path, ends=ends)
        digest = hashlib.sha256()
        for file in files_in(path, path):
            digest.update(f"{file.relative_to(path)}\0{_of_file(file, ends=ends)}\n".encode())
        return digest.hexdigest()
    except OSError as error:
        raise DatasetError(f"it cannot be read: {error.strerror}") from None


def _of_file(path: Path, *, ends: bool) -> str:
    with open(path, "rb") as file:
        if not ends:
            return hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(f"{size}\0".encode() + file.read(_ENDS))
        file.seek(max(_ENDS, size - _ENDS))
        digest.update(file.read(_ENDS))
        return digest.hexdigest()



def pyarrow(part: str = "") -> Any:
    """pyarrow, or one of its modules: `pyarrow("compute")`. It has no types, and is imported when first needed."""
    return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")


def hugging_face() -> Any:
    """The `datasets` library, likewise."""
    return importlib.import_module("datasets")
