"""The failover layer: each role's own model, and substitutes while that model is unavailable.

An unavailable model is not asked for `REST_SECONDS` if another one can substitute for it. A request is
passed on only if the model is unavailable: a refusal, a wrong key or an invalid answer concerns the request or the
user, not the connection. pydantic-ai's `FallbackModel` does not support such pauses, models without images, or other
kinds of backends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.errors import ImagesRefused, ModelConfigError, ModelUnavailable, QuotaSpent
from labwright.models.roles import ROLES, VISION
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.record.schema.decisions import TokenUsage

REST_SECONDS = 60.0
"""Seconds during which a model that was unavailable is asked only if no other is left."""


class Failover:
    """A `Backend` that gives each role its own models, tried in order."""

    def __init__(
        self, name: str, models: Mapping[str, Sequence[Backend]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`name` describes all models; `models` maps roles to models. Roles without models are not answered."""
        self._name = name
        self._models = models
        self._clock = clock
        self._rest: dict[int, float] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def accepts_images(self) -> bool:
        """Whether any model accepts images."""
        return any(one.accepts_images for one in self._models.get(VISION.name, ())[:1])

    def get_model_name(self, role: AnyRole) -> str:
        return next((one.get_model_name(role) for one in self._models.get(role.name, ())), "nobody")

    async def get_context_limit(self, role: AnyRole) -> int | None:
        """Return the smallest known context of the role's models."""
        known = [await one.get_context_limit(role) for one in self._models.get(role.name, ())]
        return min((tokens for tokens in known if tokens is not None), default=None)

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the answer of the first available model. Raises `ModelError`; `ModelUnavailable` if no model is
        available.
        """
        if not (models := self._models.get(request.role.name)):
            raise ModelConfigError(f"no model is configured for role '{request.role}'; set models.roles.{request.role}")
        # the role's own model comes first, paused ones last; models without images are never asked about images
        now = self._clock()
        order = sorted(
            [models[0], *(one for one in models[1:] if one.accepts_images or not request.images)],
            key=lambda one: self._rest.get(id(one), 0.0) > now,
        )
        failed: list[ModelUnavailable] = []
        for backend in order:
            try:
                reply = await backend.answer(request)
                return replace(reply, usage=sum((error.lost for error in failed), start=reply.usage))
            except ModelUnavailable as error:
                self._rest[id(backend)] = self._clock() + REST_SECONDS
                failed.append(error)
            except ImagesRefused:
                if not failed:  # the role's own model: the caller must know that images are not seen
                    raise
        # Raise the failure with the shortest wait, since its model may recover first; the message names the others too.
        soonest = min(failed, key=lambda error: (error.seconds or 0.0) if isinstance(error, QuotaSpent) else 0.0)
        soonest.lost = sum((error.lost for error in failed), start=TokenUsage(usd=0.0, cached_usd=0.0))
        soonest.billed = any(error.billed for error in failed)
        if others := [str(error) for error in failed if error is not soonest]:
            soonest.args = (f"{soonest}; and {'; and '.join(others)}",)
        raise soonest


def open_backend(settings: ModelSettings) -> Backend:
    """Open the backend of all configured models; sends no request. Raises `ModelConfigError`."""
    opened = {(one.name, one.base_url): _open_single(one) for one in settings.distinct_models}
    models = {
        name: [opened[one.name, one.base_url] for one in settings.list_candidates(role)] for name, role in ROLES.items()
    }
    if len(opened) == 1 and all(models.values()):
        return next(iter(opened.values()))
    return Failover(settings.model_names, models)


def _open_single(settings: ModelSettings) -> Backend:
    """Open the backend of one model. Imports are local so that only the client in use is loaded (they are slow)."""
    if settings.name == "offline":
        from labwright.models.offline.researcher import OfflineResearcher

        return OfflineResearcher()
    if settings.name.startswith("replay:"):
        from labwright.models.replay import open_replay

        return open_replay(settings.name)
    if settings.name.startswith("cli:"):
        from labwright.models.command_line_agent import open_command_line_agent

        return open_command_line_agent(settings)
    from labwright.models.providers import open_provider

    return open_provider(settings)
