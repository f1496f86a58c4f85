"""Folders and files as they travel between machines: a tar of plain files, folders, links and pipes, and nothing else.

Kept: what arrives is what was sent, by its sha256; nothing is written outside of the folder, nor through a link in it;
bytes alone are moved, and nothing is unpickled. Times are those of the file system that receives.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Collection
from pathlib import Path

from labwright.sandbox.safe_io import (
    MAX_ENTRIES,
    BadFile,
    create_file,
    iterate_entries,
    make_folder,
    open_parent,
    open_regular,
)

MAX_FILE_TIME = 2.0**60
"""Seconds since 1970 that a file may be from: code may set times that no call takes."""
CHUNK_BYTES = 8 * 2**20
"""Bytes that travel at once."""
MAX_INLINE_BYTES = 2**20
"""Bytes that travel with what is said of them."""


def pack_archive(
    folder: Path,
    target: Path,
    *,
    max_bytes: int,
    clock_shift: float = 0.0,
    excluded: Collection[str] = (),
    follow: Collection[Path] = (),
) -> None:
    """Write a folder (or one file) to a parcel, but for what is named at its top.

    `shift` is added to the times of files (seconds). Links into `follow` travel as what they point to. Raises `BadFile`
    where files hold more than `most` bytes, `OSError`.
    """
    size = 0
    root, entries = folder, iterate_entries(folder)
    if not folder.is_dir():
        root, entries = folder.parent, iter([(folder.name, folder.stat())])
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as parcel:
        for name, status in entries:
            if name.partition("/")[0] in excluded:
                continue
            place, inner = root, name
            if stat.S_ISLNK(status.st_mode):
                path = Path(os.path.realpath(root / name))  # of links in a circle too
                if any(path.is_relative_to(one) for one in follow) and path.is_file():
                    place, inner, status = path.parent, path.name, path.stat()
            info = _build_tar_info(name, root / name, status, clock_shift)
            if info is None:
                continue
            if not info.isreg():
                parcel.addfile(info)
                continue
            if (size := size + info.size) > max_bytes:
                raise BadFile(f"what it left holds more than {max_bytes / 1e9:g} GB (sandbox.disk_gb)")
            with open_regular(place, inner, max_bytes) as file:
                parcel.addfile(info, file)


def unpack_archive(source: Path, folder: Path, *, max_bytes: int = 2**62) -> None:
    """Put what a parcel holds into a folder, `most` bytes of it at most. Raises `BadFile`, `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    try:
        with tarfile.open(source, "r:") as parcel:
            for number, member in enumerate(parcel):
                size += member.size
                if size > max_bytes or number > MAX_ENTRIES:
                    raise BadFile(f"a parcel holds more than {max_bytes / 1e9:g} GB, or {MAX_ENTRIES} files")
                _extract_member(parcel, member, folder)
    except (tarfile.TarError, ArithmeticError, EOFError, LookupError, TypeError, ValueError) as error:
        raise BadFile(f"a parcel cannot be read: {error}") from error


def _build_tar_info(name: str, path: Path, status: os.stat_result, shift: float) -> tarfile.TarInfo | None:
    """None for what does not travel: sockets and devices, and what is gone."""
    info = tarfile.TarInfo(name)
    info.mtime, info.mode = (
        min(max(status.st_mtime + shift, -MAX_FILE_TIME), MAX_FILE_TIME),
        stat.S_IMODE(status.st_mode) & 0o777,
    )
    if stat.S_ISREG(status.st_mode):
        info.size = status.st_size
    elif stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif stat.S_ISFIFO(status.st_mode):
        info.type = tarfile.FIFOTYPE
    else:
        return None
    return info


def _extract_member(parcel: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Links to other members and devices are passed over."""
    if member.isdir():
        make_folder(folder, member.name)
        return
    with open_parent(folder, member.name) as (place, name):
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=place)
        elif member.isfifo():
            os.mkfifo(name, 0o600, dir_fd=place)
        elif member.isreg() and (content := parcel.extractfile(member)) is not None:
            with create_file(place, name) as file:
                shutil.copyfileobj(content, file)
                os.fchmod(file.fileno(), member.mode & 0o777 | 0o600)
                file.flush()
                os.utime(file.fileno(), (member.mtime, member.mtime))
