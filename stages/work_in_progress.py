"""Work that a node is doing and that other nodes need as well: cells being measured, figures being reviewed, code being
written.

Other nodes wait for it. This module records nothing: reused work is in the record, and a resumed process starts empty.
In `ticket` order no node waits for cells and figures, because a node's work must not depend on time; drafts always wait
for the code of all drafts decided before them.

If the first node does not get a result, the next one that waits does the work, and the others wait for that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager


class WorkInProgress:
    """Keys of work in progress, each owned by the node that started it first."""

    def __init__(self) -> None:
        self._pending: dict[str, asyncio.Event] = {}

    def list_pending(self, keys: Iterable[str]) -> list[asyncio.Event]:
        """Return, for each of these keys in progress, the event that is set when the work on it is recorded or
        abandoned.
        """
        return [self._pending[key] for key in keys if key in self._pending]

    @contextmanager
    def acquire(self, keys: Iterable[str]) -> Generator[None]:
        """Take ownership of the keys that are not in progress."""
        acquired = {key: asyncio.Event() for key in keys if key not in self._pending}
        self._pending |= acquired
        try:
            yield
        finally:
            for key, event in acquired.items():
                if self._pending.get(key) is event:
                    self.release(key)

    def release(self, key: str) -> None:
        """Release a key whose work has been recorded or abandoned."""
        if (event := self._pending.pop(key, None)) is not None:
            event.set()
