"""Student's t, Holm's correction and power: what a few paired values allow to be said.

Values are taken to be independent and roughly normal, as t tests do. The standard deviation that power is computed
with is the one that was measured, an estimate from few values, so a detectable difference is an estimate as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev

MINIMUM_REPLICATES = 5
"""Below this no comparison is called; with 3 seeds the half-width is 2.48 standard deviations (FACTS)."""

LEVEL = 0.05
"""How often a family without any true difference may have one called: intervals are of `1 - LEVEL`."""

POWER = 0.8
"""How often a difference that is called detectable would have been found."""


def interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Standard deviation and 95 % Student t interval of the mean; None where fewer than two values differ."""
    if len(set(values)) < 2:
        return None, None, None
    sd = stdev(values)
    half = _quantile(1 - LEVEL / 2, len(values) - 1) * sd / math.sqrt(len(values))
    return sd, fmean(values) - half, fmean(values) + half


def p_value(values: Sequence[float]) -> float | None:
    """Two-sided p of the t test that the mean of paired differences is 0; None where fewer than two values differ."""
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    sd = stdev(values) if len(set(values)) > 1 else 0.0
    if sd == 0.0:
        return None
    return min(1.0, 2.0 * float(stdtr(len(values) - 1, -abs(fmean(values)) * math.sqrt(len(values)) / sd)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Each p adjusted for all of them, in their order; None stays None, and counts as a test that found nothing.

    At most `LEVEL` of families without any true difference have one whose adjusted p is at most `LEVEL`, however the
    tests depend on each other. Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    adjusted: list[float | None] = [None] * len(p_values)
    ordered = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(ordered):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[place] = largest
    return adjusted


def detectable(n: int, sd: float, compared: int = 1) -> float | None:
    """The smallest true difference that `n` paired values with this deviation find with a power of 80 %, two-sided.

    At the level of the first step of Holm's correction over `compared` tests, its strictest. None where fewer values
    than `MINIMUM_REPLICATES` let nothing be found. In the unit of `sd`.
    """
    return None if n < MINIMUM_REPLICATES else _noncentrality(n - 1, LEVEL / compared) * sd / math.sqrt(n)


@lru_cache(maxsize=1024)
def _noncentrality(freedom: int, level: float) -> float:
    """The mean of Student's t, in standard errors, at which it passes its critical value with a power of 80 %."""
    from scipy.special import nctdtr  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    critical = _quantile(1 - level / 2, freedom)
    low, high = 0.0, 4.0 * critical + 4.0
    for _ in range(60):  # bisection: the power grows with the mean
        middle = (low + high) / 2
        found = 1.0 - float(nctdtr(freedom, middle, critical)) >= POWER
        low, high = (low, middle) if found else (middle, high)
    return high


def _quantile(share: float, freedom: int) -> float:
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    return float(stdtrit(freedom, share))
