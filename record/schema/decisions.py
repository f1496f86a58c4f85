"""Numbered decisions, the results that they may use, their model calls, and costs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Annotated, Any, Literal

from pydantic import Field

from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import Trial
from labwright.record.schema.nodes import NodeKind, StageName

# Tools of an author: a model that works on files (`models.author`).


@dataclass(frozen=True)
class ToolSpec:
    """A tool as models are shown it; `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class ToolResult:
    """What a call returns: text for the model, the tree after the call (a git tree id), and seconds. A failed call has
    no effect."""

    text: str
    tree: str
    seconds: float
    failed: bool = False


# Questions that experiments ask studied language models, and the committed answers.


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
    logprobs: int | None = Field(default=None, ge=0, le=20, description="alternatives per token; None: no logprobs")

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


# Looks: the times at which a study tests its hypotheses on fresh seeds, and their shares of the error rate. The table
# is fixed when the study is locked, and never changes. Look k happens when the first `sizes[k]` fresh seeds, in their
# order, are complete in every arm that is read. It tests each hypothesis at its level times `weights[k]`. The weights
# of a table, continued without end, add up to one, so by Bonferroni's inequality at most `level` of studies support a
# false claim, no matter when they stop and how the looks depend on each other. A study that can afford only
# `MAX_SINGLE_LOOK_SEEDS` seeds has one look at the full level. Limits: estimates of a study that stopped at an early
# look are optimistic. Sources: Jennison and Turnbull 1999, "Group sequential methods with applications to clinical
# trials", chapter 9 (repeated confidence intervals); Holm 1979 for the hypotheses of one look.

MAX_SINGLE_LOOK_SEEDS = 6
"""A study with time for at most this many fresh seeds tests once, at the whole level."""
MAX_LOOKS = 16
"""Number of looks after which a table ends; its last sample is more than 180 times the first."""
FIRST_WEIGHTS = (0.10, 0.25, 0.45)
"""Shares of the level of the first looks; each later one has half of the remaining level."""


def build_look_sizes(first: int, affordable: int) -> tuple[int, ...]:
    """Return the number of fresh seeds of each look: `first` times powers of the square root of two.

    `affordable` is the number of seeds that the run has time for: if it is at most `MAX_SINGLE_LOOK_SEEDS`, there is
    one look with all of them. Otherwise it does not change the table, but only how far the study gets in it.
    """
    if affordable <= MAX_SINGLE_LOOK_SEEDS:
        return (affordable,)
    return tuple(ceil(first * sqrt(2) ** look - 1e-9) for look in range(MAX_LOOKS))


def build_look_weights(looks: int) -> tuple[float, ...]:
    """Return the share of the level for each look of a table; a single look has the full level."""
    if looks == 1:
        return (1.0,)
    weights = list(FIRST_WEIGHTS[:looks])
    while len(weights) < looks:
        weights.append((1 - sum(weights)) / 2)
    return tuple(weights)


def combine_look_p(p_values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the sequential p of a hypothesis: the smallest p of a look over its weight; None before any p is known."""
    found = [p / weight for p, weight in zip(p_values, weights, strict=False) if p is not None]
    return min(1.0, *found) if found else None


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
    trials: tuple[Trial, ...] = ()
    """For a `trial` node: settings of one arm to try; for a `tune` node: the chosen setting of each arm."""
    arm: str = ""
    """For an `improve` node: the arm to improve (all arms get equally many); empty: the arm that the item names."""


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
