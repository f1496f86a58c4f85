"""Pack folders and unpack archives: a tar of plain files, folders, links and pipes only.

Guarantees: nothing is written outside the folder or through a link in it; nothing is unpickled.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Collection
from pathlib import Path

from labwright.record.untrusted_files import (
    MAX_ENTRIES,
    BadFile,
    create_file,
    iterate_entries,
    make_folder,
    open_parent,
    open_regular,
    raise_read_errors_as,
    read_link,
    read_status,
)

MAX_FILE_TIME = 2.0**60
"""Largest modification time in seconds since 1970; experiment code can set times that system calls reject."""
_TAR_TYPES = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}
"""Sockets and devices are not sent."""


def pack_archive(
    folder: Path, target: Path, *, max_bytes: int, clock_shift: float = 0.0, follow: Collection[Path] = ()
) -> None:
    """Write a folder (or one file) to an archive.

    `clock_shift` (seconds) is added to file times. Links into `follow` are replaced by their targets. Raises `BadFile`
    if the files contain more than `max_bytes`, and `OSError`.
    """
    size, root, entries = 0, folder, iterate_entries(folder)
    if not folder.is_dir():
        root, entries = folder.parent, iter([(folder.name, folder.stat())])
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, status in entries:
            if (kind := _TAR_TYPES.get(stat.S_IFMT(status.st_mode))) is None:
                continue
            info, place, inner = tarfile.TarInfo(name), root, name
            if kind == tarfile.SYMTYPE:
                info.linkname = read_link(root, name)
                for trusted in (one for one in follow if Path(info.linkname).is_relative_to(one)):
                    found = read_status(trusted, relative := os.path.relpath(info.linkname, trusted))
                    if found is not None and stat.S_ISREG(found.st_mode):
                        kind, place, inner, status = tarfile.REGTYPE, trusted, relative, found
            info.type, info.mode = kind, stat.S_IMODE(status.st_mode) & 0o777
            info.mtime = min(max(status.st_mtime + clock_shift, -MAX_FILE_TIME), MAX_FILE_TIME)
            if not info.isreg():
                archive.addfile(info)
                continue
            info.size, info.linkname = status.st_size, ""
            if (size := size + info.size) > max_bytes:
                raise BadFile(f"the output files exceed {max_bytes / 1e9:g} GB (sandbox.disk_gb)")
            with open_regular(place, inner, max_bytes) as file:
                archive.addfile(info, file)


def unpack_archive(source: Path, folder: Path, *, max_bytes: int = 2**62) -> None:
    """Extract an archive of at most `max_bytes` into a folder. Raises `BadFile`, `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    with raise_read_errors_as("the archive cannot be read"), tarfile.open(source, "r:") as archive:
        for number, member in enumerate(archive):
            size += member.size
            if size > max_bytes or number > MAX_ENTRIES:
                raise BadFile(f"the archive exceeds {max_bytes / 1e9:g} GB or {MAX_ENTRIES} files")
            _extract_member(archive, member, folder)


def _extract_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Extract one member; hard links and devices are skipped."""
    if member.isdir():
        if member.name != ".":
            make_folder(folder, member.name)
        return
    with open_parent(folder, member.name) as (parent, name):
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
        elif member.isfifo():
            os.mkfifo(name, 0o600, dir_fd=parent)
        elif member.isreg() and (content := archive.extractfile(member)) is not None:
            with create_file(parent, name) as file:
                shutil.copyfileobj(content, file)
                os.fchmod(file.fileno(), member.mode & 0o777 | 0o600)
                file.flush()
                os.utime(file.fileno(), (member.mtime, member.mtime))
