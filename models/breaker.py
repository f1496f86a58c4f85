"""A circuit breaker: while the provider is down the run waits, and one call at a time looks whether it is back.

A call comes here when its own retries are used up. While the circuit is open no other request is sent; experiments go
on. Each wait is an event (`Paused`, with the time of the next try), and so is the recovery. An outage is probed at
growing waits, for up to `models.outage_timeout` altogether (a key that is no longer accepted and a model that is gone
are outages, too: they may be mended at the provider); a quota window is waited out in one piece, if it ends
within that or before the run's time limit.

What it does not tell apart: one breaker serves all models of a run; where one provider of several is down, all wait.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from models.backend import Reply
from models.errors import (
    AccessLost,
    ModelConfigError,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    ProviderDown,
    QuotaSpent,
)
from models.settings import ModelSettings
from record.events.running import Paused, Recovered

Call = Callable[[], Awaitable[Reply]]

LONELY = 3
"""Rounds in which one request gets no answer while others do, before it is given up."""


@dataclass
class Breaker:
    """Leads calls to a provider. `tell` commits an event; `seconds_left` is what remains of the run's time limit."""

    settings: ModelSettings
    tell: Callable[[Paused | Recovered], object]
    seconds_left: Callable[[], float] = lambda: math.inf
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _since: float | None = None
    """When the circuit opened; None while it is closed."""
    _next: float = 0.0
    _wait: float = 0.0
    _answers: int = 0

    async def through(self, call: Call) -> Reply:
        """The reply of a call, if need be after an outage. Raises `ProviderDown`, and what the call raises."""
        lonely = 0
        while True:
            answers = self._answers
            try:
                return await self._attempt(call)
            except ProviderDown:
                raise
            except ModelUnavailable as error:
                lonely += self._answers > answers
                if lonely >= LONELY and isinstance(error, AccessLost | QuotaSpent):
                    raise ProviderDown(f"{error}; other models answer meanwhile, so it is not waited for any "
                                       "longer") from None
                if lonely >= LONELY:
                    raise ModelRefused(
                        f"this request got no answer {lonely} times while others did, so the provider is not down; "
                        f"raise models.timeout, or choose another model: {error}") from None

    @property
    def _open(self) -> bool:
        return self._since is not None

    async def _attempt(self, call: Call) -> Reply:
        while self._open:
            async with self._turn:
                if self._open:
                    await self.sleep(max(0.0, self._next - self.clock()))
                    return await self._tried(call, probe=True)
        return await self._tried(call, probe=False)

    async def _tried(self, call: Call, *, probe: bool) -> Reply:
        try:
            reply = await call()
        except ModelUnavailable as error:
            if probe or self._since is None:
                self._failed(error)
            raise
        except ModelConfigError as error:
            if self._answers:  # a model that plays its first part late: what the others gave is kept
                raise ProviderDown(f"{error}; then resume") from None
            raise
        except ModelError:
            self._answered()  # a refusal is an answer too
            raise
        self._answered()
        return reply

    def _failed(self, error: ModelUnavailable) -> None:
        now = self.clock()
        if self._since is None:
            self._since, self._wait = now, self.settings.outage_wait
        else:
            self._wait = min(2 * self._wait, self.settings.outage_wait_cap)
        quota = error.seconds if isinstance(error, QuotaSpent) else None
        wait = self._wait if quota is None else quota
        lasted = now - self._since
        longest = self.settings.outage_timeout - lasted
        if quota is not None and quota > max(longest, self.seconds_left()):
            raise ProviderDown(f"{error}; it ends in {quota:.0f} s, after the run's time limit (and "
                               "models.outage_timeout): resume then") from None
        if quota is None and longest <= 0:
            raise ProviderDown(f"{error}; it has been so for {lasted:.0f} s, more is not waited for "
                               "(models.outage_timeout): resume when the provider is back") from None
        if quota is None:
            wait = min(wait, longest)
        self._next = now + wait
        self.tell(Paused(reason=str(error), until=self.wall() + wait))

    def _answered(self) -> None:
        self._answers += 1
        if self._since is not None:
            since, self._since = self._since, None
            self.tell(Recovered(seconds=max(0.0, self.clock() - since)))
