"""One writer process a run: a file locked by the kernel, with host and pid in it for the message to the second one.

The lock is an `flock`: it ends with the process that holds it, also on `kill -9`, so nobody has to clean up. On a
network filesystem, which may keep such a lock to one host, the holder also gives a sign of life: it rewrites the file
every `BEAT` seconds. Another host takes the run over only when there was none for `SILENT` seconds, by the clock of the
file server.

Whoever only looks (`holder`) writes nothing: the lock is tried for an instant, shared, which `hold` waits out.

What it does not guarantee: exclusion from a holder that is cut off from the server for `SILENT` seconds. A look from
another host goes by its own clock: where that is wrong by more than this, it names a holder that is gone, or none.
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
"""Seconds between two signs of life."""
MAX_SILENT_SECONDS = 90.0
"""Seconds without one after which the holder counts as dead."""
MAX_LOCK_WAIT_SECONDS = 1.0
"""Seconds during which `hold` tries again: somebody may just look."""


class LockOwner(FrozenModel):
    """Who holds a lock, as written in it."""

    host: str
    pid: int


class RunLockedError(UsageError):
    """Another process works on this run."""


@contextmanager
def acquire_lock(
    run: Path,
    *,
    network: bool = False,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    max_silent_seconds: float = MAX_SILENT_SECONDS,
) -> Generator[None]:
    """Hold the run's lock. Raises `RunLockedError` soon when another process has it, and `RecordError`."""
    path = run / "lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RecordError(
            f"{run} cannot be written to ({error.strerror}): fix its permissions or its mount, then resume"
        ) from None
    try:
        if not _try_lock(file) or (
            network and _is_alive_elsewhere(path, max_silent_seconds, lambda: _read_server_time(run))
        ):
            raise RunLockedError(
                f"{run} is being worked on by {describe_owner(path)}; stop it first: scientist stop {run}"
            )
        _write_owner(file)
        done = threading.Event()

        def sign_on() -> None:
            while not done.wait(heartbeat_seconds):
                with suppress(OSError):  # a server that is away for a moment: the next sign may reach it
                    _write_owner(file)

        sign = threading.Thread(target=sign_on, daemon=True)
        try:
            if network:
                sign.start()
            yield
        finally:
            done.set()
            if network:
                sign.join()
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def find_owner(run: Path) -> str | None:
    """Who works on a run now, in words; None when nobody does. Raises `OSError` where the lock may not be read."""
    path = run / "lock"
    try:
        if not path.stat().st_size:  # emptied by the last holder
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
    """Whether a folder is empty but for what `hold` makes, as a process leaves it that ended before it made its log."""
    if not folder.is_dir():
        return False
    path, found = folder / "lock", [one.name for one in folder.iterdir()]
    return not found or (
        found == ["lock"] and path.is_file() and (not path.stat().st_size or _read_owner(path) is not None)
    )


def describe_owner(path: Path) -> str:
    """Host and process id written in a lock file, in words."""
    owner = _read_owner(path)
    return f"process {owner.pid} on {owner.host}" if owner is not None else "another process"


def _read_owner(path: Path) -> LockOwner | None:
    try:
        return LockOwner.model_validate_json(path.read_bytes()[:1000])
    except (ValidationError, OSError):
        return None


def _try_lock(file: int) -> bool:
    """Whether the lock could be taken, now or in a moment."""
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
    """Whether a process of another host holds the lock by its signs of life, though flock does not say so."""
    owner = _read_owner(path)
    try:
        return owner is not None and owner.host != socket.gethostname() and clock() - path.stat().st_mtime < silent
    except OSError:
        return False


def _read_server_time(folder: Path) -> float:
    """The present time by the clock that gives files their times. Raises `OSError` where nothing can be written."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        return os.fstat(probe.fileno()).st_mtime


def _write_owner(file: int) -> None:
    """Write over what stands there, so that nobody finds an empty file meanwhile."""
    text = LockOwner(host=socket.gethostname(), pid=os.getpid()).model_dump_json().encode()
    os.pwrite(file, text, 0)
    os.ftruncate(file, len(text))
    os.fsync(file)
