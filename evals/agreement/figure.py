"""Plot an agreement: the distances between judge and humans, and whether the judge follows the papers.

Drawn without pyplot, so the caller's state and style are unchanged.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from labwright.evals.agreement import measures
from labwright.evals.agreement.measures import Floats
from labwright.evals.agreement.report import DimensionAgreement, JudgeAgreementReport
from labwright.evals.agreement.scores import AgreementError

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
