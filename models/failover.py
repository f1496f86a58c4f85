"""The failover layer: for each role its own model, and those that stand in while it is unavailable.

A model that was unavailable is left alone for `REST` seconds where another one stands in. Only unavailability passes
a request on: a refusal, a wrong key or an answer off its schema concerns the request or the user, not the connection.
pydantic-ai's `FallbackModel` knows neither rest nor models that see nothing, nor any that are not its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.errors import ImagesRefused, ModelConfigError, ModelUnavailable, QuotaSpent
from labwright.models.roles import ROLES, VISION
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings

REST_SECONDS = 60.0
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
    def accepts_images(self) -> bool:
        """Whether somebody looks at pictures."""
        return any(one.accepts_images for one in self._models.get(VISION.name, ())[:1])

    def get_model_name(self, role: AnyRole) -> str:
        return next((one.get_model_name(role) for one in self._models.get(role.name, ())), "nobody")

    async def get_context_limit(self, role: AnyRole) -> int | None:
        """What the model reads that reads least, of those that are known."""
        known = [await one.get_context_limit(role) for one in self._models.get(role.name, ())]
        return min((tokens for tokens in known if tokens is not None), default=None)

    async def answer(self, request: ModelRequest) -> Reply:
        """The answer of the first model that is available. Raises `ModelError`; `ModelUnavailable` when all are."""
        if not (models := self._models.get(request.role.name)):
            raise ModelConfigError(f"no model plays the role '{request.role}'; set models.roles.{request.role}")
        now = self._clock()  # the role's own first, those at rest last, the blind never to look at pictures
        order = sorted(
            [models[0], *(one for one in models[1:] if one.accepts_images or not request.images)],
            key=lambda one: self._rest.get(id(one), 0.0) > now,
        )
        failed: list[ModelUnavailable] = []
        for backend in order:
            try:
                return await backend.answer(request)
            except ModelUnavailable as error:
                self._rest[id(backend)] = self._clock() + REST_SECONDS
                failed.append(error)
            except ImagesRefused:
                if not failed:  # the role's own model: whoever asks must know that nobody looks
                    raise
        # The failure to wait for, since its model may be back first; it names the others too.
        soonest = min(failed, key=lambda error: (error.seconds or 0.0) if isinstance(error, QuotaSpent) else 0.0)
        soonest.billed = any(error.billed for error in failed)
        if others := [str(error) for error in failed if error is not soonest]:
            soonest.args = (f"{soonest}; and {'; and '.join(others)}",)
        raise soonest


def open_backend(settings: ModelSettings) -> Backend:
    """The backend of all models that the settings name; asks nothing yet. Raises `ModelConfigError`."""
    opened = {(one.name, one.base_url): _open_single(one) for one in settings.distinct_models}
    models = {
        name: [opened[one.name, one.base_url] for one in settings.list_candidates(role)] for name, role in ROLES.items()
    }
    if len(opened) == 1 and all(models.values()):
        return next(iter(opened.values()))
    return Failover(settings.model_names, models)


def _open_single(settings: ModelSettings) -> Backend:
    """The backend of one model. Imports here: only the one that is used is loaded (a provider's client is slow)."""
    if settings.name == "offline":
        from labwright.models.offline.researcher import OfflineResearcher

        return OfflineResearcher()
    if settings.name.startswith("replay:"):
        from labwright.models.replay import open_replay

        return open_replay(settings.name)
    from labwright.models.providers import open_provider

    return open_provider(settings)
