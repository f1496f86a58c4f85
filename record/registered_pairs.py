"""Effects, alternatives and rivals of hypotheses that are the difference of two cells: such a pair has one estimate,
with its own interval."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from labwright.record.claims.hypothesis_tests import list_effect_keys
from labwright.record.estimands import CellRef, evaluate_estimand, find_effect_metric, is_contrast, list_cells_read
from labwright.record.result_macros import format_key
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect, HypothesisDecision

Sides = frozenset[tuple[str, str, str]]
"""(dataset, metric, condition) of both sides of a difference."""


def find_registered_pair(effect: Effect, plan: DataPlan) -> tuple[CellRef, CellRef] | None:
    """Return the cells a and b of an effect that is a - b; None for any other effect."""
    metric = find_effect_metric(effect, plan)
    cells = list_cells_read(effect.estimand, plan, metric)
    if len(cells) != 2 or not is_contrast(effect.estimand):
        return None
    first, second = cells
    slope = evaluate_estimand(effect.estimand, plan, metric, lambda place: float(place == first))
    return (first, second) if slope == 1 else (second, first) if slope == -1 else None


def list_measured_keys(decisions: Iterable[HypothesisDecision]) -> frozenset[str]:
    """Return the keys of the effects, alternatives and rivals that have an estimate: arms that no fresh seed measures
    leave some without."""
    return frozenset(key for one in decisions for key, part in one.parts_by_key.items() if part.mean is not None)


def list_registered_pairs(
    plan: DataPlan, measured: Collection[str] | None = None
) -> dict[str, tuple[str, CellRef, CellRef]]:
    """Return the metric and both cells of the pairs of all hypotheses, alternatives and rivals included, by key; with
    `measured`, only of these keys."""
    return {
        key: (find_effect_metric(effect, plan).name, *pair)
        for one in plan.hypotheses
        for key, effect in list_effect_keys(one).items()
        if (measured is None or key in measured) and (pair := find_registered_pair(effect, plan)) is not None
    }


def list_registered_keys(plan: DataPlan, measured: Collection[str]) -> dict[str, str]:
    """Return the keys of registered and measured pairs by the key of the paired difference that an effect, an
    alternative or a rival replaces."""
    pairs = reversed(list_registered_pairs(plan, measured).items())
    return {
        f"{format_key('diff', a.dataset, metric, a.condition)}~{format_key(b.condition)}": key
        for key, (metric, a, b) in pairs
        if a.dataset == b.dataset
    }


def list_registered_sides(
    plan: DataPlan | None, measured: Collection[str] | None = None, *, every: bool = False
) -> frozenset[Sides]:
    """Return the pairs of all hypotheses: of their effects or, with `every`, also of alternatives and rivals; with
    `measured`, only of these keys."""
    pairs = list_registered_pairs(plan, measured) if plan is not None else {}
    return frozenset(
        frozenset((place.dataset, metric, place.condition) for place in (a, b))
        for key, (metric, a, b) in pairs.items()
        if every or key.rpartition("/")[2].isdecimal()
    )
