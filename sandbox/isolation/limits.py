"""Resource limits of one experiment: some are enforced by the system, the others by a watchdog that kills the
experiment.

The watchdog checks about five times a second in separate threads, which a busy event loop cannot delay, nor can a
million files delay the check of memory. Between checks, memory can exceed its limit by the amount that can be written
in 0.2 s, and disk by the amount that can be written in one or two seconds (there is no quota). The system enforces the
size of a single file (RLIMIT_FSIZE), and the number of tasks if control groups are writable or this process is not
root. Memory means anonymous pages and shared memory; pages shared by several processes count once. GPU memory is not
limited.
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
from labwright.record.untrusted_files import BadFile, count_bytes, make_harmless
from labwright.sandbox.isolation.processes import (
    ResourceUse,
    count_deleted_file_bytes,
    count_shm_bytes,
    list_process_tree,
    measure_unique_use,
    measure_use,
)
from labwright.sandbox.settings import SandboxSettings

DEFAULT_MEMORY_SHARE = 0.9
"""Default share of the machine's memory for all experiments together."""


@dataclass(frozen=True)
class ResourceLimits:
    """Limits in bytes of memory and disk, and in number of processes and threads."""

    memory_bytes: int
    disk_bytes: int
    tasks: int


def compute_limits(settings: SandboxSettings, *, slots: int, machine_bytes: int | None = None) -> ResourceLimits:
    """Compute the limits of one experiment if `slots` experiments may run at the same time on a machine with this much
    memory, by default this machine."""
    memory = (
        settings.memory_gb * 1e9
        if settings.memory_gb is not None
        else DEFAULT_MEMORY_SHARE * (machine_bytes or read_machine_memory()) / slots
    )
    return ResourceLimits(memory_bytes=int(memory), disk_bytes=int(settings.disk_gb * 1e9), tasks=settings.tasks)


def compute_cell_capacity(settings: SandboxSettings, gpus: int, machine_bytes: int | None = None) -> ResourceNeeds:
    """Return the maximum resources of one cell, if it runs alone, on a machine with `gpus` GPUs and this much memory,
    by default this machine's."""
    limits = compute_limits(settings, slots=1, machine_bytes=machine_bytes)
    return ResourceNeeds(gpus=gpus, hours=settings.timeout / 3600, memory_gb=limits.memory_bytes / 1e9)


def read_machine_memory() -> int:
    """Return the memory of this machine, or of this process's control group if smaller, in bytes."""
    sizes = [int(psutil.virtual_memory().total)]
    for path in (
        *_find_own_cgroup_paths("memory", "memory.max"),
        *_find_own_cgroup_paths("memory", "memory.limit_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(path.read_text()))
    return min(sizes)


def count_oom_kills() -> int:
    """Return how many processes the out-of-memory killer has killed so far.

    Counts this process's control group, or the whole machine if the group has no counter; 0 if unknown.
    """
    for path in (
        *_find_own_cgroup_paths("memory", "memory.events"),
        *_find_own_cgroup_paths("memory", "memory.oom_control"),
        Path("/proc/vmstat"),
    ):
        with contextlib.suppress(OSError):
            if match := re.search(r"^oom_kill (\d+)$", path.read_text(), re.M):
                return int(match[1])
    return 0


def format_rlimits(settings: SandboxSettings) -> str:
    """Format resource limits for the kernel's bootstrap: `FSIZE=...,CORE=0`.

    NPROC counts all tasks of the user, or with user namespaces (since Linux 5.14) those of the namespace, so the user's
    other tasks are added. The limit does not apply to root.
    """
    limits = {"FSIZE": int(settings.disk_gb * 1e9), "CORE": 0}
    if os.geteuid() != 0:
        limits["NPROC"] = settings.tasks
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                limits["NPROC"] += process.num_threads() if process.uids().real == os.geteuid() else 0
    return ",".join(f"{name}={value}" for name, value in limits.items())


def create_task_group(name: str, tasks: int) -> Path | None:
    """Create a control group that limits tasks and return its folder; None if not permitted.

    In practice only root may do this, and in most containers not even root.
    """
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


def enter_task_group(group: Path | None) -> list[str]:
    """Return a command prefix that joins a control group before the command does any work."""
    join = ["/bin/sh", "-c", 'echo $$ >"$1" && shift && exec "$@"', "sh"]
    return [] if group is None else [*join, str(group / "cgroup.procs")]


def list_task_groups(prefix: str) -> list[Path]:
    """Return the control groups whose names start with `prefix`."""
    return [folder for place in _find_own_cgroup_paths("pids", "") for folder in place.glob(f"{prefix}*")]


def _find_own_cgroup_paths(controller: str, name: str) -> list[Path]:
    """Return the possible paths of a file in this process's control group, in both cgroup versions."""
    places: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == controller or not controllers:
                places.append(Path("/sys/fs/cgroup", controllers, path.lstrip("/"), name))
    return places


LOOK_INTERVAL_SECONDS = 0.2
"""Interval between checks of memory and tasks, in seconds."""
_CONFIRMING_READINGS = 3
"""Number of readings that must all exceed the memory limit. Processes are read in sequence, so shared pages count
more than once if processes start or end in the meantime (up to 2.3 times with five processes).
"""
_DISK_INTERVAL_SECONDS = 1.0
"""Minimum interval between checks of the disk in seconds; longer for slow checks, so that they take at most 10 % of the
time, unless free space shrinks."""


@dataclass
class Watchdog:
    """Watches a process and its descendants until `stop` is called; calls `kill_all` when a limit is exceeded.

    `shared` is a folder to which others write too, so only its growth since the start counts.
    """

    root: int
    limits: ResourceLimits
    _: KW_ONLY
    folders: Sequence[Path]
    shared: Path
    kill_all: Callable[[], None]
    failure: Failure | None = None
    """The exceeded limit."""
    _shared_bytes_before: int = 0
    _next_disk_check: float = 0.0
    _free_bytes: int = 0
    """Free space of the file systems at the last check of the disk."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start watching."""
        for check in (self.check_use, self.check_disk):  # one of them may take long
            threading.Thread(target=self._run, args=(check,), name=f"watchdog of {self.root}", daemon=True).start()

    def stop(self) -> None:
        """Stop watching. Idempotent; does not wait."""
        self._ended.set()

    def _run(self, check: Callable[[], Failure | None]) -> None:
        if check == self.check_disk:
            with contextlib.suppress(BadFile):  # files nested too deep by other experiments do not count for this one
                make_harmless(self.shared)
            with contextlib.suppress(BadFile):
                self._shared_bytes_before = count_bytes(self.shared)
        while not self._ended.wait(LOOK_INTERVAL_SECONDS):
            try:
                failure = check()
            except Exception as error:  # noqa: BLE001  without this, no limit would be enforced
                failure = Failure(
                    kind="other",
                    message=(f"checking its limits failed ({type(error).__name__}: {error}), so it was killed"),
                )
            if failure is not None and not self._ended.is_set():
                self._ended.set()
                self.failure = failure
                self.kill_all()

    def check_use(self) -> Failure | None:
        """Return a failure if the limit of tasks or memory is currently exceeded."""
        processes = list_process_tree(self.root, self.limits.tasks)
        now = measure_use(processes)
        if now.tasks > self.limits.tasks:
            return Failure(
                kind="other",
                message=(
                    f"more than {self.limits.tasks} processes and threads ran at the same time (sandbox.tasks) and "
                    f"were "
                    "all killed: start fewer"
                ),
            )
        return self._check_memory(now, count_shm_bytes(processes))

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
                f"the experiment used {_format_gb(peak)} of memory, more than its limit of "
                f"{_format_gb(self.limits.memory_bytes)} "
                "(sandbox.memory_gb), and was killed: use smaller batches or models, or fewer workers"
            ),
        )

    def check_disk(self) -> Failure | None:
        """Return a failure if the limit of files is currently exceeded; does nothing if the last check was recent, and
        the free space is about what it was then."""
        began, free = time.monotonic(), sum(map(_read_free_bytes, (self.shared, *self.folders)))
        if began < self._next_disk_check and self._free_bytes - free < self.limits.disk_bytes / 10:
            return None
        self._free_bytes = free
        try:
            grown = max(0, count_bytes(self.shared) - self._shared_bytes_before)
            written = sum(map(count_bytes, self.folders)) + grown
            written += count_deleted_file_bytes(list_process_tree(self.root, self.limits.tasks))
        except BadFile as error:
            return Failure(kind="other", message=f"{error}, so the disk usage is unknown and it was killed")
        self._next_disk_check = time.monotonic() + max(_DISK_INTERVAL_SECONDS, 10 * (time.monotonic() - began))
        if written <= self.limits.disk_bytes:
            return None
        return Failure(
            kind="other",
            message=(
                f"the experiment wrote {_format_gb(written)} of files, more than its limit of "
                f"{_format_gb(self.limits.disk_bytes)} "
                "(sandbox.disk_gb), and was killed: keep less on disk"
            ),
        )


def _read_free_bytes(folder: Path) -> int:
    with contextlib.suppress(OSError):
        system = os.statvfs(folder)
        return system.f_bavail * system.f_frsize
    return 0


def _format_gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
