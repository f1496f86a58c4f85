"""A run in a zip, as `scientist export --zip` writes it, opened as a folder for whoever only reads.

A zip is unpacked once in a process, into a private temporary folder that is removed when the process ends. What would
lie outside of it, what is no plain file, a name that stands twice and a zip that unpacks to far more than its size are
refused before anything is written.

What it does not guarantee: that the folder is removed when the process is killed, or that what is in the zip is as it
was recorded (`scientist audit` says that).
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import shlex
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from labwright.record.errors import UsageError
from labwright.record.log_reader import is_run

SUFFIX = ".zip"
NAME = re.compile(r"[^\\\x00-\x1f\x7f\ud800-\udfff]+")
"""Names of files that every system unpacks to one file of that name."""
INNER = "run-files.zip"
"""The only file of a small zip (`scientist export --small`): a zip that is opened in its place."""
MAX_FILES = 500_000
MAX_RATIO = 200
"""Bytes that a byte of a zip may unpack to, on average; logs of a run shrink to a tenth."""
FREE_BYTES = 100 * 2**20
"""Bytes that any zip may unpack to."""
BLOCK = 1 << 20
DAMAGED = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)
"""What zipfile raises over bytes that are no zip, or one of a kind that it does not know."""

_unpacked: dict[tuple[Path, int, int, int], Path] = {}


def is_zip(path: Path) -> bool:
    """Whether a path names a file that is opened as a zip."""
    return path.suffix.lower() == SUFFIX and path.is_file()


def open_run_folder(path: Path) -> Path:
    """The folder of a run that is only read: `path` itself, or where the zip at `path` is unpacked.

    What is neither is returned as it is. Raises `WrongUse` where a zip cannot be opened as a run.
    """
    if not is_zip(path):
        return path
    about = path.stat()
    key = (path.resolve(), about.st_ino, about.st_size, about.st_mtime_ns)
    if key not in _unpacked:
        _unpacked[key] = _unpack(path)
    return _unpacked[key]


def refuse_zip(path: Path) -> None:
    """Raises `WrongUse` for a zip: what writes into a run, or goes on from it, needs its folder."""
    if is_zip(path):
        name, plain = shlex.quote(str(path)), f"{shlex.quote(path.stem)}-plain.zip"
        how = f"unzip {name}"
        if _is_small(path):
            how = f"scientist export {name} --zip {plain} --with-data && unzip {plain}"
        raise UsageError(
            f"{path} is a zip, which can only be looked at, and this command needs the folder of the run: unpack it "
            f"first ({how}), then give the folder"
        )


def _is_small(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as packed:
            return packed.namelist() == [INNER]
    except (OSError, *DAMAGED):
        return False


def _unpack(path: Path) -> Path:
    """The folder of the run in a zip, which is removed when the process ends. Raises `WrongUse`."""
    try:
        with zipfile.ZipFile(path) as packed:
            members = _check_members(path, packed.infolist())
            root = Path(tempfile.mkdtemp(prefix="scientist-run-")).resolve()
            atexit.register(shutil.rmtree, root, ignore_errors=True)
            try:
                _check_room(path, root, members)
                if [one.filename for one in members] != [INNER]:
                    return _unpack_members(path, packed, members, root)
                with tempfile.TemporaryFile(dir=root) as whole:
                    with packed.open(members[0]) as source:
                        shutil.copyfileobj(source, whole, BLOCK)
                    with zipfile.ZipFile(whole) as inner:
                        members = _check_members(path, inner.infolist())
                        _check_room(path, root, members)
                        return _unpack_members(path, inner, members, root)
            except BaseException:
                shutil.rmtree(root, ignore_errors=True)
                raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "free disk space, or set TMPDIR to a folder with more" if full else "give a file that can be read"
        raise UsageError(f"cannot unpack {path} ({error.strerror or error}): {fix}") from None
    except DAMAGED as error:
        raise _refused(path, f"it is damaged ({' '.join(str(error).split())[:200]})") from None


def _unpack_members(path: Path, packed: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo], root: Path) -> Path:
    """Write the files of a zip below `root`; returns the folder of the run. Raises `WrongUse`, and as zipfile does."""
    for member in members:
        target = root / member.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        with packed.open(member) as source, open(target, "xb") as made:
            shutil.copyfileobj(source, made, BLOCK)
    found = [one for one in (root, *sorted(root.iterdir())) if is_run(one)]
    if len(found) != 1:
        raise _refused(path, "it holds several runs" if found else "it holds no run (no run.db in its folder)")
    # packed without its folder, the run is called as the zip is
    return _move_into(root, root / path.stem) if found[0] == root else found[0]


def _move_into(root: Path, folder: Path) -> Path:
    """Move what lies in a folder into a new one below it."""
    inside = [*root.iterdir()]
    draft = Path(tempfile.mkdtemp(dir=root))
    for one in inside:
        one.rename(draft / one.name)
    draft.rename(folder)
    return folder


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """The files of a zip. Raises `WrongUse` for one that is not to be unpacked."""
    if len(members) > MAX_FILES:
        raise _refused(path, f"it has {len(members)} files, more than {MAX_FILES}")
    files: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
        parts = name.removesuffix("/").split("/")
        shown = repr(name[:120])
        if NAME.fullmatch(name) is None or {"", ".", ".."} & set(parts) or PurePosixPath(name).is_absolute():
            raise _refused(path, f"the name {shown} in it leads elsewhere")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused(path, f"{shown} in it is a link, or no plain file")
        if member.flag_bits & 1:
            raise _refused(path, f"{shown} in it is encrypted")
        if member.is_dir():
            continue
        if name in files:
            raise _refused(path, f"{shown} is in it twice")
        files[name] = member
    folders = {
        "/".join(parts[:depth]) for parts in (name.split("/") for name in files) for depth in range(1, len(parts))
    }
    if both := sorted(folders & files.keys()):
        raise _refused(path, f"{both[0]!r} is in it twice, as a file and as a folder")
    return [*files.values()]


def _check_room(path: Path, root: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raises `WrongUse` where a zip unpacks to more than can be meant, or than there is room for."""
    size, packed = sum(member.file_size for member in members), path.stat().st_size
    if size > max(FREE_BYTES, MAX_RATIO * packed):
        raise _refused(path, f"{packed / 1e6:.1f} MB unpack to {size / 1e6:.0f} MB, which no run does")
    if size > shutil.disk_usage(root).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} cannot be opened as a run: {why}; make it with scientist export RUN --zip FILE")
