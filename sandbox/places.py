"""The places of an executor: who runs now, and who is next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sandbox.job import ExecutorError


@dataclass(eq=False)
class _Waiter:
    alone: bool
    let_in: asyncio.Future[None]


class Places:
    """A gate that lets in `count` at a time, in the order of asking.

    Who asks to be alone waits until everybody is out, and keeps later ones waiting meanwhile, so it never starves.
    Nobody may ask for a second place while holding one.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ExecutorError(f"an executor needs at least one place, not {count}")
        self.count = count
        self._waiting: deque[_Waiter] = deque()
        self._held = 0
        self._alone = False

    @asynccontextmanager
    async def hold(self, *, alone: bool = False) -> AsyncGenerator[None]:
        """Inside, a place is held: one of several, or with `alone` the only one."""
        await self._enter(alone)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, alone: bool) -> None:
        waiter = _Waiter(alone, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._admit()
        try:
            await waiter.let_in
        except asyncio.CancelledError:
            if waiter.let_in.cancelled():
                self._admit()
            else:  # let in just before
                self._leave()
            raise

    def _leave(self) -> None:
        self._held -= 1
        self._alone = False
        self._admit()

    def _admit(self) -> None:
        """Let in the first in the queue, and the next, while they fit. Who has gone meanwhile is dropped."""
        while self._waiting and self._fits(self._waiting[0]):
            first = self._waiting.popleft()
            if first.let_in.cancelled():
                continue
            self._held += 1
            self._alone = first.alone
            first.let_in.set_result(None)

    def _fits(self, waiter: _Waiter) -> bool:
        if waiter.let_in.cancelled():
            return True
        return self._held == 0 if waiter.alone else self._held < self.count and not self._alone
