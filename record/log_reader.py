"""Read the log of a run: completely, or the events added since the last read.

Each read is short: WAL readers never block the writer, and no connection stays open between reads. A replaced log is
recognised by its file identity, or by being shorter.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labwright.record.errors import UsageError, UserError
from labwright.record.events import EVENT_ADAPTER, Event
from labwright.record.events.paper_events import PaperReleased, RewriteStarted
from labwright.record.events.run_events import LOG_FORMAT_VERSION
from labwright.record.jsonl_log import JSONL_LOG_FILE, LogRow, read_jsonl_rows
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState


class RecordError(UserError):
    """A record cannot be opened or written. The message names the file and the fix."""


class RecordVersionError(RecordError, UsageError):
    """A record was written by another version of the program. The user must use that version or another run."""


LOG_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL)
"""


def is_run(folder: Path) -> bool:
    """Return whether a folder contains the log of a run."""
    return (folder / "run.db").is_file() or (folder / JSONL_LOG_FILE).is_file()


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


def read_rows(path: Path, after: int = 0) -> list[LogRow]:
    """Return the stored rows after the first `after`. Raises `RecordError`."""
    lines = path.with_name(JSONL_LOG_FILE)
    if lines.is_file():
        try:
            return list(read_jsonl_rows(lines))[after:]
        except (OSError, ValueError) as error:
            raise RecordError(f"cannot read the record {lines}: {error}") from error
    if not path.is_file():
        raise RecordError(f"{path.parent} is not the folder of a run (it has no {path.name})")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return read_database_rows(db, after)
    except sqlite3.Error as error:
        if "no such table" in str(error):
            raise RecordError(
                f"{path} is not the record of a run: "
                + ("the file is empty" if not path.stat().st_size else "it is another database")
            ) from error
        raise RecordError(f"cannot read the record {path}: {error}") from error


def read_state(run: Path) -> RunState:
    """Return the state of a run folder, read-only. Raises `RecordError`."""
    with pause_garbage_collection():
        return fold_events(read_events(run / "run.db"))


def read_database_rows(db: sqlite3.Connection, after: int = 0) -> list[LogRow]:
    """Return the rows of a database after the first `after`, in order."""
    return db.execute("SELECT at, body FROM events WHERE seq > ? ORDER BY seq", (after,)).fetchall()


def parse_events(rows: Iterable[LogRow], path: Path, *, after: int = 0) -> Iterator[tuple[Event, float]]:
    """Parse rows read from `path` after the first `after` into events with their times. Raises `RecordError`."""
    for number, (at, body) in enumerate(rows, after + 1):
        try:
            begun: dict[str, Any] = json.loads(body) if number == 1 else {}
            if begun.get("type") in ("started", "ideating") and begun.get("format", 0) != LOG_FORMAT_VERSION:
                anew = f"scientist run --idea {path.with_name('idea.json')}"
                raise RecordVersionError(
                    f"{path.parent} was recorded by another version of scientist (format {begun.get('format', 0)}, "
                    f"this one reads {LOG_FORMAT_VERSION}): open it with that version, or record it "
                    f"again with {anew if begun['type'] == 'started' else 'another --out'}"
                )
            yield EVENT_ADAPTER.validate_json(body), at
        except ValueError as error:
            mismatches = error.error_count() if isinstance(error, ValidationError) else 1
            raise RecordError(
                f"cannot read the record {path}: event {number} is damaged ({mismatches} mismatches)"
            ) from None


# --- reading while it is written --------------------------------------------------------------------------------------

LogStamp = tuple[str, int, int, int]
"""Path, inode, size and modification time of a log's file."""
MIN_STABLE_SECONDS = 10.0
"""After a change, the log is read at every call for this many seconds: SQLite shows a commit only once it is
synced, which happens after the file has changed and does not change it again.
"""


def read_log_stamps(run: Path) -> tuple[LogStamp, ...]:
    """Return values that change whenever the log of a run folder changes; empty if there is no log."""
    found: list[LogStamp] = []
    for name in ("run.db", "run.db-wal", JSONL_LOG_FILE):
        try:
            at = (run / name).stat()
        except OSError:
            continue
        found.append((name, at.st_ino, at.st_size, at.st_mtime_ns))
    return tuple(found)


class EventLogTail:
    """Reads one log incrementally. `restarted` tells whether the last `read` started from the beginning."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.restarted = True
        self._seen = 0
        self._stamps: tuple[LogStamp, ...] = ()
        self._changed = 0.0

    def read(self) -> list[tuple[Event, float]]:
        """Return the events since the last call. Raises `RecordError`, including when the run no longer exists."""
        now = read_log_stamps(self.run)
        if now != self._stamps:
            self._changed = time.monotonic()
        elif now and time.monotonic() - self._changed > MIN_STABLE_SECONDS:
            self.restarted = False
            return []
        files, before = ([file[:2] for file in files if file[0] != "run.db-wal"] for files in (now, self._stamps))
        kept = self._seen if files == before else 0
        path = self.run / "run.db"
        rows = read_rows(path, max(0, kept - 1))  # includes the last known row, to detect a log that became shorter
        if kept and not rows:
            kept, rows = 0, read_rows(path)
        with pause_garbage_collection():
            found = list(parse_events(rows[1:] if kept else rows, path, after=kept))
        self.restarted, self._seen, self._stamps = kept == 0, kept + len(found), now
        return found


# --- snapshots -------------------------------------------------------------------------------------------------------


def write_snapshot(run: Path, target: Path) -> float:
    """Write the events of a run into a new database. Returns the time of the last event in seconds since the epoch.

    A log in `events.jsonl` is converted to a database too. Equal events give equal bytes. Raises `RecordError`.
    """
    rows = read_rows(run / "run.db")
    write_database(target, rows)
    return rows[-1][0] if rows else 0.0


def write_database(path: Path, rows: Iterable[LogRow]) -> None:
    """Create the log of a run that no process is working on yet. Raises `RecordError`."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA page_size=4096")
            db.execute(LOG_SCHEMA)
            db.execute("BEGIN")
            for row in rows:
                insert_event(db, *row)
            db.execute("COMMIT")
    except sqlite3.Error as error:
        raise RecordError(f"cannot write the record {path}: {error}") from error


def insert_event(db: sqlite3.Connection, at: float, body: str) -> None:
    """Insert an event."""
    db.execute("INSERT INTO events (at, type, body) VALUES (?, json_extract(?, '$.type'), ?)", (at, body, body))
