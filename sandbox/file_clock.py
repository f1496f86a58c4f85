"""The clock that files get their times from: a file server has one of its own, which may be seconds off ours."""

from __future__ import annotations

import os
import secrets
import time

from labwright.sandbox.safe_io import FolderRef, open_subfolder

_MAX_TICK_SECONDS = 3.0
"""Seconds in which every clock moves on."""


def read_file_time(folder: FolderRef) -> float:
    """Seconds since 1970 by the clock that files of a folder get their times from: a file server has one of its own.
    Raises `BadFile`, `OSError`."""
    name = f".{secrets.token_hex(8)}.time"
    with open_subfolder(folder) as place:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
        try:
            return os.fstat(file).st_mtime
        finally:
            os.close(file)
            os.unlink(name, dir_fd=place)


def wait_for_next_time(folder: FolderRef) -> float:
    """A time by that clock which is later than those of all files that were written before. Blocks until there is one:
    some milliseconds, a second or two where a server counts whole ones. Raises `BadFile`, `OSError`."""
    before, until = read_file_time(folder), time.monotonic() + _MAX_TICK_SECONDS
    while (now := read_file_time(folder)) == before and time.monotonic() < until:
        time.sleep(0.002)
    return now
