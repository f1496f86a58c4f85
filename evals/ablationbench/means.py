"""Statistics over papers: means with intervals, differences between planners, and intervals of pooled figures."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import TypeVar

import numpy as np

from labwright.record.claims.estimates import compute_p_value
from labwright.record.schema.frozen_model import FrozenModel

Item = TypeVar("Item")
RESAMPLES, SEED, INTERVAL_PERCENT = 10_000, 26, 95.0


class MeanWithInterval(FrozenModel):
    """A mean over papers. `sd` is None for one paper, `low` and `high` for fewer than two."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int


def compute_mean(values: Sequence[float]) -> MeanWithInterval | None:
    """Return the mean of the papers' values; None without values."""
    if not values:
        return None
    low, high = bootstrap_interval(values)
    return MeanWithInterval(
        mean=fmean(values), sd=stdev(values) if len(values) > 1 else None, low=low, high=high, n=len(values)
    )


def bootstrap_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return a 95 % interval of the mean, resampling papers with a fixed seed."""
    if len(values) < 2:
        return None, None
    drawn = np.random.default_rng(SEED).choice(np.asarray(values, dtype=np.float64), (RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [50 - INTERVAL_PERCENT / 2, 50 + INTERVAL_PERCENT / 2])
    return float(low), float(high)


class PairedPlannerDifference(FrozenModel):
    """The difference of two planners on their common papers, first minus second.

    `p`: paired t test, two-sided, None if all differences are equal.
    """

    first: str
    second: str
    figure: str
    difference: MeanWithInterval
    p: float | None
    adjusted: float | None = None


def compute_paired_difference(
    first: str, second: str, figure: str, values: Sequence[tuple[float, float]]
) -> PairedPlannerDifference:
    differences = [one - other for one, other in values]
    found = compute_mean(differences)
    assert found is not None, "at least one paper"
    equal = len(differences) < 2 or all(math.isclose(one, differences[0], abs_tol=1e-12) for one in differences)
    return PairedPlannerDifference(
        first=first, second=second, figure=figure, difference=found, p=None if equal else compute_p_value(differences)
    )


def bootstrap_groups(
    groups: Sequence[Sequence[Item]], figure: Callable[[list[Item]], float | None]
) -> tuple[float | None, float | None]:
    """Return a 95 % interval of a pooled figure, resampling groups (papers); None if it cannot be computed."""
    rng, found = random.Random(SEED), list[float]()
    for _ in range(2_000 if len(groups) > 1 else 0):
        drawn = figure([item for group in rng.choices(groups, k=len(groups)) for item in group])
        if drawn is not None:
            found.append(drawn)
    if not found:
        return None, None
    low, high = np.percentile(found, [50 - INTERVAL_PERCENT / 2, 50 + INTERVAL_PERCENT / 2])
    return float(low), float(high)
