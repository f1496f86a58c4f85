"""Tables computed from a node's values, used for judging, tuning, reports and figures.

They list differences of the primary metric between arms and between levels, so that no model has to subtract, and
values on train and dev reported by the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from labwright.models.roles.experiment_code import MetricChange, Tables
from labwright.models.roles.node_assessment import Statistic
from labwright.record.float_compare import subtract_rounded
from labwright.record.schema.data_plan import DataPlan, Measurement, parse_arm, parse_level
from labwright.record.schema.nodes import Node

Quantity = tuple[str, str, str]
"""(dataset, condition, metric)."""


def build_tables(nodes: Iterable[Node], plan: DataPlan, *, parent: Node | None = None) -> Tables:
    """Build tables from the last attempts of these nodes (one seed each). The first value of a condition is used.

    With the parent of an ablation, which measures only the ablated arm, arms are compared with the parent's method.
    """
    last = [node.attempts[-1] for node in nodes if node.attempts]
    values = _collect_values(one for attempt in last for one in attempt.measurements)
    if parent is None:
        arms = _compare_arms(values, plan)
    else:
        method = next((arm.name for arm in plan.arms if arm.role == "method"), "")
        own = {key: value for key, value in _collect_values(parent.measurements).items() if parse_arm(key[1]) == method}
        arms = _compare_across(own | values, plan, n=1, order=[method], name=parse_arm, within=parse_level)
    return Tables(
        arms=arms,
        levels=_compare_levels(values, plan),
        self_reported=tuple(one for attempt in last for one in attempt.self_reported),
    )


def _collect_values(measurements: Iterable[Measurement]) -> dict[Quantity, float]:
    values: dict[Quantity, float] = {}
    for one in measurements:
        values.setdefault((one.dataset, one.condition, one.name), one.value)
    return values


def build_mean_tables(statistics: Sequence[Statistic], nodes: Iterable[Node], plan: DataPlan) -> Tables:
    """Build tables from means over equally many replicates; without means, from the nodes' single seed."""
    single = build_tables(nodes, plan)
    if not any(one.name == plan.primary_metric.name for one in statistics):
        return single
    by_n = {one.n: {(s.dataset, s.condition, s.name): s.mean for s in statistics if s.n == one.n} for one in statistics}
    return Tables(
        arms=tuple(line for n, found in by_n.items() for line in _compare_arms(found, plan, n=n)),
        levels=tuple(line for n, found in by_n.items() for line in _compare_levels(found, plan, n=n)),
        self_reported=single.self_reported,
    )


def _compare_arms(values: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[MetricChange, ...]:
    """Compare the first measured arm of the plan, baselines first, with each other arm."""
    order = [arm.name for arm in sorted(plan.arms, key=lambda arm: arm.role != "baseline")]
    return _compare_across(values, plan, n=n, order=order, name=parse_arm, within=parse_level)


def _compare_levels(values: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[MetricChange, ...]:
    """Compare the first level of the plan with the others; empty without levels or if the first was not measured."""
    order = [level.name for level in plan.levels]
    lines = _compare_across(values, plan, n=n, order=order, name=parse_level, within=parse_arm)
    return tuple(line for line in lines if line.first == order[0])


def _compare_across(
    values: Mapping[Quantity, float],
    plan: DataPlan,
    *,
    n: int,
    order: Sequence[str],
    name: Callable[[str], str],
    within: Callable[[str], str],
) -> tuple[MetricChange, ...]:
    """Return one line per dataset and fixed part, in the order of `found`; names that are not in `order` come last."""
    curves: dict[tuple[str, str], dict[str, float]] = {}
    for (dataset, condition, metric), value in values.items():
        if metric == plan.primary_metric.name:
            curves.setdefault((dataset, within(condition)), {})[name(condition)] = value
    lines: list[MetricChange] = []
    for (dataset, same), curve in curves.items():
        names = [one for one in order if one in curve] + [one for one in curve if one not in order]
        if len(names) > 1 and names[0] in order:
            first, *others = names
            lines.append(
                MetricChange(
                    dataset=dataset,
                    same=same,
                    name=plan.primary_metric.name,
                    first=first,
                    value=curve[first],
                    by={other: subtract_rounded(curve[other], curve[first]) for other in others},
                    n=n,
                )
            )
    return tuple(lines)
