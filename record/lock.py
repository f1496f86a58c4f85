"""One writer process a run: a file locked by the kernel, with host and pid in it for the message to the second one.

The lock is an `flock`: it ends with the process that holds it, also on `kill -9`, so nobody has to clean up.
What it does not guarantee: exclusion between hosts on a network filesystem that ignores flock.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class RunLockedError(Exception):
    """Another process works on this run."""


@contextmanager
def hold(run: Path) -> Generator[None]:
    """Hold the run's lock. Raises `RunLockedError` at once when another process has it."""
    path = run / "lock"
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunLockedError(
                f"{run} is being worked on by {describe(path)}; stop it first: scientist stop {run}") from None
        file.truncate(0)
        file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
        file.flush()
        yield


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
    return None


def describe(path: Path) -> str:
    """Host and process id written in a lock file, in words."""
    try:
        owner = json.loads(path.read_text())
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, OSError):
        return "another process"
