"""The agreement of a judge with people, by dimension, with its controls and what they allow to say.

Random draws have a fixed seed and go over papers in order of their names: the same files give the same report, whatever
the order of their rows and the names of the reviewers.

Not guaranteed: that a dimension without findings is judged well. Tests of several dimensions are not corrected for one
another, and p above 0.05 is no proof of equality.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field

from labwright.evals.agreement import controls, measures
from labwright.evals.agreement.controls import SIGNIFICANCE_LEVEL, ConstantJudge, HumanSide, ShuffledJudge
from labwright.evals.agreement.measures import ConfidenceInterval, SealedTestStatistic
from labwright.evals.agreement.scores import (
    ScaleRange,
    ScoredPaper,
    normalize_column,
    read_humans,
    read_judge,
    select_compared,
)
from labwright.record.schema.frozen_model import FrozenModel

SEED = 0


class DimensionAgreement(FrozenModel):
    """One dimension. Distances are means of absolute differences, in points of the scale."""

    dimension: str
    judge_human: float
    judge_human_pairs: int
    human_human: float
    human_human_pairs: int
    excess: float = Field(description="judge_human - human_human")
    excess_interval: ConfidenceInterval = Field(description="95 %, papers resampled")
    u: SealedTestStatistic = Field(description="of the two sets of distances, two-sided")
    spearman: SealedTestStatistic | None
    kendall: SealedTestStatistic | None
    bias: float = Field(description="mean of judge - human")
    bias_interval: ConfidenceInterval = Field(description="95 %, papers resampled")
    shuffled: ShuffledJudge
    constants: tuple[ConstantJudge, ...]
    humans: HumanSide
    detectable: float | None = Field(description="points of bias that the U test would have found")
    findings: tuple[str, ...] = ()

    @property
    def is_passing(self) -> bool:
        """Whether the U test does not find the judge further from people than people."""
        return self.u.p >= SIGNIFICANCE_LEVEL or self.excess < 0

    @property
    def best_constant(self) -> ConstantJudge:
        """The one nearest to the humans: chosen after the fact, so a little too good."""
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
    points: dict[str, tuple[ScoredPaper, ...]] = Field(default_factory=dict, exclude=True, description="for the figure")


def build_agreement(
    humans: Path, judge: Path, *, scale: ScaleRange | None = None, dimensions: tuple[str, ...] = ()
) -> JudgeAgreementReport:
    """The agreement of a judge's file with a file of human reviews. Raises `TableError`, `NoPairsError`."""
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
        points=compared.subjects,
        dimensions=tuple(measure_dimension(name, compared.subjects[name], scale) for name in names),
    )


def measure_dimension(name: str, subjects: tuple[ScoredPaper, ...], scale: ScaleRange) -> DimensionAgreement:
    """One dimension, measured."""
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
        shuffled=controls.score_shuffled_judge(subjects, _make_rng(3)),
        constants=controls.score_constant_judges(subjects, scale),
        humans=controls.measure_human_side(subjects, _make_rng(4)),
        detectable=controls.find_detectable_bias(subjects, scale, _make_rng(5)),
    )
    return found.model_copy(update={"findings": tuple(_format_findings(found))})


def _make_rng(stream: int) -> np.random.Generator:
    return np.random.default_rng([SEED, stream])


def _format_findings(one: DimensionAgreement) -> list[str]:
    """What the figures say in words, most telling first."""
    said: list[str] = []
    if one.u.p < SIGNIFICANCE_LEVEL:
        where = "further from people than people" if one.excess > 0 else "nearer to people than people"
        said.append(f"the judge is {where} are to one another (U, p = {one.u.p:.4f})")
    same = [constant.score for constant in one.constants if constant.passes]
    best = one.best_constant
    if one.is_passing and same:
        said.append(f"passing the U test says little: a judge that always says {_join_or(same)} passes too")
    if best.distance <= one.judge_human:
        said.append(f"always saying {best.score} is at least as near to people ({best.distance:.4f})")
    if one.shuffled.p > SIGNIFICANCE_LEVEL:
        said.append(
            f"not shown to follow the papers: the judge's scores dealt by chance come as near in "
            f"{one.shuffled.p:.4f} of deals"
        )
    if one.spearman is not None and one.spearman.p < SIGNIFICANCE_LEVEL and one.spearman.value < 0:
        said.append("the judge ranks the papers against people")
    if one.humans.p > SIGNIFICANCE_LEVEL:
        said.append(
            f"people are not shown to agree on these papers themselves (p = {one.humans.p:.4f}): they are no "
            "measure for a judge"
        )
    return said


def _join_or(scores: list[int]) -> str:
    return " or ".join(map(str, scores)) if len(scores) < 3 else f"{', '.join(map(str, scores[:-1]))} or {scores[-1]}"
