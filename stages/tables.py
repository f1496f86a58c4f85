"""Tables that the program works out of a node's values: the same for all who judge, tune, report or draw.

Differences between arms and between levels, of the primary metric, so that no model subtracts by hand; and what the
code said of itself on train and dev.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from labwright.models.roles.assessing import Statistic
from labwright.models.roles.coding import Across, Tables
from labwright.record.nouns.data import DataPlan, arm_of, level_of
from labwright.record.nouns.nodes import Node
from labwright.record.rounding import minus

Quantity = tuple[str, str, str]
"""(dataset, condition, metric)."""


def tables_of(nodes: Iterable[Node], plan: DataPlan) -> Tables:
    """Of what these nodes measured and said in their last attempts, one seed each; of a condition the first counts."""
    last = [node.attempts[-1] for node in nodes if node.attempts]
    found: dict[Quantity, float] = {}
    for one in (one for attempt in last for one in attempt.measurements):
        found.setdefault((one.dataset, one.condition, one.name), one.value)
    return Tables(
        arms=_arms(found, plan),
        levels=_levels(found, plan),
        said=tuple(one for attempt in last for one in attempt.said),
    )


def tables_of_means(statistics: Sequence[Statistic], nodes: Iterable[Node], plan: DataPlan) -> Tables:
    """Of means over replicates, each among those over as many; where there are none, of the nodes' one seed.

    What is said is the nodes' own.
    """
    single = tables_of(nodes, plan)
    if not any(one.name == plan.primary.name for one in statistics):
        return single
    by_n = {one.n: {(s.dataset, s.condition, s.name): s.mean for s in statistics if s.n == one.n} for one in statistics}
    return Tables(
        arms=tuple(line for n, found in by_n.items() for line in _arms(found, plan, n=n)),
        levels=tuple(line for n, found in by_n.items() for line in _levels(found, plan, n=n)),
        said=single.said,
    )


def _arms(found: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[Across, ...]:
    """From the plan's first arm that was measured there, baselines before others, to the other arms."""
    order = [arm.name for arm in sorted(plan.arms, key=lambda arm: arm.role != "baseline")]
    return _across(found, plan, n=n, order=order, name=arm_of, within=level_of)


def _levels(found: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[Across, ...]:
    """From the plan's first level to its others; nothing where the plan has none, or the first was not measured."""
    order = [level.name for level in plan.levels]
    lines = _across(found, plan, n=n, order=order, name=level_of, within=arm_of)
    return tuple(line for line in lines if line.first == order[0])


def _across(
    found: Mapping[Quantity, float],
    plan: DataPlan,
    *,
    n: int,
    order: Sequence[str],
    name: Callable[[str], str],
    within: Callable[[str], str],
) -> tuple[Across, ...]:
    """A line for each dataset and each of what stays the same, in the order of `found`; what `order` lacks is last."""
    curves: dict[tuple[str, str], dict[str, float]] = {}
    for (dataset, condition, metric), value in found.items():
        if metric == plan.primary.name:
            curves.setdefault((dataset, within(condition)), {})[name(condition)] = value
    lines: list[Across] = []
    for (dataset, same), curve in curves.items():
        names = [one for one in order if one in curve] + [one for one in curve if one not in order]
        if len(names) > 1 and names[0] in order:
            first, *others = names
            lines.append(
                Across(
                    dataset=dataset,
                    same=same,
                    name=plan.primary.name,
                    first=first,
                    value=curve[first],
                    by={other: minus(curve[other], curve[first]) for other in others},
                    n=n,
                )
            )
    return tuple(lines)
