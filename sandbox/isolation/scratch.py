"""The folder for communication with a kernel, and the removal of folders whose host process was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from pathlib import Path

from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.isolation.limits import list_task_groups

NAME_PREFIX = "scientist-kernel-"
"""Prefix of the names of these folders and of control groups."""
_MIN_STALE_SECONDS = 60.0
"""Seconds during which a new folder may not be locked yet."""


def get_runtime_folder() -> Path:
    """Return the folder for this user's kernels and GPU locks, independent of TMPDIR and login session."""
    return Path(f"/tmp/scientist-{os.getuid()}")


class ScratchFolder:
    """A folder that exists as long as its kernel. Its path is short, since socket paths are limited to 107 bytes.

    The kernel can read it, but can write only to `sockets` and `tmp`, so it cannot change files that the host reads
    elsewhere. The host process holds its lock, which is released when it ends. Raises `ExecutorError`.
    """

    def __init__(self, place: Path | None = None) -> None:
        place = ensure_private_folder(place or get_runtime_folder())
        self.root = Path(tempfile.mkdtemp(prefix=NAME_PREFIX, dir=place))
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
        """Remove the folder with its contents. Idempotent."""
        remove_tree(self.root, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_stale(place: Path | None = None) -> None:
    """Remove the folders and control groups of kernels whose host process was killed. Raises `ExecutorError`.

    A folder is removed only if it is in this user's private folder and has the expected prefix.
    """
    place = ensure_private_folder(place or get_runtime_folder())
    for path in place.glob(f"{NAME_PREFIX}*"):
        with contextlib.suppress(OSError):  # for example, if its lock is held
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
        if not (get_runtime_folder() / group.name).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def ensure_private_folder(path: Path) -> Path:
    """Create the folder if missing, check that no other user can access it, and return it.

    Raises `ExecutorError`.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        seen = path.lstat()
    except OSError as error:
        raise ExecutorError(
            f"cannot create the folder {path}: {error.strerror}; fix its permissions or remove it"
        ) from error
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise ExecutorError(f"{path} must be a folder that only you can access (mode 700): remove it")
    return path
