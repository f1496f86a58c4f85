"""Differences between levels that the program works out, so that no model subtracts by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from models.roles import AcrossLevels, Statistic
from record.nouns.data import DataPlan, arm_of, level_of
from record.nouns.measurements import Measurement

Quantity = tuple[str, str, str]
"""(dataset, condition, metric)."""


def levels_of(measured: Iterable[Measurement], plan: DataPlan) -> tuple[AcrossLevels, ...]:
    """The primary metric of every arm from the plan's first level to its others; nothing where it has no levels."""
    return _across({(one.dataset, one.condition, one.name): one.value for one in measured}, plan)


def levels_of_means(statistics: Sequence[Statistic], plan: DataPlan) -> tuple[AcrossLevels, ...]:
    """The same of means over replicates: of each arm over the replicates that its node has."""
    by_n = {one.n: [s for s in statistics if s.n == one.n] for one in statistics}
    return tuple(line for n, some in by_n.items()
                 for line in _across({(s.dataset, s.condition, s.name): s.mean for s in some}, plan, n=n))


def _across(found: Mapping[Quantity, float], plan: DataPlan, *, n: int = 1) -> tuple[AcrossLevels, ...]:
    order = [level.name for level in plan.levels]
    curves: dict[tuple[str, str], dict[str, float]] = {}
    for (dataset, condition, name), value in found.items():
        if name == plan.primary.name and level_of(condition) in order:
            curves.setdefault((dataset, arm_of(condition)), {})[level_of(condition)] = value
    return tuple(AcrossLevels(
        dataset=dataset, arm=arm, name=plan.primary.name, level=order[0], value=curve[order[0]], n=n,
        by={level: curve[level] - curve[order[0]] for level in order[1:] if level in curve})
        for (dataset, arm), curve in curves.items() if order[0] in curve and len(curve) > 1)
