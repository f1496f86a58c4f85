"""The processes of an experiment, and what they hold, as the system tells it in /proc.

Behind walls a process cannot leave the family: what loses its parents becomes a child of the namespace's first process.
Without walls it can (a daemon), and is then neither seen nor counted. Needs a kernel with /proc/PID/task/TID/children
(CONFIG_PROC_CHILDREN, which the distributions set).

Processes of a run's kernels that outlived the program, found by what their environment says.

Behind walls there are none: bubblewrap ends them with the program. Without walls a `kill -9` of the program leaves the
code that ran, and all that it started. Every kernel of a run has the run's cache in its environment, and so has what
it starts, whatever sessions and groups that makes; a process that replaced its environment is not found, nor one on
another machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_STATUS = re.compile(r"^(RssAnon|RssShmem|Threads):\s+(\d+)", re.MULTILINE)
_PART = re.compile(r"^(Pss|Pss_Anon|Pss_Shmem):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class ResourceUse:
    """What processes hold together: threads, and bytes of memory that cannot be given back to a file."""

    tasks: int
    private: int
    shared: int


def process_tree(root: int, limit: int | None = None) -> set[int]:
    """A process and its descendants; not many more than `limit`."""
    found: set[int] = set()
    waiting = [root]
    while waiting and (limit is None or len(found) <= limit):
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += _children(one)
    return found


def resource_use(processes: Iterable[int]) -> ResourceUse:
    """What they hold at most: memory that several share counts in each. Quick."""
    tasks = private = shared = 0
    for one in processes:
        with contextlib.suppress(OSError):
            fields = dict(_STATUS.findall(Path(f"/proc/{one}/status").read_text(errors="replace")))
            tasks += int(fields.get("Threads", 0))
            private += int(fields.get("RssAnon", 0)) * 1024
            shared += int(fields.get("RssShmem", 0)) * 1024
    return ResourceUse(tasks, private, shared)


def unique_resource_use(processes: Iterable[int]) -> ResourceUse:
    """What they hold, a page that several share counted once. Takes long for large ones; threads are not counted.

    Where the system does not tell a process's part of its pages, all its private memory counts, and of memory that is
    shared the largest piece.
    """
    private = shared = untold = 0
    for one in processes:
        parts = _parts(one)
        if parts:
            private += parts.get("Pss_Anon", 0)
            shared += parts.get("Pss_Shmem", 0)
        else:
            whole = resource_use((one,))
            private += whole.private
            untold = max(untold, whole.shared)
    return ResourceUse(0, private, shared + untold)


def proportional_bytes(process: int) -> int | None:
    """Bytes of a process in memory, of pages that it shares its part; None where the system does not tell."""
    return _parts(process).get("Pss")


def _parts(process: int) -> dict[str, int]:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
        return {name: int(size) * 1024 for name, size in _PART.findall(text)}
    return {}


def shm_bytes(process: int) -> int:
    """Bytes in the /dev/shm that a process sees."""
    with contextlib.suppress(OSError):
        there = os.statvfs(f"/proc/{process}/root/dev/shm")
        return (there.f_blocks - there.f_bfree) * there.f_frsize
    return 0


def deleted_file_bytes(processes: Iterable[int]) -> int:
    """Bytes in files that have no name any more but are held open (memory files too)."""
    found: dict[tuple[int, int], int] = {}
    for one in processes:
        for status in _open_files(one):
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                found[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def _open_files(process: int) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                yield os.stat(f"/proc/{process}/fd/{name}")


def _children(process: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return found


_LONGEST = 5.0
"""Seconds to wait until what was killed is gone."""


def kill_orphans(cache: Path) -> list[int]:
    """Kill what is left of the kernels that were started with this cache; their process ids. Call under the lock."""
    found = find_orphans(cache)
    for _, handle in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    end = time.monotonic() + _LONGEST
    while any(_lives(pid) for pid, _ in found) and time.monotonic() < end:
        time.sleep(0.02)
    for _, handle in found:
        os.close(handle)
    return [pid for pid, _ in found]


def find_orphans(cache: Path) -> list[tuple[int, int]]:
    """Process ids, each with a descriptor which, unlike the number, never names another process."""
    marks = {f"XDG_CACHE_HOME={cache.absolute()}".encode(), b"PYTHONHASHSEED=0"}
    found: list[tuple[int, int]] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(int(entry.name))
            variables = _environment(entry)
            if marks <= variables and any(one.startswith(b"LAB_JOB=") for one in variables):
                found.append((int(entry.name), handle))
            else:
                os.close(handle)
    return found


def _environment(entry: Path) -> set[bytes]:
    try:
        return set((entry / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
