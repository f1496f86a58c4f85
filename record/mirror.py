"""The log of a run as `events.jsonl`, one event a line: what a run's folder on a network filesystem holds of it.

A line is appended and synced before `append` returns, so that another machine can go on from the folder alone. What a
kill left of a line is cut off when the file is opened to be written.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

MIRROR = "events.jsonl"

Row = tuple[float, str]
"""When an event was committed, in seconds since the epoch, and its JSON."""


def mirrored_rows(path: Path) -> Iterator[Row]:
    """The whole lines of a mirror. A last line without its end is left out. Raises `OSError`, `ValueError`."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
                yield float(row["at"]), json.dumps(row["event"], separators=(",", ":"), ensure_ascii=False)
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"line {number} is damaged") from None


def line_of(at: float, body: str) -> bytes:
    """An event as a line of a mirror."""
    return f'{{"at":{at!r},"event":{body}}}\n'.encode()


class Mirror:
    """Appends to one `events.jsonl`; one writer at a time, under the run's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  closed by `close`
        self._cut()

    def append(self, at: float, body: str) -> None:
        """Add an event and sync it. What fails leaves no half line behind. Raises `OSError`."""
        end, line = os.fstat(self._file.fileno()).st_size, line_of(at, body)
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)
            raise

    def close(self) -> None:
        self._file.close()

    def _cut(self) -> None:
        whole = self.path.read_bytes().rfind(b"\n") + 1
        if whole < self.path.stat().st_size:
            self._file.truncate(whole)
