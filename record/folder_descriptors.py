"""Folders that untrusted code can write to, worked on by descriptor: no name is looked up twice, and no link followed.

Kept: what is opened, unlocked or removed lies below where the walk began, whatever the code renames or links meanwhile,
and however deep it nests folders. Not kept: what the code was given through a descriptor of its own it can go on
changing, until it is killed.

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
"""What a folder says of the rights to files that are made in it, those of its owner too."""
_MAX_REMOVAL_PASSES = 100_000
"""Levels of folders that are removed before we give up: somebody goes on making them."""


def open_folder(name: str | Path, parent_fd: int | None = None, *, unlock: bool = False) -> int:
    """A descriptor of a folder that is no link. With `unlock` its owner may read and change it then, whatever its mode
    was. Raises `OSError`."""
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
    """Let its owner read and change a folder that is open, and whatever is made in it from now on."""
    with suppress(OSError):  # it has none
        os.removexattr(folder_fd, _DEFAULT_ACL_ATTRIBUTE)
    mode = stat.S_IMODE(os.fstat(folder_fd).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):  # it is somebody else's
            os.fchmod(folder_fd, mode | stat.S_IRWXU)


def set_mode(name: str | Path, mode: int, parent_fd: int | None = None) -> None:
    """Set the mode of a file or folder, never of what a link points to. Raises `OSError`."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode, dir_fd=parent_fd, follow_symlinks=False)
        return
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        if not stat.S_ISLNK(os.fstat(held).st_mode):
            os.chmod(f"/proc/self/fd/{held}", mode)
    finally:
        os.close(held)


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Make sure that nothing stands there: a file, a link, or a folder whatever its permissions. Raises `OSError`."""
    with suppress(OSError if ignore_errors else FileNotFoundError):
        place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_at(path.name, place)
        finally:
            os.close(place)


def remove_at(name: str, parent_fd: int) -> None:
    """Remove what stands in an open folder, if anything does. Raises `OSError`."""
    with suppress(FileNotFoundError):
        if not _unlink_file(name, parent_fd):
            folder = open_folder(name, parent_fd, unlock=True)
            try:
                empty_folder(folder)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=parent_fd)


def empty_folder(folder_fd: int) -> None:
    """Remove all that is in an open folder. Raises `OSError`.

    What is nested is moved up to it first: so no depth takes more than two descriptors.
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
                        os.close(open_folder(nested, inner, unlock=True))  # else it cannot be moved
                        os.rename(nested, f".{moved}.{number}", src_dir_fd=inner, dst_dir_fd=folder_fd)
                        number += 1
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder_fd)


def _unlink_file(name: str, place: int) -> bool:
    """Whether it was no folder, and is gone."""
    if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=place)
    return True
