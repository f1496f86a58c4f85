"""One writer process a run: a file locked by the kernel, with host and pid in it for the message to the second one.

The lock is an `flock`: it ends with the process that holds it, also on `kill -9`, so nobody has to clean up. On a
network filesystem, which may keep such a lock to one host, the holder also gives a sign of life: it rewrites the file
every `BEAT` seconds. Another host takes the run over only when there was none for `SILENT` seconds, by the clock of the
file server. What it does not guarantee: exclusion from a holder that is cut off from the server for that long.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from record.log import RecordError

BEAT = 15.0
"""Seconds between two signs of life."""
SILENT = 90.0
"""Seconds without one after which the holder counts as dead."""


class RunLockedError(Exception):
    """Another process works on this run."""


@contextmanager
def hold(run: Path, *, network: bool = False, beat: float = BEAT, silent: float = SILENT) -> Generator[None]:
    """Hold the run's lock. Raises `RunLockedError` at once when another process has it, and `RecordError`."""
    path = run / "lock"
    with _opened(path) as file:
        if not _taken(file) or (network and _alive_elsewhere(path, silent)):
            raise RunLockedError(f"{run} is being worked on by {describe(path)}; stop it first: scientist stop {run}")
        _sign(file)
        done = threading.Event()
        sign = threading.Thread(target=_signs, args=(file, done, beat), daemon=True)
        try:
            if network:
                sign.start()
            yield
        finally:
            done.set()
            if network:
                sign.join()
            file.truncate(0)


def holder(run: Path) -> str | None:
    """Who works on a run now, in words; None when nobody does."""
    path = run / "lock"
    if not path.exists():
        return None
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return describe(path)
    network = (run / "events.jsonl").exists()
    return describe(path) if network and _alive_elsewhere(path, SILENT) else None


def describe(path: Path) -> str:
    """Host and process id written in a lock file, in words."""
    try:
        owner = json.loads(path.read_text())
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, OSError):
        return "another process"


def _opened(path: Path) -> IO[str]:
    try:
        return open(path, "a+")
    except OSError as error:
        raise RecordError(f"{path.parent} cannot be written to ({error.strerror}): mend its rights or its mount, then "
                          "resume") from None


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alive_elsewhere(path: Path, silent: float) -> bool:
    """Whether a process of another host holds the lock by its signs of life, though flock does not say so."""
    try:
        owner = json.loads(path.read_text())
        return owner["host"] != socket.gethostname() and _server_now(path) - path.stat().st_mtime < silent
    except (ValueError, KeyError, OSError):
        return False


def _server_now(path: Path) -> float:
    """The present time by the clock that gives files their times. Raises `OSError` where nothing can be written."""
    probe = path.with_name(f".lock-{socket.gethostname()}-{os.getpid()}")
    try:
        probe.write_text("now")
        return probe.stat().st_mtime
    finally:
        with suppress(OSError):
            probe.unlink()


def _sign(file: IO[str]) -> None:
    file.truncate(0)
    file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
    file.flush()
    os.fsync(file.fileno())


def _signs(file: IO[str], done: threading.Event, beat: float) -> None:
    while not done.wait(beat):
        with suppress(OSError):  # a server that is away for a moment: the next sign may reach it
            _sign(file)
