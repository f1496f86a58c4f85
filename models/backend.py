"""What answers a request: a provider's model, the offline researcher, a recording or a script.

A backend is asked once a request and has its own bounded retries. It knows nothing of keys, ledgers or runs; that is
the door's part (`models.door`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import BaseModel

from models.roles.role import AnyRole
from models.tracing import check_tracing
from record.nouns.decisions import Usage

if TYPE_CHECKING:
    from models.settings import ModelSettings


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt. `system` is constant over a run, so that a provider can cache it."""

    system: str
    user: str


@dataclass(frozen=True)
class Image:
    """A picture shown to a model."""

    data: bytes
    media_type: str = "image/png"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Request:
    """One question: the typed inputs, and the same as a rendered prompt. A backend may answer from either."""

    role: AnyRole
    inputs: BaseModel
    prompt: Prompt
    output_type: type[BaseModel]
    images: tuple[Image, ...] = ()
    temperature: float = 1.0
    max_tokens: int = 8192
    cut_at: int = 0
    """Tokens at which an answer to this request was cut before; 0: none was."""


@dataclass(frozen=True)
class Reply:
    """A validated answer and what it took. `retries` counts transport and validation retries together."""

    output: BaseModel
    usage: Usage
    model: str
    retries: int = 0
    left_out: tuple[str, ...] = ()
    """What of the request the model does not take, and was not sent."""


class Backend(Protocol):
    """Answers requests."""

    @property
    def name(self) -> str:
        """The model as it was configured, or all of them in words."""
        ...

    @property
    def sees(self) -> bool:
        """Whether pictures can be shown to it, as far as is known."""
        ...

    def name_of(self, role: AnyRole) -> str:
        """The model that plays a role, as it was configured; part of a request's hash."""
        ...

    async def answer(self, request: Request) -> Reply:
        """The answer, an instance of `request.output_type`. Raises `ModelError`."""
        ...


@runtime_checkable
class Reader(Protocol):
    """A backend that may know how much its models read at once."""

    async def reads(self, role: AnyRole) -> int | None:
        """Tokens of prompt and answer together that the model of a role takes; None: nobody knows."""
        ...


def open_backend(settings: ModelSettings) -> Backend:
    """The backend of all models that the settings name; asks nothing yet. Raises `ModelConfigError`."""
    from models.lineup import Chain, Lineup
    from models.roles import ROLES

    check_tracing(settings.telemetry)
    opened = {(one.name, one.base_url): _open(one) for one in settings.distinct}
    keys: dict[str, tuple[tuple[str, str | None], ...]] = {
        name: tuple((one.name, one.base_url) for one in settings.candidates(role)) for name, role in ROLES.items()}
    chains = {key: Chain([opened[one] for one in key]) for key in set(keys.values()) if key}
    if len(opened) == 1 and all(keys.values()):
        return next(iter(opened.values()))
    return Lineup(settings.called, {role: chains[key] for role, key in keys.items() if key})


def _open(settings: ModelSettings) -> Backend:
    """The backend of one model."""
    if settings.name == "offline":
        from models.offline.researcher import OfflineResearcher

        return OfflineResearcher()
    if settings.name.startswith("replay:"):
        from models.replay import open_replay

        return open_replay(settings.name)
    from models.providers import open_provider

    return open_provider(settings)
