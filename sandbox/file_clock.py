"""The clock of file timestamps: a file server has its own clock, which may differ from the local one by seconds."""

from __future__ import annotations

import os
import secrets
import time

from labwright.record.untrusted_files import FolderRef, open_subfolder

_MAX_TICK_SECONDS = 3.0
"""Seconds within which every clock advances."""


def read_file_time(folder: FolderRef) -> float:
    """Return the time of a folder's file server in seconds since 1970. Raises `BadFile`, `OSError`."""
    name = f".{secrets.token_hex(8)}.time"
    with open_subfolder(folder) as place:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
        try:
            return os.fstat(file).st_mtime
        finally:
            os.close(file)
            os.unlink(name, dir_fd=place)


def wait_for_next_time(folder: FolderRef) -> float:
    """Block until file timestamps in the folder advance, and return the new time.

    It is later than the timestamps of all files written before. This takes milliseconds, or up to two seconds if the
    server counts whole seconds. Raises `BadFile`, `OSError`.
    """
    before, until = read_file_time(folder), time.monotonic() + _MAX_TICK_SECONDS
    while (now := read_file_time(folder)) == before and time.monotonic() < until:
        time.sleep(0.002)
    return now
