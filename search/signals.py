"""Requests of a person to what is under way: stop, pause, go on, and end one node.

What is paused is what would be begun: a decision, a step outside the search. What was begun goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, field
from typing import Any


class NodeKilled(Exception):
    """A person ended a node; the work on it is cancelled when this is raised."""


@dataclass
class Signals:
    """Settable at any time: `stop` ends the search early, `pause` holds what is to begin until `go_on`."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    _held: float = 0.0
    _since: float = 0.0
    _nodes: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    _killed: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.go.set()

    def pause(self) -> None:
        """Hold what is to begin. Idempotent."""
        if self.go.is_set():
            self._since = _now()
            self.go.clear()

    def go_on(self) -> None:
        """Let go of it again. Idempotent."""
        if not self.go.is_set():
            self._held += _now() - self._since
            self.go.set()

    def clock(self) -> float:
        """Seconds that never go back and that stand still while paused."""
        return (_now() if self.go.is_set() else self._since) - self._held

    async def going(self) -> bool:
        """Whether to begin something more; waits while paused."""
        while not self.stop.is_set() and not self.go.is_set():
            await first(self.go.wait(), self.stop.wait())
        return not self.stop.is_set()

    def kill(self, node: str) -> None:
        """End the work on a node that is under way now; what is not is left alone."""
        if node in self._nodes and self._nodes[node].cancel():
            self._killed.add(node)

    async def unless_killed(self, node: str, work: Coroutine[Any, Any, None]) -> None:
        """Do the work on a node. Raises `NodeKilled` when a person ends it, once all of it is cancelled."""
        task = self._nodes[node] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            del self._nodes[node]
        if node in self._killed:
            self._killed.remove(node)
            raise NodeKilled(node)
        task.result()


async def first(*awaitables: Awaitable[object]) -> None:
    """Wait until one is done. Coroutines given are cancelled afterwards, tasks are left alone."""
    futures = [asyncio.ensure_future(one) for one in awaitables]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, one in zip(futures, awaitables, strict=True):
            if future is not one:
                future.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
