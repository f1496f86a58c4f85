"""Send folders and files to another machine by Ray's object store.

Guarantees: what arrives is verified by its sha256. File times are those of the receiving file system.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from labwright.record.untrusted_files import BadFile, remove_tree
from labwright.sandbox.archives import pack_archive, unpack_archive
from labwright.sandbox.cluster.machines import import_ray

_CHUNK_BYTES = 32 * 2**20
"""Bytes per object of Ray's object store."""
_INLINE_BYTES = 2**16
"""A smaller part travels in the message itself."""


class SentFolder(NamedTuple):
    """A folder, or a folder with one file."""

    parts: list[Any]
    """The parts of an archive, by reference to the object store unless they are small."""
    sha256: str
    """Hash of the whole archive."""
    file: str
    """Name of the file; empty for a folder."""


def send_folder(folder: Path, scratch: Path, *, max_bytes: int = 2**60, **options: Any) -> SentFolder:
    """Put a folder or file into the object store; `options` are those of `pack_archive`. `scratch` is a folder for
    temporary files. Raises `BadFile`, `OSError`, `RayError`."""
    ray, parts, digest = import_ray(), list[Any](), hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=scratch) as archive:
        pack_archive(folder, Path(archive.name), max_bytes=max_bytes, **options)
        while part := archive.read(_CHUNK_BYTES):
            digest.update(part)
            parts.append(part if len(part) < _INLINE_BYTES else ray.put(part))
    return SentFolder(parts, digest.hexdigest(), "" if folder.is_dir() else folder.name)


def receive_folder(sent: SentFolder, folder: Path, scratch: Path, *, max_bytes: int = 2**62) -> None:
    """Replace a folder by what was sent. Raises `BadFile`, also if it was damaged on the way, `OSError`, `RayError`."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=scratch) as archive:
        for reference in sent.parts:
            part: bytes = reference if isinstance(reference, bytes) else import_ray().get(reference)
            digest.update(part)
            archive.write(part)
        archive.flush()
        if digest.hexdigest() != sent.sha256:
            raise BadFile("the archive was damaged on the way")
        remove_tree(folder)
        unpack_archive(Path(archive.name), folder, max_bytes=max_bytes)
