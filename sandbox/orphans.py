"""Processes of a run's kernels that outlived the program, found by what their environment says.

Behind walls there are none: bubblewrap ends them with the program. Without walls a `kill -9` of the program leaves the
code that ran, and all that it started. Every kernel of a run has the run's cache in its environment, and so has what
it starts, whatever sessions and groups that makes; a process that replaced its environment is not found, nor one on
another machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_LONGEST = 5.0
"""Seconds to wait until what was killed is gone."""


def reap(cache: Path) -> list[int]:
    """Kill what is left of the kernels that were started with this cache; their process ids. Call under the lock."""
    found = orphans(cache)
    for _, handle in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    end = time.monotonic() + _LONGEST
    while any(_lives(pid) for pid, _ in found) and time.monotonic() < end:
        time.sleep(0.02)
    for _, handle in found:
        os.close(handle)
    return [pid for pid, _ in found]


def orphans(cache: Path) -> list[tuple[int, int]]:
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
