"""Reading and writing in a folder that untrusted code could write to.

Kept: no read follows a symbolic link out of the folder, blocks on a pipe or takes in more than a limit; no write goes
through a link that the code planted. Not kept: a process that outlived its kernel could still swap files under us.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader
from lzma import LZMAError
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from record.folder import open_regular as open_plain
from record.unexpected import of_machine
from sandbox.errors import SandboxError, SubmissionRefused

FILE_BYTES = 256 * 2**20
"""Largest file (an array, a submission, measurements) that is read: a few of them must fit into our memory at once."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")

_ODD = (ArithmeticError, AttributeError, EOFError, LookupError, LZMAError, MemoryError, OSError, RuntimeError,
        SyntaxError, TokenError, TypeError, ValueError, zipfile.BadZipFile, zlib.error)
"""What libraries raise over bytes that are not what they say: numpy parses its headers as Python, archives nest."""


class BadFile(SubmissionRefused):
    """The code left a file that cannot be read. The executor turns it into the failure of the attempt."""


@contextmanager
def read_as(words: str, into: type[SandboxError] = BadFile, *more: type[Exception]) -> Generator[None]:
    """While inside, what a library raises over odd bytes (and `more`) is raised as `into`, beginning with these words.

    What fails by our own disk or system passes as it is.
    """
    try:
        yield
    except SandboxError:
        raise
    except (*_ODD, *more) as error:
        if of_machine(error):
            raise
        raise into(f"{words} ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error


def open_regular(folder: Path, relative: str, limit: int) -> BufferedReader:
    """The open file. Raises `BadFile` where it is no plain file in the folder or holds more than `limit` bytes."""
    try:
        file = os.fdopen(open_plain(inside(folder, relative)), "rb")
    except OSError as error:
        if of_machine(error):
            raise
        raise BadFile(f"{relative} cannot be read: {error.strerror}") from error
    if (size := os.fstat(file.fileno()).st_size) <= limit:
        return file
    file.close()
    raise BadFile(f"{relative} holds {size} bytes, more than the limit of {limit}")


def load_array(path: Path) -> NDArray[Any]:
    """A numeric array on disk, mapped into memory. Raises `BadFile` for what is none."""
    with read_as(f"{path.name} is not an array that numpy can read"), np.errstate(over="raise"):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def read_lines(folder: Path, relative: str, limit: int) -> list[bytes]:
    """The lines of a file that is not empty, none where there is no file. Raises `BadFile`."""
    if not os.path.lexists(folder / relative):
        return []
    with open_regular(folder, relative, limit) as file:
        return [line for line in file.read().splitlines() if line.strip()]


def names_in(folder: Path, relative: str, ending: str) -> list[str]:
    """Sorted names of that ending in a sub-folder, none where there is no such folder. Raises `BadFile`."""
    place = inside(folder, f"{relative}/x").parent
    if not place.is_dir():
        return []
    names = sorted(name for name in os.listdir(place) if name.endswith(ending) and not name.startswith("."))
    for name in names:
        if not NAME.fullmatch(name):
            raise BadFile(f"{relative}/ holds a file named {name!r}: use letters, digits and _ . - only")
    return names


def write_whole(folder: Path, relative: str, content: str | bytes) -> None:
    """Write a file whole or not at all; replaces whatever stands in its place. Raises `BadFile`, `OSError`."""
    path = inside(folder, relative)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    remove(folder, str(part.relative_to(folder)))
    part.write_bytes(content.encode("utf-8", errors="replace") if isinstance(content, str) else content)
    os.replace(part, path)


def remove(folder: Path, relative: str) -> None:
    """Make sure that nothing stands there: a file, a folder or a link (not what it points to)."""
    path = inside(folder, relative)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def disarm(folder: Path) -> None:
    """Make what the code left harmless and ours to read and remove.

    Set-user-id and set-group-id bits go: run as us, a file with them would make others us. Folders that it locked are
    opened again.
    """
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                path.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
            elif stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                path.chmod(stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))


def inside(folder: Path, relative: str) -> Path:
    """The path below the folder. Raises `BadFile` where it leads out of it, by `..` or by a linked folder."""
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts:
        raise BadFile(f"{relative!r} does not name a file in the folder")
    for depth in range(1, len(parts)):
        if folder.joinpath(*parts[:depth]).is_symlink():
            raise BadFile(f"{'/'.join(parts[:depth])} is a symbolic link")
    return folder.joinpath(*parts)
