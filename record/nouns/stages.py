"""The stages of a run, the kinds of nodes that they make, and the report on one."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from record.nouns.frozen import Frozen

StageName = Literal["preliminary", "tuning", "agenda", "ablation"]
STAGES: tuple[StageName, ...] = ("preliminary", "tuning", "agenda", "ablation")
Phase = Literal[
    "prepare", "preliminary", "tuning", "agenda", "ablation", "score", "figures", "write", "cite", "reflect", "missing",
    "release", "judge", "done"]
"""What a run does next: the steps of its state machine, and `done`."""
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In the order in which a run goes through them."""
NodeKind = Literal["draft", "debug", "improve", "tune", "ablate", "replicate", "aggregate"]


class BranchStep(Frozen):
    """A node on the way from the root to a stage's best: what it changed, and its plan."""

    node: str
    stage: StageName
    kind: NodeKind
    varies: str
    plan: str


class StageSummary(Frozen):
    """A stage in words, from the record. Carries validation results only."""

    stage: StageName
    tried: str
    found: str
    held: str = Field(default="", description="what the replicates support, and what they do not")
    next: str = ""
    numbers: tuple[str, ...] = Field(default=(), description="keys of the claims on validation that carry the report")
    branch: tuple[BranchStep, ...] = Field(default=(), description="from the root to the stage's best, by the program")
    failures: tuple[str, ...] = Field(default=(), description="a line a failed node, by the program")
