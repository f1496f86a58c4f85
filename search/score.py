"""How nodes are ordered: by how much of the data plan they measured, then by the primary metric of the method.

Metrics are compared within one dataset and one condition only, as a gain relative to a reference node there; unlike
metrics are never averaged. Validation data only. A difference counts for nothing while it is within the noise that
replicates showed; before there are replicates, the noise is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from record.nouns.data import DataPlan
from record.nouns.nodes import Node, StageName


class Cell(NamedTuple):
    """What is compared between nodes: one arm at one level (empty: the study has none) on one dataset."""

    dataset: str
    arm: str
    level: str


FEWEST = 3
"""Replicates below which their spread says nothing."""
WITHIN = 1.0
"""Two runs are a close call when they differ by less than so many standard deviations of such a difference.

After the one-standard-error rule (Breiman et al. 1984, section 3.4.3): of what is that close, the simpler is taken.
"""


def cells(node: Node, plan: DataPlan) -> dict[Cell, float]:
    """The primary metric of a node on validation data."""
    return {Cell(one.dataset, one.arm, one.level): one.value for one in node.measurements
            if one.name == plan.primary.name and one.split == "validation"}


def coverage(node: Node, plan: DataPlan) -> int:
    """How many of the plan's cells a node measured; those of ablations do not count."""
    return len(planned_cells(plan) & cells(node, plan).keys())


def planned_cells(plan: DataPlan) -> set[Cell]:
    """The cells that the plan asks every experiment for."""
    return {Cell(use.name, arm.name, level) for use in plan.datasets for arm in plan.arms if arm.role != "ablation"
            for level in plan.level_names}


def judging_arms(stage: StageName, plan: DataPlan) -> frozenset[str]:
    """The arms whose cells decide between nodes: in tuning all that are compared, elsewhere the method's.

    A setting that is tried is tried for every arm, and is chosen for all of them together: baselines get the same
    tuning budget as the method, and no setting is chosen because it suits the method alone.
    """
    roles = ("baseline", "method") if stage == "tuning" else ("method",)
    return frozenset(arm.name for arm in plan.arms if arm.role in roles)


def gain(node: Node, reference: Node, plan: DataPlan, arms: frozenset[str]) -> float:
    """Relative gain over the reference in the cells of these arms that both measured (all, where there are none).

    In each dataset the mean over its cells is compared, then the relative gains of the datasets are averaged, so that
    neither a cell near zero nor a dataset with large values decides alone. Positive is better, whatever the metric's
    direction; 0.0 without a common cell.
    """
    sign = 1.0 if plan.primary.higher_is_better else -1.0
    gains = [sign * (ours - theirs) / max(abs(theirs), 1e-12)
             for ours, theirs in means_by_dataset((node, reference), plan, arms).values()]
    return fmean(gains) if gains else 0.0


def means_by_dataset(
    nodes: Sequence[Node], plan: DataPlan, arms: frozenset[str]
) -> dict[str, tuple[float, ...]]:
    """Dataset -> the mean of each node over the cells that all of them measured, of these arms where there are any."""
    found = [cells(node, plan) for node in nodes]
    common = set(found[0]).intersection(*found[1:]) if found else set[Cell]()
    common = {cell for cell in common if cell.arm in arms} or common
    return {dataset: tuple(fmean(one[cell] for cell in sorted(common) if cell.dataset == dataset) for one in found)
            for dataset in sorted({cell.dataset for cell in common})}


def noise(replicates: Sequence[Node], plan: DataPlan, arms: frozenset[str]) -> dict[str, float]:
    """Dataset -> standard deviation over replicates of what decides between nodes.

    Empty with fewer than `FEWEST` replicates; a dataset on which all are identical is left out: its noise is unknown.
    """
    if len(replicates) < FEWEST:
        return {}
    spread = {dataset: stdev(means) for dataset, means in means_by_dataset(replicates, plan, arms).items()}
    return {dataset: sd for dataset, sd in spread.items() if sd > 0}


def close(a: Node, b: Node, plan: DataPlan, arms: frozenset[str], known: Mapping[str, float]) -> bool:
    """Whether two nodes, one seed each, cannot be told apart on any dataset; where no noise is known, only if equal.

    Nodes that measured nothing in common are not close.
    """
    pairs = means_by_dataset((a, b), plan, arms)
    return bool(pairs) and all(
        abs(x - y) <= WITHIN * sqrt(2) * known.get(dataset, 0.0) for dataset, (x, y) in pairs.items())
