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
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from labwright.record.events import EVENT_ADAPTER, Event
from labwright.record.events.run_events import CallAnswered, ClockMoved
from labwright.record.line_store import LineStore, RecordError, RecordKind, StoredRow
from labwright.record.log_reader import parse_event, pause_garbage_collection
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.frozen_model import replace_unencodable

EventListener = Callable[[Event, RunState], None]
MIN_CLOCK_JUMP_SECONDS = 30.0
"""Clock jumps up to this size between two events are ignored: they come from time synchronisation and affect no
time limit.
"""


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
    def append(self, event: Event) -> int:
        """Commit an event and fold it into the state. Returns its sequence number. Raises `RecordError`."""

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

    def append(self, event: Event) -> int:
        at, jump = self._clock.read()
        if self._opened and jump > MIN_CLOCK_JUMP_SECONDS:
            self._append_at(ClockMoved(seconds=jump), at)
        self._opened = True
        self._append_at(event, at)
        return self.state.event_count

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
