"""What a bench of plans keeps of a paper: its plan, and what each judge says of it and of the controls."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.evals.ablationbench.data import Task
from labwright.evals.ablationbench.entries import PlannedAblation
from labwright.evals.ablationbench.plan_judge import PlanVerdict
from labwright.record.schema.frozen_model import FrozenModel

PlanSource = Literal["plan", "gold", "other", "headings"]
CONTROLS: tuple[PlanSource, ...] = ("gold", "other", "headings")
"""Gold as the plan, another paper's plan, and each named part of the method taken out."""


class PlanResult(FrozenModel):
    """The plan of a paper. `missing` and `failed` plans are none; an empty one that was handed in is done."""

    state: Literal["done", "missing", "failed"] = "done"
    why: str = ""
    entries: tuple[PlannedAblation, ...] = ()
    repeats: tuple[str, ...] = ()
    beyond: int = 0
    faults: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    cut: tuple[str, ...] = Field(default=(), description="titles of sections that an author planner was not shown")
    left_out: tuple[str, ...] = Field(default=(), description="what of a long paper was not shown")
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


class JudgedPlan(FrozenModel):
    """A plan or a control, and what each judge says of it."""

    what: PlanSource
    entries: tuple[PlannedAblation, ...]
    verdicts: tuple[PlanVerdict, ...]


class PaperResult(FrozenModel):
    """One paper of one task: its plan and what judges say."""

    task: Task
    id: str
    wanted: int
    plan: PlanResult
    judged: tuple[JudgedPlan, ...] = ()

    def find_judged(self, what: PlanSource) -> JudgedPlan | None:
        return next((one for one in self.judged if one.what == what), None)
