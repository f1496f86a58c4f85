"""A run followed from outside: its events as they come, folded, and whether a process works on it.

It reads as `record.log_reader` does, so that looking never holds up the writer.

What it does not guarantee: that an end is noticed at once (a process is looked for every `HOLDER` seconds, and must be
missing twice, since the next command may resume the run).
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
"""Seconds between two looks at who works on the run."""
MISSES_BEFORE_ENDED = 2
"""Looks in a row without a process after which the run does not go on."""


class RunFollower:
    """One run. `seq` is the number of the last event that was folded into `state`."""

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
        """The events since the last call with number and time; while one is given, `state` is as it was right after.

        A log that replaced another is read from its beginning. Raises `RecordError`.
        """
        found = self._tail.read()
        if self._tail.restarted:
            self.state, self.seq = RunState(), 0
        for event, at in found:
            self.seq += 1
            apply_event(self.state, event, at)
            yield self.seq, event, at

    def is_running(self) -> bool:
        """Whether a process works on the run, as last seen."""
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
    """Who works on a run now; None also where the lock may not be read."""
    try:
        return find_owner(run)
    except OSError:
        return None
