"""One writer process per run: a kernel file lock that contains host and process id for the error message.

The lock is an `flock`: it ends with its process, even on `kill -9`, so it never has to be cleaned up. On a network
filesystem, where such a lock may apply to one host only, the owner also sends a heartbeat: it rewrites the file every
`HEARTBEAT_SECONDS`. Another host takes over the run only after `MAX_SILENT_SECONDS` without a heartbeat, by the clock
of the file server.

`find_owner` writes nothing: it briefly tries a shared lock, which `acquire_lock` tolerates by waiting.

Limits: if an owner is cut off from the server for `MAX_SILENT_SECONDS`, another process may also own the run.
`find_owner` on another host uses that host's clock; if that clock is wrong by more than this time, the reported owner
may be outdated or missing.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from labwright.record.errors import UsageError
from labwright.record.jsonl_log import JSONL_LOG_FILE
from labwright.record.log_reader import RecordError
from labwright.record.schema.frozen_model import FrozenModel

HEARTBEAT_SECONDS = 15.0
"""Interval between heartbeats."""
MAX_SILENT_SECONDS = 90.0
"""Maximum time without a heartbeat; then the owner counts as dead."""
MAX_LOCK_WAIT_SECONDS = 1.0
"""Duration of retries in `acquire_lock`, since `find_owner` may hold a shared lock for an instant."""


class LockOwner(FrozenModel):
    """The process that holds a lock, as written in the file."""

    host: str
    pid: int


class RunLockedError(UsageError):
    """Raised when another process is already working on this run."""


@contextmanager
def acquire_lock(
    run: Path,
    *,
    network: bool = False,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    max_silent_seconds: float = MAX_SILENT_SECONDS,
) -> Generator[None]:
    """Hold the run's lock. Raises `RunLockedError` within seconds if another process has it, and `RecordError`."""
    path = run / "lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RecordError(
            f"{run} is not writable ({error.strerror}): fix its permissions or mount, then resume"
        ) from None
    try:
        if not _try_lock(file) or (
            network and _is_alive_elsewhere(path, max_silent_seconds, lambda: _read_server_time(run))
        ):
            raise RunLockedError(f"{run} is in use by {describe_owner(path)}; stop it first: scientist stop {run}")
        _write_owner(file)
        done = threading.Event()

        def send_heartbeats() -> None:
            while not done.wait(heartbeat_seconds):
                with suppress(OSError):  # the server is temporarily away: the next heartbeat may succeed
                    _write_owner(file)

        heartbeat = threading.Thread(target=send_heartbeats, daemon=True)
        try:
            if network:
                heartbeat.start()
            yield
        finally:
            done.set()
            if network:
                heartbeat.join()
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def find_owner(run: Path) -> str | None:
    """Describe the process of a run; None if there is none. Raises `OSError` if the lock cannot be read."""
    path = run / "lock"
    try:
        if not path.stat().st_size:  # emptied by the last owner
            return None
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return describe_owner(path)
    except FileNotFoundError:
        return None
    return (
        describe_owner(path)
        if (run / JSONL_LOG_FILE).exists() and _is_alive_elsewhere(path, MAX_SILENT_SECONDS, time.time)
        else None
    )


def is_unused(folder: Path) -> bool:
    """Return whether a folder is empty except for a lock file, which a process leaves if it ends before creating
    its log."""
    if not folder.is_dir():
        return False
    path, found = folder / "lock", [one.name for one in folder.iterdir()]
    return not found or (
        found == ["lock"] and path.is_file() and (not path.stat().st_size or _read_owner(path) is not None)
    )


def describe_owner(path: Path) -> str:
    """Describe the host and process id in a lock file."""
    owner = _read_owner(path)
    return f"process {owner.pid} on {owner.host}" if owner is not None else "another process"


def _read_owner(path: Path) -> LockOwner | None:
    try:
        return LockOwner.model_validate_json(path.read_bytes()[:1000])
    except (ValidationError, OSError):
        return None


def _try_lock(file: int) -> bool:
    """Return whether the lock could be acquired within `MAX_LOCK_WAIT_SECONDS`."""
    end = time.monotonic() + MAX_LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)


def _is_alive_elsewhere(path: Path, silent: float, clock: Callable[[], float]) -> bool:
    """Return whether a process on another host holds the lock according to its heartbeat, even if flock does not
    report it.
    """
    owner = _read_owner(path)
    try:
        return owner is not None and owner.host != socket.gethostname() and clock() - path.stat().st_mtime < silent
    except OSError:
        return False


def _read_server_time(folder: Path) -> float:
    """Return the current time of the clock that sets file times. Raises `OSError` if the folder is not writable."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        return os.fstat(probe.fileno()).st_mtime


def _write_owner(file: int) -> None:
    """Overwrite the owner in place, so that no reader finds an empty file."""
    text = LockOwner(host=socket.gethostname(), pid=os.getpid()).model_dump_json().encode()
    os.pwrite(file, text, 0)
    os.ftruncate(file, len(text))
    os.fsync(file)
