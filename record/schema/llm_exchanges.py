"""Questions that experiments ask studied language models, and the committed answers."""

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
    """A question that experiment code asks a studied model; fields that are None use the provider's default."""

    subject: str = Field(min_length=1, max_length=100)
    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=1000)
    json_schema: dict[str, Any] | None = Field(default=None, description="JSON schema of the answer")
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    logprobs: int | None = Field(
        default=None, ge=0, le=20, description="number of alternatives per token; None: no logprobs"
    )

    @property
    def canonical_text(self) -> str:
        """Canonical text, which is the same for equal questions."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """Identifier of the question: the first digits of its sha256."""
        return hashlib.sha256(self.canonical_text.encode(errors="replace")).hexdigest()[:32]


class LLMExchange(FrozenModel):
    """A committed answer of a studied model. Its id identifies both the question and the draw."""

    id: str = Field(pattern=r"^[0-9a-f]{32}-\d{1,9}$")
    subject: str
    text: str
    model: str = Field(default="", description="version reported by the provider")
    finish: str = Field(default="", description="why it ended: 'stop', 'length', ...")
    logprobs: tuple[dict[str, Any], ...] = Field(default=(), description="token, logprob, and top: token -> logprob")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class StudiedLLMUsage(FrozenModel):
    """Usage of one studied model in a run.

    Tokens and USD count received answers; answers of `lost` calls were not received but may be billed, so their
    reservations count as spent.
    """

    name: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    lost: int = 0
    models: tuple[str, ...] = Field(default=(), description="versions that answered")
    first: str = Field(default="", description="time of the first answer, ISO 8601 in UTC")
    last: str = ""
