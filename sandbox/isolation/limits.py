"""How much one experiment may use: part of it the system enforces, the rest a watchdog, which kills it.

The watchdog looks about five times a second, in a thread, so that a busy event loop cannot hold it up. Between two
looks a limit can be passed: memory by what can be written in 0.2 s, disk by what can be written in a second or two
(there is no quota). A single file is limited by the system at once (RLIMIT_FSIZE), and so is the number of tasks where
control groups can be written to or we are not root. Memory is what no file could take back: anonymous pages and shared
memory, a page that several of the processes share counted once. Not limited: memory of GPUs.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import psutil

from labwright.record.nouns.data import Needs
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.isolation.processes import (
    ResourceUse,
    deleted_file_bytes,
    process_tree,
    resource_use,
    shm_bytes,
    unique_resource_use,
)
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.untrusted import BadFile, bytes_below, disarm

SHARE = 0.9
"""Of the machine's memory, what all experiments together may hold by default."""


@dataclass(frozen=True)
class Limits:
    """Bytes of memory and of disk, and the number of processes and threads."""

    memory: int
    disk: int
    tasks: int


def limits_of(settings: SandboxSettings, *, slots: int) -> Limits:
    """The limits of one experiment of `slots` that may run at the same time."""
    memory = settings.memory_gb * 1e9 if settings.memory_gb is not None else SHARE * machine_memory() / slots
    return Limits(memory=int(memory), disk=int(settings.disk_gb * 1e9), tasks=settings.tasks)


def room_of(settings: SandboxSettings, gpus: int) -> Needs:
    """The most that one cell can have on this machine, of so many GPUs: it may be alone."""
    return Needs(gpus=gpus, hours=settings.timeout / 3600, memory_gb=limits_of(settings, slots=1).memory / 1e9)


def machine_memory() -> int:
    """Bytes of memory of this machine, or of the control group that we are in where that has less."""
    sizes = [int(psutil.virtual_memory().total)]
    for path in (*_own("memory", "memory.max"), *_own("memory", "memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(path.read_text()))
    return min(sizes)


def oom_kills() -> int:
    """How many processes of our control group the system killed so far for want of memory: of the whole machine, where
    the group does not tell; 0 where nothing does."""
    for path in (*_own("memory", "memory.events"), *_own("memory", "memory.oom_control"), Path("/proc/vmstat")):
        with contextlib.suppress(OSError):
            if found := re.search(r"^oom_kill (\d+)$", path.read_text(), re.M):
                return int(found[1])
    return 0


def rlimits(settings: SandboxSettings) -> str:
    """Resource limits as the kernel's bootstrap reads them: `FSIZE=...,CORE=0`.

    NPROC counts all tasks of the user, or with user namespaces (since Linux 5.14) those of the namespace; the rest of
    what the user runs is added. It does not bind root.
    """
    limits = {"FSIZE": int(settings.disk_gb * 1e9), "CORE": 0}
    if os.geteuid() != 0:
        limits["NPROC"] = settings.tasks
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                limits["NPROC"] += process.num_threads() if process.uids().real == os.geteuid() else 0
    return ",".join(f"{name}={value}" for name, value in limits.items())


def task_group(name: str, tasks: int) -> Path | None:
    """The folder of a new control group that bounds tasks; None where we may not make one (in practice: all but root,
    and in most containers)."""
    for folder in _own("pids", name):
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                (folder / "pids.max").write_text(str(tasks))
            except OSError:
                folder.rmdir()
                continue
            return folder
    return None


def task_groups(prefix: str) -> list[Path]:
    """The control groups whose names begin so."""
    return [folder for place in _own("pids", "") for folder in place.glob(f"{prefix}*")]


def _own(controller: str, name: str) -> list[Path]:
    """Where something of our own control group may lie, in the hierarchies of both versions."""
    places: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == controller or not controllers:
                places.append(Path("/sys/fs/cgroup", controllers, path.lstrip("/"), name))
    return places


LOOK = 0.2
"""Seconds between two looks at memory and tasks."""
_READINGS = 3
"""Readings of memory, all of which must pass the limit: one process is read after the other, and where some start or
end meanwhile, pages that they share are counted more than once (five processes: up to 2.3 times)."""
_DISK = 1.0
"""Seconds between two looks at the disk; more where a look takes long, so that it takes a tenth of the time at most."""


@dataclass
class Watchdog:
    """Looks at a process and its descendants until `stop`; calls `kill_all` when a limit is passed.

    `shared` is a folder that others write to too: only by how much it grows since the start counts.
    """

    root: int
    limits: Limits
    _: KW_ONLY
    folders: Sequence[Path]
    shared: Path
    kill_all: Callable[[], None]
    failure: Failure | None = None
    """What was passed."""
    _before: int = 0
    _disk_at: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._look_on, name=f"watchdog of {self.root}", daemon=True).start()

    def stop(self) -> None:
        """End. Idempotent; does not wait."""
        self._ended.set()

    def _look_on(self) -> None:
        with contextlib.suppress(BadFile):  # what others nested there is no doing of this one
            disarm(self.shared)
        with contextlib.suppress(BadFile):
            self._before = bytes_below(self.shared)
        while not self._ended.wait(LOOK):
            try:
                failure = self.look()
            except Exception as error:  # noqa: BLE001  this thread's edge: without it nothing holds to a limit
                failure = Failure(
                    kind="other",
                    message=(
                        f"what holds it to its limits failed ({type(error).__name__}: {error}), and so it was killed"
                    ),
                )
            if failure is not None and not self._ended.is_set():
                self.failure = failure
                self.kill_all()
                return

    def look(self) -> Failure | None:
        """The limit that is passed now, if any."""
        processes = process_tree(self.root, self.limits.tasks)
        now = resource_use(processes)
        if now.tasks > self.limits.tasks:
            return Failure(
                kind="other",
                message=(
                    f"more than {self.limits.tasks} processes and threads ran at the same time (sandbox.tasks); "
                    f"they were "
                    "all killed: start fewer"
                ),
            )
        return self._memory(now, shm_bytes(processes)) or self._disk(processes)

    def _memory(self, most: ResourceUse, files: int) -> Failure | None:
        if most.private + max(most.shared, files) <= self.limits.memory:
            return None
        readings = [unique_resource_use(process_tree(self.root, self.limits.tasks)) for _ in range(_READINGS)]
        peak = min(reading.private + max(reading.shared, files) for reading in readings)
        if peak <= self.limits.memory:
            return None
        return Failure(
            kind="memory",
            message=(
                f"the experiment held {_gb(peak)} of memory, more than its limit of {_gb(self.limits.memory)} "
                "(sandbox.memory_gb), and was killed: use smaller batches or models, or fewer workers"
            ),
        )

    def _disk(self, processes: set[int]) -> Failure | None:
        began = time.monotonic()
        if began < self._disk_at:
            return None
        try:
            grown = max(0, bytes_below(self.shared) - self._before)
            written = sum(map(bytes_below, self.folders)) + grown + deleted_file_bytes(processes)
        except BadFile as error:
            return Failure(kind="other", message=f"{error}, and so it was killed: its files cannot be counted")
        self._disk_at = time.monotonic() + max(_DISK, 10 * (time.monotonic() - began))
        if written <= self.limits.disk:
            return None
        return Failure(
            kind="other",
            message=(
                f"the experiment left {_gb(written)} of files, more than its limit of {_gb(self.limits.disk)} "
                "(sandbox.disk_gb), and was killed: keep less on disk"
            ),
        )


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
