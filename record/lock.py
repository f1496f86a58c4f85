"""One process per folder: the lock of runs, ablations, questions, searches for ideas, campaigns and benchmarks.

The lock is the file `lock` in the folder. It contains the owner: host, boot of its kernel, process id and start of the
process. Three facts decide whether an owner is alive:

- a file lock of the operating system (`filelock`), which ends with its process, even on `kill -9`; between processes of
  one kernel it alone decides,
- the process id with the start of the process, where the filesystem has no file locks,
- a heartbeat, for owners on other hosts, whose file locks may be invisible here (NFS with `nolock`, Lustre): the
  owner rewrites the file every `HEARTBEAT_SECONDS`, and another host takes over only after `MAX_SILENT_SECONDS`
  without one, by the clock of the file server.

Limits: if an owner is cut off from the file server for `MAX_SILENT_SECONDS`, another process may take over; the first
one notices it at its next heartbeat, and its next write is refused (`record.line_store`). `find_owner` on another host
uses that host's clock; if that clock is wrong by more than this time, the reported owner may be outdated or missing.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import threading
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from labwright.record.errors import UsageError
from labwright.record.line_store import RecordError
from labwright.record.schema import FrozenModel

LOCK_FILE = "lock"
HEARTBEAT_SECONDS = 15.0
MAX_SILENT_SECONDS = 90.0
"""Maximum time without a heartbeat; then the owner counts as dead."""
MAX_LOCK_WAIT_SECONDS = 1.0
"""Maximum wait for a process that is just ending."""
SETTLE_SECONDS = 1.0
"""Wait after taking a lock that no file lock protects."""
_NO_FILE_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP})


class LockOwner(FrozenModel):
    """The process that holds a lock, as written in the file."""

    host: str
    pid: int
    boot: str = ""
    """Boot id of the kernel, which containers of one machine share."""
    start: str = ""
    """Start of the process in clock ticks since boot, which no change of the clock affects; empty if unknown."""

    def is_on_kernel(self, other: LockOwner) -> bool:
        """Return whether two processes run on the same kernel, which sees the file locks of both."""
        return self.boot == other.boot and (self.boot != "" or self.host == other.host)

    @property
    def is_running(self) -> bool:
        """Whether the owner, if it is on this host, has not ended."""
        start = _read_start(self.pid)
        return start is not None and self.start in ("", start)


class RunLockedError(UsageError):
    """Raised when another process is already working on this run."""


def describe_process() -> LockOwner:
    """Describe this process as an owner."""
    return LockOwner(
        host=socket.gethostname(), pid=os.getpid(), boot=_read_boot_id(), start=_read_start(os.getpid()) or ""
    )


def _read_boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _read_start(pid: int) -> str | None:
    """Return the start of a process; None if it has ended."""
    with suppress(OSError, ValueError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]
    return None


class FolderLock:
    """The lock of one folder. `acquire` and `release` are called by the process that works on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / LOCK_FILE
        self._guard = FileLock(self.path, MAX_LOCK_WAIT_SECONDS, thread_local=False, fallback_to_soft=False)
        self._done = threading.Event()
        self._heartbeat = threading.Thread(target=self._send_heartbeats, daemon=True)
        self._me = describe_process()

    def acquire(self) -> None:
        """Take the lock. Raises `RunLockedError` within seconds if another process has it, and `RecordError`."""
        try:
            if not self._try_acquire():
                self._guard.release()
                owner = describe_owner(self.path)
                fix = f"stop it first: scientist stop {self.folder}"
                raise RunLockedError(f"{self.folder} is in use by {owner}; {fix}")
        except OSError as error:
            self._guard.release()
            fix = "fix its permissions or mount, then resume"
            raise RecordError(f"{self.folder} is not writable ({error.strerror}): {fix}") from None
        self._heartbeat.start()

    def release(self) -> None:
        """Give the lock back."""
        self._done.set()
        self._heartbeat.join()
        with suppress(OSError):
            if _read_owner(self.path) == self._me:
                os.truncate(self.path, 0)
        self._guard.release()

    def _try_acquire(self) -> bool:
        """Return whether this process is now the owner."""
        has_file_locks = True
        try:
            self._guard.acquire()
        except Timeout:
            return False
        except OSError as error:
            if error.errno not in _NO_FILE_LOCKS:
                raise
            has_file_locks = False
        owner = _read_owner(self.path)
        one_kernel = owner is None or owner.is_on_kernel(self._me)
        if owner is not None and not (one_kernel and has_file_locks):
            silent = _read_server_time(self.folder) - self.path.stat().st_mtime
            on_host = one_kernel and owner.host == self._me.host
            if owner.is_running if on_host else silent < MAX_SILENT_SECONDS:
                return False
        self._write_owner()
        if not (one_kernel and has_file_locks):
            time.sleep(SETTLE_SECONDS)  # another process may have written its name at the same moment
            return _read_owner(self.path) == self._me
        return True

    def _send_heartbeats(self) -> None:
        while not self._done.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):  # the server is temporarily away: the next heartbeat may succeed
                if _read_owner(self.path) not in (self._me, None):
                    return  # another host took over after this one was cut off
                self._write_owner()

    def _write_owner(self) -> None:
        """Overwrite the owner in place, so that no reader finds an empty file."""
        text = self._me.model_dump_json().encode()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.pwrite(file, text, 0)
            os.ftruncate(file, len(text))
            os.fsync(file)
        finally:
            os.close(file)


@contextmanager
def acquire_lock(folder: Path) -> Generator[None]:
    """Hold the lock of a folder. Raises `RunLockedError`, `RecordError`."""
    lock = FolderLock(folder)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def find_owner(folder: Path) -> str | None:
    """Describe the process that works on a folder; None if there is none. Raises `OSError`. Nothing is written."""
    path, me = folder / LOCK_FILE, describe_process()
    try:
        silent, owner = time.time() - path.stat().st_mtime, _read_owner(path)
    except FileNotFoundError:
        return None
    if owner is None:
        return None
    on_host = owner.host == me.host and owner.is_on_kernel(me)
    return describe_owner(path) if (owner.is_running if on_host else silent < MAX_SILENT_SECONDS) else None


def is_abandoned(folder: Path) -> bool:
    """Return whether the process that worked on a folder was killed. Raises `OSError`."""
    return _read_owner(folder / LOCK_FILE) is not None and find_owner(folder) is None


def is_unused(folder: Path, others: Collection[str] = ()) -> bool:
    """Return whether a folder is empty except for a lock file, which a process leaves if it ends before creating
    its log, and for `others`, complete or partly written, which are ignored next to the lock of a killed process."""
    if not folder.is_dir():
        return False
    path, found = folder / LOCK_FILE, {one.name.removeprefix(".").removesuffix(".part") for one in folder.iterdir()}
    if found <= {LOCK_FILE} and (not found or (path.is_file() and not path.stat().st_size)):
        return True
    return found <= {LOCK_FILE, *others} and _read_owner(path) is not None


def describe_owner(path: Path) -> str:
    """Describe the host and process id in a lock file."""
    owner = _read_owner(path)
    return f"process {owner.pid} on {owner.host}" if owner is not None else "another process"


def _read_owner(path: Path) -> LockOwner | None:
    try:
        return LockOwner.model_validate_json(path.read_bytes()[:1000])
    except (ValidationError, OSError):
        return None


def _read_server_time(folder: Path) -> float:
    """Return the current time of the clock that sets file times. Raises `OSError` if the folder is not writable."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        return os.fstat(probe.fileno()).st_mtime
