"""User requests that affect work in progress: stop, pause, resume, and kill a node.

Pausing affects only new work: decisions and steps outside the search. Work in progress continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, field
from typing import Any


class NodeKilled(Exception):
    """Raised when the user ended a node, after its work was cancelled."""


@dataclass
class RunControl:
    """The user's requests, which may be set at any time: `stop_event` ends the search early, `pause` delays new
    work until `resume`.
    """

    stop_event: asyncio.Event = field(default_factory=asyncio.Event)
    go_event: asyncio.Event = field(default_factory=asyncio.Event)
    _paused_seconds: float = 0.0
    _paused_since: float = 0.0
    _tasks_by_node: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    _killed_nodes: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.go_event.set()

    def pause(self) -> None:
        """Delay new work. Idempotent."""
        if self.go_event.is_set():
            self._paused_since = _read_loop_time()
            self.go_event.clear()

    def resume(self) -> None:
        """Allow new work again. Idempotent."""
        if not self.go_event.is_set():
            self._paused_seconds += _read_loop_time() - self._paused_since
            self.go_event.set()

    @property
    def is_paused(self) -> bool:
        """Whether new work is delayed."""
        return not self.go_event.is_set()

    def read_clock(self) -> float:
        """Return monotonic seconds that do not advance while paused."""
        return (_read_loop_time() if self.go_event.is_set() else self._paused_since) - self._paused_seconds

    async def wait_to_continue(self) -> bool:
        """Wait while paused; return whether to start new work."""
        while not self.stop_event.is_set() and not self.go_event.is_set():
            await wait_first(self.go_event.wait(), self.stop_event.wait())
        return not self.stop_event.is_set()

    def kill_node(self, node: str) -> None:
        """End the work in progress on a node; no effect if there is none."""
        if node in self._tasks_by_node and self._tasks_by_node[node].cancel():
            self._killed_nodes.add(node)

    async def run_unless_killed(self, node: str, work: Coroutine[Any, Any, None]) -> None:
        """Do the work on a node. Raises `NodeKilled` if the user ended it, after all of it was cancelled."""
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
    """Wait until one is done. Afterwards coroutines are cancelled, and tasks are left running."""
    futures = [asyncio.ensure_future(one) for one in awaitables]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, one in zip(futures, awaitables, strict=True):
            if future is not one:
                future.cancel()


def _read_loop_time() -> float:
    return asyncio.get_running_loop().time()
