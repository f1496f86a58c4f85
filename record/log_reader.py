"""Read the log of a study: completely, or the events added since the last read.

Readers take no lock and never block the writer. A replaced log is recognised by its file identity, by being shorter, or
by a different last line.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from labwright.record.events import EVENT_ADAPTER, Event
from labwright.record.events.paper_events import PaperReleased, RewriteStarted
from labwright.record.line_store import (
    EVENTS_FILE,
    FORMAT_VERSION,
    FORMER_LOG_FILE,
    LogRow,
    RecordError,
    RecordKind,
    RecordVersionError,
    StoredRow,
    describe_version,
    read_kind,
    read_stored_rows,
)
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState


def is_run(folder: Path) -> bool:
    """Return whether a folder contains the log of a run, including a damaged one or one of another version."""
    try:
        return is_study(folder, "run") or (folder / FORMER_LOG_FILE).is_file()
    except RecordError:
        return True


def is_study(folder: Path, kind: RecordKind) -> bool:
    """Return whether a folder contains the log of a study of this kind. Raises `RecordError` if it is unreadable."""
    path = folder / EVENTS_FILE
    return path.is_file() and read_kind(path) == kind


def read_events(path: Path) -> list[tuple[Event, float]]:
    """Return all events of a log with their times. Raises `RecordError` if it is not a log."""
    with pause_garbage_collection():
        return list(parse_events(read_rows(path), path))


@contextmanager
def pause_garbage_collection() -> Generator[None]:
    """Disable garbage collection while a log is read: events form no cycles, and repeated collections quadruple
    the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def drop_unreleased_rewrite(events: Sequence[tuple[Event, float]]) -> Sequence[tuple[Event, float]]:
    """Return the events up to the current paper, without a later rewrite that was not released."""
    released = [at for at, (event, _) in enumerate(events) if isinstance(event, PaperReleased) and event.released]
    again = [at for at, (event, _) in enumerate(events) if isinstance(event, RewriteStarted)]
    return events[: next((at for at in again if released and at > released[-1]), len(events))]


def read_rows(path: Path) -> list[LogRow]:
    """Return the stored rows of a log. Raises `RecordError`."""
    return [(row.at, row.body) for row in _read_stored(path)]


def _read_stored(path: Path, *, start: int = 0, number: int = 1) -> Iterator[StoredRow]:
    if not path.is_file():
        if path.with_name(FORMER_LOG_FILE).is_file():
            raise RecordVersionError(describe_version(path, f"before {FORMAT_VERSION}"))
        raise RecordError(f"{path.parent} is not the folder of a run (it has no {path.name})")
    return read_stored_rows(path, start=start, number=number)


def read_state(run: Path) -> RunState:
    """Return the state of a run folder, read-only. Raises `RecordError`."""
    with pause_garbage_collection():
        return fold_events(read_events(run / EVENTS_FILE))


def parse_events(rows: Iterable[LogRow], path: Path) -> Iterator[tuple[Event, float]]:
    """Parse rows read from `path` into events with their times. Raises `RecordError`."""
    for number, (at, body) in enumerate(rows, 1):
        yield parse_event(body, path, number), at


def parse_event(body: str, path: Path, number: int) -> Event:
    """Parse the event with this number in a log. Raises `RecordError`."""
    try:
        return EVENT_ADAPTER.validate_json(body)
    except ValueError as error:
        mismatches = error.error_count() if isinstance(error, ValidationError) else 1
        raise RecordError(
            f"cannot read the record {path}: event {number} is damaged ({mismatches} mismatches)"
        ) from None


# --- reading while it is written --------------------------------------------------------------------------------------

LogStamp = tuple[int, int, int]
"""Inode, size and modification time of a log's file."""


def read_log_stamp(run: Path) -> LogStamp | None:
    """Return a value that changes whenever the log of a run folder changes; None if there is no log."""
    for name in (EVENTS_FILE, FORMER_LOG_FILE):
        try:
            about = (run / name).stat()
        except OSError:
            continue
        return about.st_ino, about.st_size, about.st_mtime_ns
    return None


class EventLogTail:
    """Reads one log incrementally. `restarted` tells whether the last `read` started from the beginning."""

    def __init__(self, run: Path) -> None:
        self.path = run / EVENTS_FILE
        self.restarted = True
        self._seen = 0
        self._stamp: LogStamp | None = None
        self._last: StoredRow | None = None

    def read(self) -> list[tuple[Event, float]]:
        """Return the events since the last call. Raises `RecordError`, including when the run no longer exists."""
        now = read_log_stamp(self.path.parent)
        if now is not None and now == self._stamp:
            self.restarted = False
            return []
        rows = self._read_after(self._last) if now and self._stamp and now[0] == self._stamp[0] else None
        self.restarted = rows is None
        before = 0 if rows is None else self._seen
        rows = list(_read_stored(self.path)) if rows is None else rows
        with pause_garbage_collection():
            found = [(parse_event(row.body, self.path, before + n), row.at) for n, row in enumerate(rows, 1)]
        self._seen, self._stamp = before + len(found), now
        self._last = rows[-1] if rows else None if self.restarted else self._last
        return found

    def _read_after(self, last: StoredRow | None) -> list[StoredRow] | None:
        """Return the rows after the last known one; None if that one is no longer in the file."""
        if last is None:
            return None
        rows = _read_stored(self.path, start=last.offset, number=self._seen + 1)
        return list(rows) if next(rows, None) == last else None
