"""List and fingerprint the files of a user's folder without following links out of it."""

from __future__ import annotations

import hashlib
import importlib
import os
from pathlib import Path
from typing import Any

from labwright.sandbox.errors import DatasetError

_END_BYTES = 2**20
"""Bytes at the start and end of each file used for the fingerprint of a folder passed as a path."""


def list_files(folder: Path, root: Path) -> list[Path]:
    """Return all files under a folder, sorted, without hidden ones. Raises `DatasetError` for a link out of `root`."""

    def refuse(error: OSError) -> None:
        raise DatasetError(f"{error.filename} cannot be read: {error.strerror}")

    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        visible = [Path(parent, name) for name in (*folders, *names) if not name.startswith(".")]
        folders[:] = [name for name in folders if not name.startswith(".")]
        for link in filter(Path.is_symlink, visible):
            target = Path(os.path.realpath(link))
            if not target.is_file() or not target.is_relative_to(root.resolve()):
                raise DatasetError(
                    f"{link.relative_to(root)} is a link to a folder, to a missing file or out of the dataset's "
                    "folder: replace it with the file itself"
                )
        files += filter(Path.is_file, visible)
    return sorted(files)


def compute_fingerprint(path: Path, *, ends_only: bool = False) -> str:
    """Return the sha256 of a file's bytes, or of a folder's file names and bytes. Raises `DatasetError`.

    With `ends_only`, only the size, start and end of each file are read, for folders that may be very large.
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
    """Import pyarrow or one of its modules, such as "compute", on first use. It has no type annotations."""
    return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")


def import_datasets_library() -> Any:
    """Import the `datasets` library on first use."""
    return importlib.import_module("datasets")
