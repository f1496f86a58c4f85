"""The score of a node, as shown in trees, charts, frames, tables and figures."""

from __future__ import annotations

from statistics import fmean

from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.nodes import Node


def compute_node_score(node: Node, plan: DataPlan | None) -> float | None:
    """Return the primary metric on the plan's main dataset (validation), as the mean over the method's conditions, or
    over all conditions.

    Only one dataset is used, since every stage measures it and values of different datasets have no common scale. None
    for reference models, or before there is a value.
    """
    if plan is None or node.kind == "rung":
        return None
    found = [
        one
        for one in node.measurements
        if (one.name, one.dataset, one.split) == (plan.primary_metric.name, plan.datasets[0].name, "validation")
    ]
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    values = [one.value for one in found if one.arm in methods] or [one.value for one in found]
    return fmean(values) if values else None


def describe_score_data(plan: DataPlan) -> str:
    """Describe where scores are measured; names the dataset if the plan has several."""
    return f"validation data of {plan.datasets[0].name}" if len(plan.datasets) > 1 else "validation data"
