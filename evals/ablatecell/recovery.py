"""How well the parts that matter most were found: Acc@k against known importances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Recovery(NamedTuple):
    """`acc`: right ones of k; `exact`: all; `regret`: importance that the right ones have beyond those found."""

    acc: float
    exact: bool
    regret: float


def compute_recovery(importance: Mapping[str, float], found: Sequence[str], k: int) -> Recovery:
    """By the size of the importance. What ties with the k-th is right; a place that is not filled is a miss."""
    sizes = {name: abs(value) for name, value in importance.items()}
    best = sorted(sizes.values(), reverse=True)[:k]
    taken = [sizes.get(name, 0.0) for name in dict.fromkeys(found[:k])]
    right = sum(name in sizes and sizes[name] >= best[-1] for name in dict.fromkeys(found[:k])) if best else 0
    return Recovery(right / k, right == k, max(0.0, sum(best) - sum(taken)))


def chance_recovery(k: int, parts: int) -> float:
    """Acc@k of k parts that are drawn blindly."""
    return min(1.0, k / parts)
