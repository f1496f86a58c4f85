"""The log of a run as whoever looks at it reads it: whole, or what was added since one last looked.

Each look is one short read: WAL readers never hold up the writer, and no connection stays open between two looks. A log
that was put in the place of another is known by its file's identity, or by having become shorter.
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
    """A record cannot be opened or written. The message says which file, and how to fix it."""


class RecordVersionError(RecordError, UsageError):
    """Another version of the program wrote a record. Who acts: the person; with that version, or with another run."""


LOG_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL)
"""


def is_run(folder: Path) -> bool:
    """Whether a folder holds the log of a run."""
    return (folder / "run.db").is_file() or (folder / JSONL_LOG_FILE).is_file()


def read_events(path: Path) -> list[tuple[Event, float]]:
    """All events of a log with their times, read without writing. Raises `RecordError` when it is none."""
    with pause_garbage_collection():
        return list(parse_events(read_rows(path), path))


@contextmanager
def pause_garbage_collection() -> Generator[None]:
    """While a log is read, Python does not look for garbage: events form no cycles, and with each look through all that
    are there by now it takes four times as long."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def drop_unreleased_rewrite(events: Sequence[tuple[Event, float]]) -> Sequence[tuple[Event, float]]:
    """The events of a run up to the paper that stands: without a later writing that was not released."""
    released = [at for at, (event, _) in enumerate(events) if isinstance(event, PaperReleased) and event.released]
    again = [at for at, (event, _) in enumerate(events) if isinstance(event, RewriteStarted)]
    return events[: next((at for at in again if released and at > released[-1]), len(events))]


def read_rows(path: Path, after: int = 0) -> list[LogRow]:
    """The rows behind the first so many, as they were written. Raises `RecordError`."""
    lines = path.with_name(JSONL_LOG_FILE)
    if lines.is_file():
        try:
            return list(read_jsonl_rows(lines))[after:]
        except (OSError, ValueError) as error:
            raise RecordError(f"cannot read the record {lines}: {error}") from error
    if not path.is_file():
        raise RecordError(f"{path.parent} holds no run (there is no {path.name} in it)")
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
    """The state of a run folder, for whoever only looks. Raises `RecordError`."""
    with pause_garbage_collection():
        return fold_events(read_events(run / "run.db"))


def read_database_rows(db: sqlite3.Connection, after: int = 0) -> list[LogRow]:
    """The rows of a database behind the first so many, in order."""
    return db.execute("SELECT at, body FROM events WHERE seq > ? ORDER BY seq", (after,)).fetchall()


def parse_events(rows: Iterable[LogRow], path: Path, *, after: int = 0) -> Iterator[tuple[Event, float]]:
    """The events of rows that were read from `path` behind so many others, each with its time. Raises `RecordError`."""
    for number, (at, body) in enumerate(rows, after + 1):
        try:
            begun: dict[str, Any] = json.loads(body) if number == 1 else {}
            if begun.get("type") in ("started", "ideating") and begun.get("format", 0) != LOG_FORMAT_VERSION:
                anew = f"scientist run --idea {path.with_name('idea.json')}"
                raise RecordVersionError(
                    f"{path.parent} was recorded by another version of scientist (format {begun.get('format', 0)}, "
                    f"this one reads {LOG_FORMAT_VERSION}): look at it with the version that made it, or make "
                    f"it again with "
                    f"{anew if begun['type'] == 'started' else 'another --out'}"
                )
            yield EVENT_ADAPTER.validate_json(body), at
        except ValueError as error:
            mismatches = error.error_count() if isinstance(error, ValidationError) else 1
            raise RecordError(
                f"cannot read the record {path}: event {number} is damaged ({mismatches} mismatches)"
            ) from None


# --- while it is written --------------------------------------------------------------------------------------------

LogStamp = tuple[str, int, int, int]
"""Path, identity, size and time of change of a log's file."""
MIN_STABLE_SECONDS = 10.0
"""Seconds after its last change during which a log is read at every look: SQLite shows a commit only once it is synced,
which is after the file has changed, and changes no file then."""


def read_log_stamps(run: Path) -> tuple[LogStamp, ...]:
    """What changes whenever the log of a run folder does; empty where there is none."""
    found: list[LogStamp] = []
    for name in ("run.db", "run.db-wal", JSONL_LOG_FILE):
        try:
            at = (run / name).stat()
        except OSError:
            continue
        found.append((name, at.st_ino, at.st_size, at.st_mtime_ns))
    return tuple(found)


class EventLogTail:
    """Reads one log from where it was left. `began_anew` says whether the last `read` started from the beginning."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.restarted = True
        self._seen = 0
        self._stamps: tuple[LogStamp, ...] = ()
        self._changed = 0.0

    def read(self) -> list[tuple[Event, float]]:
        """The events since the last call. Raises `RecordError`, also when the run is gone."""
        now = read_log_stamps(self.run)
        if now != self._stamps:
            self._changed = time.monotonic()
        elif now and time.monotonic() - self._changed > MIN_STABLE_SECONDS:
            self.restarted = False
            return []
        files, before = ([file[:2] for file in files if file[0] != "run.db-wal"] for files in (now, self._stamps))
        kept = self._seen if files == before else 0
        path = self.run / "run.db"
        rows = read_rows(path, max(0, kept - 1))  # the last one that is known as well: a shorter log is another one
        if kept and not rows:
            kept, rows = 0, read_rows(path)
        with pause_garbage_collection():
            found = list(parse_events(rows[1:] if kept else rows, path, after=kept))
        self.restarted, self._seen, self._stamps = kept == 0, kept + len(found), now
        return found


# --- a log of its own ------------------------------------------------------------------------------------------------


def write_snapshot(run: Path, target: Path) -> float:
    """Write the events of a run into a new database; the time of the last one, in seconds since the epoch.

    A run on a network filesystem, whose log is `events.jsonl`, gives a database too. The same events give the same
    bytes. Raises `RecordError`.
    """
    rows = read_rows(run / "run.db")
    write_database(target, rows)
    return rows[-1][0] if rows else 0.0


def write_database(path: Path, rows: Iterable[LogRow]) -> None:
    """Make the log of a run that nobody works on yet. Raises `RecordError`."""
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
    """Add an event."""
    db.execute("INSERT INTO events (at, type, body) VALUES (?, json_extract(?, '$.type'), ?)", (at, body, body))
