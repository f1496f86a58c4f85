"""The review of the data plan before any code is written: findings, answers and open points."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class ProtocolFinding(FrozenModel):
    """One problem of a plan."""

    kind: Literal["question", "baseline", "leakage", "confound", "control", "metric", "power", "scope", "estimand"]
    severity: Literal["blocks", "should", "could"] = Field(
        description=(
            "blocks: the claim cannot be decided as planned; should: a reader would doubt the result; could: an "
            "improvement"
        )
    )
    what: str = Field(
        min_length=1, max_length=1200, description="the problem, and the results that it would invalidate"
    )
    where: str = Field(
        description="path of a field of the plan: 'arms', 'arms[1].description', 'arms[plain]', "
        "'hypotheses[0].effects[0].smallest'"
    )
    mend: str = Field(min_length=1, max_length=1200, description="the smallest change of the plan that fixes it")


class FindingAnswer(FrozenModel):
    """The planner's answer to a finding."""

    finding: int = Field(ge=1, description="number of the finding")
    changed: bool = Field(description="whether the plan was changed because of it; otherwise the plan stays the same")
    reason: str = Field(
        min_length=1, max_length=1200, description="the change to the plan, or the reason for making none"
    )


class UnresolvedFinding(FrozenModel):
    """A finding that the reviewer maintains after reading the answer."""

    finding: int = Field(ge=1, description="number of the finding")
    why: str = Field(min_length=1, max_length=600, description="the problem that remains")


class ReviewedFinding(ProtocolFinding):
    """A finding with the answer and whether it is open."""

    answer: str = Field(default="", description="the planner's answer; empty: none")
    changed: bool = False
    open: str = Field(default="", description="reason why it is open; empty if it is closed")

    @property
    def summary_line(self) -> str:
        """The finding in one or two sentences, and the reason why it is open, as printed in papers and listings."""
        answer = f" The plan {'was changed' if self.changed else 'stays'}: {self.answer}" if self.answer else ""
        return f"{self.kind} ({self.severity}), at {self.where}: {self.what}{answer}" + (
            f" Open: {self.open}" if self.open else ""
        )
