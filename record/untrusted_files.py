"""The host's only access to what untrusted code can write to: folders of cells, checkouts, archives, results.

A folder is given as `OpenFolder`, or as a path whose last component alone is untrusted.

Guarantees: no symbolic link is followed in any component, the folder itself included, and nothing outside the folder
is reached, no matter what the code renames or links in the meantime; no read blocks on a pipe or exceeds a limit.
Problems that the code caused raise `BadFile`, the failure of its attempt; problems of the host's disk or system raise
`OSError`. Limits: a process of the code that is still running can change files through its own descriptors.

Source: openat(2), "Rationale for openat() and other directory file descriptor APIs".
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BufferedReader, BufferedWriter, BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from labwright.record.errors import SandboxError, SubmissionRefused
from labwright.record.internal_errors import is_machine_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_FILE_BYTES = 256 * 2**20
"""Size limit of a file that is read (an array, a submission, measurements): a few of them must fit into memory."""
MAX_HASHED_BYTES = 2**40
"""Size limit of a file that is only hashed."""
MAX_LINES, MAX_LINE_BYTES = 1_000_000, 100_000
"""Maximum number of lines, and bytes per line, of a file: each line becomes a larger Python object."""
MAX_ENTRIES, MAX_DEPTH = 1_000_000, 100
"""Maximum number of files and folders, and nesting depth, below a folder."""
FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEFAULT_ACL_ATTRIBUTE = "system.posix_acl_default"
"""Default access rights for files created in a folder, including the owner's."""
_MAX_REMOVAL_PASSES = 100_000
"""Maximum number of passes before giving up because a process keeps creating folders."""


class BadFile(SubmissionRefused):
    """The code left a file that cannot be read. The executor turns this into the failure of the attempt."""


@contextmanager
def raise_read_errors_as(message: str, error_type: type[SandboxError] = BadFile) -> Generator[None]:
    """Convert errors that libraries raise for malformed data, which are of any type, to `error_type`, with `message` as
    prefix.

    Errors of the host's disk or system are re-raised unchanged.
    """
    try:
        yield
    except SandboxError:
        raise
    except Exception as error:
        if is_machine_error(error):
            raise
        raise error_type(f"{message} ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error


# --- folders ----------------------------------------------------------------------------------------------------------


class OpenFolder:
    """A folder created by the host, identified by its descriptor, even if another folder takes its name."""

    def __init__(self, path: Path) -> None:
        self.descriptor = _open_folder(path)
        weakref.finalize(self, os.close, self.descriptor)

    def is_at(self, name: str | Path, folder_fd: int | None = None) -> bool:
        """Return whether this name belongs to the folder itself rather than to a link."""
        with suppress(OSError):
            return os.path.samestat(os.stat(name, dir_fd=folder_fd, follow_symlinks=False), os.fstat(self.descriptor))
        return False


FolderRef = Path | OpenFolder


@contextmanager
def open_subfolder(
    folder: FolderRef, relative: str = "", *, make: bool = False, unlock: bool = False
) -> Generator[int]:
    """Open a folder or one of its subfolders and yield its descriptor. With `make`, create missing folders; with
    `unlock`, restore the host's permissions on each.

    Raises `BadFile`, `FileNotFoundError`, and `OSError` for errors of the host.
    """
    names = _split_path(relative) if relative else ()
    if isinstance(folder, OpenFolder):
        place = os.dup(folder.descriptor)
    else:
        with _raise_as_bad_file(folder.name, None, str(folder)):
            place = _open_folder(folder, unlock=unlock)
    try:
        for depth, name in enumerate(names, start=1):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=place)
            with _raise_as_bad_file("/".join(names[:depth]), place, name):
                inner = _open_folder(name, place, unlock=unlock)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _split_path(relative: str) -> tuple[str, ...]:
    """Split a path inside a folder into its names. Raises `BadFile` if it leads outside."""
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts or "\0" in relative:
        raise BadFile(f"{relative!r} is not a path inside the folder")
    return parts


def _open_folder(name: str | Path, parent_fd: int | None = None, *, unlock: bool = False) -> int:
    """Open a folder that is not a link. With `unlock`, its owner may then read and change it. Raises `OSError`."""
    try:
        folder = os.open(name, _FOLDER_FLAGS, dir_fd=parent_fd)
    except PermissionError:
        if not unlock:
            raise
        _set_mode(name, stat.S_IRWXU, parent_fd)
        folder = os.open(name, _FOLDER_FLAGS, dir_fd=parent_fd)
    if unlock:
        _unlock_folder(folder)
    return folder


def _unlock_folder(folder_fd: int) -> None:
    """Let the owner read and change an open folder and everything that is created in it from now on."""
    with suppress(OSError):  # no default ACL
        os.removexattr(folder_fd, _DEFAULT_ACL_ATTRIBUTE)
    mode = stat.S_IMODE(os.fstat(folder_fd).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):  # owned by another user
            os.fchmod(folder_fd, mode | stat.S_IRWXU)


def _set_mode(name: str | Path, mode: int, parent_fd: int | None) -> None:
    """Set the mode of a file or folder, but never that of a link's target. Raises `OSError`."""
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.chmod(f"/proc/self/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)


@contextmanager
def _raise_as_bad_file(what: str, folder_fd: int | None = None, name: str = "") -> Generator[None]:
    """Convert errors that the code caused to `BadFile`; `FileNotFoundError` and errors of the host are re-raised."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_machine_error(error):
            raise
        link = False
        with suppress(PermissionError):  # its folder is locked
            link = name and stat.S_ISLNK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
        raise BadFile(f"{what} is a symbolic link" if link else f"{what} cannot be read: {error.strerror}") from error


# --- reading ----------------------------------------------------------------------------------------------------------


def open_plain_file(path: str | Path, folder_fd: int | None = None) -> int:
    """Open a regular file that is not a link for reading, without blocking. Raises `OSError`, `ValueError`."""
    if not stat.S_ISREG(os.stat(path, dir_fd=folder_fd, follow_symlinks=False).st_mode):  # as a socket, or a device
        raise OSError(errno.EINVAL, "not a plain file")
    file = os.open(path, _FILE_FLAGS, dir_fd=folder_fd)
    if not stat.S_ISREG(os.fstat(file).st_mode):  # it was replaced meanwhile
        os.close(file)
        raise OSError(errno.EINVAL, "not a plain file")
    return file


@contextmanager
def open_existing(folder: FolderRef, relative: str) -> Generator[tuple[int, str]]:
    """Yield a descriptor of the parent of an entry, and the entry's name. Raises as `open_subfolder`."""
    above, _, name = "/".join(_split_path(relative)).rpartition("/")
    with open_subfolder(folder, above) as place:
        yield place, name


def open_regular(folder: FolderRef, relative: str, limit: int) -> BufferedReader:
    """Open a plain file in the folder. Raises `BadFile` if it is not one, or has more than `limit` bytes."""
    try:
        with open_existing(folder, relative) as (place, name), _raise_as_bad_file(relative, place, name):
            file = os.fdopen(open_plain_file(name, place), "rb")
    except FileNotFoundError as error:
        raise BadFile(f"{relative} cannot be read: {error.strerror}") from error
    if (size := os.fstat(file.fileno()).st_size) <= limit:
        return file
    file.close()
    raise BadFile(f"{relative} has {size} bytes, more than the limit of {limit}")


def hash_regular(folder: FolderRef, relative: str) -> str:
    """Return the sha256 of a plain file. Raises `BadFile`."""
    with open_regular(folder, relative, MAX_HASHED_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_array(folder: FolderRef, relative: str) -> NDArray[Any]:
    """Load a numeric array. Raises `BadFile` if the file is not one."""
    np = import_module("numpy")  # commands that only read a record do not wait for it
    with (
        raise_read_errors_as(f"{relative} is not an array that numpy can read"),
        np.errstate(over="raise"),
        open_regular(folder, relative, MAX_FILE_BYTES) as file,
    ):
        return np.load(file, allow_pickle=False)


def read_status(folder: FolderRef, relative: str) -> os.stat_result | None:
    """Return the status of a file, folder or link (not of its target); None if it does not exist. Raises `BadFile`."""
    with suppress(FileNotFoundError), open_existing(folder, relative) as (place, name):
        return os.stat(name, dir_fd=place, follow_symlinks=False)
    return None


def read_link(folder: FolderRef, relative: str) -> str:
    """Return the target of a symbolic link. Raises `BadFile`, `FileNotFoundError`, `OSError`."""
    with open_existing(folder, relative) as (place, name):
        return os.readlink(name, dir_fd=place)


def _open_or_empty(folder: FolderRef, relative: str, limit: int) -> IO[bytes]:
    return BytesIO() if read_status(folder, relative) is None else open_regular(folder, relative, limit)


def read_file(folder: FolderRef, relative: str, limit: int) -> bytes:
    """Return the content of a file; empty if it does not exist. Raises `BadFile`."""
    with _open_or_empty(folder, relative, limit) as file:
        return file.read()


def iterate_lines(folder: FolderRef, relative: str, limit: int, *, max_lines: int = MAX_LINES) -> Iterator[bytes]:
    """Yield the non-empty lines of a file; none if it does not exist. Raises `BadFile`."""
    count = 0
    with _open_or_empty(folder, relative, limit) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise BadFile(f"{relative} has a line of more than {MAX_LINE_BYTES} bytes")
            if line := line.strip():
                count += 1
                if count > max_lines:
                    raise BadFile(f"{relative} has more than {max_lines} lines")
                yield line


def read_lines(folder: FolderRef, relative: str, limit: int, *, max_lines: int = MAX_LINES) -> list[bytes]:
    """Return the non-empty lines of a file; none if it does not exist. Raises `BadFile`."""
    return list(iterate_lines(folder, relative, limit, max_lines=max_lines))


def list_names(folder: FolderRef, relative: str, ending: str) -> list[str]:
    """Return the sorted names with that ending in a folder or subfolder; none if it does not exist. Raises
    `BadFile`."""
    listed: list[str] = []
    with suppress(FileNotFoundError), open_subfolder(folder, relative) as place:
        listed = os.listdir(place)
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
    with suppress(FileNotFoundError), open_subfolder(folder, relative) as place:
        modes = {name: os.stat(name, dir_fd=place, follow_symlinks=False).st_mode for name in os.listdir(place)}
        return sorted(name for name, mode in modes.items() if stat.S_ISDIR(mode))
    return []


def iterate_entries(
    folder: FolderRef, relative: str = "", *, as_watchdog: bool = False
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield relative path and status of everything below a folder or subfolder, sorted, parents first.

    Yields nothing if it does not exist, and leaves out entries that vanish. With `as_watchdog`, for code that is still
    running, folders that it locked are opened again, and what cannot be read is left out. Raises `BadFile`, including
    when there are more than `MAX_ENTRIES` entries or `MAX_DEPTH` levels.
    """
    count = 0

    def inner(place: int, above: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        nonlocal count
        for name in sorted(os.listdir(place)):
            count += 1
            if count > MAX_ENTRIES:  # files may be empty, so disk space does not limit their number
                raise BadFile(f"there are more than {MAX_ENTRIES} files and folders: pack them into one archive")
            below = -1
            try:
                with _raise_as_bad_file(f"{above}{name}", place, name):
                    status = os.stat(name, dir_fd=place, follow_symlinks=False)
                    if is_folder := stat.S_ISDIR(status.st_mode):
                        below = _open_folder(name, place, unlock=as_watchdog and status.st_mode & 0o500 != 0o500)
            except FileNotFoundError:
                continue
            except BadFile:
                if as_watchdog:
                    continue
                raise
            try:
                yield f"{above}{name}", status
                if is_folder and depth == MAX_DEPTH:
                    raise BadFile(f"folders are nested more than {MAX_DEPTH} deep")
                if is_folder:
                    yield from inner(below, f"{above}{name}/", depth + 1)
            finally:
                if below >= 0:
                    os.close(below)

    with suppress(FileNotFoundError), open_subfolder(folder, relative) as top:
        yield from inner(top, "", 1)


def count_bytes(folder: Path) -> int:
    """Return the bytes on disk below a folder; a file with several names counts once per name.

    Raises `BadFile` if there are too many files or folders are nested too deep.
    """
    with suppress(OSError):
        return sum(status.st_blocks * 512 for _, status in iterate_entries(folder, as_watchdog=True))
    return 0


# --- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def open_parent(folder: FolderRef, relative: str) -> Generator[tuple[int, str]]:
    """Yield a descriptor of the parent folder of a new entry, and the entry's name. Raises `BadFile`, `OSError`."""
    above, _, name = "/".join(_split_path(relative)).rpartition("/")
    with _ensure_folder(folder), open_subfolder(folder, above, make=True) as place:
        yield place, name


@contextmanager
def _ensure_folder(folder: FolderRef) -> Generator[None]:
    """Create the folder if it is a path that does not exist, and convert errors inside the block to `BadFile`."""
    name = folder.name if isinstance(folder, Path) else "its folder"
    try:
        with _raise_as_bad_file(name):
            if isinstance(folder, Path):
                folder.mkdir(parents=True, exist_ok=True)
            yield
    except FileNotFoundError as error:
        raise BadFile(f"{name} cannot be written to: {error.strerror}") from error


@contextmanager
def create_file(folder_fd: int, name: str) -> Generator[BufferedWriter]:
    """Create a file that gets its name in the open folder on exit, replacing any file with that name."""
    part = f".{secrets.token_hex(8)}.part"  # without the name, which may be as long as a name can be
    try:
        with os.fdopen(os.open(part, _NEW_FILE_FLAGS, 0o666, dir_fd=folder_fd), "wb") as file:
            if (mode := stat.S_IMODE(os.fstat(file.fileno()).st_mode)) & 0o600 != 0o600:  # caused by the umask
                os.fchmod(file.fileno(), mode | 0o600)
            yield file
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
                _remove_at(name, folder_fd)
        os.replace(part, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        _remove_at(part, folder_fd)
        raise


def make_folder(folder: FolderRef, relative: str) -> None:
    """Create a folder and its parents unless they exist. Raises `BadFile`, `OSError`."""
    with _ensure_folder(folder), open_subfolder(folder, relative, make=True):
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


def move_path(folder: FolderRef, relative: str, target: FolderRef, target_name: str) -> None:
    """Move a file or folder. Raises `BadFile`, `OSError`."""
    with open_existing(folder, relative) as (source, name), open_parent(target, target_name) as (place, other):
        os.rename(name, other, src_dir_fd=source, dst_dir_fd=place)


# --- removing ---------------------------------------------------------------------------------------------------------


def remove_path(folder: FolderRef, relative: str) -> None:
    """Remove a file, folder or link (not its target), if it exists. Raises `BadFile`, `OSError`."""
    with suppress(FileNotFoundError), open_existing(folder, relative) as (place, name):
        _remove_at(name, place)


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a path if it exists: a file, a link, or a folder with any permissions. Raises `OSError`."""
    with suppress(OSError if ignore_errors else FileNotFoundError):
        place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _remove_at(path.name, place)
        finally:
            os.close(place)


def _remove_at(name: str, parent_fd: int) -> None:
    """Remove an entry of an open folder if it exists. Raises `OSError`."""
    with suppress(FileNotFoundError):
        if not _unlink_file(name, parent_fd):
            folder = _open_folder(name, parent_fd, unlock=True)
            try:
                _empty_folder(folder)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=parent_fd)


def _empty_folder(folder_fd: int) -> None:
    """Remove the whole content of an open folder. Raises `OSError`.

    Nested folders are first moved up into it, so any depth needs only two descriptors.
    """
    moved, number = secrets.token_hex(8), 0
    for _ in range(_MAX_REMOVAL_PASSES):
        if not (names := os.listdir(folder_fd)):
            return
        for name in names:
            if _unlink_file(name, folder_fd):
                continue
            inner = _open_folder(name, folder_fd, unlock=True)
            try:
                for nested in os.listdir(inner):
                    if not _unlink_file(nested, inner):
                        os.close(_open_folder(nested, inner, unlock=True))  # otherwise it could not be moved
                        os.rename(nested, f".{moved}.{number}", src_dir_fd=inner, dst_dir_fd=folder_fd)
                        number += 1
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder_fd)


def _unlink_file(name: str, place: int) -> bool:
    """Remove an entry unless it is a folder; return whether it was removed."""
    if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=place)
    return True


def make_harmless(folder: FolderRef, *, only_plain: bool = False) -> None:
    """Make files that code wrote safe for the host to read, move and remove.

    Set-user-id and set-group-id bits are removed, since such a file would give others the host user's rights. Locked
    folders are made accessible, and with `only_plain` everything but files and folders is removed. Raises `BadFile` if
    folders are nested too deeply; deeper ones are removed.
    """
    if isinstance(folder, OpenFolder):
        _unlock_folder(folder.descriptor)
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
                    _set_mode(name, stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID), place)
            elif not stat.S_ISDIR(mode):
                if plain:
                    _remove_at(name, place)
            elif depth == MAX_DEPTH:
                _remove_at(name, place)
                whole = False
            else:
                with _raise_as_bad_file(name, place, name):
                    inner = _open_folder(name, place, unlock=True)
                try:
                    whole = _make_harmless(inner, depth + 1, plain=plain) and whole
                finally:
                    os.close(inner)
    return whole


# --- lending a folder to running code ---------------------------------------------------------------------------------


def lend_folder(folder: Path, reach: Path, subfolder: str) -> OpenFolder:
    """Move a folder to `reach/subfolder/<its name>`, where running code may use it.

    Code that can write to `reach` cannot redirect the move. Raises `BadFile` if another file or folder is in the way,
    `OSError`.
    """
    lent = OpenFolder(folder)
    try:
        with _raise_as_bad_file(reach.name), open_subfolder(reach) as place:
            if left := os.listdir(place):
                raise BadFile(f"{reach.name} is not empty: it contains {left[0]}")
            os.mkdir(subfolder, dir_fd=place)
        with _raise_as_bad_file(subfolder), open_subfolder(reach, subfolder) as place:
            os.rename(folder, folder.name, dst_dir_fd=place)
            if not lent.is_at(folder.name, place):
                raise BadFile(f"{folder.name} was moved or removed")
    except FileNotFoundError as error:
        raise BadFile(f"{error.filename} was moved or removed") from error
    return lent


def take_back_folder(lent: OpenFolder, folder: Path, reach: Path, subfolder: str) -> bool:
    """Move a lent folder back and remove everything else in `reach`.

    Return whether the folder was in its place; if not, it is replaced by an empty one. Raises `OSError`.
    """
    _unlock_folder(lent.descriptor)
    with (
        suppress(FileNotFoundError, BadFile),
        open_subfolder(reach, subfolder, unlock=True) as place,
        _raise_as_bad_file(folder.name),
    ):
        if lent.is_at(folder.name, place):
            os.rename(folder.name, folder, src_dir_fd=place)
    emptying = _raise_as_bad_file(reach.name)  # if this fails, the next `lend_folder` reports it
    with suppress(FileNotFoundError, BadFile), open_subfolder(reach, unlock=True) as place, emptying:
        _empty_folder(place)
    if lent.is_at(folder):
        return True
    remove_tree(folder)
    folder.mkdir(parents=True)
    return False
