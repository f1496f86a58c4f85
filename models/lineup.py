"""The models of a run: for each role its own, and those that stand in while it is unavailable.

A model that was unavailable is left alone for `REST` seconds where another one stands in. Only unavailability passes
a request on: a refusal, a wrong key or an answer off its schema is the request's or the user's matter, not the wire's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from models.backend import Backend, Reader, Reply, Request
from models.errors import ImagesRefused, ModelConfigError, ModelUnavailable, QuotaSpent
from models.roles import VISION
from models.roles.role import AnyRole

REST = 60.0
"""Seconds in which a model that was unavailable is asked only when no other is left."""


class Chain:
    """Models that answer for each other, in this order."""

    def __init__(self, backends: Sequence[Backend], clock: Callable[[], float] = time.monotonic) -> None:
        self._backends = tuple(backends)
        self._clock = clock
        self._rest: dict[int, float] = {}

    @property
    def first(self) -> Backend:
        return self._backends[0]

    async def answer(self, request: Request) -> Reply:
        """The answer of the first model that is available. Raises `ModelError`; `ModelUnavailable` when all are."""
        failed: list[ModelUnavailable] = []
        for place in self._order(request):
            try:
                return await self._backends[place].answer(request)
            except ModelUnavailable as error:
                self._rest[place] = self._clock() + REST
                failed.append(error)
            except ImagesRefused:
                if not failed:  # the role's own model: whoever asks must know that nobody looks
                    raise
        raise _soonest(failed)

    async def reads(self, role: AnyRole) -> int | None:
        """What the model reads that reads least, of those that are known."""
        told = [await one.reads(role) for one in self._backends if isinstance(one, Reader)]
        return min((tokens for tokens in told if tokens is not None), default=None)

    def _order(self, request: Request) -> list[int]:
        """The places to ask: the role's own first, those at rest last, the blind never to look at pictures."""
        fit = [place for place, one in enumerate(self._backends) if place == 0 or one.sees or not request.images]
        now = self._clock()
        return sorted(fit, key=lambda place: self._rest.get(place, 0.0) > now)


class Lineup:
    """A `Backend` that gives each role its own model."""

    def __init__(self, name: str, chains: Mapping[str, Chain]) -> None:
        """`name` is every model in words. A role without a chain is played by nobody."""
        self._name = name
        self._chains = chains

    @property
    def name(self) -> str:
        return self._name

    @property
    def sees(self) -> bool:
        """Whether somebody looks at pictures."""
        return VISION.name in self._chains and self._chains[VISION.name].first.sees

    def name_of(self, role: AnyRole) -> str:
        return self._chains[role.name].first.name_of(role) if role.name in self._chains else "nobody"

    async def reads(self, role: AnyRole) -> int | None:
        return await self._chains[role.name].reads(role) if role.name in self._chains else None

    async def answer(self, request: Request) -> Reply:
        chain = self._chains.get(request.role.name)
        if chain is None:
            raise ModelConfigError(f"no model plays the role '{request.role}'; set models.roles.{request.role}")
        return await chain.answer(request)


def _soonest(failed: Sequence[ModelUnavailable]) -> ModelUnavailable:
    """The failure to wait for, since its model may be back first; it tells of the others."""
    found = min(failed, key=lambda error: (error.seconds or 0.0) if isinstance(error, QuotaSpent) else 0.0)
    found.billed = any(error.billed for error in failed)
    others = [str(error) for error in failed if error is not found]
    if others:
        found.args = (f"{found}; and {'; and '.join(others)}",)
    return found
