"""Effects of hypotheses that are the difference of two cells: such a pair has one estimate, with its own interval."""

from __future__ import annotations

from labwright.record.estimands import CellRef, evaluate_estimand, find_effect_metric, is_contrast, list_cells_read
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect

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


def list_registered_sides(plan: DataPlan | None) -> frozenset[Sides]:
    """Return the pairs of all hypotheses."""
    found = [
        (find_effect_metric(effect, plan).name, pair)
        for one in (plan.hypotheses if plan is not None else ())
        for effect in one.effects
        if plan is not None and (pair := find_registered_pair(effect, plan)) is not None
    ]
    return frozenset(frozenset((place.dataset, name, place.condition) for place in pair) for name, pair in found)
