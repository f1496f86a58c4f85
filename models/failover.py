"""The failover layer: for each role its own model, and those that stand in while it is unavailable.

A model that was unavailable is left alone for `REST` seconds where another one stands in. Only unavailability passes
a request on: a refusal, a wrong key or an answer off its schema concerns the request or the user, not the connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from models.backend import Backend, ModelRequest, Reader, Reply
from models.errors import ImagesRefused, ModelConfigError, ModelUnavailable, QuotaSpent
from models.roles import ROLES, VISION
from models.roles.role import AnyRole
from models.settings import ModelSettings
from models.tracing import check_tracing

REST = 60.0
"""Seconds in which a model that was unavailable is asked only when no other is left."""


class Failover:
    """A `Backend` that gives each role its own models, which answer for each other in their order."""

    def __init__(
        self, name: str, models: Mapping[str, Sequence[Backend]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`name` is every model in words; `models` are by role. A role without any is played by nobody."""
        self._name = name
        self._models = models
        self._clock = clock
        self._rest: dict[int, float] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def sees(self) -> bool:
        """Whether somebody looks at pictures."""
        return any(one.sees for one in self._of(VISION)[:1])

    def name_of(self, role: AnyRole) -> str:
        return next((one.name_of(role) for one in self._of(role)), "nobody")

    async def reads(self, role: AnyRole) -> int | None:
        """What the model reads that reads least, of those that are known."""
        known = [await one.reads(role) for one in self._of(role) if isinstance(one, Reader)]
        return min((tokens for tokens in known if tokens is not None), default=None)

    async def answer(self, request: ModelRequest) -> Reply:
        """The answer of the first model that is available. Raises `ModelError`; `ModelUnavailable` when all are."""
        if not self._of(request.role):
            raise ModelConfigError(f"no model plays the role '{request.role}'; set models.roles.{request.role}")
        failed: list[ModelUnavailable] = []
        for backend in self._order(request):
            try:
                return await backend.answer(request)
            except ModelUnavailable as error:
                self._rest[id(backend)] = self._clock() + REST
                failed.append(error)
            except ImagesRefused:
                if not failed:  # the role's own model: whoever asks must know that nobody looks
                    raise
        raise _soonest(failed)

    def _of(self, role: AnyRole) -> Sequence[Backend]:
        return self._models.get(role.name, ())

    def _order(self, request: ModelRequest) -> list[Backend]:
        """The models to ask: the role's own first, those at rest last, the blind never to look at pictures."""
        own, *others = self._of(request.role)
        now = self._clock()
        return sorted([own, *(one for one in others if one.sees or not request.images)],
                      key=lambda one: self._rest.get(id(one), 0.0) > now)


def _soonest(failed: Sequence[ModelUnavailable]) -> ModelUnavailable:
    """The failure to wait for, since its model may be back first; it names the others too."""
    found = min(failed, key=lambda error: (error.seconds or 0.0) if isinstance(error, QuotaSpent) else 0.0)
    found.billed = any(error.billed for error in failed)
    others = [str(error) for error in failed if error is not found]
    if others:
        found.args = (f"{found}; and {'; and '.join(others)}",)
    return found


def open_backend(settings: ModelSettings) -> Backend:
    """The backend of all models that the settings name; asks nothing yet. Raises `ModelConfigError`."""
    check_tracing(settings.telemetry)
    opened = {(one.name, one.base_url): _open(one) for one in settings.distinct}
    models = {name: [opened[one.name, one.base_url] for one in settings.candidates(role)]
              for name, role in ROLES.items()}
    if len(opened) == 1 and all(models.values()):
        return next(iter(opened.values()))
    return Failover(settings.called, models)


def _open(settings: ModelSettings) -> Backend:
    """The backend of one model. Imports here: only the one that is used is loaded (a provider's client is slow)."""
    if settings.name == "offline":
        from models.offline.researcher import OfflineResearcher

        return OfflineResearcher()
    if settings.name.startswith("replay:"):
        from models.replay import open_replay

        return open_replay(settings.name)
    from models.providers import open_provider

    return open_provider(settings)
