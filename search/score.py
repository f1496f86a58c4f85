"""How nodes are ordered: by how much of the data plan they measured, then by the primary metric of the method.

Metrics are compared within one dataset and one condition only, as a gain relative to a reference node there; unlike
metrics are never averaged. Validation data only. Noise enters in `record.claims`, once replicates exist.
"""

from __future__ import annotations

from statistics import fmean

from record.nouns import DataPlan, Node, StageName, arm_of

Cell = tuple[str, str]


def cells(node: Node, plan: DataPlan) -> dict[Cell, float]:
    """The primary metric of a node on validation data: (dataset, condition) -> value."""
    return {(one.dataset, one.condition): one.value for one in node.measurements
            if one.name == plan.primary.name and one.split == "validation"}


def coverage(node: Node, plan: DataPlan) -> int:
    """How many of the plan's (dataset, condition) cells a node measured; those of ablations do not count."""
    return len(asked(plan) & cells(node, plan).keys())


def asked(plan: DataPlan) -> set[Cell]:
    """The (dataset, condition) cells that the plan asks every experiment for."""
    removed = {arm.name for arm in plan.arms if arm.role == "ablation"}
    return {(use.name, condition) for use in plan.datasets for condition in plan.conditions
            if arm_of(condition) not in removed}


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
    mine, theirs = cells(node, plan), cells(reference, plan)
    common = mine.keys() & theirs.keys()
    common = {cell for cell in common if arm_of(cell[1]) in arms} or common
    sign = 1.0 if plan.primary.higher_is_better else -1.0
    gains: list[float] = []
    for dataset in sorted({cell[0] for cell in common}):
        here = [cell for cell in common if cell[0] == dataset]
        ours, before = fmean(mine[cell] for cell in here), fmean(theirs[cell] for cell in here)
        gains.append(sign * (ours - before) / max(abs(before), 1e-12))
    return fmean(gains) if gains else 0.0
