"""The call ledger: which answers were paid for and committed.

An answer is identified by its `CallKey`; the request's hash only verifies. The event log of a run is a ledger
(`record.log.EventLog`); `MemoryLedger` is one for tests and for tools that keep no run.
"""

from __future__ import annotations

from typing import Protocol

from record.events.calls import Answered
from record.nouns.calls import CallKey


class Ledger(Protocol):
    """Committed answers by key."""

    def answered(self, key: CallKey) -> Answered | None:
        """The answer committed under a key, or None."""
        ...

    def append(self, event: Answered) -> object:
        """Commit an answer. When this returns, a kill no longer loses it."""
        ...


class MemoryLedger:
    """A ledger that is gone with its process."""

    def __init__(self, events: tuple[Answered, ...] = ()) -> None:
        self._events = {event.key: event for event in events}

    @property
    def events(self) -> tuple[Answered, ...]:
        """All answers in the order of their commitment."""
        return tuple(self._events.values())

    def answered(self, key: CallKey) -> Answered | None:
        return self._events.get(key)

    def append(self, event: Answered) -> None:
        if event.key in self._events:
            raise ValueError(f"call {event.key} was answered before; an answer is committed once")
        self._events[event.key] = event
