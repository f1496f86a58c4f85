"""Numbered decisions, which results they may use, their model calls, and what those and experiments took."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import NodeKind, StageName
from labwright.record.schema.tuning import Trial


class CallKey(FrozenModel):
    """The identity of a model call: never its hash, since equal prompts may be asked twice on purpose."""

    decision: int
    attempt: int
    role: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.decision}.{self.attempt}.{self.role}.{self.ordinal}"


class TokenUsage(FrozenModel):
    """What one model answer took. `usd` is None where the price is unknown."""

    input_tokens: int = Field(default=0, description="all of the prompt, what a cache held included")
    output_tokens: int = 0
    cached_tokens: int = Field(default=0, description="of the input, read from the provider's cache, as far as it says")
    cache_write_tokens: int = Field(default=0, description="of the input, written to that cache, as far as it says")
    cached_usd: float | None = Field(default=None, description="of `usd`, what the cached tokens took")
    usd: float | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        pairs = {name: (value, getattr(other, name)) for name, value in self}
        return TokenUsage.model_validate({name: None if None in pair else sum(pair) for name, pair in pairs.items()})


class Cost(FrozenModel):
    """What a budget counts: of what is spent, of what is set aside, or of a cap."""

    usd: float = 0.0
    tokens: int = Field(default=0, description="of prompts and answers together")
    gpu_seconds: float = Field(default=0.0, description="wall clock of experiments, times the GPUs of each")

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: value + getattr(other, name) for name, value in self})

    def __mul__(self, factor: int) -> Cost:
        return Cost(**{name: value * factor for name, value in self})

    def subtract_floored(self, other: Cost) -> Cost:
        """What this is more than another, 0 where it is less."""
        return Cost(**{name: max(0, value - getattr(other, name)) for name, value in self})


class ExpandTree(FrozenModel):
    """Make one node."""

    do: Literal["expand"] = "expand"
    stage: StageName
    kind: NodeKind
    parent: str | None = None
    ordinal: int = Field(default=0, description="how many nodes of this kind the stage decided on before")
    item: str = Field(default="", description="the agenda item or risk that this node takes up")
    seed: int = Field(description="the seed that its code runs with")
    repairs_children: tuple[str, ...] = Field(
        default=(), description="children of the parent that failed alike: what they met is mended once, in the parent"
    )
    trials: tuple[Trial, ...] = Field(
        default=(),
        description=(
            "of a `trial` node: settings of one arm that are tried; of a `tune` node: what was chosen for each arm"
        ),
    )
    arm: str = Field(
        default="",
        description="of an `improve` node: the arm that is to become better, so that it gets "
        "as many such nodes as others; empty: what the item says",
    )


class WidenDimension(FrozenModel):
    """Widen a dimension of the space, once, for every arm that has it: a chosen setting lies at its edge."""

    do: Literal["extend"] = "extend"
    stage: StageName
    dimension: str
    low: float
    high: float
    arm: str = Field(description="whose chosen setting lies at the edge")


class CompareNodes(FrozenModel):
    """Ask which of two nodes is the sounder one to build on: measurements cannot tell them apart."""

    do: Literal["compare"] = "compare"
    stage: StageName
    a: str = Field(description="node id; of the two the one decided on earlier")
    b: str


class WaitForResult(FrozenModel):
    """Nothing worth doing until a result comes in."""

    do: Literal["wait"] = "wait"


class EndStage(FrozenModel):
    """The stage is over."""

    do: Literal["end"] = "end"
    reason: str
    stage: StageName | None = None


class RunTask(FrozenModel):
    """A step that makes no node (prepare, summary, write ...), numbered so that its model calls have a key."""

    do: Literal["work"] = "work"
    task: str


def build_summary_task(stage: StageName) -> RunTask:
    """The step that reports on a stage: part of the search, since it overlaps the stage after."""
    return RunTask(task=f"summary of {stage}")


ABLATION_PLAN_TASK = RunTask(task="ablation plan")
"""What the last stage takes up is planned: part of the search, since what earlier stages owe goes on beside it."""

MISSING_ABLATIONS_TASK = RunTask(task="missing ablations")
"""After the draft: what a reviewer would ask for is asked, run, scored, and told."""

SearchAction = Annotated[
    ExpandTree | WidenDimension | CompareNodes | WaitForResult | EndStage | RunTask, Field(discriminator="do")
]


class VisibleDecisions(FrozenModel):
    """The decisions whose results decision k may use: all up to `through`, and `also`."""

    through: int = 0
    also: tuple[int, ...] = ()

    def __contains__(self, k: int) -> bool:
        return k <= self.through or k in self._also_set

    @cached_property
    def _also_set(self) -> frozenset[int]:
        return frozenset(self.also)
