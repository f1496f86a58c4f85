"""Language models that experiments ask: a question, and the answer to it as it was committed."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class ChatMessage(FrozenModel):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class LLMQuestion(FrozenModel):
    """What code asks a subject; None: as the provider has it."""

    subject: str = Field(min_length=1, max_length=100)
    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=1000)
    json_schema: dict[str, Any] | None = Field(default=None, description="of the answer")
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    logprobs: int | None = Field(default=None, ge=0, le=20, description="alternatives a token; None: no logprobs")

    @property
    def canonical_text(self) -> str:
        """The same text for the same question."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """What it is known by: the beginning of its sha256."""
        return hashlib.sha256(self.canonical_text.encode(errors="replace")).hexdigest()[:32]


class LLMExchange(FrozenModel):
    """An answer of a subject, as it was committed. Its id says which question it is to, and which draw of that."""

    id: str = Field(pattern=r"^[0-9a-f]{32}-\d{1,9}$")
    subject: str
    text: str
    model: str = Field(default="", description="its version, as the provider reports it")
    finish: str = Field(default="", description="why it ended: 'stop', 'length', ...")
    logprobs: tuple[dict[str, Any], ...] = Field(default=(), description="token, logprob, and top: token -> logprob")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class StudiedLLMUsage(FrozenModel):
    """What one subject was asked in a run. Tokens and USD are those that answers took; `lost` calls had no answer that
    came to us, and may have to be paid: their reservations count as spent."""

    name: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    lost: int = 0
    models: tuple[str, ...] = Field(default=(), description="versions that answered")
    first: str = Field(default="", description="when it answered first, ISO 8601 in UTC")
    last: str = ""
