"""The processes of an experiment: start, interrupt and end of the first one, the memory of all as reported in /proc,
their limits, and the folder for communication with a kernel.

`SandboxedProcess.kill_and_reap` leaves no process: in a sandbox it kills the first process of the namespace, and the
system then kills all others, regardless of the groups and sessions that they created. Without a sandbox it kills the
group and every visible descendant. An interrupt must not go to the group in which bubblewrap was started, because that
would end it; a sandbox has its own session, led by the namespace's first process, which ignores interrupts.

In a sandbox, a process cannot leave this tree: orphans become children of the namespace's first process. Without a
sandbox a process can leave it (a daemon), and is then not counted until `kill_orphans` looks for it.

psutil finds processes that outlived a run. It is not used for the tree and its memory, which are checked five times a
second, since it would read every process of the machine each time and does not distinguish anonymous from shared
memory. Needs a kernel with /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN, set by all distributions).

Resource limits of one experiment: some are enforced by the system, the others by a watchdog that kills the experiment.

The watchdog checks about five times a second in separate threads, which a busy event loop cannot delay, nor can a
million files delay the check of memory. Between checks, memory can exceed its limit by the amount that can be written
in 0.2 s, and disk by the amount that can be written in one or two seconds (there is no quota). The system enforces the
size of a single file (RLIMIT_FSIZE), and the number of tasks if control groups are writable or this process is not
root. Memory means anonymous pages and shared memory; pages shared by several processes count once. GPU memory is not
limited.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import select
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import BadFile, count_bytes, make_harmless, remove_tree
from labwright.sandbox.job import ExecutorError
from labwright.sandbox.settings import SandboxSettings

BWRAP_PROGRAM = "bwrap"
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


def measure_unique_use(processes: Iterable[int], enough: float = math.inf) -> ResourceUse:
    """Return the use with shared pages counted once. Slow for large processes; threads are not counted.

    The largest processes come first, and the rest is left out once more than `enough` private bytes are found: code
    can make the reading of all its processes take minutes. For processes without proportional sizes, all private memory
    counts, and the largest piece of shared memory.
    """
    private = shared = largest = 0
    for process in sorted(processes, key=lambda process: measure_use((process,)).private, reverse=True):
        if private > enough:
            break
        parts = dict[str, str]()
        with contextlib.suppress(OSError):
            parts = dict(_PSS_PATTERN.findall(Path(f"/proc/{process}/smaps_rollup").read_text()))
        whole = measure_use(() if parts else (process,))
        private += int(parts.get("Pss_Anon", 0)) * 1024 + whole.private
        shared += int(parts.get("Pss_Shmem", 0)) * 1024
        largest = max(largest, whole.shared)
    return ResourceUse(0, private, shared + largest)


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
            own = variables.get("XDG_CACHE_HOME" if "LAB_JOB" in variables else CACHE_VARIABLE)
            if own == str(cache.absolute()) and variables.get("PYTHONHASHSEED") == "0":
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
        if self.process.returncode is not None:
            return -signal.SIGKILL
        status = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
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
        for kill, pid in ((os.killpg, process.pid), *((os.kill, pid) for pid in descendants)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)

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


# --- limits -----------------------------------------------------------------------------------------------------------


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
    if settings.memory_gb is not None:
        memory = settings.memory_gb * 1e9
    else:
        memory = DEFAULT_MEMORY_SHARE * (machine_bytes or read_machine_memory()) / slots
    return ResourceLimits(memory_bytes=int(memory), disk_bytes=int(settings.disk_gb * 1e9), tasks=settings.tasks)


def compute_cell_capacity(settings: SandboxSettings, gpus: int, machine_bytes: int | None = None) -> ResourceNeeds:
    """Return the maximum resources of one cell, if it runs alone, on a machine with `gpus` GPUs and this much memory,
    by default this machine's."""
    limits = compute_limits(settings, slots=1, machine_bytes=machine_bytes)
    return ResourceNeeds(gpus=gpus, hours=settings.timeout / 3600, memory_gb=limits.memory_bytes / 1e9)


def read_machine_memory() -> int:
    """Return the memory of this machine, or of this process's control group if smaller, in bytes."""
    sizes = [int(psutil.virtual_memory().total)]
    for name in ("memory.max", "memory.limit_in_bytes"):
        for path in _find_own_cgroup_paths("memory", name):
            with contextlib.suppress(OSError, ValueError):
                sizes.append(int(path.read_text()))
    return min(sizes)


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


def enter_task_group(group: Path) -> list[str]:
    """Return a command prefix that joins a control group before the command does any work."""
    return ["/bin/sh", "-c", 'echo $$ >"$1" && shift && exec "$@"', "sh", str(group / "cgroup.procs")]


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
_RESERVE_BYTES = 10**9
"""Free space below which code is killed; half of the free space at its start if that is less. Deleted files are not
counted if code only maps them, or keeps them in a socket, and the program itself needs the disk."""


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
    _reserve_bytes: float = _RESERVE_BYTES
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start watching."""
        self._reserve_bytes = min(_RESERVE_BYTES, *(free / 2 for free in self._read_free_bytes()))
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
                message = f"checking its limits failed ({type(error).__name__}: {error}), so it was killed"
                failure = Failure(kind="other", message=message)
            if failure is not None and not self._ended.is_set():
                self._ended.set()
                self.failure = failure
                self.kill_all()

    def check_use(self) -> Failure | None:
        """Return a failure if the limit of tasks or memory is currently exceeded."""
        processes = list_process_tree(self.root, self.limits.tasks)
        now = measure_use(processes)
        if now.tasks > self.limits.tasks:
            message = (
                f"more than {self.limits.tasks} processes and threads (sandbox.tasks) ran and were killed: start fewer"
            )
            return Failure(kind="other", message=message)
        return self._check_memory(now, count_shm_bytes(processes))

    def _check_memory(self, most: ResourceUse, files: int) -> Failure | None:
        if most.private + max(most.shared, files) <= self.limits.memory_bytes:
            return None
        peak = most.private + most.shared + files
        for _ in range(_CONFIRMING_READINGS):
            processes = list_process_tree(self.root, self.limits.tasks)
            reading = measure_unique_use(processes, self.limits.memory_bytes)
            peak = min(peak, reading.private + max(reading.shared, files))
        if peak <= self.limits.memory_bytes:
            return None
        what = f"used {_format_excess(peak, self.limits.memory_bytes, 'memory')} (sandbox.memory_gb)"
        return Failure(kind="memory", message=f"the experiment {what}, and was killed: use smaller batches or models")

    def check_disk(self) -> Failure | None:
        """Return a failure if the limit of files is currently exceeded; does nothing if the last check was recent, and
        the free space is about what it was then."""
        began, free = time.monotonic(), sum(each := self._read_free_bytes())
        if any(0 < one < self._reserve_bytes for one in each):  # 0: unknown
            left = f"{min(filter(None, each)) / 1e9:.2f} GB"
            return Failure(
                kind="other", message=f"only {left} of the disk were free, so it was killed: free some space"
            )
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
        what = f"wrote {_format_excess(written, self.limits.disk_bytes, 'files')} (sandbox.disk_gb)"
        return Failure(kind="other", message=f"the experiment {what}, and was killed: keep less on disk")

    def _read_free_bytes(self) -> list[int]:
        return [*map(_read_free_bytes, (self.shared, *self.folders))]


def _read_free_bytes(folder: Path) -> int:
    with contextlib.suppress(OSError):
        system = os.statvfs(folder)
        return system.f_bavail * system.f_frsize
    return 0


def _format_excess(size: int, limit: int, what: str) -> str:
    return f"{size / 1e9:.2f} GB of {what}, more than its limit of {limit / 1e9:.2f} GB"


# --- folders ----------------------------------------------------------------------------------------------------------


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
            is_new = time.time() - status.st_mtime <= _MIN_STALE_SECONDS
            if is_new or status.st_uid != os.geteuid() or not path.is_dir():
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path, ignore_errors=True)
            finally:
                os.close(lock)
    for group in (group for place in _find_own_cgroup_paths("pids", "") for group in place.glob(f"{NAME_PREFIX}*")):
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
        raise ExecutorError(f"cannot create the folder {path}: {error.strerror}") from error
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise ExecutorError(f"{path} must be a folder that only you can access (mode 700): remove it")
    return path
