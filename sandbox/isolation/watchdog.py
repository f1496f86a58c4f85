"""Limits of what all processes of an experiment use together: memory, tasks and disk. Who passes one is killed.

A thread looks about five times a second, so that a busy event loop cannot hold it up. Between two looks a limit can be
passed: memory by what can be written in 0.2 s, disk by what can be written in a second or two (there is no quota).
A single file is limited by the system at once (RLIMIT_FSIZE), and so is the number of tasks where control groups can be
written to or we are not root (`sandbox.isolation.limits`).

Memory is what no file could take back: anonymous pages and shared memory, a page that several of the processes share
counted once. Not limited: memory of GPUs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from record.nouns.nodes import Failure
from sandbox.isolation.family import Held, family, held, held_once, nameless, shm_of
from sandbox.isolation.limits import Limits

LOOK = 0.2
"""Seconds between two looks at memory and tasks."""
_DISK = 1.0
"""Seconds between two looks at the disk; more where a look takes long, so that it takes a tenth of the time at most."""


class Watchdog:
    """Looks at a process and its descendants until `stop`; calls `strike` when a limit is passed.

    `shared` is a folder that others write to too: only by how much it grows since the start counts. `inside` is a
    process that sees a /dev/shm of the experiment's own.
    """

    def __init__(
        self, root: int, limits: Limits, *, folders: Sequence[Path], shared: Path, strike: Callable[[], None],
        inside: int | None = None,
    ) -> None:
        self.failure: Failure | None = None
        """What was passed."""
        self._root = root
        self._limits = limits
        self._folders = folders
        self._shared = shared
        self._before = 0
        self._strike = strike
        self._inside = inside
        self._ended = threading.Event()
        self._disk_at = 0.0
        self._thread = threading.Thread(target=self._look_on, name=f"watchdog of {root}", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End. Idempotent; does not wait."""
        self._ended.set()

    def _look_on(self) -> None:
        self._before = _bytes_of(self._shared)
        while not self._ended.wait(LOOK):
            failure = self.look()
            if failure is not None and not self._ended.is_set():
                self.failure = failure
                self._strike()
                return

    def look(self) -> Failure | None:
        """The limit that is passed now, if any."""
        processes = family(self._root, self._limits.tasks)
        now = held(processes)
        if now.tasks > self._limits.tasks:
            return Failure(kind="other", message=(
                f"more than {self._limits.tasks} processes and threads ran at the same time (sandbox.tasks); they were "
                "all killed: start fewer"))
        return self._memory(processes, now) or self._disk(processes)

    def _memory(self, processes: set[int], most: Held) -> Failure | None:
        files = 0 if self._inside is None else shm_of(self._inside)
        if most.private + max(most.shared, files) <= self._limits.memory:
            return None
        now = held_once(processes)
        peak = now.private + max(now.shared, files)
        if peak <= self._limits.memory:
            return None
        return Failure(kind="memory", message=(
            f"the experiment held {_gb(peak)} of memory, more than its limit of {_gb(self._limits.memory)} "
            "(sandbox.memory_gb), and was killed: use smaller batches or models, or fewer workers"))

    def _disk(self, processes: set[int]) -> Failure | None:
        began = time.monotonic()
        if began < self._disk_at:
            return None
        grown = max(0, _bytes_of(self._shared) - self._before)
        written = sum(map(_bytes_of, self._folders)) + grown + nameless(processes)
        self._disk_at = time.monotonic() + max(_DISK, 10 * (time.monotonic() - began))
        if written <= self._limits.disk:
            return None
        return Failure(kind="other", message=(
            f"the experiment left {_gb(written)} of files, more than its limit of {_gb(self._limits.disk)} "
            "(sandbox.disk_gb), and was killed: keep less on disk"))


def _bytes_of(folder: Path) -> int:
    """Bytes on disk below a folder; a file with several names counts once for each."""
    total = 0
    waiting = [str(folder)]
    while waiting:
        entries = _entries(waiting.pop())
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                total += entry.stat(follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
    return total


def _entries(folder: str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return ()


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
