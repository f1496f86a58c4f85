"""The files of a folder of the user's own, and their fingerprint. No link leads us out of the folder or in circles."""

from __future__ import annotations

import hashlib
import importlib
import os
from pathlib import Path
from typing import Any

from labwright.sandbox.errors import DatasetError

_END_BYTES = 2**20
"""Bytes at the beginning and the end of a file that enter the fingerprint of a folder that is handed on as a path."""


def list_files(folder: Path, root: Path) -> list[Path]:
    """Every file below a folder, sorted, hidden ones left out. Raises `DatasetError` for a link out of `root`."""

    def refuse(error: OSError) -> None:
        raise DatasetError(f"{error.filename} cannot be read: {error.strerror}")

    files: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=refuse):
        visible = [Path(place, name) for name in (*folders, *names) if not name.startswith(".")]
        folders[:] = [name for name in folders if not name.startswith(".")]
        for link in filter(Path.is_symlink, visible):
            target = Path(os.path.realpath(link))
            if not target.is_file() or not target.is_relative_to(root.resolve()):
                raise DatasetError(
                    f"{link.relative_to(root)} is a link that leads out of the folder, to a folder or "
                    "nowhere: put the file itself there"
                )
        files += filter(Path.is_file, visible)
    return sorted(files)


def compute_fingerprint(path: Path, *, ends_only: bool = False) -> str:
    """The sha256 of a file's bytes, or of a folder's names and bytes. Raises `DatasetError`.

    With `ends`, of each file only size, beginning and end are read: for folders that may be very large.
    """
    try:
        if path.is_file():
            return _hash_file(path, ends=ends_only)
        digest = hashlib.sha256()
        for file in list_files(path, path):
            digest.update(f"{file.relative_to(path)}\0{_hash_file(file, ends=ends_only)}\n".encode())
        return digest.hexdigest()
    except OSError as error:
        raise DatasetError(f"it cannot be read: {error.strerror}") from None


def _hash_file(path: Path, *, ends: bool) -> str:
    with open(path, "rb") as file:
        if not ends:
            return hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(f"{size}\0".encode() + file.read(_END_BYTES))
        file.seek(max(_END_BYTES, size - _END_BYTES))
        digest.update(file.read(_END_BYTES))
        return digest.hexdigest()


def import_pyarrow(part: str = "") -> Any:
    """pyarrow, or one of its modules: `pyarrow("compute")`. It has no types, and is imported when first needed."""
    return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")


def import_datasets_library() -> Any:
    """The `datasets` library, likewise."""
    return importlib.import_module("datasets")
