"""What answers a request: a provider's model, the offline researcher, a recording or a script.

A backend is asked once a request and has its own bounded retries. It knows nothing of keys, ledgers or runs; the layers
above it do (`models.client`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from labwright.models.errors import ModelOutputInvalid
from labwright.models.roles.role import AnyRole
from labwright.record.schema.decisions import TokenUsage


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
class ModelRequest:
    """One question: the typed inputs, and the same as a rendered prompt. A backend may answer from either."""

    role: AnyRole
    inputs: BaseModel
    prompt: Prompt
    output_type: type[BaseModel]
    images: tuple[Image, ...] = ()
    temperature: float = 1.0
    max_tokens: int = 8192
    cut_at: int = 0
    """Tokens at which the last answer to this request was cut; 0: none was."""
    cuts: int = 0
    """Answers to it that were cut."""


@dataclass(frozen=True)
class Reply:
    """A validated answer and what it took. `retries` counts transport and validation retries together."""

    output: BaseModel
    usage: TokenUsage
    model: str
    retries: int = 0
    left_out: tuple[str, ...] = ()
    """What of the request the model does not take, and was not sent."""


def check_reply(request: ModelRequest, reply: Reply) -> Reply:
    """The reply, where its role takes it for an answer to these inputs. Raises `ModelOutputInvalid`."""
    try:
        request.role.check_answer(request.inputs, reply.output)
    except ValueError as error:
        raise ModelOutputInvalid(
            f"{reply.model}: no answer of role '{request.role}': {'; '.join(str(error).splitlines())[:600]}"
        ) from None
    return reply


class Backend(Protocol):
    """Answers requests."""

    @property
    def name(self) -> str:
        """The model as it was configured, or all of them in words."""
        ...

    @property
    def accepts_images(self) -> bool:
        """Whether pictures can be shown to it, as far as is known."""
        ...

    def get_model_name(self, role: AnyRole) -> str:
        """The model that plays a role, as it was configured; part of a request's hash."""
        ...

    async def get_context_limit(self, role: AnyRole) -> int | None:
        """Tokens of prompt and answer together that the model of a role takes; None: nobody knows."""
        ...

    async def answer(self, request: ModelRequest) -> Reply:
        """The answer, an instance of `request.output_type`. Raises `ModelError`."""
        ...


class SingleModelBackend:
    """What backends of one model share; it sees pictures."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def accepts_images(self) -> bool:
        return True

    def get_model_name(self, role: AnyRole) -> str:
        return self._name

    async def get_context_limit(self, role: AnyRole) -> int | None:
        return None
