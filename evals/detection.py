"""How well a figure tells invented papers from measured ones: AUROC, recall and false alarms, each with its interval,
beside what somebody gets who cannot know.

A figure is a number a paper, higher for more suspicion. Papers are taken as independent of one another; papers that
were made from one base are not, and their intervals are too narrow. Nothing is corrected for several figures over the
same papers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.stats import rankdata  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from labwright.evals.proportions import Interval, Proportion, Z, compute_proportion
from labwright.record.schema.frozen_model import FrozenModel

SHUFFLES, GRID_POINTS = 10_000, 4001
"""Deals of the labels; places from 0 to 1 that are tried as ends of an interval."""
SIGNIFICANCE_LEVEL = 0.05


class DetectionThreshold(FrozenModel):
    """What comes of calling every paper invented whose figure says `said`."""

    threshold: str
    recall: Proportion = Field(description="invented papers that are called so")
    false_alarms: Proportion = Field(description="measured papers that are called invented")
    right: Proportion = Field(description="papers that are called what they are")


class Detection(FrozenModel):
    """How well one figure tells the papers apart."""

    figure: str
    papers: int
    invented: int
    missing: int = Field(default=0, description="labelled papers without this figure")
    auroc: float | None = Field(
        description="chance that of two papers the invented one is the more suspect; ties are "
        "halves; None: papers of one kind alone"
    )
    interval: Interval | None = Field(default=None, description="95 %, of the AUROC")
    p: float | None = Field(default=None, description="share of shuffled labels whose AUROC is as high")
    cuts: tuple[DetectionThreshold, ...] = ()
    constant: float = Field(description="share that is called right by always saying the same")
    findings: tuple[str, ...] = ()


def compute_detection(
    figure: str, suspicion: Mapping[str, float], invented: Mapping[str, bool], cuts: Sequence[tuple[str, float]]
) -> Detection:
    """The telling of a figure by paper. A cut is what a figure of at least its number says."""
    names = sorted(name for name in invented if name in suspicion)
    values = np.array([suspicion[name] for name in names], dtype=np.float64)
    truth = np.array([invented[name] for name in names], dtype=np.bool_)
    bad, good = int(truth.sum()), int((~truth).sum())
    found = Detection(
        figure=figure,
        papers=len(names),
        invented=bad,
        missing=len(invented) - len(names),
        auroc=compute_auroc(values, truth),
        interval=compute_auroc_interval(values, truth),
        p=permutation_p(values, truth),
        cuts=tuple(_compute_threshold(said, values >= least, truth) for said, least in cuts),
        constant=max(bad, good) / len(names) if names else 0.0,
    )
    return found.model_copy(update={"findings": tuple(_format_findings(found))})


def _compute_threshold(said: str, called: NDArray[np.bool_], truth: NDArray[np.bool_]) -> DetectionThreshold:
    hits, alarms = int((called & truth).sum()), int((called & ~truth).sum())
    good = int((~truth).sum())
    return DetectionThreshold(
        threshold=said,
        recall=compute_proportion(hits, int(truth.sum())),
        false_alarms=compute_proportion(alarms, good),
        right=compute_proportion(hits + good - alarms, len(truth)),
    )


def compute_auroc(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> float | None:
    """The chance that one of the true ones has the higher value, ties counted half; None where a side is empty."""
    bad, good = int(truth.sum()), int((~truth).sum())
    if not bad or not good:
        return None
    ranks = np.asarray(rankdata(values), dtype=np.float64)
    return float((ranks[truth].sum() - bad * (bad + 1) / 2) / (bad * good))


def compute_auroc_interval(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> Interval | None:
    """The 95 % interval of the AUROC, which has a width also where the two sides do not overlap.

    Source: Newcombe 2006, Statistics in Medicine 25:559, method 5.
    """
    found, bad, good = compute_auroc(values, truth), int(truth.sum()), int((~truth).sum())
    if found is None:
        return None
    at, middle = np.linspace(0, 1, GRID_POINTS), (bad + good) / 2 - 1
    spread = at * (1 - at) * (1 + middle * (1 - at) / (2 - at) + middle * at / (1 + at)) / (bad * good)
    within = at[np.abs(found - at) <= Z * np.sqrt(spread)]
    return round(float(within.min(initial=found)), 3), round(float(within.max(initial=found)), 3)


def permutation_p(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> float | None:
    """The share of shuffled labels with an AUROC as high, this one counted."""
    found = compute_auroc(values, truth)
    if found is None:
        return None
    rng, bad, good = np.random.default_rng(0), int(truth.sum()), int((~truth).sum())
    ranks = np.asarray(rankdata(values), dtype=np.float64)
    sums = np.array([rng.permutation(ranks)[:bad].sum() for _ in range(SHUFFLES)])
    near = int(np.sum((sums - bad * (bad + 1) / 2) / (bad * good) >= found - 1e-12))
    return (near + 1) / (SHUFFLES + 1)


def _format_findings(one: Detection) -> list[str]:
    """What the figures allow to say, most telling first."""
    if one.auroc is None or one.p is None:
        return ["papers of one kind alone: nothing can be told apart"]
    said: list[str] = []
    if one.p > SIGNIFICANCE_LEVEL:
        said.append(
            f"not shown to tell invented from measured: labels dealt by chance do as well in {one.p:.4f} of deals"
        )
    if all(cut.right.k <= one.constant * one.papers for cut in one.cuts):
        said.append(f"always saying the same is right as often ({one.constant:.2f})")
    return said
