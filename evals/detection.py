"""Detection of fabricated papers by a score: AUROC, recall and false alarms, with intervals and a constant baseline.

Each paper has one score, higher for more suspicion. Papers are treated as independent; for papers derived from one
original the intervals are too narrow. Several scores on the same papers are not corrected for multiple comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.stats import rankdata  # pyrefly: ignore

from labwright.evals.intervals import Interval, Proportion, Z, compute_proportion
from labwright.record.schema import FrozenModel
from labwright.record.table import Table

SHUFFLES, GRID_POINTS = 10_000, 4001
"""Permutations of the labels; grid points from 0 to 1 that are tried as ends of an interval."""
SIGNIFICANCE_LEVEL = 0.05


class DetectionThreshold(FrozenModel):
    """Result of calling every paper fabricated whose score means `said`."""

    threshold: str
    recall: Proportion = Field(description="invented papers that are called so")
    false_alarms: Proportion = Field(description="measured papers that are called invented")
    right: Proportion = Field(description="papers classified correctly")


class Detection(FrozenModel):
    """How well a score separates fabricated from measured papers."""

    figure: str
    papers: int
    invented: int
    missing: int = Field(default=0, description="labelled papers without this score")
    auroc: float | None = Field(
        description="probability that of two papers the invented one has the higher suspicion; ties count "
        "half; None: papers of one kind only"
    )
    interval: Interval | None = Field(default=None, description="95 %, of the AUROC")
    p: float | None = Field(default=None, description="share of label permutations whose AUROC is as high")
    cuts: tuple[DetectionThreshold, ...] = ()
    constant: float = Field(description="accuracy of always giving the same answer")
    findings: tuple[str, ...] = ()


def compute_detection(
    figure: str, suspicion: Mapping[str, float], invented: Mapping[str, bool], cuts: Sequence[tuple[str, float]]
) -> Detection:
    """Return how well the score `figure` detects fabrication.

    Each cut has a minimum score and what scores above it mean.
    """
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
    """Return the probability that a true item has the higher value, ties counted half; None if a class is empty."""
    bad, good = int(truth.sum()), int((~truth).sum())
    if not bad or not good:
        return None
    ranks = np.asarray(rankdata(values), dtype=np.float64)
    return float((ranks[truth].sum() - bad * (bad + 1) / 2) / (bad * good))


def compute_auroc_interval(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> Interval | None:
    """Return the 95 % interval of the AUROC, which has a positive width even if the classes do not overlap.

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
    """Return the share of label permutations with an AUROC as high, including the observed one."""
    found = compute_auroc(values, truth)
    if found is None:
        return None
    rng, bad, good = np.random.default_rng(0), int(truth.sum()), int((~truth).sum())
    ranks = np.asarray(rankdata(values), dtype=np.float64)
    sums = np.array([rng.permutation(ranks)[:bad].sum() for _ in range(SHUFFLES)])
    near = int(np.sum((sums - bad * (bad + 1) / 2) / (bad * good) >= found - 1e-12))
    return (near + 1) / (SHUFFLES + 1)


def build_detection_table(figures: Iterable[Detection]) -> Table:
    """Return a row for each threshold of each score."""
    rows = (
        (*(_format_figure(one) if not number else [""] * 4), cut.threshold, cut.recall, cut.false_alarms, cut.right)
        for one in figures
        for number, cut in enumerate(one.cuts)
    )
    head = ("figure", "AUROC", "95 %", "p", "called invented", "recall", "false alarms", "right")
    return Table.of(head, rows)


def list_notes(one: Detection) -> Iterator[str]:
    """Yield what to say of a score below the table."""
    missing = f", and {one.missing} more have no score" if one.missing else ""
    yield (
        f"{one.invented} of {one.papers} papers are invented{missing}; always giving the same answer is right in "
        f"{one.constant:.2f} of them"
    )
    yield from one.findings


def _format_figure(one: Detection) -> Iterator[object]:
    yield one.figure
    yield "-" if one.auroc is None else f"{one.auroc:.4f}"
    yield "-" if one.interval is None else "{:.2f}..{:.2f}".format(*one.interval)
    yield "-" if one.p is None else f"{one.p:.4f}"


def _format_findings(one: Detection) -> list[str]:
    """Return the conclusions that the numbers support, most important first."""
    if one.auroc is None or one.p is None:
        return ["only papers of one kind: detection cannot be measured"]
    findings: list[str] = []
    if one.p > SIGNIFICANCE_LEVEL:
        findings.append(
            f"not shown to detect invented papers: permuted labels do as well in {one.p:.4f} of permutations"
        )
    if all(cut.right.k <= one.constant * one.papers for cut in one.cuts):
        findings.append(f"always giving the same answer is right as often ({one.constant:.2f})")
    return findings
