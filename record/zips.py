"""A run in a zip, as written by `scientist export --zip`, opened as a folder for reading.

Each process unpacks a zip once, into a private temporary folder that is removed when the process ends. Paths outside
the folder, special files, duplicate names and zips that unpack to far more than their size are rejected before anything
is written.

Limits: the folder is not removed if the process is killed, and the content is not verified (`scientist audit` does
that).
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
from contextlib import ExitStack, suppress
from lzma import LZMAError
from pathlib import Path

from labwright.record.errors import UsageError
from labwright.record.event_log import is_run

SUFFIX = ".zip"
NAME = re.compile(r"[^\\\x00-\x1f\x7f\ud800-\udfff]{1,1000}")
"""Matches file names that every system unpacks to the same name."""
INNER = "run-files.zip"
"""The only file of a small zip (`scientist export --small`): an inner zip that is opened instead."""
MAX_FILES = 500_000
MAX_RATIO = 200
"""Maximum average expansion factor of a zip; a run's logs shrink to a tenth."""
FREE_BYTES = 100 * 2**20
"""Unpacked size that is allowed for any zip."""
BLOCK = 1 << 20
DAMAGED = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)
"""Exceptions that zipfile raises for damaged or unsupported zips."""

_unpacked: dict[tuple[Path, int, int, int], Path] = {}


def is_zip(path: Path) -> bool:
    """Return whether a path is a zip file."""
    return path.suffix.lower() == SUFFIX and path.is_file()


def open_run_folder(path: Path) -> Path:
    """Return the folder of a run for reading: `path` itself, or the folder into which the zip at `path` is unpacked.

    Any other path is returned unchanged. Raises `UsageError` if a zip cannot be opened as a run.
    """
    if not is_zip(path):
        return path
    about = path.stat()
    key = (path.resolve(), about.st_ino, about.st_size, about.st_mtime_ns)
    if key not in _unpacked:
        _unpacked[key] = _unpack(path)
    return _unpacked[key]


def find_zip(folder: Path) -> Path:
    """Return the zip that this process unpacked into the folder of a run; any other folder is returned unchanged."""
    return next((key[0] for key, unpacked in _unpacked.items() if unpacked == folder), folder)


def refuse_zip(path: Path) -> None:
    """Raise `UsageError` for a zip, since commands that write to a run or continue it need a folder."""
    if is_zip(path):
        name, plain = shlex.quote(str(path)), f"{shlex.quote(path.stem)}-plain.zip"
        how = f"python3 -m zipfile -e {name} ."
        with suppress(OSError, *DAMAGED), zipfile.ZipFile(path) as packed:
            if packed.namelist() == [INNER]:
                how = f"scientist export {name} --zip {plain} --with-data && python3 -m zipfile -e {plain} ."
        raise UsageError(
            f"{path} is a read-only zip, but this command needs the folder of the run: unpack it "
            f"first ({how}), then give the folder"
        )


def _unpack(path: Path) -> Path:
    """Unpack the run in a zip into a folder that is removed when the process ends. Raises `UsageError`."""
    root = Path(tempfile.mkdtemp(prefix="scientist-run-")).resolve()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    try:
        with zipfile.ZipFile(path) as packed, ExitStack() as failed, tempfile.TemporaryFile() as whole:
            failed.callback(shutil.rmtree, root, ignore_errors=True)
            opened = packed
            if packed.namelist() == [INNER]:
                _check_room(path, root, packed.infolist())
                with packed.open(INNER) as source:
                    shutil.copyfileobj(source, whole, BLOCK)
                opened = zipfile.ZipFile(whole)
            folder = _unpack_members(path, opened, root)
            failed.pop_all()
            return folder
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "free disk space, or set TMPDIR to a folder with more" if full else "give a readable file"
        raise UsageError(f"cannot unpack {path} ({error.strerror or error}): {fix}") from None
    except DAMAGED as error:
        raise _refused(path, f"it is damaged ({' '.join(str(error).split())[:200]})") from None


def _unpack_members(path: Path, packed: zipfile.ZipFile, root: Path) -> Path:
    """Write the files of a zip under `root` and return the run's folder. Raises `UsageError`, and zipfile's
    exceptions."""
    members = _check_members(path, packed.infolist())
    _check_room(path, root, members)
    root /= path.stem  # without a top-level folder, the run is named after the zip
    root.mkdir()
    for member in members:
        target = root / member.filename
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(member) as source, open(target, "xb") as made:
                shutil.copyfileobj(source, made, BLOCK)
        except (FileExistsError, NotADirectoryError):
            raise _refused(path, f"{member.filename!r} occurs twice in it") from None
    found = [one for one in (root, *sorted(root.iterdir())) if is_run(one)]
    if len(found) != 1:
        raise _refused(path, "it contains several runs" if found else "it contains no run (no events.jsonl)")
    return found[0]


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the files of a zip. Raises `UsageError` if one of them must not be unpacked."""
    if len(members) > MAX_FILES:
        raise _refused(path, f"it has {len(members)} files, more than {MAX_FILES}")
    for member in members:
        name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
        is_inside = {"", ".", ".."}.isdisjoint(name.removesuffix("/").split("/"))
        if not NAME.fullmatch(name) or not is_inside or kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused(path, f"{name[:120]!r} in it is not the name of a plain file inside it")
    return [member for member in members if not member.is_dir()]


def _check_room(path: Path, root: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Check the unpacked size of a zip. Raises `UsageError` if it is implausible, `OSError` if the disk is too
    small."""
    size, packed = sum(member.file_size for member in members), path.stat().st_size
    if size > max(FREE_BYTES, MAX_RATIO * packed):
        sizes = f"{packed / 1e6:.1f} MB would unpack to {size / 1e6:.0f} MB"
        raise _refused(path, f"{sizes}, which is implausible for a run")
    if size > shutil.disk_usage(root).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} cannot be opened as a run: {why}; create it with scientist export RUN --zip FILE")
