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

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.sandbox.isolation.processes import (
    ResourceUse,
    count_deleted_file_bytes,
    count_shm_bytes,
    list_process_tree,
    measure_unique_use,
    measure_use,
)
from labwright.sandbox.safe_io import BadFile, count_bytes, make_harmless
from labwright.sandbox.settings import SandboxSettings

DEFAULT_MEMORY_SHARE = 0.9
"""Of the machine's memory, what all experiments together may hold by default."""


@dataclass(frozen=True)
class ResourceLimits:
    """Bytes of memory and of disk, and the number of processes and threads."""

    memory_bytes: int
    disk_bytes: int
    tasks: int


def compute_limits(settings: SandboxSettings, *, slots: int) -> ResourceLimits:
    """The limits of one experiment of `slots` that may run at the same time."""
    memory = (
        settings.memory_gb * 1e9
        if settings.memory_gb is not None
        else DEFAULT_MEMORY_SHARE * read_machine_memory() / slots
    )
    return ResourceLimits(memory_bytes=int(memory), disk_bytes=int(settings.disk_gb * 1e9), tasks=settings.tasks)


def compute_cell_capacity(settings: SandboxSettings, gpus: int) -> ResourceNeeds:
    """The most that one cell can have on this machine, of so many GPUs: it may be alone."""
    return ResourceNeeds(
        gpus=gpus, hours=settings.timeout / 3600, memory_gb=compute_limits(settings, slots=1).memory_bytes / 1e9
    )


def read_machine_memory() -> int:
    """Bytes of memory of this machine, or of the control group that we are in where that has less."""
    sizes = [int(psutil.virtual_memory().total)]
    for path in (
        *_find_own_cgroup_paths("memory", "memory.max"),
        *_find_own_cgroup_paths("memory", "memory.limit_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(path.read_text()))
    return min(sizes)


def count_oom_kills() -> int:
    """How many processes of our control group the system killed so far for want of memory: of the whole machine, where
    the group does not tell; 0 where nothing does."""
    for path in (
        *_find_own_cgroup_paths("memory", "memory.events"),
        *_find_own_cgroup_paths("memory", "memory.oom_control"),
        Path("/proc/vmstat"),
    ):
        with contextlib.suppress(OSError):
            if found := re.search(r"^oom_kill (\d+)$", path.read_text(), re.M):
                return int(found[1])
    return 0


def format_rlimits(settings: SandboxSettings) -> str:
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


def create_task_group(name: str, tasks: int) -> Path | None:
    """The folder of a new control group that bounds tasks; None where we may not make one (in practice: all but root,
    and in most containers)."""
    for folder in _find_own_cgroup_paths("pids", name):
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                (folder / "pids.max").write_text(str(tasks))
            except OSError:
                folder.rmdir()
                continue
            return folder
    return None


def list_task_groups(prefix: str) -> list[Path]:
    """The control groups whose names begin so."""
    return [folder for place in _find_own_cgroup_paths("pids", "") for folder in place.glob(f"{prefix}*")]


def _find_own_cgroup_paths(controller: str, name: str) -> list[Path]:
    """Where something of our own control group may lie, in the hierarchies of both versions."""
    places: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == controller or not controllers:
                places.append(Path("/sys/fs/cgroup", controllers, path.lstrip("/"), name))
    return places


LOOK_INTERVAL_SECONDS = 0.2
"""Seconds between two looks at memory and tasks."""
_CONFIRMING_READINGS = 3
"""Readings of memory, all of which must pass the limit: one process is read after the other, and where some start or
end meanwhile, pages that they share are counted more than once (five processes: up to 2.3 times)."""
_DISK_INTERVAL_SECONDS = 1.0
"""Seconds between two looks at the disk; more where a look takes long, so that it takes a tenth of the time at most."""


@dataclass
class Watchdog:
    """Looks at a process and its descendants until `stop`; calls `kill_all` when a limit is passed.

    `shared` is a folder that others write to too: only by how much it grows since the start counts.
    """

    root: int
    limits: ResourceLimits
    _: KW_ONLY
    folders: Sequence[Path]
    shared: Path
    kill_all: Callable[[], None]
    failure: Failure | None = None
    """What was passed."""
    _kills_before: int = 0
    _next_disk_check: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name=f"watchdog of {self.root}", daemon=True).start()

    def stop(self) -> None:
        """End. Idempotent; does not wait."""
        self._ended.set()

    def _run(self) -> None:
        with contextlib.suppress(BadFile):  # what others nested there is no doing of this one
            make_harmless(self.shared)
        with contextlib.suppress(BadFile):
            self._kills_before = count_bytes(self.shared)
        while not self._ended.wait(LOOK_INTERVAL_SECONDS):
            try:
                failure = self.check_limits()
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

    def check_limits(self) -> Failure | None:
        """The limit that is passed now, if any."""
        processes = list_process_tree(self.root, self.limits.tasks)
        now = measure_use(processes)
        if now.tasks > self.limits.tasks:
            return Failure(
                kind="other",
                message=(
                    f"more than {self.limits.tasks} processes and threads ran at the same time (sandbox.tasks); "
                    f"they were "
                    "all killed: start fewer"
                ),
            )
        return self._check_memory(now, count_shm_bytes(processes)) or self._check_disk(processes)

    def _check_memory(self, most: ResourceUse, files: int) -> Failure | None:
        if most.private + max(most.shared, files) <= self.limits.memory_bytes:
            return None
        readings = [
            measure_unique_use(list_process_tree(self.root, self.limits.tasks)) for _ in range(_CONFIRMING_READINGS)
        ]
        peak = min(reading.private + max(reading.shared, files) for reading in readings)
        if peak <= self.limits.memory_bytes:
            return None
        return Failure(
            kind="memory",
            message=(
                f"the experiment held {_format_gb(peak)} of memory, more than its limit of "
                f"{_format_gb(self.limits.memory_bytes)} "
                "(sandbox.memory_gb), and was killed: use smaller batches or models, or fewer workers"
            ),
        )

    def _check_disk(self, processes: set[int]) -> Failure | None:
        began = time.monotonic()
        if began < self._next_disk_check:
            return None
        try:
            grown = max(0, count_bytes(self.shared) - self._kills_before)
            written = sum(map(count_bytes, self.folders)) + grown + count_deleted_file_bytes(processes)
        except BadFile as error:
            return Failure(kind="other", message=f"{error}, and so it was killed: its files cannot be counted")
        self._next_disk_check = time.monotonic() + max(_DISK_INTERVAL_SECONDS, 10 * (time.monotonic() - began))
        if written <= self.limits.disk_bytes:
            return None
        return Failure(
            kind="other",
            message=(
                f"the experiment left {_format_gb(written)} of files, more than its limit of "
                f"{_format_gb(self.limits.disk_bytes)} "
                "(sandbox.disk_gb), and was killed: keep less on disk"
            ),
        )


def _format_gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
