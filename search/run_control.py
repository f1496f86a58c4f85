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
class RunControl:
    """Settable at any time: `stop` ends the search early, `pause` holds what is to begin until `go_on`."""

    stop_event: asyncio.Event = field(default_factory=asyncio.Event)
    go_event: asyncio.Event = field(default_factory=asyncio.Event)
    _paused_seconds: float = 0.0
    _paused_since: float = 0.0
    _tasks_by_node: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    _killed_nodes: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.go_event.set()

    def pause(self) -> None:
        """Hold what is to begin. Idempotent."""
        if self.go_event.is_set():
            self._paused_since = _read_loop_time()
            self.go_event.clear()

    def resume(self) -> None:
        """Let go of it again. Idempotent."""
        if not self.go_event.is_set():
            self._paused_seconds += _read_loop_time() - self._paused_since
            self.go_event.set()

    def read_clock(self) -> float:
        """Seconds that never go back and that stand still while paused."""
        return (_read_loop_time() if self.go_event.is_set() else self._paused_since) - self._paused_seconds

    async def wait_to_continue(self) -> bool:
        """Whether to begin something more; waits while paused."""
        while not self.stop_event.is_set() and not self.go_event.is_set():
            await wait_first(self.go_event.wait(), self.stop_event.wait())
        return not self.stop_event.is_set()

    def kill_node(self, node: str) -> None:
        """End the work on a node that is under way now; what is not is left alone."""
        if node in self._tasks_by_node and self._tasks_by_node[node].cancel():
            self._killed_nodes.add(node)

    async def run_unless_killed(self, node: str, work: Coroutine[Any, Any, None]) -> None:
        """Do the work on a node. Raises `NodeKilled` when a person ends it, once all of it is cancelled."""
        task = self._tasks_by_node[node] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            del self._tasks_by_node[node]
        if node in self._killed_nodes:
            self._killed_nodes.remove(node)
            raise NodeKilled(node)
        task.result()


async def wait_first(*awaitables: Awaitable[object]) -> None:
    """Wait until one is done. Coroutines given are cancelled afterwards, tasks are left alone."""
    futures = [asyncio.ensure_future(one) for one in awaitables]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, one in zip(futures, awaitables, strict=True):
            if future is not one:
                future.cancel()


def _read_loop_time() -> float:
    return asyncio.get_running_loop().time()
