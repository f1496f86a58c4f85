"""Work by descriptor on folders to which untrusted code can write: no name is resolved twice, and no link is followed.

Guarantees: everything that is opened, unlocked or removed lies inside the start folder, no matter what the code renames
or links at the same time and how deeply it nests folders. Limits: code that already has its own descriptor can keep
changing files until it is killed.

Source: openat(2), "Rationale for openat() and other directory file descriptor APIs".
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEFAULT_ACL_ATTRIBUTE = "system.posix_acl_default"
"""Default access rights for files created in a folder, including the owner's."""
_MAX_REMOVAL_PASSES = 100_000
"""Maximum number of passes before giving up because a process keeps creating folders."""


def open_folder(name: str | Path, parent_fd: int | None = None, *, unlock: bool = False) -> int:
    """Open a folder that is not a link and return its descriptor. With `unlock`, its owner may then read and change
    it.

    Raises `OSError`.
    """
    try:
        folder = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=parent_fd)
    except PermissionError:
        if not unlock:
            raise
        set_mode(name, stat.S_IRWXU, parent_fd)
        folder = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=parent_fd)
    if unlock:
        unlock_folder(folder)
    return folder


def unlock_folder(folder_fd: int) -> None:
    """Let the owner read and change an open folder and everything that is created in it from now on."""
    with suppress(OSError):  # no default ACL
        os.removexattr(folder_fd, _DEFAULT_ACL_ATTRIBUTE)
    mode = stat.S_IMODE(os.fstat(folder_fd).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):  # owned by another user
            os.fchmod(folder_fd, mode | stat.S_IRWXU)


def set_mode(name: str | Path, mode: int, parent_fd: int | None = None) -> None:
    """Set the mode of a file or folder, but never that of a link's target. Raises `OSError`."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode, dir_fd=parent_fd, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.chmod(f"/proc/self/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a path if it exists: a file, a link, or a folder with any permissions. Raises `OSError`."""
    with suppress(OSError if ignore_errors else FileNotFoundError):
        place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_at(path.name, place)
        finally:
            os.close(place)


def remove_at(name: str, parent_fd: int) -> None:
    """Remove an entry of an open folder if it exists. Raises `OSError`."""
    with suppress(FileNotFoundError):
        if not _unlink_file(name, parent_fd):
            folder = open_folder(name, parent_fd, unlock=True)
            try:
                empty_folder(folder)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=parent_fd)


def empty_folder(folder_fd: int) -> None:
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
            inner = open_folder(name, folder_fd, unlock=True)
            try:
                for nested in os.listdir(inner):
                    if not _unlink_file(nested, inner):
                        os.close(open_folder(nested, inner, unlock=True))  # otherwise it could not be moved
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
