"""Locks on GPUs that all runs of a user on this machine share.

A lock is a `flock` on a file named by the GPU's UUID: the kernel drops it when its process dies, however it dies. Kept:
of the runs of one user, those that take a GPU alone have it alone, and those that share one do not exceed the places of
the most generous. Not kept: other users, and runs in another container, are seen by the memory that they use alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from record.place import PlaceError, own_folder
from sandbox.errors import GpuError


@dataclass
class Held:
    """Open files whose locks are ours."""

    files: list[int]

    def drop(self) -> None:
        """Give the locks back; idempotent."""
        while self.files:
            os.close(self.files.pop())


class GpuLocks:
    """Takes places on GPUs. With one place a GPU, whoever takes it has it alone."""

    def __init__(self, folder: Path, places: int) -> None:
        self._folder = folder
        self._places = places

    def take(self, uuid: str) -> Held | None:
        """A place on this GPU, or None where all are taken. Never waits. Raises `GpuError`."""
        held = Held([])
        device = self._lock(f"gpu-{uuid}.lock", fcntl.LOCK_EX if self._places == 1 else fcntl.LOCK_SH)
        if device is None:
            return None
        held.files.append(device)
        if self._places == 1:
            return held
        for place in range(self._places):
            file = self._lock(f"gpu-{uuid}.{place}.lock", fcntl.LOCK_EX)
            if file is not None:
                held.files.append(file)
                return held
        held.drop()
        return None

    def _lock(self, name: str, kind: int) -> int | None:
        path = self._ready() / name.replace("/", "_")
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise GpuError(f"cannot lock a GPU with {path}: {error.strerror}") from error
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return None
            if _still_there(file, path):
                os.utime(file)  # what cleans /tmp by age leaves it
                return file
            os.close(file)

    def _ready(self) -> Path:
        """The folder of the locks, ours alone. Raises `GpuError`."""
        try:
            return own_folder(self._folder)
        except PlaceError as error:
            raise GpuError(f"{error}; it is for the locks of GPUs") from error


def _still_there(file: int, path: Path) -> bool:
    """False where the file was removed before we had its lock: somebody else may lock a new one of its name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.lstat(path))
    return False
