"""Settings of the model side. Every field has a default and a unit."""

from __future__ import annotations

from typing import get_args

from pydantic import Field, field_validator

from models.roles import Role
from record.nouns import Frozen

ROLES: tuple[Role, ...] = get_args(Role)

_TEMPERATURES: dict[Role, float] = {
    "plan": 0.5, "code": 0.5, "plot": 0.5, "vision": 0.5, "feedback": 0.5, "compare": 0.0, "summary": 1.0,
    "figures": 0.5, "write": 1.0, "reflect": 0.5, "judge": 0.0,
}
_MAX_TOKENS: dict[Role, int] = {
    "plan": 8192, "code": 8192, "plot": 8192, "vision": 8192, "feedback": 8192, "compare": 8192, "summary": 8192,
    "figures": 8192, "write": 16384, "reflect": 16384, "judge": 8192,
}


class ModelSettings(Frozen):
    """Which model answers, and within which bounds.

    Source: AI-Scientist-v2, Table 2 (code generation and feedback: 8192 tokens at 0.5; summary: 8192 at 1.0). The
    values of the other roles are ours.
    """

    name: str = Field(default="offline", description="'offline', or a pydantic-ai string such as 'anthropic:NAME'")
    base_url: str | None = Field(default=None, description="address of an OpenAI-compatible server, ending in /v1")
    temperatures: dict[Role, float] = Field(
        default_factory=lambda: dict(_TEMPERATURES), description="by role; a part is enough"
    )
    max_tokens: dict[Role, int] = Field(
        default_factory=lambda: dict(_MAX_TOKENS),
        description="tokens that an answer may have, by role; with a model that thinks, its thoughts count too",
    )
    timeout: float = Field(default=600.0, gt=0, description="seconds for one request to the provider")
    retries: int = Field(
        default=2, ge=0, le=10, description="further tries after a transport error (429, 5xx, connection)"
    )
    output_retries: int = Field(
        default=2, ge=0, le=5, description="further tries after an answer that does not fit its schema"
    )
    retry_wait: float = Field(
        default=2.0, ge=0, description="seconds before the first further try; doubled for each next one"
    )
    retry_wait_cap: float = Field(
        default=60.0, ge=0, description="seconds at most before a further try, Retry-After included"
    )
    vision: bool | None = Field(
        default=None, description="False: never send images; None: the model is trusted to see"
    )

    @field_validator("temperatures")
    @classmethod
    def _all_temperatures(cls, given: dict[Role, float]) -> dict[Role, float]:
        wrong = {role: value for role, value in given.items() if not 0 <= value <= 2}
        if wrong:
            raise ValueError(f"a temperature lies between 0 and 2, not {wrong!r}")
        return {**_TEMPERATURES, **given}

    @field_validator("max_tokens")
    @classmethod
    def _all_max_tokens(cls, given: dict[Role, int]) -> dict[Role, int]:
        wrong = {role: value for role, value in given.items() if value < 1}
        if wrong:
            raise ValueError(f"max_tokens must be positive, not {wrong!r}")
        return {**_MAX_TOKENS, **given}

    def temperature(self, role: Role) -> float:
        """The sampling temperature of a role."""
        return self.temperatures[role]

    def tokens(self, role: Role) -> int:
        """The most tokens that an answer of a role may have."""
        return self.max_tokens[role]

    @property
    def answer_limit(self) -> float:
        """Seconds for one answer with all its retries; beyond it the door gives up."""
        requests = self.retries + self.output_retries + 1
        return requests * self.timeout + self.retries * self.retry_wait_cap
