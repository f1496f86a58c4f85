"""Folders and files as they travel between machines: a tar of plain files, folders, links and pipes, and nothing else.

Kept: what arrives is what was sent, by its sha256; nothing is written outside of the folder, nor through a link in it;
bytes alone are moved, and nothing is unpickled. Times are those of the clock of the machine that receives.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path

from sandbox.untrusted import BadFile, inside

CHUNK = 8 * 2**20
"""Bytes that travel at once."""
SMALL = 2**20
"""Bytes that travel with what is said of them."""


def pack(
    folder: Path, target: Path, *, most: int, shift: float = 0.0, without: Collection[str] = (),
    follow: Collection[Path] = (),
) -> None:
    """Write a folder (or one file) to a parcel, but for what is named at its top.

    `shift` is added to the times of files (seconds). Links into `follow` travel as what they point to. Raises `BadFile`
    where files hold more than `most` bytes, `OSError`.
    """
    size = 0
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as parcel:
        for name, path in _all(folder, without):
            if path.is_symlink() and any(path.resolve().is_relative_to(one) for one in follow):
                path = path.resolve()
            info = _about(name, path, shift)
            if info is None:
                continue
            if not info.isreg():
                parcel.addfile(info)
                continue
            if (size := size + info.size) > most:
                raise BadFile(f"what it left holds more than {most / 1e9:g} GB (sandbox.disk_gb)")
            with open(path, "rb") as file:
                parcel.addfile(info, file)


def unpack(source: Path, folder: Path) -> None:
    """Put what a parcel holds into a folder. Raises `BadFile`, `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(source, "r") as parcel:
            for member in parcel:
                _place(parcel, member, inside(folder, member.name))
    except tarfile.TarError as error:
        raise BadFile(f"a parcel cannot be read: {error}") from error


def _all(folder: Path, without: Collection[str]) -> Iterator[tuple[str, Path]]:
    if not folder.is_dir():
        yield folder.name, folder
        return
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted((*folders, *names)):
            path = Path(place, name)
            relative = path.relative_to(folder)
            if relative.parts[0] not in without:
                yield str(relative), path


def _about(name: str, path: Path, shift: float) -> tarfile.TarInfo | None:
    """None for what does not travel: sockets and devices, and what is gone."""
    status = path.lstat()
    info = tarfile.TarInfo(name)
    info.mtime, info.mode = status.st_mtime + shift, stat.S_IMODE(status.st_mode) & 0o777
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


def _place(parcel: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        os.symlink(member.linkname, path)
    elif member.isfifo():
        os.mkfifo(path, 0o600)
    elif (content := parcel.extractfile(member)) is not None:
        with open(path, "xb") as file:
            shutil.copyfileobj(content, file)
        path.chmod(member.mode & 0o777 | 0o600)
        os.utime(path, (member.mtime, member.mtime))
