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
from scipy.stats import (  # pyrefly: ignore
    kendalltau,  # pyrefly: ignore
    mannwhitneyu,  # pyrefly: ignore
    spearmanr,  # pyrefly: ignore
)

from labwright.evals.agreement.scores import ScaleRange, ScoredPaper
from labwright.evals.intervals import Floats, percentile_interval, resample_sums

MAX_CELLS = 2_000_000
"""Maximum values drawn or ranked at a time, to limit memory."""


@dataclass(frozen=True)
class ConfidenceInterval:
    low: float
    high: float


@dataclass(frozen=True)
class TestedStatistic:
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


def compute_u_test(judge: Floats, human: Floats) -> TestedStatistic:
    """Mann-Whitney U of the judge's distances against the humans', two-sided.

    Exact for a set of up to eight without ties, otherwise normal with correction for ties and continuity (scipy's
    rule).
    """
    found: Any = mannwhitneyu(judge, human, alternative="two-sided")
    return TestedStatistic(float(found.statistic), _clean_p(float(found.pvalue)))


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
) -> tuple[TestedStatistic | None, TestedStatistic | None]:
    """Spearman's rho and Kendall's tau-b of the judge with the humans' mean, over papers; tied ranks are shared.

    None if either side is constant, or there are fewer than three papers.
    """
    judge, human = [one.judge for one in subjects], [float(np.mean(one.humans)) for one in subjects]
    if len(subjects) < 3 or len(set(judge)) == 1 or len(set(human)) == 1:
        return None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a perfect correlation divides by zero on the way to p = 0
        found: tuple[Any, Any] = spearmanr(judge, human), kendalltau(judge, human)
    rho, tau = (TestedStatistic(float(one.statistic), _clean_p(float(one.pvalue))) for one in found)
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
    drawn = resample_sums(sums, rng)
    drawn = drawn[drawn[:, 3] > 0]
    return ConfidenceInterval(*percentile_interval(drawn[:, 0] / drawn[:, 1] - drawn[:, 2] / drawn[:, 3]))


def compute_bias_interval(subjects: tuple[ScoredPaper, ...], rng: np.random.Generator) -> ConfidenceInterval:
    """Interval of the mean of judge - human over reviews, resampling papers."""
    drawn = resample_sums(
        np.array([[sum(one.judge - s for s in one.humans), len(one.humans)] for one in subjects]), rng
    )
    return ConfidenceInterval(*percentile_interval(drawn[:, 0] / drawn[:, 1]))


def compute_bias(subjects: tuple[ScoredPaper, ...]) -> float:
    """Mean of judge - human over reviews; positive if the judge is more generous."""
    return float(np.mean([one.judge - score for one in subjects for score in one.humans]))


def _clean_p(p: float) -> float:
    """Return p, or 1 if all values are equal and p is undefined."""
    return 1.0 if np.isnan(p) else p


# Controls for judge agreement: uninformed judges, agreement between humans, and detectable bias. The U test only asks
# whether a judge is further from humans than they are from one another. If humans disagree widely, or are few, every
# judge passes, even one that always answers 5. These controls reveal such cases.

SIGNIFICANCE_LEVEL = 0.05
POWER = 0.8
SHUFFLES = 10_000
MAX_SHUFFLES_TESTED = 1000
"""Permutations to which the U test is also applied."""
BISECTION_STEPS = 18
"""Bisection steps on the scale when searching for a detectable bias: half points from 1 to 10."""


@dataclass(frozen=True)
class ConstantJudge:
    """A judge that gives every paper the same score.

    `passes`: the U test does not find it further from humans.
    """

    score: int
    distance: float
    p: float
    passes: bool


@dataclass(frozen=True)
class ShuffledJudge:
    """The judge's own scores, permuted over the papers.

    `p` is the share of permutations as close to the humans as the judge, including its own; `passing` is the share
    that passes the U test.
    """

    distance: float
    p: float
    passing: float


@dataclass(frozen=True)
class HumanSide:
    """How far humans agree, on papers with the usual number of reviews.

    `icc` is ICC(1), one-way: the share of variance between papers. `elsewhere` is the mean distance when reviews
    are permuted over papers, and `p` the share of permutations with a distance as small as the observed one.
    """

    icc: float | None
    elsewhere: float
    p: float


def test_passes(judge: Floats, human: Floats, p: Floats) -> NDArray[np.bool_]:
    """Return whether each row of `judge` passes the U test: no difference found, or the judge is closer."""
    return np.asarray((p >= SIGNIFICANCE_LEVEL) | (judge.mean(axis=1) < human.mean()), dtype=np.bool_)


def score_constant_judges(subjects: tuple[ScoredPaper, ...], scale: ScaleRange) -> tuple[ConstantJudge, ...]:
    """Return constant judges, one for each whole score."""
    scores = np.array([score for one in subjects for score in one.humans])
    distances = score_distances(np.array(scale.scores, dtype=np.float64)[:, None], scores[None, :])
    human = compute_human_distances(subjects)
    p = compute_u_tests(distances, human)
    passes = test_passes(distances, human, p)
    return tuple(
        ConstantJudge(score, float(distances[index].mean()), float(p[index]), bool(passes[index]))
        for index, score in enumerate(scale.scores)
    )


def score_shuffled_judge(subjects: tuple[ScoredPaper, ...], rng: np.random.Generator) -> ShuffledJudge:
    """Compute the permutation control."""
    judge = np.array([one.judge for one in subjects])
    owner = np.array([index for index, one in enumerate(subjects) for _ in one.humans])
    scores = np.array([score for one in subjects for score in one.humans])

    def deal(rows: int) -> Floats:
        return score_distances(rng.permuted(np.tile(judge, (rows, 1)), axis=1)[:, owner], scores)

    human, tested = compute_human_distances(subjects), deal(MAX_SHUFFLES_TESTED)
    passes = test_passes(tested, human, compute_u_tests(tested, human))
    means = np.concatenate([deal(rows).mean(axis=1) for rows in _block_sizes(len(owner))])
    near = int(np.sum(means <= compute_judge_distances(subjects).mean() + 1e-12))
    return ShuffledJudge(float(means.mean()), (near + 1) / (SHUFFLES + 1), float(np.mean(passes)))


def measure_human_side(subjects: tuple[ScoredPaper, ...], rng: np.random.Generator) -> HumanSide:
    """Measure how far humans agree on papers, and under permutation."""
    scores = np.array([one.humans for one in subjects if one.paired])
    papers, reviews = scores.shape
    means = np.concatenate(
        [
            _mean_within_distance(
                rng.permuted(np.tile(scores.ravel(), (rows, 1)), axis=1).reshape(rows, papers, reviews)
            )
            for rows in _block_sizes(scores.size)
        ]
    )
    near = int(np.sum(means <= _mean_within_distance(scores[None])[0] + 1e-12))
    return HumanSide(_compute_icc(scores), float(means.mean()), (near + 1) / (SHUFFLES + 1))


def find_detectable_bias(
    subjects: tuple[ScoredPaper, ...], scale: ScaleRange, rng: np.random.Generator
) -> float | None:
    """Return the smallest bias, in points, at which the U test would detect a judge that is otherwise like a human.

    Detected in `POWER` of `MAX_SHUFFLES_TESTED` simulations with as many pairs. They are drawn as if independent,
    which they are not, so the true bias is larger. None if no bias on the scale would be detected.
    """
    human = compute_human_distances(subjects)
    reviews = sum(len(one.humans) for one in subjects)
    for points in (step * (scale.highest - scale.lowest) / BISECTION_STEPS for step in range(1, BISECTION_STEPS + 1)):
        signs = rng.choice([-1.0, 1.0], size=(MAX_SHUFFLES_TESTED, reviews))
        judge = np.abs(rng.choice(human, size=(MAX_SHUFFLES_TESTED, reviews)) * signs + points)
        p = compute_u_tests(judge, rng.choice(human, size=(MAX_SHUFFLES_TESTED, len(human))))
        if float(np.mean(p < SIGNIFICANCE_LEVEL)) >= POWER:
            return points
    return None


def _block_sizes(width: int) -> list[int]:
    """Split the permutations of `width` values into blocks of at most `MAX_CELLS` values."""
    most = max(1, min(SHUFFLES, MAX_CELLS // width))
    return [min(most, SHUFFLES - at) for at in range(0, SHUFFLES, most)]


def _mean_within_distance(scores: Floats) -> Floats:
    """Return the mean distance of two reviews of one paper, shape (permutations,); scores (permutations, papers,
    reviews).
    """
    pairs = list(itertools.combinations(range(scores.shape[2]), 2))
    distances = [np.abs(scores[:, :, a] - scores[:, :, b]).mean(axis=1) for a, b in pairs]
    return np.asarray(np.mean(distances, axis=0), dtype=np.float64)


def _compute_icc(scores: Floats) -> float | None:
    """Return ICC(1) of scores (papers, reviews); None if undefined.

    Source: Shrout and Fleiss 1979, case 1.
    """
    papers, reviews = scores.shape
    if papers < 2:
        return None
    between = reviews * float(np.var(scores.mean(axis=1), ddof=1))
    within = float(np.sum((scores - scores.mean(axis=1, keepdims=True)) ** 2)) / (papers * (reviews - 1))
    total = between + (reviews - 1) * within
    return (between - within) / total if total > 0 else None
