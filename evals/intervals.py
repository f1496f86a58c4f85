"""95 % intervals of benchmark figures: Wilson's of a proportion, and the bootstrap over papers of a mean or a ratio.

Papers are independent of one another; reviews, plans or items of one paper are resampled together. The AUROC has an
interval of its own (`evals.detection`), paired samples have Student's (`record.claims.estimates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest  # pyrefly: ignore

from labwright.record.schema import FrozenModel

Floats = NDArray[np.float64]
Z = 1.959964
Interval = tuple[float, float]


def wilson_interval(k: int, n: int) -> Interval | None:
    """Return the 95 % interval of a proportion; None if n is 0.

    Source: Wilson 1927.
    """
    if not n:
        return None
    found: Any = binomtest(k, n).proportion_ci(method="wilson")
    return round(float(found.low), 3), round(float(found.high), 3)


def format_range(low: float | None, high: float | None) -> str:
    """Return an interval in words."""
    return "no interval" if low is None or high is None else f"{low:.4g} to {high:.4g}"


class Proportion(FrozenModel):
    """A count out of a total, with the 95 % interval of the proportion."""

    k: int
    n: int
    interval: Interval | None

    def __str__(self) -> str:
        within = f" [{self.interval[0]:.2f}, {self.interval[1]:.2f}]" if self.interval else ""
        return f"{self.k} of {self.n}{within}"


def compute_proportion(k: int, n: int) -> Proportion:
    """Return a proportion with its interval."""
    return Proportion(k=k, n=n, interval=wilson_interval(k, n))


RESAMPLES, SEED, INTERVAL_PERCENT = 10_000, 26, 95.0


def resample_sums(sums: Floats, rng: np.random.Generator) -> Floats:
    """Sums over resampled papers, shape (RESAMPLES, columns); `sums` has one row per paper."""
    weights = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=RESAMPLES)
    return weights.astype(np.float64) @ sums


def percentile_interval(values: Floats) -> Interval:
    """Return the interval between the percentiles of resampled figures."""
    low, high = np.percentile(values, [50 - INTERVAL_PERCENT / 2, 50 + INTERVAL_PERCENT / 2])
    return float(low), float(high)


class MeanWithInterval(FrozenModel):
    """A mean over papers. `sd` is None for one paper, `low` and `high` for fewer than two."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def range_text(self) -> str:
        return "-" if self.low is None or self.high is None else f"{self.low:.3f} to {self.high:.3f}"


def compute_mean(values: Sequence[float]) -> MeanWithInterval | None:
    """Return the mean of the papers' values; None without values."""
    n, sd, low, high = len(values), None, None, None
    if n > 1:
        sums = resample_sums(np.array(values, dtype=np.float64)[:, None], np.random.default_rng(SEED))
        sd, (low, high) = stdev(values), percentile_interval(sums[:, 0] / n)
    return MeanWithInterval(mean=fmean(values), sd=sd, low=low, high=high, n=n) if n else None
