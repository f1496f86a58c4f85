"""Report on the agreement of a judge with humans, by dimension, with controls and conclusions.

Random draws have a fixed seed and process papers in order of name, so the same files give the same report, whatever
the order of rows and the names of reviewers.

Limits: a dimension without findings may still be judged badly. Tests of several dimensions are not corrected for
multiple comparisons, and p above 0.05 does not prove equality.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field

from labwright.evals.agreement import measures
from labwright.evals.agreement.measures import (
    SIGNIFICANCE_LEVEL,
    ConfidenceInterval,
    ConstantJudge,
    HumanSide,
    ShuffledJudge,
    TestedStatistic,
)
from labwright.evals.agreement.scores import (
    ScaleRange,
    ScoredPaper,
    normalize_column,
    read_humans,
    read_judge,
    select_compared,
)
from labwright.record.schema import FrozenModel

SEED = 0


class DimensionAgreement(FrozenModel):
    """One dimension. Distances are mean absolute differences, in points of the scale."""

    dimension: str
    judge_human: float
    judge_human_pairs: int
    human_human: float
    human_human_pairs: int
    excess: float = Field(description="judge_human - human_human")
    excess_interval: ConfidenceInterval = Field(description="95 %, papers resampled")
    u: TestedStatistic = Field(description="of the two sets of distances, two-sided")
    spearman: TestedStatistic | None
    kendall: TestedStatistic | None
    bias: float = Field(description="mean of judge - human")
    bias_interval: ConfidenceInterval = Field(description="95 %, papers resampled")
    shuffled: ShuffledJudge
    constants: tuple[ConstantJudge, ...]
    humans: HumanSide
    detectable: float | None = Field(description="smallest bias in points that the U test would have detected")
    findings: tuple[str, ...] = ()

    @property
    def is_passing(self) -> bool:
        """Return whether the U test does not find the judge further from humans than they are from one another."""
        return self.u.p >= SIGNIFICANCE_LEVEL or self.excess < 0

    @property
    def best_constant(self) -> ConstantJudge:
        """Return the constant judge closest to the humans, which is chosen after the fact and so slightly too good."""
        return min(self.constants, key=lambda one: one.distance)


class JudgeAgreementReport(FrozenModel):
    """The agreement of the scores in two files."""

    humans: str
    judge: str
    papers: int
    reviews: int
    reviewers: int
    usual: int = Field(description="reviews of a paper in the human-human set")
    paired: int = Field(description="papers in the human-human set")
    scale: tuple[int, int]
    dimensions: tuple[DimensionAgreement, ...]
    warnings: tuple[str, ...] = ()


def build_agreement(
    humans: Path, judge: Path, *, scale: ScaleRange | None = None, dimensions: tuple[str, ...] = ()
) -> JudgeAgreementReport:
    """Compare a judge's file with a file of human reviews. Raises `TableError`, `NoPairsError`."""
    scale = scale or ScaleRange()
    reviews = read_humans(humans, scale, tuple(normalize_column(one) for one in dimensions))
    names = tuple(reviews[0].scores)
    compared = select_compared(reviews, read_judge(judge, scale, names), names)
    subjects = compared.subjects[names[0]]
    return JudgeAgreementReport(
        humans=str(humans),
        judge=str(judge),
        papers=len(subjects),
        reviews=compared.reviews,
        reviewers=compared.reviewers,
        usual=compared.usual,
        paired=sum(one.paired for one in subjects),
        scale=(scale.lowest, scale.highest),
        warnings=compared.warnings,
        dimensions=tuple(measure_dimension(name, compared.subjects[name], scale) for name in names),
    )


def measure_dimension(name: str, subjects: tuple[ScoredPaper, ...], scale: ScaleRange) -> DimensionAgreement:
    """Measure one dimension."""
    judge, human = measures.compute_judge_distances(subjects), measures.compute_human_distances(subjects)
    spearman, kendall = measures.compute_rank_correlations(subjects)
    nearness, spread = float(judge.mean()), float(human.mean())
    found = DimensionAgreement(
        dimension=name,
        judge_human=nearness,
        judge_human_pairs=len(judge),
        human_human=spread,
        human_human_pairs=len(human),
        excess=nearness - spread,
        excess_interval=measures.compute_excess_interval(subjects, _make_rng(1)),
        u=measures.compute_u_test(judge, human),
        spearman=spearman,
        kendall=kendall,
        bias=measures.compute_bias(subjects),
        bias_interval=measures.compute_bias_interval(subjects, _make_rng(2)),
        shuffled=measures.score_shuffled_judge(subjects, _make_rng(3)),
        constants=measures.score_constant_judges(subjects, scale),
        humans=measures.measure_human_side(subjects, _make_rng(4)),
        detectable=measures.find_detectable_bias(subjects, scale, _make_rng(5)),
    )
    return found.model_copy(update={"findings": tuple(_format_findings(found))})


def _make_rng(stream: int) -> np.random.Generator:
    return np.random.default_rng([SEED, stream])


def _format_findings(one: DimensionAgreement) -> list[str]:
    """Return the conclusions in words, most important first."""
    findings: list[str] = []
    if one.u.p < SIGNIFICANCE_LEVEL:
        where = "further from humans than humans" if one.excess > 0 else "closer to humans than humans"
        findings.append(f"the judge is {where} are to one another (U, p = {one.u.p:.4f})")
    same = [constant.score for constant in one.constants if constant.passes]
    best = one.best_constant
    if one.is_passing and same:
        findings.append(f"passing the U test says little: a judge that always answers {_join_or(same)} also passes")
    if best.distance <= one.judge_human:
        findings.append(f"always answering {best.score} is at least as close to humans ({best.distance:.4f})")
    if one.shuffled.p > SIGNIFICANCE_LEVEL:
        findings.append(
            f"not shown to follow the papers: the judge's scores, permuted, are as close in "
            f"{one.shuffled.p:.4f} of permutations"
        )
    if one.spearman is not None and one.spearman.p < SIGNIFICANCE_LEVEL and one.spearman.value < 0:
        findings.append("the judge's ranking of the papers is opposite to the humans'")
    if one.humans.p > SIGNIFICANCE_LEVEL:
        findings.append(
            f"humans are not shown to agree on these papers themselves (p = {one.humans.p:.4f}), so they cannot "
            "validate a judge"
        )
    return findings


def _join_or(scores: list[int]) -> str:
    return " or ".join(map(str, scores)) if len(scores) < 3 else f"{', '.join(map(str, scores[:-1]))} or {scores[-1]}"
