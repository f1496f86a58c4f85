"""Recompute AblateCell's published numbers from their inputs in the paper.

Source: AblateCell, Eq. 3 and its tables of intervals, trials, and success by phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from labwright.evals.ablatecell.published_policy import compute_reward
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, compute_t_quantile

ROUNDING_TOLERANCE = 0.005
"""Tolerance of a printed bound: means are printed to two digits."""


class PrintedRow(NamedTuple):
    """A row of the table of intervals."""

    row: str
    n: int
    mean: float
    sd: float
    low: float
    high: float


class FollowingRow(NamedTuple):
    """The interval recomputed from a row's mean, deviation and count, to three digits."""

    row: str
    low: float
    high: float
    agrees: bool
    sd_over_mean: float


def compute_interval(row: PrintedRow) -> FollowingRow:
    """Recompute the t interval of a row."""
    half = compute_t_quantile(1 - SIGNIFICANCE_LEVEL / 2, row.n - 1) * row.sd / sqrt(row.n)
    low, high = row.mean - half, row.mean + half
    agrees = max(abs(low - row.low), abs(high - row.high)) <= ROUNDING_TOLERANCE
    return FollowingRow(row.row, round(low, 3), round(high, 3), agrees, round(row.sd / row.mean, 3))


class Trials(NamedTuple):
    """Trials by repository, and whether they fit into the rounds."""

    sums: dict[str, int]
    possible: dict[str, bool]


def sum_trials(by_component: Mapping[str, Sequence[int]], rounds: int, most_a_round: int) -> Trials:
    """Add up the trials of a repository's components."""
    sums = {name: sum(each) for name, each in by_component.items()}
    return Trials(sums, {name: total <= rounds * most_a_round for name, total in sums.items()})


class EndToEnd(NamedTuple):
    """Success rates in percent, to a tenth."""

    end_to_end: list[float]
    mean: float


def compute_end_to_end(reproduction: Sequence[float], ablation: Sequence[float]) -> EndToEnd:
    """Return the success rate of both phases; the mean is of products, not the product of means."""
    both = [one * other / 100 for one, other in zip(reproduction, ablation, strict=True)]
    return EndToEnd([round(one, 1) for one in both], round(fmean(both), 1))


PRINTED_REWARDS = {"CPA unified": 4.92, "GEARS pert. GNN": 6.7, "BioLORD zu": 5.25}
"""Rewards that the paper prints for these rows."""


class RewardRow(NamedTuple):
    """Correlations, and the GPU-hours of the ablated run."""

    row: str
    baseline: float
    ablated: float
    hours: float


class Rewards(NamedTuple):
    """Rewards from the equation and as printed, and whether the equation can give the printed ones."""

    reward: list[float]
    published: list[float]
    reachable: bool


def compute_rewards(rows: Sequence[RewardRow], weight: float) -> Rewards:
    """Compute rewards.

    The difference between correlations of one sign is at most 1, and cost only reduces the reward.
    """
    printed = [PRINTED_REWARDS[row.row] for row in rows]
    computed = [compute_reward(row.baseline, row.ablated, row.hours, weight=weight) for row in rows]
    return Rewards(computed, printed, max(printed) <= 1.0)
