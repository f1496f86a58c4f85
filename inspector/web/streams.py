"""Server-sent events: an open page is sent the pieces that changed.

However many pages show a run, one task looks at it; all of them wait for that one, and what brings one of them up to
date is written once for all that had the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from fastapi import HTTPException
from starlette.responses import Response, StreamingResponse

from inspector.web.pieces import Piece, update

MOST: Final = 64
BEAT: Final = 15.0
"""Seconds after which a stream says that it is alive."""

Found = tuple[int, dict[str, Piece]]
Look = Callable[[], Found]


class Streams:
    """The streams of a server, counted."""

    def __init__(self) -> None:
        self._open = 0
        self._shared: dict[Look, _Shared] = {}
        self._written: tuple[Mapping[str, Piece], Mapping[str, Piece], str | None] = {}, {}, None

    def stream(self, look: Look, known: Mapping[str, Piece], *, every: float) -> Response:
        """An answer that goes on until the browser leaves; `every` is seconds between two looks."""
        if self._open >= MOST:
            raise HTTPException(503, f"{MOST} pages are being kept up to date already: close one")
        return StreamingResponse(self._updates(look, known, every), media_type="text/event-stream")

    async def _updates(self, look: Look, known: Mapping[str, Piece], every: float) -> AsyncGenerator[str]:
        """What differs from what the browser has. Ends with the connection."""
        self._open += 1
        shared = self._shared.setdefault(look, _Shared(look, every))
        shared.users += 1
        try:
            yield ": here\n\n"
            last: Found | None = None
            while True:
                found = await shared.after(last)
                if found is None:
                    yield ": alive\n\n"
                    continue
                if self._written[0] is not known or self._written[1] is not found[1]:
                    self._written = known, found[1], update(known, found[1], found[0])
                last, known = found, found[1]
                if self._written[2] is not None:
                    yield f"data: {self._written[2]}\n\n"
        finally:
            self._open -= 1
            shared.users -= 1
            if not shared.users:
                shared.end()
                self._shared.pop(look, None)


class _Shared:
    """One look at a time, for all who wait for the same."""

    def __init__(self, look: Look, every: float) -> None:
        self.users = 0
        self._look, self._every = look, every
        self._found: Found | None = None
        self._failure: Exception | None = None
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def after(self, last: Found | None) -> Found | None:
        """What there is, once it is other than `last`; None after `BEAT` seconds in which it was not."""
        self._task = self._task or asyncio.create_task(self._go_on())
        try:
            async with asyncio.timeout(BEAT), self._news:
                await self._news.wait_for(lambda: self._failure is not None or self._found is not last)
        except TimeoutError:
            return None
        if self._failure is not None:
            raise self._failure
        return self._found

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _go_on(self) -> None:
        while self._failure is None:
            found = self._found
            try:
                found = await asyncio.to_thread(self._look)
            except Exception as error:  # noqa: BLE001 - raised in each stream, which ends it: the browser asks again
                self._failure = error
            if self._failure is not None or found != self._found:
                async with self._news:
                    self._found = found
                    self._news.notify_all()
            await asyncio.sleep(self._every)
