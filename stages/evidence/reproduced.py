"""What came of executing nodes again: each node, each number beside the recorded one, and the whole."""

from __future__ import annotations

from typing import Literal

from record.nouns.frozen import Frozen
from record.nouns.measurements import Measurement

Verdict = Literal["equal", "within noise", "different", "missing"]


class NodeAgain(Frozen):
    """One node executed again. `failure` is why its numbers are missing; empty where it ended as the record says."""

    node: str
    kind: str
    seed: int
    seconds: float
    recorded_seconds: float
    failure: str = ""
    measurements: tuple[Measurement, ...] = ()
    tests: tuple[Measurement, ...] = ()


class Number(Frozen):
    """A number over those of its nodes that ran again. `noise` is the most that it may be `off`; None: unknown."""

    key: str
    claim: bool
    """Whether the paper may print it by this key; other values stand in the appendix, or only in the record."""
    nodes: tuple[str, ...]
    of: int
    """Nodes that it is a mean over."""
    recorded: str
    again: str
    off: float | None
    noise: float | None
    verdict: Verdict


class Reproduction(Frozen):
    """What came of it. `unlike` says why digits need not be equal; empty: they must be."""

    nodes: tuple[NodeAgain, ...]
    numbers: tuple[Number, ...]
    unlike: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes behind the paper's numbers that were not executed again, as was asked."""

    @property
    def good(self) -> bool:
        """Whether every node ended as recorded and every number is equal or within noise."""
        ended = not any(one.failure for one in self.nodes)
        return ended and all(one.verdict in ("equal", "within noise") for one in self.numbers)
