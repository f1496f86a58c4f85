"""The event log of a run: an append-only SQLite table, and the one writer that holds the state folded from it.

`EventLog.append` commits with `synchronous=FULL` before it returns: what the state says happened is on disk, and was
read back before: an event that could not be is refused.

On a network filesystem, where WAL does not work, `open_log` keeps the database on this machine's disk and streams the
events to `events.jsonl` in the run's folder (`record.network`). That file is the log that counts: everybody reads it,
and a database that differs from it, since another machine went on, is made anew from it.

What it does not guarantee: durability of files beside the log (those are sealed by `record.folder` before the event
that names them).
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from record.events import EVENT, Event
from record.events.running import Answered, Drifted
from record.fold.apply import apply, fold
from record.fold.state import RunState
from record.network import MIRROR, Mirror, PlaceError, local_database, mirrored_rows, on_network
from record.nouns.decisions import CallKey
from record.nouns.frozen import encodable
from record.reading import SCHEMA, RecordError, events_in, insert, rows_of

Listener = Callable[[Event, RunState], None]


class Recorder(Protocol):
    """What other folders get of the record: read the state, add an event."""

    @property
    def state(self) -> RunState: ...

    def append(self, event: Event) -> int:
        """Commit an event and fold it into the state. Returns its sequence number. Raises `RecordError`."""
        ...

    def answered(self, key: CallKey) -> Answered | None:
        """The answer of a model call that was committed last, if there is one."""
        ...

    def drifted(self, key: CallKey) -> Drifted | None:
        """What was last recorded of the question that this answer belongs to."""
        ...

    def given_up(self, key: CallKey) -> bool:
        """Whether no usable answer came of a call, and it is not made again."""
        ...


class _Folded:
    """The state of a log, and who is told of what joins it."""

    def __init__(self, state: RunState, listener: Listener | None) -> None:
        self._state = state
        self._listener = listener

    @property
    def state(self) -> RunState:
        return self._state

    def answered(self, key: CallKey) -> Answered | None:
        return self._state.answers.get(key)

    def drifted(self, key: CallKey) -> Drifted | None:
        return self._state.drifted.get(key)

    def given_up(self, key: CallKey) -> bool:
        return key in self._state.unanswered

    def _join(self, event: Event, at: float) -> None:
        apply(self._state, event, at)
        if self._listener is not None:
            self._listener(event, self._state)


class EventLog(_Folded):
    """The writer of one run's log. Open it once a process, under the run's lock (`record.lock`)."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, listener: Listener | None = None,
        mirror: Mirror | None = None,
    ) -> None:
        """Open or make the log. Raises `RecordError`."""
        self.path = path
        self._clock = clock
        self._mirror = mirror
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
        except sqlite3.Error as error:
            raise RecordError(f"cannot open the record {path}: {error}; {_mend(error)}") from error
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(SCHEMA)
            if mirror is not None:
                _agree(self._db, mirror)
            super().__init__(fold(events_in(rows_of(self._db), path)), listener)
        except (sqlite3.Error, OSError, ValueError) as error:
            self._db.close()
            raise RecordError(f"cannot open the record {path}: {error}; {_mend(error)}") from error
        except RecordError:
            self._db.close()
            raise

    def append(self, event: Event) -> int:
        at, (body, event) = self._clock(), _as_written(event)
        try:
            if self._mirror is not None:
                self._mirror.append(at, body)
            cursor = self._db.execute(
                "INSERT INTO events (at, type, body) VALUES (?, ?, ?)", (at, event.type, body))
        except (sqlite3.Error, OSError) as error:
            raise RecordError(
                f"cannot write to the record {self.path}: {error}; {_mend(error)}") from error
        self._join(event, at)
        return cursor.lastrowid or 0

    def close(self) -> None:
        self._db.close()
        if self._mirror is not None:
            self._mirror.close()


class MemoryLog(_Folded):
    """A recorder without a file, for tests, benchmarks and one-off tools."""

    def __init__(
        self, events: list[Event] | None = None, *, listener: Listener | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        super().__init__(RunState(), listener)
        self.events: list[Event] = []
        self._clock = clock
        for event in events or []:
            self.append(event)

    def append(self, event: Event) -> int:
        event = _as_written(event)[1]
        self.events.append(event)
        self._join(event, self._clock())
        return len(self.events)


def _as_written(event: Event) -> tuple[str, Event]:
    """An event as JSON, and as whoever opens the log finds it. Raises `RecordError` where nobody could read it again.

    Nothing is folded that a resume would not find: of what is said here and read there, only the latter counts.
    """
    try:
        try:
            body = event.model_dump_json()
        except PydanticSerializationError:
            body = EVENT.validate_python(encodable(event.model_dump())).model_dump_json()
        return body, EVENT.validate_json(body)
    except (ValidationError, PydanticSerializationError, ValueError) as error:
        said = str(error).splitlines()
        raise RecordError(f"the event {event.type!r} was not recorded, since it could not be read again "
                          f"({' '.join(said)[:300]}); this is a fault of the program: report it") from error


def open_log(folder: Path, *, network: bool | None = None, listener: Listener | None = None) -> EventLog:
    """The writer of a run folder's log. `network` says whether it lies on a network filesystem; None: it is looked up.

    Raises: `RecordError`.
    """
    path, lines = folder / "run.db", folder / MIRROR
    if not lines.exists() and not (on_network(folder) if network is None else network):
        return EventLog(path, listener=listener)
    try:
        if not lines.exists() and path.is_file():  # a run that was moved here from a local disk
            _moved(path, lines)
        return EventLog(local_database(folder), listener=listener, mirror=Mirror(lines))
    except (OSError, PlaceError) as error:
        raise RecordError(f"cannot open the record of {folder}: {error}") from error


def _agree(db: sqlite3.Connection, lines: Mirror) -> None:
    """Make the database what the mirror says; a kill between the two appends leaves the mirror one event ahead."""
    told = list(mirrored_rows(lines.path))
    known = rows_of(db)
    if [(at, json.loads(body)) for at, body in known] == [(at, json.loads(body)) for at, body in told[: len(known)]]:
        told = told[len(known):]
    else:
        db.execute("DELETE FROM events")
    insert(db, told)


def _moved(path: Path, lines: Path) -> None:
    """Turn the database of a run into its mirror, and set it aside."""
    part = lines.with_name(f".{lines.name}.part")
    part.unlink(missing_ok=True)
    with closing(Mirror(part)) as written, closing(sqlite3.connect(path)) as db:
        for at, body in rows_of(db):
            written.append(at, body)
    os.replace(part, lines)
    os.replace(path, path.with_name("run.db.before"))


_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_CLOSED = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_HELD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def _mend(error: Exception) -> str:
    """What helps against a failure of the database or its disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more exactly what of it
    if code in _DAMAGED:
        return "the file is damaged: put a copy of it back, or save what can be read with 'sqlite3 run.db .recover'"
    if code in _CLOSED or (isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)):
        return "the folder cannot be written to: mend its rights (or its mount), then resume"
    if code in _HELD:
        return "another process writes to it: end that one, then resume"
    return "free disk space, then resume"
