"""Interfaces of all backends that answer requests: a provider's model, the offline researcher, a recording or a script.

A backend is asked once per request and makes its own bounded retries. It knows nothing about keys, ledgers or runs; the
layers above it do (`models.client`).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass

from pydantic import BaseModel

from labwright.models.conversation import Conversation, ToolCall
from labwright.models.roles.role import AnyRole
from labwright.record.schema.decisions import TokenUsage


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt. `system` is constant over a run, so that a provider can cache it."""

    system: str
    user: str


@dataclass(frozen=True)
class Image:
    """An image shown to a model."""

    data: bytes
    media_type: str = "image/png"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class ModelRequest:
    """One question: the typed inputs, and the prompt rendered from them. A backend may answer from either."""

    role: AnyRole
    inputs: BaseModel
    prompt: Prompt
    output_type: type[BaseModel]
    images: tuple[Image, ...] = ()
    temperature: float = 1.0
    max_tokens: int = 8192
    cut_at: int = 0
    """Number of tokens at which the last answer to this request was truncated; 0: never truncated."""
    cuts: int = 0
    """Number of truncated answers to it."""
    single: bool = False
    """Whether only one request may be billed: the budget has no room for retries."""
    conversation: Conversation | None = None
    """Tools, and what was done with them; the answer is then a `ToolCall`."""

    def list_texts(self) -> list[str]:
        """List all texts that the model reads, the schema of the answer included."""
        schema = json.dumps(self.output_type.model_json_schema())
        more = self.conversation.list_texts() if self.conversation is not None else []
        return [self.prompt.system, self.prompt.user, schema, *more]

    def check_answer(self, answer: BaseModel) -> None:
        """Raise `ValueError` with the reason if an answer does not fit the inputs or the offered tools."""
        if self.conversation is not None and isinstance(answer, ToolCall):
            self.conversation.check_call(answer)
        self.role.check_answer(self.inputs, answer)


@dataclass(frozen=True)
class Reply:
    """A validated answer and its usage. `retries` counts transport and validation retries together."""

    output: BaseModel
    usage: TokenUsage
    model: str
    retries: int = 0
    left_out: tuple[str, ...] = ()
    """Features of the request that the model does not support, and that were not sent."""


class Backend(ABC):
    """Answers requests. Unless a subclass differs, it has one model, which accepts images and whose context is
    unknown."""

    def __init__(self, name: str) -> None:
        """`name`: the configured model, or a description of all models."""
        self.name = name

    @property
    def accepts_images(self) -> bool:
        """Whether the model is known to accept images."""
        return True

    def get_model_name(self, role: AnyRole) -> str:
        """Return the configured model of a role; part of a request's hash."""
        return self.name

    async def get_context_limit(self, role: AnyRole) -> int | None:
        """Return the token limit of prompt and answer together for the model of a role; None: unknown."""
        return None

    @abstractmethod
    async def answer(self, request: ModelRequest) -> Reply:
        """Return the answer, an instance of `request.output_type`. Raises `ModelError`."""
