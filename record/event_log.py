"""The event log of a run: an append-only SQLite table and its only writer, which maintains the state folded from it.

`EventLog.append` commits with `synchronous=FULL` before it returns, so everything in the state is on disk; an event
is first checked, and refused if it cannot be read back.

On a network filesystem, where WAL does not work, the log is `events.jsonl` instead (`record.jsonl_log`).

Limits: it does not ensure the durability of other files (`record.run_folder` seals them before the event that names
them).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from labwright.record.events import EVENT_ADAPTER, Event
from labwright.record.events.run_events import CallAnswered, ClockMoved
from labwright.record.jsonl_log import JSONL_LOG_FILE, JsonlLog, format_row, is_on_network, read_jsonl_rows
from labwright.record.log_reader import (
    LOG_SCHEMA,
    RecordError,
    insert_event,
    parse_events,
    pause_garbage_collection,
    read_database_rows,
    read_rows,
)
from labwright.record.reducers.event_fold import apply_event, fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import write_file
from labwright.record.schema.frozen_model import replace_unencodable

EventListener = Callable[[Event, RunState], None]
MIN_CLOCK_JUMP_SECONDS = 30.0
"""Clock jumps up to this size between two events are ignored: they come from time synchronisation and affect no
time limit.
"""


class Recorder(ABC):
    """Access to the record for other packages: read the state, append an event."""

    def __init__(self, state: RunState, listener: EventListener | None) -> None:
        self.state = state
        self._listener = listener

    @abstractmethod
    def append(self, event: Event) -> int:
        """Commit an event and fold it into the state. Returns its sequence number. Raises `RecordError`."""

    def _fold(self, event: Event, at: float) -> None:
        apply_event(self.state, event, at)
        if self._listener is not None:
            self._listener(event, self.state)


class EventLog(Recorder):
    """The writer of one run's log. Open it once per process, under the run's lock (`record.lock`)."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        monotonic_clock: Callable[[], float] = time.monotonic,
        listener: EventListener | None = None,
    ) -> None:
        """Open or create the log: a database or `events.jsonl`, depending on the file name. Raises `RecordError`.

        `clock` dates the events; `monotonic_clock` measures elapsed time even if the first clock is changed.
        """
        self.path, self._clock, self._steady = path, clock, monotonic_clock
        self._seen: tuple[float, float] | None = None
        """(clock, monotonic clock) at the last event of this process."""
        with ExitStack() as unless_opened:
            try:
                if path.name == JSONL_LOG_FILE:
                    lines = unless_opened.enter_context(closing(JsonlLog(path)))
                    self._write, rows = lines.append, list(read_jsonl_rows(path))
                else:
                    db = unless_opened.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
                    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", LOG_SCHEMA):
                        db.execute(statement)
                    self._write, rows = partial(insert_event, db), read_database_rows(db)
                with pause_garbage_collection():
                    super().__init__(fold_events(parse_events(rows, path)), listener)
            except (sqlite3.Error, OSError, ValueError) as error:
                raise RecordError(f"cannot open the record {path}: {error}; {_explain_remedy(error)}") from error
            self._opened = unless_opened.pop_all()

    def append(self, event: Event) -> int:
        at, now = self._clock(), self._steady()
        if self._seen is not None and abs(moved := at - self._seen[0] - (now - self._seen[1])) > MIN_CLOCK_JUMP_SECONDS:
            self._append_at(ClockMoved(seconds=moved), at)
        self._append_at(event, at)
        self._seen = at, now
        return self.state.event_count

    def _append_at(self, event: Event, at: float) -> None:
        body, event = _round_trip(event)
        try:
            self._write(at, body)
        except (sqlite3.Error, OSError) as error:
            raise RecordError(f"cannot write to the record {self.path}: {error}; {_explain_remedy(error)}") from error
        self._fold(event, at)

    def close(self) -> None:
        self._opened.close()


class MemoryLog(Recorder):
    """A recorder without a file, for tests, benchmarks and one-off tools."""

    def __init__(
        self,
        events: list[Event] | None = None,
        *,
        listener: EventListener | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        super().__init__(RunState(), listener)
        self.events: list[Event] = []
        self._clock = clock
        for event in events or []:
            self.append(event)

    @property
    def answers(self) -> list[CallAnswered]:
        """All model answers in the order in which they were committed."""
        return [event for event in self.events if isinstance(event, CallAnswered)]

    def append(self, event: Event) -> int:
        event = _round_trip(event)[1]
        self.events.append(event)
        self._fold(event, self._clock())
        return len(self.events)


def _round_trip(event: Event) -> tuple[str, Event]:
    """Return an event as JSON, and as it will be read on resume; only the latter is folded. Raises `RecordError`."""
    try:
        try:
            body = event.model_dump_json()
        except PydanticSerializationError:
            body = EVENT_ADAPTER.validate_python(replace_unencodable(event.model_dump())).model_dump_json()
        return body, EVENT_ADAPTER.validate_json(body)
    except (ValidationError, PydanticSerializationError, ValueError) as error:
        why = " ".join(str(error).splitlines())[:300]
        raise RecordError(
            f"the event {event.type!r} was not recorded, because it could not be read back ({why}); this "
            "is a bug in this program: report it"
        ) from error


def open_log(folder: Path, *, network: bool | None = None, listener: EventListener | None = None) -> EventLog:
    """Open the log of a run folder for writing. `network`: whether it is on a network filesystem; None: detect.

    Raises: `RecordError`.
    """
    path, lines = folder / "run.db", folder / JSONL_LOG_FILE
    if not lines.exists() and not (is_on_network(folder) if network is None else network):
        return EventLog(path, listener=listener)
    if not lines.exists() and path.is_file():  # the run was moved here from a local disk
        try:
            write_file(lines, b"".join(format_row(at, body) for at, body in read_rows(path)))
            os.replace(path, path.with_name("run.db.before"))
        except OSError as error:
            raise RecordError(f"cannot open the record of {folder}: {error}") from error
    return EventLog(lines, listener=listener)


_DAMAGED_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_ACCESS_CODES = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def _explain_remedy(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits are details
    if code in _DAMAGED_CODES:
        return "the file is damaged: restore a copy, or recover its readable part with 'sqlite3 run.db .recover'"
    if code in _ACCESS_CODES or (
        isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    ):
        return "the folder is not writable: fix its permissions or mount, then resume"
    if code in _BUSY_CODES:
        return "another process is writing to it: stop that process, then resume"
    return "free disk space, then resume"
