"""AblateCell's printed numbers, computed again from what stands beside them: which follow, and which cannot.

Source: AblateCell, Eq. 3 and its tables of intervals, trials, and success by phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, compute_t_quantile
from labwright.search.ablation_bandit import compute_reward

ROUNDING_TOLERANCE = 0.005
"""By which a printed bound may be off: means are printed to two digits."""


class PrintedRow(NamedTuple):
    """A row of the table of intervals."""

    row: str
    n: int
    mean: float
    sd: float
    low: float
    high: float


class FollowingRow(NamedTuple):
    """The interval that follows from a row's own mean, deviation and count, to three digits."""

    row: str
    low: float
    high: float
    agrees: bool
    sd_over_mean: float


def compute_interval(row: PrintedRow) -> FollowingRow:
    """Whether the printed t interval follows from its row."""
    half = compute_t_quantile(1 - SIGNIFICANCE_LEVEL / 2, row.n - 1) * row.sd / sqrt(row.n)
    low, high = row.mean - half, row.mean + half
    agrees = max(abs(low - row.low), abs(high - row.high)) <= ROUNDING_TOLERANCE
    return FollowingRow(row.row, round(low, 3), round(high, 3), agrees, round(row.sd / row.mean, 3))


class Trials(NamedTuple):
    """By repository: all trials, and whether so many fit into the rounds."""

    sums: dict[str, int]
    possible: dict[str, bool]


def sum_trials(by_component: Mapping[str, Sequence[int]], rounds: int, most_a_round: int) -> Trials:
    """The trials of a repository's components, added up."""
    sums = {name: sum(each) for name, each in by_component.items()}
    return Trials(sums, {name: total <= rounds * most_a_round for name, total in sums.items()})


class EndToEnd(NamedTuple):
    """Percent, to a tenth."""

    end_to_end: list[float]
    mean: float


def compute_end_to_end(reproduction: Sequence[float], ablation: Sequence[float]) -> EndToEnd:
    """Success of both phases; the mean is of products, not the product of means."""
    both = [one * other / 100 for one, other in zip(reproduction, ablation, strict=True)]
    return EndToEnd([round(one, 1) for one in both], round(fmean(both), 1))


PRINTED_REWARDS = {"CPA unified": 4.92, "GEARS pert. GNN": 6.7, "BioLORD zu": 5.25}
"""What the paper prints as the reward of these rows."""


class RewardRow(NamedTuple):
    """Correlations, and the GPU-hours of the ablated run."""

    row: str
    baseline: float
    ablated: float
    hours: float


class Rewards(NamedTuple):
    """By the equation, as printed, and whether what is printed can come from the equation at all."""

    reward: list[float]
    published: list[float]
    reachable: bool


def compute_rewards(rows: Sequence[RewardRow], weight: float) -> Rewards:
    """The size of a difference between correlations of one sign passes 1 nowhere, and cost only takes away."""
    printed = [PRINTED_REWARDS[row.row] for row in rows]
    computed = [compute_reward(row.baseline, row.ablated, row.hours, weight=weight) for row in rows]
    return Rewards(computed, printed, max(printed) <= 1.0)
