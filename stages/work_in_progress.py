"""What a node of this process does now and others need as well: a cell measured, a figure looked at. They wait for it.

Nothing of it is recorded: what a node takes over stands in the record, and a process that takes a run up begins empty.
In `ticket` order nobody waits, since what a node does itself must not follow time.

Not guaranteed: that it is done once. Where the first one fails, each of the others does it itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager


class WorkInProgress:
    """Keys of such work, each held by the node that came first."""

    def __init__(self) -> None:
        self._pending: dict[str, asyncio.Event] = {}

    def list_pending(self, keys: Iterable[str]) -> list[asyncio.Event]:
        """What says, for each of these keys that is held, that its work is recorded or given up."""
        return [self._pending[key] for key in keys if key in self._pending]

    @contextmanager
    def acquire(self, keys: Iterable[str]) -> Generator[None]:
        """Hold those of these keys that nobody holds."""
        own = {key: asyncio.Event() for key in keys if key not in self._pending}
        self._pending |= own
        try:
            yield
        finally:
            for key, event in own.items():
                if self._pending.get(key) is event:
                    self.release(key)

    def release(self, key: str) -> None:
        """Let go of a key whose work is recorded, or will not be done."""
        if (event := self._pending.pop(key, None)) is not None:
            event.set()
