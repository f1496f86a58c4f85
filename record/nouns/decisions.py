"""What a numbered decision may say, and which results it may use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from record.nouns.frozen import Frozen
from record.nouns.stages import NodeKind, StageName


class Expand(Frozen):
    """Make one node."""

    do: Literal["expand"] = "expand"
    stage: StageName
    kind: NodeKind
    parent: str | None = None
    ordinal: int = Field(default=0, description="how many nodes of this kind the stage decided on before")
    item: str = Field(default="", description="the agenda item or risk that this node takes up")
    seed: int = Field(description="the seed that its code runs with")


class Compare(Frozen):
    """Ask which of two nodes is the sounder one to build on: measurements cannot tell them apart."""

    do: Literal["compare"] = "compare"
    stage: StageName
    a: str = Field(description="node id; of the two the one decided on earlier")
    b: str


class Wait(Frozen):
    """Nothing worth doing until a result comes in."""

    do: Literal["wait"] = "wait"


class End(Frozen):
    """The stage is over."""

    do: Literal["end"] = "end"
    reason: str
    stage: StageName | None = None


class Work(Frozen):
    """A step that makes no node (prepare, summary, write ...), numbered so that its model calls have a key."""

    do: Literal["work"] = "work"
    task: str


def summary_of(stage: StageName) -> Work:
    """The step that reports on a stage: part of the search, since it overlaps the stage after."""
    return Work(task=f"summary of {stage}")


ABLATION_PLAN = Work(task="ablation plan")
"""What the last stage takes up is planned: part of the search, since what earlier stages owe goes on beside it."""

MISSING_ABLATIONS = Work(task="missing ablations")
"""After the draft: what a reviewer would ask for is asked, run, scored, and told."""

Action = Annotated[Expand | Compare | Wait | End | Work, Field(discriminator="do")]


class Seen(Frozen):
    """The decisions whose results decision k may use: all up to `through`, and `also`."""

    through: int = 0
    also: tuple[int, ...] = ()

    def __contains__(self, k: int) -> bool:
        return k <= self.through or k in self.also
