"""Measured values, who computed them, and how differences vary with the test examples."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from record.nouns.frozen import Frozen

LARGEST = 1e100
"""Size of a value beyond which it is as good as infinite: sums of squares of smaller ones are finite."""

Split = Literal["train", "dev", "validation", "test"]
Grade = Literal["scored", "evaluated", "computed", "logged"]

MOST_STEPS = 2**53
"""Beyond it steps are not told from each other as numbers on an axis."""


class Measurement(Frozen):
    """One measured value. `grade` says who computed it, and from what (see docs/evidence.md)."""

    name: str
    value: float
    condition: str
    dataset: str
    split: Split
    seed: int
    step: int | None = Field(default=None, ge=-MOST_STEPS, le=MOST_STEPS)
    grade: Grade

    @field_validator("value")
    @classmethod
    def _finite(cls, value: float) -> float:
        if not abs(value) <= LARGEST:
            raise ValueError(f"a measurement must be finite, and at most {LARGEST:g} in size, not {value!r}")
        return value

    @field_validator("name", "condition", "dataset")
    @classmethod
    def _encodable(cls, text: str) -> str:
        text.encode()  # a lone surrogate could not be written into a record
        return text


class OverExamples(Frozen):
    """How a paired difference on test data varies with the test examples: a percentile interval over resamples of
    them, of the mean over the same replicates. `reason` says why there is none, where there is none."""

    key: str = Field(description="of the difference")
    nodes: tuple[str, ...] = Field(description="whose predictions were resampled")
    others: tuple[str, ...] = Field(description="those of the other arm, in the same order")
    low: float | None = None
    high: float | None = None
    examples: int = Field(default=0, description="of the test set")
    draws: int = Field(default=0, description="resamples of the whole test set")
    reason: str = ""

    def supports(self, mean: float) -> bool:
        """Whether the interval lies on the side of zero that the mean lies on, or there is none."""
        if self.low is None or self.high is None:
            return True
        return self.low > 0 if mean > 0 else self.high < 0
