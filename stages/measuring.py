"""Which cells are being measured by some node of this process now, so that no other one measures them beside it.

Nothing of it is recorded: what a node takes over stands in the record, and a process that takes a run up begins empty.
In `ticket` order nobody waits, since which node measures what must not follow time.

Not guaranteed: that a cell is measured once. Where the first one fails, each of the others measures it itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Measuring:
    """Keys of cells, each held by the node that came first."""

    def __init__(self) -> None:
        self._ended: dict[str, asyncio.Event] = {}

    def by_others(self, keys: Iterable[str]) -> list[asyncio.Event]:
        """What says, for each of these keys that is held, that it was measured or given up."""
        return [self._ended[key] for key in keys if key in self._ended]

    @contextmanager
    def held(self, keys: Iterable[str]) -> Iterator[None]:
        """Hold those of these keys that nobody holds."""
        own = {key: asyncio.Event() for key in keys if key not in self._ended}
        self._ended |= own
        try:
            yield
        finally:
            for key, event in own.items():
                if self._ended.get(key) is event:
                    self.measured(key)

    def measured(self, key: str) -> None:
        """Let go of a key whose measurement is in the record, or will not come."""
        if (event := self._ended.pop(key, None)) is not None:
            event.set()
