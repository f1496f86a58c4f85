"""A run followed from outside: its events as they come, folded, and whether a process works on it.

It reads as `record.reading` does, so that looking never holds up the writer.

What it does not guarantee: that an end is noticed at once (a process is looked for every `HOLDER` seconds, and must be
missing twice, since the next command may resume the run).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from labwright.inspector.status import RunCondition, condition_of
from labwright.record.events import Event
from labwright.record.fold.apply import apply
from labwright.record.fold.state import RunState
from labwright.record.lock import holder
from labwright.record.reading import Tail

HOLDER = 1.0
"""Seconds between two looks at who works on the run."""
MISSED = 2
"""Looks in a row without a process after which the run does not go on."""


class Follower:
    """One run. `seq` is the number of the last event that was folded into `state`."""

    def __init__(self, run: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        self.state = RunState()
        self.seq = 0
        self.process: str | None = None
        self._tail = Tail(run)
        self._clock = clock
        self._looked = -HOLDER
        self._missed = 0
        self._seen = False

    def new(self) -> Iterator[tuple[int, Event, float]]:
        """The events since the last call with number and time; while one is given, `state` is as it was right after.

        A log that replaced another is read from its beginning. Raises `RecordError`.
        """
        found = self._tail.read()
        if self._tail.began_anew:
            self.state, self.seq = RunState(), 0
        for event, at in found:
            self.seq += 1
            apply(self.state, event, at)
            yield self.seq, event, at

    def goes_on(self) -> bool:
        """Whether a process works on the run, as last seen."""
        now = self._clock()
        if now - self._looked >= HOLDER:
            self._looked = now
            self.process = process_on(self.run)
            self._missed = 0 if self.process is not None else self._missed + 1
        self._seen = self._seen or self.process is not None
        return self._missed < (MISSED if self._seen else 1)

    @property
    def condition(self) -> RunCondition:
        return condition_of(self.state, self.process)


def process_on(run: Path) -> str | None:
    """Who works on a run now; None also where the lock may not be read."""
    try:
        return holder(run)
    except OSError:
        return None
