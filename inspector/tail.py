"""Follow a run from another process: its events as they are written, the resulting state, and the process that owns it.

It reads in the same way as `record.log_reader`, so readers never block the writer.

Limits: the end of a run is noticed late, since the process is checked every `PROCESS_CHECK_SECONDS` and must be absent
twice (the next command may resume the run).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from labwright.inspector.status import RunCondition, find_condition
from labwright.record.events import Event
from labwright.record.lock import find_owner
from labwright.record.log_reader import EventLogTail
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState

PROCESS_CHECK_SECONDS = 1.0
"""Seconds between checks for the process that is working on the run."""
MISSES_BEFORE_ENDED = 2
"""Number of consecutive checks without a process that make the run count as ended."""


class RunFollower:
    """One followed run. `seq` is the number of the last event applied to `state`."""

    def __init__(self, run: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        self.state = RunState()
        self.seq = 0
        self.process: str | None = None
        self._tail = EventLogTail(run)
        self._clock = clock
        self._looked = -PROCESS_CHECK_SECONDS
        self._missed = 0
        self._seen = False

    def read_new(self) -> Iterator[tuple[int, Event, float]]:
        """Yield new events with number and time; `state` is as of the event that was just yielded.

        A replaced log is read from its beginning. Raises `RecordError`.
        """
        found = self._tail.read()
        if self._tail.restarted:
            self.state, self.seq = RunState(), 0
        for event, at in found:
            self.seq += 1
            apply_event(self.state, event, at)
            yield self.seq, event, at

    def is_running(self) -> bool:
        """Return whether a process was working on the run at the last check."""
        now = self._clock()
        if now - self._looked >= PROCESS_CHECK_SECONDS:
            self._looked = now
            self.process = find_process(self.run)
            self._missed = 0 if self.process is not None else self._missed + 1
        self._seen = self._seen or self.process is not None
        return self._missed < (MISSES_BEFORE_ENDED if self._seen else 1)

    @property
    def condition(self) -> RunCondition:
        return find_condition(self.state, self.process)


def find_process(run: Path) -> str | None:
    """Return the process of a run; None if there is none or the lock cannot be read."""
    try:
        return find_owner(run)
    except OSError:
        return None
