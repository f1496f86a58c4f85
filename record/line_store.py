"""The append-only store of the program: a file of JSON lines with checksums, written by one process at a time.

The first line is a header with the format version and the kind of the record; every other line is one transaction:

  {"crc":"1c291ca3","format":5,"kind":"run"}
  {"crc":"9f1d0c7a","at":1780000000.25,"event":{...}}

`crc` is the CRC-32 of the rest of the line. `LineStore.append` returns once the line is on disk (`fdatasync`); the
folder is synced when the file is created. A kill, a full disk or a power failure can damage only the last line, which
was never acknowledged: readers skip it, and opening the file for writing removes it. Damage anywhere else is an error.

It needs neither shared memory nor byte-range locks, so it works on network filesystems, where clusters keep their
files.

Limits: a last line that was acknowledged and damaged later cannot be distinguished from a torn one. `append` detects a
second writer by the size of the file; the lock (`record.lock`) has to prevent it.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from labwright.record.errors import UsageError, UserError
from labwright.record.run_folder import sync_folder, write_file

FORMAT_VERSION = 5
"""Version of the record format that this program reads and writes. Increment it when the stored form changes."""
EVENTS_FILE = "events.jsonl"
"""The log of a study or of a search for ideas."""
RecordKind = Literal["run", "ideation", "campaign", "exchanges", "answers"]
LogRow = tuple[float, str]
"""(commit time in seconds since the epoch, JSON of the event)."""

_PREFIX = b'{"crc":"'
_REST = len(_PREFIX) + 10
"""Offset of the part of a line that the checksum covers."""
_AT, _EVENT = b'"at":', b',"event":'


class RecordError(UserError):
    """A record cannot be opened or written. The message names the file and the fix."""


class RecordVersionError(RecordError, UsageError):
    """A record was written by another version of the program. The user must use that version or another run."""


class StoredRow(NamedTuple):
    """A row with its place in the file: offset of its line in bytes, and the line's length."""

    offset: int
    length: int
    at: float
    body: str


def format_row(at: float, body: str) -> bytes:
    """Format an event, given as JSON, as a line of a store."""
    return _format_line(f'"at":{at!r},"event":{body}}}'.encode())


def format_header(kind: RecordKind) -> bytes:
    """Format the first line of a store."""
    return _format_line(f'"format":{FORMAT_VERSION},"kind":"{kind}"}}'.encode())


def _format_line(rest: bytes) -> bytes:
    return b'%b%08x",%b\n' % (_PREFIX, zlib.crc32(rest), rest)


def _is_intact(line: bytes) -> bool:
    return line.endswith(b"\n") and line[:_REST] == b'%b%08x",' % (_PREFIX, zlib.crc32(line[_REST:-1]))


def read_kind(path: Path) -> RecordKind:
    """Return the kind of the record in a file from its header. Raises `RecordError`, `RecordVersionError`."""
    try:
        with open(path, "rb") as file:
            line = file.readline(1_000_000)
    except OSError as error:
        raise RecordError(f"cannot read the record {path}: {error.strerror}") from None
    try:
        first: Any = json.loads(line)
        found = first.get("format", f"before {FORMAT_VERSION}")
    except (ValueError, AttributeError):
        why = "line 1 is damaged" if line else "the file is empty"
        raise RecordError(f"cannot read the record {path}: {why}: restore the file from a copy") from None
    if found == FORMAT_VERSION and not _is_intact(line):
        raise RecordError(f"cannot read the record {path}: line 1 is damaged")
    if found != FORMAT_VERSION or first["kind"] not in get_args(RecordKind):
        again = f"record it again with scientist run --idea {path.with_name('idea.json')}"
        raise RecordVersionError(
            f"{path.parent} was recorded by another version of scientist (format {found}, this one reads "
            f"{FORMAT_VERSION}): open it with that version, or {again}"
        )
    return first["kind"]


def read_stored_rows(path: Path, *, start: int = 0, number: int = 1) -> Iterator[StoredRow]:
    """Yield the intact rows from byte `start`, which is the beginning of line `number`; a torn last line is skipped.

    It may be called while the file is written. Raises `RecordError`, `RecordVersionError`.
    """
    if not start:
        read_kind(path)
    try:
        with open(path, "rb") as file:
            left = os.fstat(file.fileno()).st_size - start  # what is written later is not read
            file.seek(start)
            damaged = False
            for line_number, line in enumerate(file, number):
                left -= len(line)
                if left < 0:
                    return
                if damaged:
                    damage = f"line {line_number - 1} is damaged: restore the file from a copy"
                    raise RecordError(f"cannot read the record {path}: {damage}")
                if line_number > 1:
                    if (row := _parse_row(start, line)) is not None:
                        yield row
                    damaged = row is None
                start += len(line)
    except OSError as error:
        raise RecordError(f"cannot read the record {path}: {error.strerror}") from error


def _parse_row(offset: int, line: bytes) -> StoredRow | None:
    """Return the row in a line; None if the line is damaged."""
    event = line.find(_EVENT, _REST)
    if event < 0 or not _is_intact(line):
        return None
    return StoredRow(offset, len(line), float(line[_REST + len(_AT) : event]), line[event + len(_EVENT) : -2].decode())


def read_stored_row(path: Path, offset: int, length: int) -> str:
    """Return the body of one row by its place in the file. Raises `RecordError`."""
    row = next(read_stored_rows(path, start=offset, number=2), None)
    if row is not None and row.length == length:
        return row.body
    raise RecordError(f"cannot read the record {path}: the line at byte {offset} is damaged")


def write_rows(path: Path, kind: RecordKind, rows: Iterable[LogRow]) -> None:
    """Create a complete store that no process is working on yet. Raises `RecordError`."""
    try:
        write_file(path, b"".join((format_header(kind), *(format_row(at, body) for at, body in rows))))
        sync_folder(path.parent)
        with suppress(PermissionError):  # a folder of another user that cannot be listed
            sync_folder(path.parent.parent)  # the parent may be new, too
    except OSError as error:
        raise RecordError(f"cannot write the record {path}: {error}; {_explain_remedy(error)}") from error


class LineStore:
    """The writer of one store; only one at a time, under the lock of its folder.

    On opening, `fold` is called with every row of the file in order. `last_at` is the time of the last row.
    """

    def __init__(self, path: Path, kind: RecordKind, fold: Callable[[StoredRow], None]) -> None:
        """Open or create a store. Raises `RecordError`, `RecordVersionError`, and what `fold` raises."""
        self.path = path
        if not path.exists():
            write_rows(path, kind, [])
        found = read_kind(path)
        if found != kind:
            raise RecordError(f"{path} is the record of another kind ({found}): choose another folder")
        self._end, self.last_at = len(format_header(kind)), 0.0
        for row in read_stored_rows(path):
            fold(row)
            self._end, self.last_at = row.offset + row.length, row.at
        self._file = -1
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            if os.fstat(self._file).st_size > self._end:
                os.ftruncate(self._file, self._end)
                os.fsync(self._file)
        except OSError as error:
            self.close()
            raise RecordError(f"cannot open the record {path}: {error}; {_explain_remedy(error)}") from error

    def append(self, at: float, body: str) -> StoredRow:
        """Add a row and sync it. Returns its place. A failed write leaves no partial line. Raises `RecordError`."""
        start, line = self._end, format_row(at, body)
        try:
            if os.fstat(self._file).st_size != start:
                raise OSError(errno.EBUSY, "another process has written to it")
            try:
                if os.write(self._file, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fdatasync(self._file)
            except BaseException:
                os.ftruncate(self._file, start)
                raise
        except OSError as error:
            raise RecordError(f"cannot write to the record {self.path}: {error}; {_explain_remedy(error)}") from error
        self._end, self.last_at = start + len(line), at
        return StoredRow(start, len(line), at, body)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _explain_remedy(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "the folder is not writable: fix its permissions or mount, then resume"
    if error.errno == errno.EBUSY:
        return "stop that process, then resume"
    return "free disk space, then resume"
