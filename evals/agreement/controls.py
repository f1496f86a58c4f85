"""Controls for judge agreement: uninformed judges, agreement between humans, and detectable bias.

The U test only asks whether a judge is further from humans than they are from one another. If humans disagree
widely, or are few, every judge passes, even one that always answers 5. These controls reveal such cases.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labwright.evals.agreement import measures
from labwright.evals.agreement.measures import Floats
from labwright.evals.agreement.scores import ScaleRange, ScoredPaper

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
    distances = measures.score_distances(np.array(scale.scores, dtype=np.float64)[:, None], scores[None, :])
    human = measures.compute_human_distances(subjects)
    p = measures.compute_u_tests(distances, human)
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
        return measures.score_distances(rng.permuted(np.tile(judge, (rows, 1)), axis=1)[:, owner], scores)

    human, tested = measures.compute_human_distances(subjects), deal(MAX_SHUFFLES_TESTED)
    passes = test_passes(tested, human, measures.compute_u_tests(tested, human))
    means = np.concatenate([deal(rows).mean(axis=1) for rows in _block_sizes(len(owner))])
    near = int(np.sum(means <= measures.compute_judge_distances(subjects).mean() + 1e-12))
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
    human = measures.compute_human_distances(subjects)
    reviews = sum(len(one.humans) for one in subjects)
    for points in (step * (scale.highest - scale.lowest) / BISECTION_STEPS for step in range(1, BISECTION_STEPS + 1)):
        signs = rng.choice([-1.0, 1.0], size=(MAX_SHUFFLES_TESTED, reviews))
        judge = np.abs(rng.choice(human, size=(MAX_SHUFFLES_TESTED, reviews)) * signs + points)
        p = measures.compute_u_tests(judge, rng.choice(human, size=(MAX_SHUFFLES_TESTED, len(human))))
        if float(np.mean(p < SIGNIFICANCE_LEVEL)) >= POWER:
            return points
    return None


def _block_sizes(width: int) -> list[int]:
    """Split the permutations of `width` values into blocks of at most `measures.MAX_CELLS` values."""
    most = max(1, min(SHUFFLES, measures.MAX_CELLS // width))
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
