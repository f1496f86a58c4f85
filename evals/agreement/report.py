"""Report on the agreement of a judge with humans, by dimension, with controls and conclusions.

Random draws have a fixed seed and process papers in order of name, so the same files give the same report, whatever
the order of rows and the names of reviewers.

Limits: a dimension without findings may still be judged badly. Tests of several dimensions are not corrected for
multiple comparisons, and p above 0.05 does not prove equality.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from labwright.evals.agreement import measures
from labwright.evals.agreement.measures import (
    SIGNIFICANCE_LEVEL,
    ConfidenceInterval,
    ConstantJudge,
    Floats,
    HumanSide,
    SealedTestStatistic,
    ShuffledJudge,
)
from labwright.evals.agreement.scores import (
    AgreementError,
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
    u: SealedTestStatistic = Field(description="of the two sets of distances, two-sided")
    spearman: SealedTestStatistic | None
    kendall: SealedTestStatistic | None
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
    points: dict[str, tuple[ScoredPaper, ...]] = Field(default_factory=dict, exclude=True, description="for the figure")


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
        points=compared.subjects,
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


# Plot an agreement: the distances between judge and humans, and whether the judge follows the papers. Drawn without
# pyplot, so the caller's state and style are unchanged.

IMAGE_SUFFIXES = (".png", ".pdf", ".svg")
JUDGE, HUMAN, CONTROL = "#0072b2", "#d55e00", "#666666"  # distinguishable with colour blindness (Okabe and Ito)


def check_suffix(path: Path) -> None:
    """Check the file name. Raises `AgreementError` if a figure cannot be written there."""
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        raise AgreementError(f"cannot draw {path}: give a name that ends in {', '.join(IMAGE_SUFFIXES)}")
    if not path.parent.is_dir():
        raise AgreementError(f"cannot draw {path}: the folder {path.parent} does not exist")


def draw_agreement(found: JudgeAgreementReport, path: Path) -> None:
    """Write the figure. Raises `AgreementError` if it cannot be written."""
    # matplotlib takes a second to import and is only needed for --plot
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_suffix(path)
    count = len(found.dimensions)
    figure: Any = Figure(figsize=(max(2.3 * count, 7.5), 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subfigures(2, 1, height_ratios=[1.0, 1.0])
    _draw_distances(above.subplots(), found)
    row: Any = below.subplots(1, count, squeeze=False)
    for index, one in enumerate(found.dimensions):
        _draw_papers(row[0, index], one, found)
    try:
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise AgreementError(f"cannot write {path}: {error.strerror}") from None


def _draw_distances(axes: Any, found: JudgeAgreementReport) -> None:
    """Draw every pair as a bubble at its distance, with the means and the two controls."""
    for index, one in enumerate(found.dimensions):
        subjects = found.points[one.dimension]
        _draw_bubbles(axes, index - 0.24, measures.compute_judge_distances(subjects), JUDGE)
        _draw_bubbles(axes, index, measures.compute_human_distances(subjects), HUMAN)
        axes.plot(index + 0.2, one.shuffled.distance, marker="x", color=CONTROL, linestyle="none")
        axes.plot(index + 0.32, one.best_constant.distance, marker="_", markersize=10, color=CONTROL, linestyle="none")
    axes.set_xticks(range(len(found.dimensions)), [_format_heading(one) for one in found.dimensions])
    axes.set_xlim(-0.5, len(found.dimensions) - 0.5)
    axes.set_ylabel("difference in points")
    axes.spines[["top", "right"]].set_visible(False)
    for name, marker, color in (
        ("judge - human", "o", JUDGE),
        ("human - human", "o", HUMAN),
        ("judge permuted, mean", "x", CONTROL),
        ("best constant, mean", "_", CONTROL),
    ):
        axes.plot([], [], marker=marker, linestyle="none", color=color, label=name)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=9)


def _format_heading(one: DimensionAgreement) -> str:
    return f"{one.dimension}\nU test p = {one.u.p:.2f}"


def _draw_bubbles(axes: Any, at: float, values: Floats, color: str) -> None:
    """Draw bubbles whose area is the share of pairs at that distance, so that sets of different size are comparable."""
    counts = Counter(float(value) for value in values)
    axes.scatter(
        [at] * len(counts),
        list(counts),
        s=[420 * n / len(values) for n in counts.values()],
        color=color,
        alpha=0.45,
        linewidths=0,
    )
    axes.plot([at - 0.09, at + 0.09], [values.mean()] * 2, color=color, linewidth=2.5)


def _draw_papers(axes: Any, one: DimensionAgreement, found: JudgeAgreementReport) -> None:
    """Plot judge against mean human score, one point per paper; the diagonal is agreement."""
    subjects = found.points[one.dimension]
    low, high = found.scale
    axes.plot([low, high], [low, high], color=CONTROL, linewidth=0.8, linestyle=":")
    axes.scatter(
        [np.mean(subject.humans) for subject in subjects],
        [subject.judge for subject in subjects],
        s=22,
        color=JUDGE,
        alpha=0.6,
        linewidths=0,
    )
    rho = "not defined" if one.spearman is None else f"{one.spearman.value:.2f}"
    axes.set_title(f"{one.dimension}\nSpearman {rho}", fontsize=10)
    margin = 0.04 * (high - low)
    axes.set(
        xlim=(low - margin, high + margin), ylim=(low - margin, high + margin), aspect="equal", xlabel="human mean"
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True, nbins=5)
    axes.set_ylabel("judge" if one is found.dimensions[0] else "")
    axes.spines[["top", "right"]].set_visible(False)
