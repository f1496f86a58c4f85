"""Model calls: which one it is, what it took, and what a budget counts."""

from __future__ import annotations

from pydantic import Field

from record.nouns.frozen import Frozen


class CallKey(Frozen):
    """The identity of a model call: never its hash, since equal prompts may be asked twice on purpose."""

    decision: int
    attempt: int
    role: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.decision}.{self.attempt}.{self.role}.{self.ordinal}"


class Usage(Frozen):
    """What one model answer took. `usd` is None where the price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None


class Spending(Frozen):
    """What a budget counts: of what is spent, of what is set aside, or of a cap."""

    usd: float = 0.0
    tokens: int = Field(default=0, description="of prompts and answers together")
    gpu_seconds: float = Field(default=0.0, description="wall clock of experiments, times the GPUs of each")

    def __add__(self, other: Spending) -> Spending:
        return Spending(usd=self.usd + other.usd, tokens=self.tokens + other.tokens,
                        gpu_seconds=self.gpu_seconds + other.gpu_seconds)

    def __mul__(self, times: int) -> Spending:
        return Spending(usd=self.usd * times, tokens=self.tokens * times, gpu_seconds=self.gpu_seconds * times)

    def above(self, other: Spending) -> Spending:
        """What this is more than another, 0 where it is less."""
        return Spending(usd=max(0.0, self.usd - other.usd), tokens=max(0, self.tokens - other.tokens),
                        gpu_seconds=max(0.0, self.gpu_seconds - other.gpu_seconds))
