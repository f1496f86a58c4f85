"""What the state of a run is made of: its stages, the usage of roles, what people asked, and runs before this one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from record.events.running import Branched, Commanded
from record.nouns.calls import Spending
from record.nouns.stages import NodeKind, StageName, StageSummary


@dataclass
class StageState:
    """What is known of one stage."""

    best: str | None = None
    reasons: tuple[str, ...] = ()
    ended: str | None = None
    summary: StageSummary | None = None
    settled: bool = False
    limited: str | None = None
    """The ceiling of this stage that was reached."""
    began: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""


@dataclass(frozen=True)
class Terms:
    """What prompts tell of a run as a whole beside its results: `RunState.limited` and so on."""

    limited: str | None
    without: frozenset[NodeKind]
    isolations: tuple[str, ...]


@dataclass
class RoleUsage:
    """What the calls of one role took."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, read from the providers' caches."""
    cache_write_tokens: int = 0
    cached_usd: float = 0.0
    """Of `usd`, what the cached tokens took."""
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


def total_of(found: Iterable[RoleUsage]) -> RoleUsage:
    """The sum of all."""
    total = RoleUsage()
    for one in found:
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


@dataclass(frozen=True)
class Steered:
    """What a person asked of a run, the last decision before it, and the stage that it is for."""

    after: int
    at: float
    stage: StageName | None
    command: Commanded


@dataclass(frozen=True)
class Ancestor:
    """A run that this one, or one that it descends from, branched off, and what had been taken by then.

    Usage and seconds are what was taken since the branching before it, if there was one.
    """

    event: Branched
    at: float
    decision: int
    """The last decision that was copied."""
    nodes: int
    usage: dict[str, RoleUsage]
    spent: Spending
    active_seconds: float
    seconds_of_code: float
