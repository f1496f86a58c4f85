"""Figures over papers: means with intervals, differences between planners, and what a judge's errors do to a score."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import TypeVar

import numpy as np

from labwright.record.claims.means import p_value
from labwright.record.nouns.frozen import Frozen

Item = TypeVar("Item")
RESAMPLES, SEED, COVERED = 10_000, 26, 95.0


class Mean(Frozen):
    """A mean over papers. `sd` is None for one paper, `low` and `high` for fewer than two."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int


def mean_of(values: Sequence[float]) -> Mean | None:
    """The mean of some papers' values; None where there are none."""
    if not values:
        return None
    low, high = interval(values)
    return Mean(mean=fmean(values), sd=stdev(values) if len(values) > 1 else None, low=low, high=high, n=len(values))


def interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """A 95 % interval of the mean, papers resampled with a fixed seed."""
    if len(values) < 2:
        return None, None
    drawn = np.random.default_rng(SEED).choice(np.asarray(values, dtype=np.float64), (RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [50 - COVERED / 2, 50 + COVERED / 2])
    return float(low), float(high)


class Paired(Frozen):
    """The difference of two planners on the papers that both have, first minus second. `p`: paired t test, two-sided,
    None where all differences are equal."""

    first: str
    second: str
    figure: str
    difference: Mean
    p: float | None
    adjusted: float | None = None


def paired(first: str, second: str, figure: str, values: Sequence[tuple[float, float]]) -> Paired:
    differences = [one - other for one, other in values]
    found = mean_of(differences)
    assert found is not None, "at least one paper"
    equal = len(differences) < 2 or all(math.isclose(one, differences[0], abs_tol=1e-12) for one in differences)
    return Paired(
        first=first, second=second, figure=figure, difference=found, p=None if equal else p_value(differences)
    )


def over_groups(
    groups: Sequence[Sequence[Item]], figure: Callable[[list[Item]], float | None]
) -> tuple[float | None, float | None]:
    """A 95 % interval of a pooled figure, groups (papers) resampled; None where it cannot be computed."""
    rng, found = random.Random(SEED), list[float]()
    for _ in range(2_000 if len(groups) > 1 else 0):
        drawn = figure([item for group in rng.choices(groups, k=len(groups)) for item in group])
        if drawn is not None:
            found.append(drawn)
    if not found:
        return None, None
    low, high = np.percentile(found, [50 - COVERED / 2, 50 + COVERED / 2])
    return float(low), float(high)
