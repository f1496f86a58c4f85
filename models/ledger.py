"""The call ledger: which answers were paid for and committed.

An answer is identified by its `CallKey`; of two under one key the later one counts. A run's event log is a ledger
(`record.log.EventLog`); `MemoryLedger` is one for tests and for tools that keep no run.
"""

from __future__ import annotations

from typing import Protocol

from record.events.running import Answered, Drifted, Unanswered
from record.nouns.decisions import CallKey


class Ledger(Protocol):
    """Committed answers by key."""

    def answered(self, key: CallKey) -> Answered | None:
        """The answer committed last under a key, or None."""
        ...

    def drifted(self, key: CallKey) -> Drifted | None:
        """What was last recorded of the question that the answer under a key belongs to, or None."""
        ...

    def given_up(self, key: CallKey) -> bool:
        """Whether no usable answer came of a call, and it is not made again."""
        ...

    def append(self, event: Answered | Drifted | Unanswered) -> object:
        """Commit an answer. When this returns, a kill no longer loses it."""
        ...


class MemoryLedger:
    """A ledger that is gone with its process."""

    def __init__(self, events: tuple[Answered, ...] = ()) -> None:
        self._events = list(events)
        self._drifted: dict[CallKey, Drifted] = {}
        self._unanswered: dict[CallKey, Unanswered] = {}

    @property
    def events(self) -> tuple[Answered, ...]:
        """All answers in the order of their commitment."""
        return tuple(self._events)

    def answered(self, key: CallKey) -> Answered | None:
        return next((event for event in reversed(self._events) if event.key == key), None)

    def drifted(self, key: CallKey) -> Drifted | None:
        return self._drifted.get(key)

    def given_up(self, key: CallKey) -> bool:
        return key in self._unanswered

    def append(self, event: Answered | Drifted | Unanswered) -> None:
        match event:
            case Answered():
                self._events.append(event)
            case Drifted():
                self._drifted[event.key] = event
            case Unanswered():
                self._unanswered[event.key] = event
