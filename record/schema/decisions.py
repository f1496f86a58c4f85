"""Numbered decisions, the results that they may use, their model calls, and costs."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from labwright.record.claims.looks import MAX_LOOKS
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import NodeKind, StageName
from labwright.record.schema.tuning import Trial


class CallKey(FrozenModel):
    """The identity of a model call. It is not a hash, since equal prompts may be sent twice on purpose."""

    decision: int
    attempt: int
    role: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.decision}.{self.attempt}.{self.role}.{self.ordinal}"


class TokenUsage(FrozenModel):
    """Usage of one model answer. `usd` is None if the price is unknown."""

    input_tokens: int = Field(default=0, description="the whole prompt, including cached tokens")
    output_tokens: int = 0
    cached_tokens: int = Field(default=0, description="input tokens read from the provider's cache, if reported")
    cache_write_tokens: int = Field(default=0, description="input tokens written to that cache, if reported")
    cached_usd: float | None = Field(default=None, description="part of `usd` for cached tokens")
    usd: float | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        pairs = {name: (value, getattr(other, name)) for name, value in self}
        return TokenUsage.model_validate({name: None if None in pair else sum(pair) for name, pair in pairs.items()})


class Cost(FrozenModel):
    """Quantities that a budget limits: spent, reserved, or a cap."""

    usd: float = 0.0
    tokens: int = Field(default=0, description="tokens of prompts and answers together")
    gpu_seconds: float = Field(default=0.0, description="wall clock of experiments times their GPUs")

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: value + getattr(other, name) for name, value in self})

    def __mul__(self, factor: float) -> Cost:
        return Cost(usd=self.usd * factor, tokens=round(self.tokens * factor), gpu_seconds=self.gpu_seconds * factor)

    def subtract_floored(self, other: Cost) -> Cost:
        """Return the difference from another cost, at least 0 in each quantity."""
        return Cost(**{name: max(0, value - getattr(other, name)) for name, value in self})


class ExpandTree(FrozenModel):
    """Create one node."""

    do: Literal["expand"] = "expand"
    stage: StageName
    kind: NodeKind
    parent: str | None = None
    ordinal: int = Field(default=0, description="number of earlier nodes of this kind in the stage")
    item: str = Field(default="", description="agenda item or risk that this node works on")
    seed: int = Field(description="seed that its code runs with")
    repairs_children: tuple[str, ...] = Field(
        default=(), description="children of the parent with the same failure, which is fixed once in the parent"
    )
    trials: tuple[Trial, ...] = Field(
        default=(),
        description=(
            "for a `trial` node: settings of one arm to try; for a `tune` node: the chosen setting of each arm"
        ),
    )
    arm: str = Field(
        default="",
        description="for an `improve` node: the arm to improve (all arms get equally many); "
        "empty: the arm that the item names",
    )


class WidenDimension(FrozenModel):
    """Widen a search dimension once, for every arm that has it, since a chosen setting lies at its edge."""

    do: Literal["extend"] = "extend"
    stage: StageName
    dimension: str
    low: float
    high: float
    arm: str = Field(description="arm whose chosen setting lies at the edge")


class CompareNodes(FrozenModel):
    """Ask which of two nodes is sounder to build on, since measurements cannot distinguish them."""

    do: Literal["compare"] = "compare"
    stage: StageName
    a: str = Field(description="id of the node that was decided on earlier")
    b: str


class WaitForResult(FrozenModel):
    """Do nothing until the next result arrives."""

    do: Literal["wait"] = "wait"


class EndStage(FrozenModel):
    """End the stage."""

    do: Literal["end"] = "end"
    reason: str
    stage: StageName | None = None


class RunTask(FrozenModel):
    """A step that creates no node (prepare, summary, write ...), numbered so that its model calls have a key."""

    do: Literal["work"] = "work"
    task: str


def build_summary_task(stage: StageName) -> RunTask:
    """Return the task of reporting on a stage, which is part of the search, since it overlaps with the next stage."""
    return RunTask(task=f"summary of {stage}")


LOOK_TASKS = tuple(RunTask(task=f"look {number}") for number in range(1, MAX_LOOKS + 1))
"""Testing the hypotheses on the fresh seeds of each look; part of the search, like its seeds."""


ABLATION_PLAN_TASK = RunTask(task="ablation plan")
"""Planning of the ablation stage; part of the search, since follow-up work of earlier stages continues in parallel."""

CONTEXT_TASK = "context"
"""The step of a run that summarises the user's papers and notes."""

PROBE_TASK = "probe the winner"
"""The step of a run that probes the winner, before its test data are scored."""

MISSING_ABLATIONS_TASK = RunTask(task="missing ablations")
"""Task after the draft: determine the ablations that a reviewer would request, run and score them, and report them."""

SearchAction = Annotated[
    ExpandTree | WidenDimension | CompareNodes | WaitForResult | EndStage | RunTask, Field(discriminator="do")
]


class VisibleDecisions(FrozenModel):
    """The decisions whose results decision k may use: all up to `through`, and those in `also`."""

    through: int = 0
    also: tuple[int, ...] = ()

    def __contains__(self, k: int) -> bool:
        return k <= self.through or k in self._also_set

    @cached_property
    def _also_set(self) -> frozenset[int]:
        return frozenset(self.also)
