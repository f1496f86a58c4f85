"""Stored results for a paper: its plan, and each judge's verdict on the plan and the controls."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.evals.ablationbench.data import Task
from labwright.evals.ablationbench.entries import PlannedAblation
from labwright.evals.ablationbench.plan_judge import PlanVerdict
from labwright.record.schema.frozen_model import FrozenModel

PlanSource = Literal["plan", "gold", "other", "headings"]
CONTROLS: tuple[PlanSource, ...] = ("gold", "other", "headings")
"""Gold as the plan, another paper's plan, and each named part of the method removed."""


class PlanResult(FrozenModel):
    """The plan of a paper.

    `missing` and `failed` mean that there is no plan; a submitted empty plan is `done`.
    """

    state: Literal["done", "missing", "failed"] = "done"
    why: str = ""
    entries: tuple[PlannedAblation, ...] = ()
    repeats: tuple[str, ...] = ()
    beyond: int = 0
    faults: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    cut: tuple[str, ...] = Field(default=(), description="titles of sections withheld from an author planner")
    left_out: tuple[str, ...] = Field(default=(), description="omitted parts of a long paper")
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


class JudgedPlan(FrozenModel):
    """A plan or a control, and each judge's verdict on it."""

    what: PlanSource
    entries: tuple[PlannedAblation, ...]
    verdicts: tuple[PlanVerdict, ...]


class PaperResult(FrozenModel):
    """A paper of one task: its plan and the verdicts."""

    task: Task
    id: str
    wanted: int
    plan: PlanResult
    judged: tuple[JudgedPlan, ...] = ()

    def find_judged(self, what: PlanSource) -> JudgedPlan | None:
        return next((one for one in self.judged if one.what == what), None)
