"""Runs on a network filesystem: detection, and the event log as `events.jsonl`.

SQLite's WAL needs shared memory between processes, which processes on different hosts do not have. On a network
filesystem the log is therefore `events.jsonl` in the run's folder: one event per line, synced before `append` returns,
so that another machine can continue from the folder alone. An incomplete last line is removed when the file is opened
for writing.

Source: "Write-Ahead Logging", section 1, sqlite.org/wal.html.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

NETWORK_FILESYSTEMS = frozenset(
    {
        "nfs",
        "nfs3",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "lustre",
        "gpfs",
        "beegfs",
        "beegfs_nodev",
        "ceph",
        "glusterfs",
        "afs",
        "orangefs",
        "pvfs2",
        "wekafs",
        "davfs",
        "ncpfs",
        "drvfs",
        "9p",
        "virtiofs",
        "fuse",
        "fuseblk",
        "vboxsf",
    }
)
"""Filesystems shared by several hosts, or by a host and its guests, in addition to every `fuse.*`; SQLite's locks and
shared memory may not work on them."""


def find_filesystem_type(path: Path) -> str:
    """Return the filesystem type of a path: that of the longest mount point above it; if several match, the latest."""
    path = path.resolve()
    above = [mount for mount in psutil.disk_partitions(all=True) if path.is_relative_to(mount.mountpoint)]
    return max(reversed(above), key=lambda mount: len(mount.mountpoint)).fstype if above else ""


def is_on_network(path: Path) -> bool:
    """Return whether a path is on a filesystem on which WAL does not work, or may not work."""
    kind = find_filesystem_type(path)
    return kind in NETWORK_FILESYSTEMS or kind.startswith("fuse.")


JSONL_LOG_FILE = "events.jsonl"

LogRow = tuple[float, str]
"""(commit time of an event in seconds since the epoch, its JSON)."""


def read_jsonl_rows(path: Path) -> Iterator[LogRow]:
    """Yield the complete lines of an `events.jsonl`, without an unterminated last line. Raises `OSError`,
    `ValueError`."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
                yield float(row["at"]), json.dumps(row["event"], separators=(",", ":"), ensure_ascii=False)
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"line {number} is damaged") from None


def format_row(at: float, body: str) -> bytes:
    """Format an event as a line of the log."""
    return f'{{"at":{at!r},"event":{body}}}\n'.encode()


class JsonlLog:
    """Appends to an `events.jsonl`; there is only one writer at a time, under the run's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  closed by `close`
        whole = path.read_bytes().rfind(b"\n") + 1
        if whole < path.stat().st_size:
            self._file.truncate(whole)

    def append(self, at: float, body: str) -> None:
        """Add an event and sync it. A failed write leaves no partial line. Raises `OSError`."""
        end, line = os.fstat(self._file.fileno()).st_size, format_row(at, body)
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)
            raise

    def close(self) -> None:
        self._file.close()
