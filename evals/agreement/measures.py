"""Measures of agreement on one dimension: distances, U test, rank correlation, bias, intervals over papers.

Intervals resample papers, which are independent of one another. Reviews of one paper or by one reviewer are not
independent, which the U test and the intervals ignore.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import (  # pyright: ignore[reportMissingTypeStubs]
    kendalltau,  # pyright: ignore[reportUnknownVariableType]
    mannwhitneyu,  # pyright: ignore[reportUnknownVariableType]
    spearmanr,  # pyright: ignore[reportUnknownVariableType]
)

from labwright.evals.agreement.scores import ScoredPaper

Floats = NDArray[np.float64]
RESAMPLES = 10_000
MAX_CELLS = 2_000_000
"""Maximum values drawn or ranked at a time, to limit memory."""
INTERVAL_PERCENT = 95.0
"""Percentage of resamples within an interval."""


@dataclass(frozen=True)
class ConfidenceInterval:
    low: float
    high: float


@dataclass(frozen=True)
class SealedTestStatistic:
    """A statistic with its p value."""

    value: float
    p: float


def score_distances(a: Floats, b: Floats) -> Floats:
    """Return |a - b|, rounded so that equal distances in thirds of a point tie."""
    return np.asarray(np.round(np.abs(a - b), 9), dtype=np.float64)


def compute_judge_distances(subjects: tuple[ScoredPaper, ...]) -> Floats:
    """Return |judge - human| for every review, shape (reviews,)."""
    pairs = np.array([(one.judge, score) for one in subjects for score in one.humans])
    return score_distances(pairs[:, 0], pairs[:, 1])


def compute_human_distances(subjects: tuple[ScoredPaper, ...]) -> Floats:
    """Return |human - human| for every pair of reviews of one paper, shape (pairs,)."""
    pairs = np.array([pair for one in subjects if one.paired for pair in itertools.combinations(one.humans, 2)])
    return score_distances(pairs[:, 0], pairs[:, 1])


def compute_u_test(judge: Floats, human: Floats) -> SealedTestStatistic:
    """Mann-Whitney U of the judge's distances against the humans', two-sided.

    Exact for a set of up to eight without ties, otherwise normal with correction for ties and continuity (scipy's
    rule).
    """
    found: Any = mannwhitneyu(judge, human, alternative="two-sided")
    return SealedTestStatistic(float(found.statistic), _clean_p(float(found.pvalue)))


def compute_u_tests(judge: Floats, human: Floats) -> Floats:
    """Return p of `compute_u_test` for each row of `judge`; shapes (tests, reviews), and (pairs,) or (tests, pairs)."""
    both = np.broadcast_to(human, (len(judge), human.shape[-1]))
    rows = max(1, MAX_CELLS // (judge.shape[1] + both.shape[1]))
    found: list[Any] = [
        mannwhitneyu(judge[at : at + rows], both[at : at + rows], alternative="two-sided", axis=1)
        for at in range(0, len(judge), rows)
    ]
    return np.nan_to_num(np.concatenate([one.pvalue for one in found]).astype(np.float64), nan=1.0)


def compute_rank_correlations(
    subjects: tuple[ScoredPaper, ...],
) -> tuple[SealedTestStatistic | None, SealedTestStatistic | None]:
    """Spearman's rho and Kendall's tau-b of the judge with the humans' mean, over papers; tied ranks are shared.

    None if either side is constant, or there are fewer than three papers.
    """
    judge, human = [one.judge for one in subjects], [float(np.mean(one.humans)) for one in subjects]
    if len(subjects) < 3 or len(set(judge)) == 1 or len(set(human)) == 1:
        return None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a perfect correlation divides by zero on the way to p = 0
        found: tuple[Any, Any] = spearmanr(judge, human), kendalltau(judge, human)
    rho, tau = (SealedTestStatistic(float(one.statistic), _clean_p(float(one.pvalue))) for one in found)
    return rho, tau


def compute_excess_interval(subjects: tuple[ScoredPaper, ...], rng: np.random.Generator) -> ConfidenceInterval:
    """Interval of mean |judge - human| minus mean |human - human|, resampling papers with their reviews."""
    sums = np.array(
        [
            [
                sum(abs(one.judge - score) for score in one.humans),
                len(one.humans),
                sum(pairs := [abs(a - b) for a, b in itertools.combinations(one.humans, 2)] if one.paired else []),
                len(pairs),
            ]
            for one in subjects
        ]
    )
    drawn = _resample_sums(sums, rng)
    drawn = drawn[drawn[:, 3] > 0]
    return _percentile_interval(drawn[:, 0] / drawn[:, 1] - drawn[:, 2] / drawn[:, 3])


def compute_bias_interval(subjects: tuple[ScoredPaper, ...], rng: np.random.Generator) -> ConfidenceInterval:
    """Interval of the mean of judge - human over reviews, resampling papers."""
    drawn = _resample_sums(
        np.array([[sum(one.judge - s for s in one.humans), len(one.humans)] for one in subjects]), rng
    )
    return _percentile_interval(drawn[:, 0] / drawn[:, 1])


def compute_bias(subjects: tuple[ScoredPaper, ...]) -> float:
    """Mean of judge - human over reviews; positive if the judge is more generous."""
    return float(np.mean([one.judge - score for one in subjects for score in one.humans]))


def _resample_sums(sums: Floats, rng: np.random.Generator) -> Floats:
    """Sums over resampled papers, shape (RESAMPLES, columns); `sums` has one row per paper."""
    weights = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=RESAMPLES)
    return weights.astype(np.float64) @ sums


def _percentile_interval(values: Floats) -> ConfidenceInterval:
    low, high = np.percentile(values, [50 - INTERVAL_PERCENT / 2, 50 + INTERVAL_PERCENT / 2])
    return ConfidenceInterval(float(low), float(high))


def _clean_p(p: float) -> float:
    """Return p, or 1 if all values are equal and p is undefined."""
    return 1.0 if np.isnan(p) else p
