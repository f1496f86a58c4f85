"""Measure how well the most important parts were found: Acc@k against known importances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Recovery(NamedTuple):
    """`acc`: correct parts of k; `exact`: whether all are; `regret`: importance lost relative to the correct parts."""

    acc: float
    exact: bool
    regret: float


def compute_recovery(importance: Mapping[str, float], found: Sequence[str], k: int) -> Recovery:
    """Compute recovery by absolute importance.

    Parts tied with the k-th are correct; an unfilled place is a miss.
    """
    sizes = {name: abs(value) for name, value in importance.items()}
    best = sorted(sizes.values(), reverse=True)[:k]
    taken = [sizes.get(name, 0.0) for name in dict.fromkeys(found[:k])]
    right = sum(name in sizes and sizes[name] >= best[-1] for name in dict.fromkeys(found[:k])) if best else 0
    return Recovery(right / k, right == k, max(0.0, sum(best) - sum(taken)))


def chance_recovery(k: int, parts: int) -> float:
    """Return the Acc@k of k randomly drawn parts."""
    return min(1.0, k / parts)
