"""The event log of a run: an append-only file (`record.line_store`) and its only writer, which maintains the state
folded from it.

`EventLog.append` syncs before it returns, so everything in the state is on disk; an event is first checked, and refused
if it cannot be read back.

Limits: it does not ensure the durability of other files (`record.run_folder` seals them before the event that names
them).
"""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from labwright.record.errors import UsageError
from labwright.record.events import EVENT_ADAPTER, Event
from labwright.record.events.paper_events import PaperReleased, RewriteStarted
from labwright.record.events.run_events import CallAnswered, ClockMoved
from labwright.record.line_store import (
    EVENTS_FILE,
    LineStore,
    LogRow,
    RecordError,
    RecordKind,
    RecordVersionError,
    StoredRow,
    read_kind,
    read_stored_rows,
)
from labwright.record.reducers.event_fold import apply_event, fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import replace_unencodable

# Read the log of a study: completely, or the events added since the last read. Readers take no lock and never block
# the writer. A replaced log is recognised by its file identity, by being shorter, or by a different last line.


def is_run(folder: Path) -> bool:
    """Return whether a folder contains the log of a run, including a damaged one or one of another version."""
    try:
        return is_study(folder, "run")
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
    """Parse the event with this number in a log; fields that only earlier versions had are dropped. Raises
    `RecordError`, `RecordVersionError`."""
    try:
        return EVENT_ADAPTER.validate_json(body, extra="ignore")
    except UsageError as error:
        raise RecordVersionError(f"{path.parent}: {error}") from None
    except ValueError as error:
        mismatches = error.error_count() if isinstance(error, ValidationError) else 1
        damage = f"event {number} is damaged ({mismatches} mismatches)"
        raise RecordError(f"cannot read the record {path}: {damage}") from None


# --- reading while it is written --------------------------------------------------------------------------------------

LogStamp = tuple[int, int, int]
"""Inode, size and modification time of a log's file."""


def read_log_stamp(run: Path) -> LogStamp | None:
    """Return a value that changes whenever the log of a run folder changes; None if there is no log."""
    with suppress(OSError):
        about = (run / EVENTS_FILE).stat()
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
        rows = None
        if now and self._stamp and self._last and now[0] == self._stamp[0]:  # is the last known row still in the file?
            found = _read_stored(self.path, start=self._last.offset, number=self._seen + 1)
            rows = list(found) if next(found, None) == self._last else None
        self.restarted = rows is None
        before = 0 if rows is None else self._seen
        rows = list(_read_stored(self.path)) if rows is None else rows
        with pause_garbage_collection():
            events = [(parse_event(row.body, self.path, before + n), row.at) for n, row in enumerate(rows, 1)]
        self._seen, self._stamp = before + len(events), now
        self._last = rows[-1] if rows else None if self.restarted else self._last
        return events


EventListener = Callable[[Event, RunState], None]
MIN_CLOCK_JUMP_SECONDS = 30.0
"""Clock jumps up to this size between two events are ignored: they come from time synchronisation and affect no time
limit."""


class RecordClock:
    """Dates the events of one record: the machine's time, but never earlier than the time of the previous event plus
    the time elapsed since, so that no duration is negative when the clock is set back, during a process or between two.
    """

    def __init__(
        self, clock: Callable[[], float] = time.time, monotonic_clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._monotonic = clock, monotonic_clock
        self._last: tuple[float, float] | None = None
        """(time of the last event, monotonic clock at that event)."""

    def continue_from(self, at: float) -> None:
        """Continue a record whose last event, written by another process, has this time."""
        self._last = at, self._monotonic()

    def read(self) -> tuple[float, float]:
        """Return the time now, and by how many seconds the machine's clock jumped forward since the last event."""
        at, now = self._clock(), self._monotonic()
        expected = at if self._last is None else self._last[0] + now - self._last[1]
        at = max(at, expected)
        self._last = at, now
        return at, at - expected


class Recorder(ABC):
    """Access to the record for other packages: read the state, append an event."""

    def __init__(self, state: RunState, listener: EventListener | None) -> None:
        self.state = state
        self._listener = listener

    @abstractmethod
    def append(self, event: Event) -> None:
        """Commit an event and fold it into the state. Raises `RecordError`."""

    def _fold(self, event: Event, at: float) -> None:
        apply_event(self.state, event, at)
        if self._listener is not None:
            self._listener(event, self.state)


class EventLog(Recorder):
    """The writer of one log. Open it once per process, under the lock of its folder (`record.lock`)."""

    def __init__(
        self,
        path: Path,
        *,
        kind: RecordKind = "run",
        clock: Callable[[], float] = time.time,
        monotonic_clock: Callable[[], float] = time.monotonic,
        listener: EventListener | None = None,
    ) -> None:
        """Open or create the log. Raises `RecordError`.

        `clock` dates the events; `monotonic_clock` measures elapsed time even if the first clock is changed.
        """
        super().__init__(RunState(), listener)
        self.path = path
        self._clock = RecordClock(clock, monotonic_clock)
        self._opened = False

        def fold(row: StoredRow) -> None:
            apply_event(self.state, parse_event(row.body, path, self.state.event_count + 1), row.at)

        with pause_garbage_collection():
            self._store = LineStore(path, kind, fold)
        gc.freeze()  # until `close`, no collection visits the events that were read
        if self.state.event_count:
            self._clock.continue_from(self._store.last_at)

    def append(self, event: Event) -> None:
        at, jump = self._clock.read()
        if self._opened and jump > MIN_CLOCK_JUMP_SECONDS:
            self._append_at(ClockMoved(seconds=jump), at)
        self._opened = True
        self._append_at(event, at)

    def _append_at(self, event: Event, at: float) -> None:
        body, event = _round_trip(event)
        self._store.append(at, body)
        self._fold(event, at)

    def close(self) -> None:
        self._store.close()
        gc.unfreeze()


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

    def append(self, event: Event) -> None:
        event = _round_trip(event)[1]
        self.events.append(event)
        self._fold(event, self._clock())


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
        lost = f"the event {event.type!r} was not recorded, because it could not be read back ({why})"
        raise RecordError(f"{lost}; this is a bug in this program: report it") from error
