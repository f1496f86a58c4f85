"""Looks: the times at which a study tests its hypotheses on fresh seeds, and their shares of the error
rate.

The table is fixed when the study is locked, and never changes. Look k happens when the first `sizes[k]` fresh seeds, in
their order, are complete in every arm that is read. It tests each hypothesis at its level times `weights[k]`. The
weights of a table, continued without end, add up to one, so by Bonferroni's inequality at most `level` of studies
support a false claim, no matter when they stop and how the looks depend on each other. A study that can afford only
`MAX_SINGLE_LOOK_SEEDS` seeds has one look at the full level.

Limits: estimates of a study that stopped at an early look are optimistic.

Sources: Jennison and Turnbull 1999, "Group sequential methods with applications to clinical trials", chapter 9
(repeated confidence intervals); Holm 1979 for the hypotheses of one look.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

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
