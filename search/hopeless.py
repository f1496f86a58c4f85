"""When running code cannot come to anything: its numbers broke down, it is far behind its peers, or it is silent.

Pure: what was logged decides, in its order, not when it was looked at; so a run that is looked at again gets the same
answer at the same line. Silence is the exception, and is asked only where time may decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from statistics import median

Curve = tuple[str, str, str, str]
"""(dataset, condition, name, split)."""
Point = tuple[Curve, int, float]
"""A curve, a step and its value there."""

FEWEST = 3
"""Peers below which their median says nothing."""
EARLIEST = 0.3
"""Share of the peers' median last step before which no curve is judged."""
FAR = 3.0
"""Spreads of the peers beyond their median at which a value is far from them."""
FLOOR = 0.1
"""The least that the peers' spread is taken for, as a share of their median."""


@dataclass(frozen=True)
class Standing:
    """Where peers stood on one curve at one step; lower is better."""

    values: tuple[float, ...]

    @cached_property
    def median(self) -> float:
        return median(self.values)

    @cached_property
    def spread(self) -> float:
        """Median absolute deviation, at least a tenth of the median."""
        return max(median(abs(one - self.median) for one in self.values), FLOOR * abs(self.median))

    @cached_property
    def bar(self) -> float:
        """Above it a value is worse than that of every peer and far from their median. Without a spread, nothing is."""
        return max(*self.values, self.median + FAR * self.spread) if self.spread > 0 else inf


@dataclass(frozen=True)
class Peers:
    """Where comparable experiments stood on their loss curves: curve -> step -> standing.

    A step counts where at least three peers have a value at that very step, and it is not too early.
    """

    curves: dict[Curve, dict[int, Standing]]

    @staticmethod
    def of(logs: Sequence[Iterable[Point]]) -> Peers:
        """From what each peer logged; of two values of one curve at one step the later counts."""
        found: dict[Curve, dict[int, dict[int, float]]] = {}
        for peer, points in enumerate(logs):
            for curve, step, value in points:
                if is_loss(curve):
                    found.setdefault(curve, {}).setdefault(peer, {})[step] = value
        every = {curve: _standings(tuple(by_peer.values())) for curve, by_peer in found.items()}
        return Peers({curve: standings for curve, standings in every.items() if standings})


def _standings(peers: Sequence[dict[int, float]]) -> dict[int, Standing]:
    """Step -> standing, from the values of one curve by step, one mapping a peer."""
    earliest = EARLIEST * median(max(one) for one in peers)
    values: dict[int, list[float]] = {}
    for one in peers:
        for step, value in one.items():
            values.setdefault(step, []).append(value)
    return {step: Standing(tuple(there)) for step, there in sorted(values.items())
            if step >= earliest and len(there) >= FEWEST}


NOBODY = Peers({})


def is_loss(curve: Curve) -> bool:
    """Whether lower values of a curve are known to be better: its name says that it is a loss."""
    return "loss" in curve[2].lower()


def verdict(points: Iterable[Point], peers: Peers = NOBODY) -> str | None:
    """Why an experiment that logged these points so far is hopeless, in one sentence; None where it is not.

    It is once a value is not finite, or once it is left behind in at least half of the peers' curves: at the last step
    that can be compared, no earlier than at 30 % of the peers' median length, its best loss so far is worse than that
    of every peer, and by more than three times their spread (median absolute deviation, at least 10 % of the median)
    worse than their median. Curves that it has not begun yet count as not left behind.

    Source: the median stopping rule (Golovin et al. 2017, Google Vizier, section 3.1), made stricter: it stops what is
    worse than the median alone.
    """
    best: dict[Curve, float] = {}
    behind: set[Curve] = set()
    for curve, step, value in points:
        if not isfinite(value):
            return f"{_called(curve)} was {value} at step {step}, which is not finite"
        best[curve] = min(value, best.get(curve, inf))
        standing = peers.curves.get(curve, {}).get(step)
        if standing is None:
            continue
        if best[curve] <= standing.bar:
            behind.discard(curve)
            continue
        behind.add(curve)
        if 2 * len(behind) >= len(peers.curves):
            return (f"{_called(curve)} was {best[curve]:.3g} at best by step {step}, {len(standing.values)} peers "
                    f"had {min(standing.values):.3g} to {max(standing.values):.3g} (median {standing.median:.3g}, "
                    f"spread {standing.spread:.2g}); behind in {len(behind)} of {len(peers.curves)} loss curves")
    return None


def silence(quiet: float, limit: float) -> str | None:
    """Why code is hopeless that showed no sign of life for so many seconds; None up to the limit."""
    if quiet <= limit:
        return None
    return (f"it printed, logged and submitted nothing for {quiet:.0f} s, and may for {limit:g} s "
            "(search.silent_timeout)")


def _called(curve: Curve) -> str:
    dataset, condition, name, split = curve
    arm = f" of {condition}" if condition else ""
    where = f" on {dataset}" if dataset else ""
    return f"{name}{arm}{where} ({split})"
