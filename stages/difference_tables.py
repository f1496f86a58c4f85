"""Tables that the program works out of a node's values: the same for all who judge, tune, report or draw.

Differences between arms and between levels, of the primary metric, so that no model subtracts by hand; and what the
code said of itself on train and dev.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from labwright.models.roles.experiment_code import MetricChange, Tables
from labwright.models.roles.node_assessment import Statistic
from labwright.record.float_compare import subtract_rounded
from labwright.record.schema.data_plan import DataPlan, parse_arm, parse_level
from labwright.record.schema.nodes import Node

Quantity = tuple[str, str, str]
"""(dataset, condition, metric)."""


def build_tables(nodes: Iterable[Node], plan: DataPlan) -> Tables:
    """Of what these nodes measured and said in their last attempts, one seed each; of a condition the first counts."""
    last = [node.attempts[-1] for node in nodes if node.attempts]
    found: dict[Quantity, float] = {}
    for one in (one for attempt in last for one in attempt.measurements):
        found.setdefault((one.dataset, one.condition, one.name), one.value)
    return Tables(
        arms=_compare_arms(found, plan),
        levels=_compare_levels(found, plan),
        self_reported=tuple(one for attempt in last for one in attempt.self_reported),
    )


def build_mean_tables(statistics: Sequence[Statistic], nodes: Iterable[Node], plan: DataPlan) -> Tables:
    """Of means over replicates, each among those over as many; where there are none, of the nodes' one seed.

    What is said is the nodes' own.
    """
    single = build_tables(nodes, plan)
    if not any(one.name == plan.primary_metric.name for one in statistics):
        return single
    by_n = {one.n: {(s.dataset, s.condition, s.name): s.mean for s in statistics if s.n == one.n} for one in statistics}
    return Tables(
        arms=tuple(line for n, found in by_n.items() for line in _compare_arms(found, plan, n=n)),
        levels=tuple(line for n, found in by_n.items() for line in _compare_levels(found, plan, n=n)),
        self_reported=single.self_reported,
    )


def _compare_arms(found: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[MetricChange, ...]:
    """From the plan's first arm that was measured there, baselines before others, to the other arms."""
    order = [arm.name for arm in sorted(plan.arms, key=lambda arm: arm.role != "baseline")]
    return _compare_across(found, plan, n=n, order=order, name=parse_arm, within=parse_level)


def _compare_levels(found: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[MetricChange, ...]:
    """From the plan's first level to its others; nothing where the plan has none, or the first was not measured."""
    order = [level.name for level in plan.levels]
    lines = _compare_across(found, plan, n=n, order=order, name=parse_level, within=parse_arm)
    return tuple(line for line in lines if line.first == order[0])


def _compare_across(
    found: Mapping[Quantity, float],
    plan: DataPlan,
    *,
    n: int,
    order: Sequence[str],
    name: Callable[[str], str],
    within: Callable[[str], str],
) -> tuple[MetricChange, ...]:
    """A line for each dataset and each of what stays the same, in the order of `found`; what `order` lacks is last."""
    curves: dict[tuple[str, str], dict[str, float]] = {}
    for (dataset, condition, metric), value in found.items():
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
