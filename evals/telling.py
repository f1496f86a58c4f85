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

from labwright.evals.shares import Interval, Share, Z, share
from labwright.record.nouns.frozen import Frozen

SHUFFLES, PLACES = 10_000, 4001
"""Deals of the labels; places from 0 to 1 that are tried as ends of an interval."""
LEVEL = 0.05


class Cut(Frozen):
    """What comes of calling every paper invented whose figure says `said`."""

    said: str
    recall: Share = Field(description="invented papers that are called so")
    false_alarms: Share = Field(description="measured papers that are called invented")
    right: Share = Field(description="papers that are called what they are")


class Telling(Frozen):
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
    cuts: tuple[Cut, ...] = ()
    constant: float = Field(description="share that is called right by always saying the same")
    findings: tuple[str, ...] = ()


def told(
    figure: str, suspicion: Mapping[str, float], invented: Mapping[str, bool], cuts: Sequence[tuple[str, float]]
) -> Telling:
    """The telling of a figure by paper. A cut is what a figure of at least its number says."""
    names = sorted(name for name in invented if name in suspicion)
    values = np.array([suspicion[name] for name in names], dtype=np.float64)
    truth = np.array([invented[name] for name in names], dtype=np.bool_)
    bad, good = int(truth.sum()), int((~truth).sum())
    found = Telling(
        figure=figure,
        papers=len(names),
        invented=bad,
        missing=len(invented) - len(names),
        auroc=auroc(values, truth),
        interval=auroc_interval(values, truth),
        p=by_chance(values, truth),
        cuts=tuple(_cut(said, values >= least, truth) for said, least in cuts),
        constant=max(bad, good) / len(names) if names else 0.0,
    )
    return found.model_copy(update={"findings": tuple(_findings(found))})


def _cut(said: str, called: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Cut:
    hits, alarms = int((called & truth).sum()), int((called & ~truth).sum())
    good = int((~truth).sum())
    return Cut(
        said=said,
        recall=share(hits, int(truth.sum())),
        false_alarms=share(alarms, good),
        right=share(hits + good - alarms, len(truth)),
    )


def auroc(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> float | None:
    """The chance that one of the true ones has the higher value, ties counted half; None where a side is empty."""
    bad, good = int(truth.sum()), int((~truth).sum())
    if not bad or not good:
        return None
    ranks = np.asarray(rankdata(values), dtype=np.float64)
    return float((ranks[truth].sum() - bad * (bad + 1) / 2) / (bad * good))


def auroc_interval(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> Interval | None:
    """The 95 % interval of the AUROC, which has a width also where the two sides do not overlap.

    Source: Newcombe 2006, Statistics in Medicine 25:559, method 5.
    """
    found, bad, good = auroc(values, truth), int(truth.sum()), int((~truth).sum())
    if found is None:
        return None
    at, middle = np.linspace(0, 1, PLACES), (bad + good) / 2 - 1
    spread = at * (1 - at) * (1 + middle * (1 - at) / (2 - at) + middle * at / (1 + at)) / (bad * good)
    within = at[np.abs(found - at) <= Z * np.sqrt(spread)]
    return round(float(within.min(initial=found)), 3), round(float(within.max(initial=found)), 3)


def by_chance(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> float | None:
    """The share of shuffled labels with an AUROC as high, this one counted."""
    found = auroc(values, truth)
    if found is None:
        return None
    rng, bad, good = np.random.default_rng(0), int(truth.sum()), int((~truth).sum())
    ranks = np.asarray(rankdata(values), dtype=np.float64)
    sums = np.array([rng.permutation(ranks)[:bad].sum() for _ in range(SHUFFLES)])
    near = int(np.sum((sums - bad * (bad + 1) / 2) / (bad * good) >= found - 1e-12))
    return (near + 1) / (SHUFFLES + 1)


def _findings(one: Telling) -> list[str]:
    """What the figures allow to say, most telling first."""
    if one.auroc is None or one.p is None:
        return ["papers of one kind alone: nothing can be told apart"]
    said: list[str] = []
    if one.p > LEVEL:
        said.append(
            f"not shown to tell invented from measured: labels dealt by chance do as well in {one.p:.4f} of deals"
        )
    if all(cut.right.k <= one.constant * one.papers for cut in one.cuts):
        said.append(f"always saying the same is right as often ({one.constant:.2f})")
    return said
