"""How much one experiment may use, and the part of it that the system itself enforces."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from sandbox.settings import SandboxSettings

SHARE = 0.9
"""Of the machine's memory, what all experiments together may hold by default."""


@dataclass(frozen=True)
class Limits:
    """Bytes of memory and of disk, and the number of processes and threads."""

    memory: int
    disk: int
    tasks: int


def limits_of(settings: SandboxSettings, *, places: int) -> Limits:
    """The limits of one experiment of `places` that may run at the same time."""
    memory = settings.memory_gb * 1e9 if settings.memory_gb is not None else SHARE * machine_memory() / places
    return Limits(memory=int(memory), disk=int(settings.disk_gb * 1e9), tasks=settings.tasks)


def machine_memory() -> int:
    """Bytes of memory of this machine, or of the control group that we are in where that has less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in (*_own("memory", "memory.max"), *_own("memory", "memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(path.read_text()))
    return min(found)


def available_memory() -> int:
    """Bytes of memory that could be had now without swapping, on the machine as a whole."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else machine_memory()


def rlimits(settings: SandboxSettings) -> str:
    """Resource limits as the kernel's bootstrap reads them: `FSIZE=...,CORE=0`.

    NPROC counts all tasks of the user, or with user namespaces (since Linux 5.14) those of the namespace; the rest of
    what the user runs is added. It does not bind root.
    """
    limits = {"FSIZE": int(settings.file_gb * 1e9), "CORE": 0}
    if os.geteuid() != 0:
        limits["NPROC"] = settings.tasks + _tasks_of_user()
    return ",".join(f"{name}={value}" for name, value in limits.items())


@dataclass(frozen=True)
class TaskGroup:
    """A control group that bounds tasks; without a folder there is none, since it could not be made."""

    folder: Path | None = None

    def entering(self) -> list[str]:
        """The words before a command that make it enter the group before it does anything else."""
        if self.folder is None:
            return []
        enter = 'echo $$ >"$1" && shift && exec "$@"'
        return ["/bin/sh", "-c", enter, "sh", str(self.folder / "cgroup.procs")]

    def remove(self) -> None:
        """Remove the group, which must be empty; idempotent."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self.folder.rmdir()


def task_group(name: str, tasks: int) -> TaskGroup:
    """A new control group of that name, where we may make one (in practice: as root, and not in most containers)."""
    for folder in _own("pids", name):
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                (folder / "pids.max").write_text(str(tasks))
            except OSError:
                folder.rmdir()
                continue
            return TaskGroup(folder)
    return TaskGroup()


def task_groups(prefix: str) -> list[Path]:
    """The control groups whose names begin so."""
    return [folder for place in _own("pids", "") for folder in place.glob(f"{prefix}*")]


def _own(controller: str, name: str) -> list[Path]:
    """Where something of our own control group may lie, in the hierarchies of both versions."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == controller or not controllers:
                found.append(Path("/sys/fs/cgroup", controllers, path.lstrip("/"), name))
    return found


def _tasks_of_user() -> int:
    total = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.geteuid():
                total += len(os.listdir(f"/proc/{entry.name}/task"))
    return total
