"""Access to folders that untrusted code can write to: reading, writing, moving and removing, all by descriptor.

A folder is given as `OpenFolder`, or as a path with only its last component untrusted.

Guarantees: no symbolic link is followed, including the folder itself, no matter what the code renames in the meantime;
no read blocks on a pipe or exceeds a limit. Problems caused by the code raise `BadFile`, the failure of its attempt;
problems of the host's disk or system raise `OSError`. Limits: a file may change while a process of the code is still
running.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import weakref
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from lzma import LZMAError
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.folder_descriptors import open_folder, remove_at, set_mode, unlock_folder
from labwright.record.internal_errors import is_machine_error
from labwright.record.run_folder import open_regular as open_record_file
from labwright.sandbox.errors import SandboxError, SubmissionRefused

MAX_FILE_BYTES = 256 * 2**20
"""Size limit of a file that is read (an array, a submission, measurements): a few of them must fit into memory."""
MAX_LINES, MAX_LINE_BYTES = 1_000_000, 100_000
"""Maximum number of lines, and bytes per line, of a file: each line becomes a larger Python object."""
MAX_ENTRIES, MAX_DEPTH = 1_000_000, 100
"""Maximum number of files and folders, and nesting depth, below a folder."""
FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")

_LIBRARY_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    LZMAError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TokenError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors that libraries raise for malformed files: numpy parses its headers as Python, archives may be nested."""


class BadFile(SubmissionRefused):
    """The code left a file that cannot be read. The executor turns this into the failure of the attempt."""


@contextmanager
def raise_read_errors_as(
    message: str, error_type: type[SandboxError] = BadFile, *more: type[Exception]
) -> Generator[None]:
    """Convert errors that libraries raise for malformed data (and `more`) to `error_type`, with `message` as prefix.

    Errors of the host's disk or system are re-raised unchanged.
    """
    try:
        yield
    except SandboxError:
        raise
    except (*_LIBRARY_ERRORS, *more) as error:
        if is_machine_error(error):
            raise
        raise error_type(f"{message} ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error


class OpenFolder:
    """A folder created by the host, identified by its descriptor, even if another folder takes its name."""

    def __init__(self, path: Path) -> None:
        self.descriptor = open_folder(path)
        weakref.finalize(self, os.close, self.descriptor)

    def is_at(self, name: str | Path, folder_fd: int | None = None) -> bool:
        """Return whether this name belongs to the folder itself rather than to a link."""
        with suppress(OSError):
            return os.path.samestat(os.stat(name, dir_fd=folder_fd, follow_symlinks=False), os.fstat(self.descriptor))
        return False

    def unlock(self) -> None:
        """Restore the host's permissions to read, change and move a file or folder."""
        unlock_folder(self.descriptor)


FolderRef = Path | OpenFolder


@contextmanager
def open_subfolder(folder: FolderRef, *names: str, make: bool = False, unlock: bool = False) -> Generator[int]:
    """Open a folder, or the subfolder that `names` specifies, and yield its descriptor. With `make`, create
    missing folders.

    Raises `BadFile`, `FileNotFoundError`, and `OSError` for errors of the host.
    """
    if isinstance(folder, OpenFolder):
        place = os.dup(folder.descriptor)
    else:
        with raise_as_bad_file(folder.name, None, str(folder)):
            place = open_folder(folder, unlock=unlock)
    try:
        for depth, name in enumerate(names, start=1):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=place)
            with raise_as_bad_file("/".join(names[:depth]), place, name):
                inner = open_folder(name, place, unlock=unlock)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


@contextmanager
def raise_as_bad_file(what: str, folder_fd: int | None = None, name: str = "") -> Generator[None]:
    """Convert errors that the code caused to `BadFile`; `FileNotFoundError` and errors of the host are re-raised."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_machine_error(error):
            raise
        link = name and stat.S_ISLNK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
        raise BadFile(f"{what} is a symbolic link" if link else f"{what} cannot be read: {error.strerror}") from error


def open_regular(folder: FolderRef, relative: str, limit: int) -> BufferedReader:
    """Open a plain file in the folder. Raises `BadFile` if it is not one, or has more than `limit` bytes."""
    *above, name = _split_path(relative)
    try:
        with open_subfolder(folder, *above) as place, raise_as_bad_file(relative):
            file = os.fdopen(open_record_file(name, place), "rb")
    except FileNotFoundError as error:
        raise BadFile(f"{relative} cannot be read: {error.strerror}") from error
    if (size := os.fstat(file.fileno()).st_size) <= limit:
        return file
    file.close()
    raise BadFile(f"{relative} has {size} bytes, more than the limit of {limit}")


def load_array(folder: FolderRef, relative: str) -> NDArray[Any]:
    """Load a numeric array. Raises `BadFile` if the file is not one."""
    with (
        raise_read_errors_as(f"{relative} is not an array that numpy can read"),
        np.errstate(over="raise"),
        open_regular(folder, relative, MAX_FILE_BYTES) as file,
    ):
        return np.load(file, allow_pickle=False)


def path_exists(folder: FolderRef, relative: str) -> bool:
    """Whether a file, folder or link with that name exists."""
    *above, name = _split_path(relative)
    try:
        with open_subfolder(folder, *above) as place:
            os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def read_file(folder: FolderRef, relative: str, limit: int) -> bytes:
    """Return the content of a file; empty if it does not exist. Raises `BadFile`."""
    if not path_exists(folder, relative):
        return b""
    with open_regular(folder, relative, limit) as file:
        return file.read()


def read_lines(folder: FolderRef, relative: str, limit: int, *, max_lines: int = MAX_LINES) -> list[bytes]:
    """Return the non-empty lines of a file; none if it does not exist. Raises `BadFile`."""
    if not path_exists(folder, relative):
        return []
    lines: list[bytes] = []
    with open_regular(folder, relative, limit) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise BadFile(f"{relative} has a line of more than {MAX_LINE_BYTES} bytes")
            if line := line.strip():
                lines.append(line)
            if len(lines) > max_lines:
                raise BadFile(f"{relative} has more than {max_lines} lines")
    return lines


def list_names(folder: FolderRef, relative: str, ending: str) -> list[str]:
    """Return the sorted names with that ending in a folder or subfolder; none if it does not exist. Raises
    `BadFile`."""
    try:
        with open_subfolder(folder, *(_split_path(relative) if relative else ())) as place:
            listed = os.listdir(place)
    except FileNotFoundError:
        return []
    names = sorted(name for name in listed if name.endswith(ending) and not name.startswith("."))
    if len(names) > MAX_ENTRIES:
        raise BadFile(f"{relative}/ contains more than {MAX_ENTRIES} files")
    for name in names:
        if not FILE_NAME_PATTERN.fullmatch(name):
            raise BadFile(f"{relative}/ contains a file named {name!r}: use only letters, digits and _ . -")
    return names


def list_folders(folder: FolderRef, relative: str) -> list[str]:
    """Return the sorted names of the folders in a subfolder, without links; none if it does not exist.

    Raises `BadFile`.
    """
    try:
        with open_subfolder(folder, *_split_path(relative)) as place:
            return sorted(
                name
                for name in os.listdir(place)
                if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
            )
    except FileNotFoundError:
        return []


def iterate_entries(folder: FolderRef, relative: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield relative path and status of everything below a folder or subfolder, sorted, parents first.

    Yields nothing if it does not exist. Raises `BadFile`, including when there are more than `MAX_ENTRIES` entries or
    `MAX_DEPTH` levels.
    """
    count = 0

    def inner(place: int, above: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        nonlocal count
        for name in sorted(os.listdir(place)):
            count += 1
            if count > MAX_ENTRIES:
                raise BadFile(f"more than {MAX_ENTRIES} files and folders were written: pack them into one archive")
            status = os.stat(name, dir_fd=place, follow_symlinks=False)
            yield f"{above}{name}", status
            if stat.S_ISDIR(status.st_mode):
                if depth == MAX_DEPTH:
                    raise BadFile(f"folders are nested more than {MAX_DEPTH} deep")
                with raise_as_bad_file(f"{above}{name}", place, name):
                    below = open_folder(name, place)
                try:
                    yield from inner(below, f"{above}{name}/", depth + 1)
                finally:
                    os.close(below)

    with suppress(FileNotFoundError), open_subfolder(folder, *(_split_path(relative) if relative else ())) as top:
        yield from inner(top, "", 1)


def make_folder(folder: FolderRef, relative: str) -> None:
    """Create a folder and its parents unless they exist. Raises `BadFile`, `OSError`."""
    with ensure_folder(folder), open_subfolder(folder, *_split_path(relative), make=True):
        pass


def write_file(folder: FolderRef, relative: str, content: str | bytes) -> None:
    """Write a file atomically, replacing any file with that name. Raises `BadFile`, `OSError`."""
    data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
    with open_parent(folder, relative) as (place, name), create_file(place, name) as file:
        file.write(data)


def copy_file(folder: FolderRef, relative: str, target: FolderRef, target_name: str, limit: int) -> str:
    """Copy a plain file and return its sha256. Raises `BadFile`, `OSError`."""
    with (
        open_regular(folder, relative, limit) as file,
        open_parent(target, target_name) as (place, name),
        create_file(place, name) as copy,
    ):
        shutil.copyfileobj(file, copy)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def link_file(folder: FolderRef, relative: str, target: FolderRef, target_name: str) -> None:
    """Make a plain file available under a second name, by a hard link if possible, otherwise a copy.

    Nothing is replaced. Raises `BadFile`, including when the name is taken; `OSError`.
    """
    *above, name = _split_path(relative)
    with open_subfolder(folder, *above) as source, open_parent(target, target_name) as (place, other):
        os.close(open_record_file(name, source))
        try:
            os.link(name, other, src_dir_fd=source, dst_dir_fd=place, follow_symlinks=False)
        except FileExistsError:
            raise BadFile(f"{target_name} was written by two cells") from None
        except OSError:
            copy_file(folder, relative, target, target_name, 2**62)


def move_path(folder: FolderRef, relative: str, target: FolderRef, target_name: str) -> None:
    """Move a file or folder. Raises `BadFile`, `OSError`."""
    *above, name = _split_path(relative)
    with open_subfolder(folder, *above) as source, open_parent(target, target_name) as (place, other):
        os.rename(name, other, src_dir_fd=source, dst_dir_fd=place)


def remove_path(folder: FolderRef, relative: str) -> None:
    """Remove a file, folder or link (not its target), if it exists. Raises `BadFile`, `OSError`."""
    *above, name = _split_path(relative)
    with suppress(FileNotFoundError), open_subfolder(folder, *above) as place:
        remove_at(name, place)


def make_harmless(folder: FolderRef, *, only_plain: bool = False) -> None:
    """Make files that code wrote safe for the host to read, move and remove.

    Set-user-id and set-group-id bits are removed, since such a file would give others the host user's rights. Locked
    folders are made accessible, and with `only_plain` everything but files and folders is removed. Raises `BadFile` if
    folders are nested too deeply; deeper ones are removed.
    """
    if isinstance(folder, OpenFolder):
        folder.unlock()
    with suppress(FileNotFoundError), open_subfolder(folder, unlock=True) as place:
        if not _make_harmless(place, 1, plain=only_plain):
            raise BadFile(f"folders are nested more than {MAX_DEPTH} deep")


def _make_harmless(place: int, depth: int, *, plain: bool) -> bool:
    whole = True
    for name in os.listdir(place):
        with suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=place, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                if mode & (stat.S_ISUID | stat.S_ISGID):
                    set_mode(name, stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID), place)
            elif not stat.S_ISDIR(mode):
                if plain:
                    remove_at(name, place)
            elif depth == MAX_DEPTH:
                remove_at(name, place)
                whole = False
            else:
                with raise_as_bad_file(name, place, name):
                    inner = open_folder(name, place, unlock=True)
                try:
                    whole = _make_harmless(inner, depth + 1, plain=plain) and whole
                finally:
                    os.close(inner)
    return whole


def count_bytes(folder: Path) -> int:
    """Return the bytes on disk below a folder; a file with several names counts once per name.

    Raises `BadFile` if there are too many files or folders are nested too deep.
    """
    count = 0

    def inner(place: int, depth: int) -> int:
        nonlocal count
        total = 0
        with os.scandir(place) as entries:
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:  # files may be empty, so disk space does not limit their number
                    raise BadFile(f"there are more than {MAX_ENTRIES} files and folders")
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    total += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        if depth == MAX_DEPTH:
                            raise BadFile(f"folders are nested more than {MAX_DEPTH} deep")
                        below = open_folder(entry.name, place)
                        try:
                            total += inner(below, depth + 1)
                        finally:
                            os.close(below)
        return total

    with suppress(OSError), open_subfolder(folder) as top:
        return inner(top, 1)
    return 0


@contextmanager
def open_parent(folder: FolderRef, relative: str) -> Generator[tuple[int, str]]:
    """Yield a descriptor of the parent folder of a new entry, and the entry's name. Raises `BadFile`, `OSError`."""
    *above, name = _split_path(relative)
    with ensure_folder(folder), open_subfolder(folder, *above, make=True) as place:
        yield place, name


@contextmanager
def ensure_folder(folder: FolderRef) -> Generator[None]:
    """Create the folder if it is a path that does not exist, and convert errors inside the block to `BadFile`."""
    name = folder.name if isinstance(folder, Path) else "its folder"
    try:
        with raise_as_bad_file(name):
            if isinstance(folder, Path):
                folder.mkdir(parents=True, exist_ok=True)
            yield
    except FileNotFoundError as error:
        raise BadFile(f"{name} cannot be written to: {error.strerror}") from error


@contextmanager
def create_file(folder_fd: int, name: str) -> Generator[BufferedWriter]:
    """Create a file that gets its name in the open folder on exit, replacing any file with that name."""
    part = f".{name[:100]}.{secrets.token_hex(8)}.part"
    try:
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder_fd),
            "wb",
        ) as file:
            if (mode := stat.S_IMODE(os.fstat(file.fileno()).st_mode)) & 0o600 != 0o600:  # caused by the umask
                os.fchmod(file.fileno(), mode | 0o600)
            yield file
        if stat.S_ISDIR(_read_mode(name, folder_fd)):
            remove_at(name, folder_fd)
        os.replace(part, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        remove_at(part, folder_fd)
        raise


def _read_mode(name: str, place: int) -> int:
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=place, follow_symlinks=False).st_mode
    return 0


def resolve_inside(folder: Path, relative: str) -> Path:
    """Return a path in a folder to which code can no longer write.

    Raises `BadFile` if it leads outside, by `..` or by a linked folder.
    """
    parts = _split_path(relative)
    for depth in range(1, len(parts)):
        if folder.joinpath(*parts[:depth]).is_symlink():
            raise BadFile(f"{'/'.join(parts[:depth])} is a symbolic link")
    return folder.joinpath(*parts)


def _split_path(relative: str) -> tuple[str, ...]:
    """Split a path inside a folder into its names. Raises `BadFile` if it leads outside."""
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts:
        raise BadFile(f"{relative!r} is not a path inside the folder")
    return parts
