"""The folder through which we talk to a kernel, and the removal of those that a killed program left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from pathlib import Path

from labwright.record.folder_descriptors import remove_tree
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.isolation.limits import list_task_groups

NAME_PREFIX = "scientist-kernel-"
"""How the names of our folders and control groups begin."""
_MIN_STALE_SECONDS = 60.0
"""Seconds in which a folder may have been made and not yet been locked."""


def get_runtime_folder() -> Path:
    """The folder of this user's kernels and locks of GPUs: one path, whatever TMPDIR or the login session is."""
    return Path(f"/tmp/scientist-{os.getuid()}")


class ScratchFolder:
    """A folder that lives as long as a kernel. Its path is short, since those of sockets end at 107 bytes.

    The kernel reads it, and writes to `sockets` and `tmp` alone: what we read of it is not the kernel's to change. We
    hold its lock, which ends with us however we end. Raises `ExecutorError`.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix=NAME_PREFIX, dir=ensure_private_folder(get_runtime_folder())))
        self._lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.sockets = self.root / "s"
        self.tmp = self.root / "tmp"
        self.job = self.root / "job.json"
        self.connection = self.root / "connection.json"
        self.crash_log = self.root / "crash.log"
        self.sockets.mkdir()
        self.tmp.mkdir()

    def remove(self) -> None:
        """Remove it with all that is in it. Idempotent."""
        remove_tree(self.root, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_stale() -> None:
    """Remove the folders and control groups of kernels whose program was killed. Raises `ExecutorError`.

    A folder goes only where it lies in that of our own and carries our mark: nobody else put it there.
    """
    place = ensure_private_folder(get_runtime_folder())
    for path in place.glob(f"{NAME_PREFIX}*"):
        with contextlib.suppress(OSError):  # also where somebody holds its lock
            status = path.lstat()
            if (
                status.st_uid != os.geteuid()
                or time.time() - status.st_mtime <= _MIN_STALE_SECONDS
                or not path.is_dir()
            ):
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path, ignore_errors=True)
            finally:
                os.close(lock)
    for group in list_task_groups(NAME_PREFIX):
        if not (place / group.name).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def ensure_private_folder(path: Path) -> Path:
    """The path, which is then a folder that nobody else can look into or write to; made where there is nothing.

    Raises: `ExecutorError`.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        seen = path.lstat()
    except OSError as error:
        raise ExecutorError(
            f"cannot make the folder {path}: {error.strerror}; fix its permissions, or remove it"
        ) from error
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise ExecutorError(f"{path} must be a folder of yours alone (with mode 700): remove it")
    return path
