"""The event log of a run: an append-only SQLite table, and the one writer that holds the state folded from it.

`EventLog.append` commits with `synchronous=FULL` before it returns: what the state says happened is on disk.

What it does not guarantee: durability of files beside the log (those are sealed by `record.folder` before the event
that names them), and use from several hosts: WAL does not work on network filesystems.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from record.events import EVENT, Answered, Event
from record.fold import RunState, apply, fold
from record.nouns import CallKey

Listener = Callable[[Event, RunState], None]


class RecordError(Exception):
    """A record cannot be opened or written. The message says which file, and how to mend it."""


class Recorder(Protocol):
    """What other folders get of the record: read the state, add an event."""

    @property
    def state(self) -> RunState: ...

    def append(self, event: Event) -> int:
        """Commit an event and fold it into the state. Returns its sequence number. Raises `RecordError`."""
        ...

    def answered(self, key: CallKey) -> Answered | None:
        """The committed answer of a model call, if there is one."""
        ...


SCHEMA = """
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL)
"""


class EventLog:
    """The writer of one run's log. Open it once a process, under the run's lock (`record.lock`)."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time, listener: Listener | None = None) -> None:
        self.path = path
        self._clock = clock
        self._listener = listener
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(SCHEMA)
            self._state = fold(_rows(self._db))
        except sqlite3.Error as error:
            self._db.close()
            raise RecordError(
                f"cannot open the record {path}: {error}; is the disk full or the folder read-only?") from error

    @property
    def state(self) -> RunState:
        return self._state

    def append(self, event: Event) -> int:
        at = self._clock()
        try:
            cursor = self._db.execute(
                "INSERT INTO events (at, type, body) VALUES (?, ?, ?)", (at, event.type, event.model_dump_json()))
        except sqlite3.Error as error:
            raise RecordError(
                f"cannot write to the record {self.path}: {error}; free disk space, then resume") from error
        apply(self._state, event, at)
        if self._listener is not None:
            self._listener(event, self._state)
        return cursor.lastrowid or 0

    def answered(self, key: CallKey) -> Answered | None:
        return self._state.answers.get(key)

    def close(self) -> None:
        self._db.close()


class MemoryLog:
    """A recorder without a file, for tests, benchmarks and one-off tools."""

    def __init__(
        self, events: list[Event] | None = None, *, listener: Listener | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.events: list[Event] = []
        self._state = RunState()
        self._listener = listener
        self._clock = clock
        for event in events or []:
            self.append(event)

    @property
    def state(self) -> RunState:
        return self._state

    def append(self, event: Event) -> int:
        self.events.append(event)
        apply(self._state, event, self._clock())
        if self._listener is not None:
            self._listener(event, self._state)
        return len(self.events)

    def answered(self, key: CallKey) -> Answered | None:
        return self._state.answers.get(key)


def read_events(path: Path) -> list[tuple[Event, float]]:
    """All events of a log with their times, read without writing. Raises `RecordError` when it is none."""
    if not path.is_file():
        raise RecordError(f"{path.parent} holds no run (there is no {path.name} in it)")
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return list(_rows(db))
        finally:
            db.close()
    except sqlite3.Error as error:
        raise RecordError(f"cannot read the record {path}: {error}") from error


def read_state(run: Path) -> RunState:
    """The state of a run folder, for whoever only looks. Raises `RecordError`."""
    return fold(read_events(run / "run.db"))


def _rows(db: sqlite3.Connection) -> Iterator[tuple[Event, float]]:
    for at, body in db.execute("SELECT at, body FROM events ORDER BY seq"):
        yield EVENT.validate_json(body), at
