"""What the state of a run is made of: its stages, the usage of roles, what people asked, and runs before this one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from record.events.running import Branched, Commanded
from record.events.searching import Settled
from record.nouns.calls import Spending
from record.nouns.stages import NodeKind, StageName, StageSummary


@dataclass
class StageState:
    """What is known of one stage."""

    settlements: list[tuple[int, Settled]] = field(default_factory=list[tuple[int, Settled]])
    """What it settled on, and again where that turned out suspect, each with the last decision before it."""
    reports: dict[int, StageSummary] = field(default_factory=dict[int, StageSummary])
    """The reports on it by the decision to write them."""
    limited: str | None = None
    """The ceiling of this stage that was reached."""
    began: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""

    def settlement(self, before: int | None = None) -> tuple[int, Settled] | None:
        """What it settled on last, or last before a decision was made."""
        return next((one for one in reversed(self.settlements) if before is None or one[0] < before), None)

    @property
    def settled(self) -> bool:
        return bool(self.settlements)

    @property
    def best(self) -> str | None:
        return self.settlements[-1][1].best if self.settlements else None

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.settlements[-1][1].reasons if self.settlements else ()

    @property
    def ended(self) -> str | None:
        return self.settlements[-1][1].ended if self.settlements else None

    @property
    def summary(self) -> StageSummary | None:
        """The report that was decided on last, of those that are written."""
        return self.reports[max(self.reports)] if self.reports else None


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
