"""The processes of an experiment: start, interrupt and end of the first one, and the memory of all as reported in
/proc.

`SandboxedProcess.kill_and_reap` leaves no process: in a sandbox it kills the first process of the namespace, and the
system then kills all others, regardless of the groups and sessions that they created. Without a sandbox it kills the
group and every visible descendant. An interrupt must not go to the group in which bubblewrap was started, because that
would end it; a sandbox has its own session, led by the namespace's first process, which ignores interrupts.

In a sandbox, a process cannot leave this tree: orphans become children of the namespace's first process. Without a
sandbox a process can leave it (a daemon), and is then not counted until `kill_orphans` looks for it.

psutil finds processes that outlived a run. It is not used for the tree and its memory, which are checked five times a
second, since it would read every process of the machine each time and does not distinguish anonymous from shared
memory. Needs a kernel with /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN, set by all distributions).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import stat
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from labwright.record.untrusted_files import BadFile
from labwright.sandbox.isolation.bubblewrap import BWRAP_PROGRAM

_STATUS_PATTERN = re.compile(r"^(RssAnon|RssShmem|Threads):\s+(\d+)", re.MULTILINE)
_PSS_PATTERN = re.compile(r"^(Pss_Anon|Pss_Shmem):\s+(\d+)", re.MULTILINE)
_KILL_WAIT_SECONDS = 5.0
"""Seconds to wait for killed processes to exit."""
_REAP_WAIT_SECONDS = 1.0
"""Seconds to wait for bubblewrap to reap the first process; only bubblewrap can do this."""
_INFO_WAIT_SECONDS = 30.0
"""Seconds to wait for bubblewrap to report the first process after creating the namespace."""
_NAMESPACE_WAIT_SECONDS = 10.0
"""Seconds to wait for the processes of a killed namespace."""
MAX_OPEN_FILES = 200_000
"""Maximum number of open files of an experiment: looking at each takes some microseconds."""
CACHE_VARIABLE = "SCIENTIST_CACHE"
"""Environment variable that marks a repository command with its run's cache; the command cannot see that folder."""


@dataclass(frozen=True)
class ResourceUse:
    """Total use of some processes: threads, and bytes of memory that is not backed by files."""

    tasks: int
    private: int
    shared: int


def list_process_tree(root: int, limit: int | None = None) -> set[int]:
    """Return a process and its descendants; the number does not exceed `limit` by much."""
    tree: set[int] = set()
    waiting = [root]
    while waiting and (limit is None or len(tree) <= limit):
        process = waiting.pop()
        if process in tree:
            continue
        tree.add(process)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                with contextlib.suppress(OSError):
                    waiting += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return tree


def measure_use(processes: Iterable[int]) -> ResourceUse:
    """Return an upper bound on the use, in which memory shared by several processes counts once for each. Fast."""
    tasks = private = shared = 0
    for process in processes:
        with contextlib.suppress(OSError):
            fields = dict(_STATUS_PATTERN.findall(Path(f"/proc/{process}/status").read_text(errors="replace")))
            tasks += int(fields.get("Threads", 0))
            private += int(fields.get("RssAnon", 0)) * 1024
            shared += int(fields.get("RssShmem", 0)) * 1024
    return ResourceUse(tasks, private, shared)


def measure_unique_use(processes: Iterable[int]) -> ResourceUse:
    """Return the use with shared pages counted once. Slow for large processes; threads are not counted.

    For processes without proportional sizes, all private memory counts, and the largest piece of shared memory.
    """
    private = shared = largest = 0
    for process in processes:
        parts = _read_pss(process)
        if parts:
            private += parts.get("Pss_Anon", 0)
            shared += parts.get("Pss_Shmem", 0)
        else:
            whole = measure_use((process,))
            private += whole.private
            largest = max(largest, whole.shared)
    return ResourceUse(0, private, shared + largest)


def read_proportional_bytes(process: int) -> int | None:
    """Return the proportional memory of a process in bytes, without files; None if not available."""
    parts = _read_pss(process)
    return parts["Pss_Anon"] + parts["Pss_Shmem"] if parts.keys() >= {"Pss_Anon", "Pss_Shmem"} else None


def _read_pss(process: int) -> dict[str, int]:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
        return {name: int(size) * 1024 for name, size in _PSS_PATTERN.findall(text)}
    return {}


def count_shm_bytes(processes: Iterable[int]) -> int:
    """Return the bytes in every /dev/shm that the processes see, each counted once; the one of this process is
    excluded.
    """
    sizes = {os.stat("/dev/shm").st_dev: 0}
    for process in processes:
        with contextlib.suppress(OSError):
            place = f"/proc/{process}/root/dev/shm"
            if (device := os.stat(place).st_dev) not in sizes:
                shm = os.statvfs(place)
                sizes[device] = (shm.f_blocks - shm.f_bfree) * shm.f_frsize
    return sum(sizes.values())


def count_deleted_file_bytes(processes: Iterable[int]) -> int:
    """Return the bytes in deleted files that are still open (memory files too). Raises `BadFile` for too many open
    files."""
    sizes: dict[tuple[int, int], int] = {}
    left = MAX_OPEN_FILES
    for process in processes:
        with contextlib.suppress(OSError):
            names = os.listdir(f"/proc/{process}/fd")
            if (left := left - len(names)) < 0:
                raise BadFile(f"its processes have more than {MAX_OPEN_FILES} open files")
            for name in names:
                with contextlib.suppress(OSError):
                    status = os.stat(f"/proc/{process}/fd/{name}")
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                        sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def kill_orphans(cache: Path) -> list[int]:
    """Kill processes that outlived the host process of kernels started with this cache; return their ids.

    In a sandbox there are none, since bubblewrap ends them together with the host process, unless that process was
    killed while bubblewrap was starting. Every kernel and command of a run, and all of their descendants, have the
    run's cache in their environment. Processes that replaced their environment, or run on another machine, are not
    found. Call this only while holding the run's lock.
    """
    orphans: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            variables = process.environ() if process.pid != os.getpid() else {}
            kernel = variables.get("XDG_CACHE_HOME") == str(cache.absolute()) and "LAB_JOB" in variables
            if (kernel or variables.get(CACHE_VARIABLE) == str(cache.absolute())) and variables.get(
                "PYTHONHASHSEED"
            ) == "0":
                orphans.append(process)
    for process in orphans:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(orphans, timeout=_KILL_WAIT_SECONDS)
    return [process.pid for process in orphans]


@dataclass
class SandboxedProcess:
    """Processes started by `process`; `first_pid` is the first process in its sandbox, by its number outside."""

    process: subprocess.Popen[bytes]
    wrapped: bool
    """Whether it runs in a sandbox."""
    first_pid: int | None = None
    _info: int | None = field(default=None, repr=False)
    """Descriptor from which the first process's id can be read."""
    _handle: int | None = field(default=None, repr=False)
    """Descriptor of the first process, which, unlike the process id, is never reused."""

    @classmethod
    def start(cls, command: Sequence[str], *, wrapped: bool, **options: Any) -> SandboxedProcess:
        """Start a command with the options of `Popen`; `read_first_pid` must follow. Raises `OSError`.

        It must not run in a thread, since a process that dies with its parent would die with the thread. Standard input
        is a pipe that this process holds open, by which a guard notices that this process has ended.
        """
        options |= {"stdin": subprocess.PIPE, "start_new_session": True}
        if not wrapped:
            return cls(subprocess.Popen[bytes](command, **options), wrapped)
        at = command.index(BWRAP_PROGRAM) + 1
        read, write = os.pipe()
        try:
            command = [*command[:at], "--info-fd", str(write), *command[at:]]
            process = subprocess.Popen[bytes](command, pass_fds=(write,), **options)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        return cls(process, wrapped, _info=read)

    def read_first_pid(self) -> None:
        """Read the first process's id from bubblewrap, if there is a sandbox. Blocks until it is available."""
        if self._info is None:
            return
        text = _read_info(self._info)
        os.close(self._info)
        self._info = None
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            first: int = json.loads(text)["child-pid"]
            self._handle = os.pidfd_open(first)
            self.first_pid = first

    def get_exit_code(self) -> int | None:
        """Return the exit code (negative: the signal), or None while the process lives. Does not reap it."""
        process = self.process
        if process.returncode is not None:
            return -signal.SIGKILL
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        # bubblewrap reports signals in the same way as a shell
        return 128 - code if self.wrapped and code > 128 else code

    def interrupt(self) -> None:
        """Send SIGINT to the processes in its group."""
        group = self.first_pid if self.wrapped else self.process.pid
        if group is not None and self.get_exit_code() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGINT)

    def kill_all(self) -> None:
        """Kill every process at once, without waiting. Thread-safe."""
        process = self.process
        if process.returncode is not None:
            return
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            return
        descendants = list_process_tree(process.pid) - {process.pid}
        # The process has not been reaped, so the group id is still valid, even if its leader is dead.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for descendant in descendants:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)

    def kill_and_reap(self) -> None:
        """Kill every process, wait until they are gone, and reap. Idempotent; blocks for some milliseconds."""
        self.kill_all()
        process = self.process
        if process.stdin is not None:
            process.stdin.close()
        if self._handle is not None:
            select.select([self._handle], [], [], _NAMESPACE_WAIT_SECONDS)
            os.close(self._handle)
            self._handle = None
        if process.returncode is not None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_REAP_WAIT_SECONDS if self.wrapped else 0)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # a driver or a disk may block the process, so that not even SIGKILL ends it
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)


def _read_info(descriptor: int) -> bytes:
    """Return what bubblewrap writes within `_INFO_WAIT_SECONDS`."""
    info, until = b"", time.monotonic() + _INFO_WAIT_SECONDS
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        info += piece
    return info
