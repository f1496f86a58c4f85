"""Define the figure that shows what was decided, and its data: paired differences from the baseline with the registered
margin. The program draws it itself from recorded values; plots by experiment code show dev data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

from labwright.models.roles.figures import FigurePart, FigureScript
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims, compute_t_interval
from labwright.record.claims.formatting import is_share
from labwright.record.claims.hypothesis_tests import ReplicateValues, decide_hypotheses, read_deciding_runs
from labwright.record.claims.requested_estimates import find_registered_pair
from labwright.record.claims.sentences import join_names
from labwright.record.estimands import (
    CellRef,
    evaluate_estimand,
    find_effect_metric,
    is_contrast,
    list_cells_read,
    list_main_arms,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, MetricSpec, parse_arm
from labwright.record.schema.hypotheses import Effect
from labwright.stages.paper.latex import capitalise

SCRIPT_PATH = Path(__file__).with_name("hypothesis_plots.py")
FIGURE_NAME = "decided"
PROGRAM_FIGURES = frozenset({FIGURE_NAME})
"""Figures for which no writer wrote a caption: their description is the caption, and unless placed in the text they
go to the appendix.
"""
MAX_SIDE_CHARS, MAX_SIDE_LINES = 18, 2
"""Characters per line of an axis label, and its lines."""
MAX_SEEDS_DRAWN = 20
"""Maximum number of seeds whose differences are drawn as points; more hide the means and their intervals."""
MAX_DATASETS = 9
"""Maximum number of datasets in the figure of paired differences."""


def build_figure_data(state: RunState) -> dict[str, Any]:
    """Return the data of the figure; without differences if there is nothing to draw."""
    plan = state.search.plan
    runs = read_deciding_runs(state)
    metric = _find_decided_metric(plan)
    intervals = _find_intervals(state, plan, metric)
    return {
        "differences": list(_build_differences(plan, runs, metric, intervals)),
        "decided_metric": metric.display_name,
        "unit": (unit := "points" if is_share(metric) else metric.unit),
        "side": _wrap_side(metric.display_name, f" ({unit})" if unit else ""),
        "higher": metric.higher_is_better,
        "baseline": plan.name_arm(_find_baseline(plan)),
        "factor": capitalise(plan.factor or "level"),
    }


def _wrap_side(metric: str, unit: str) -> str:
    """Return the label of the axis of differences, in two lines as high as a panel; the caption has the rest."""
    words = (f"Improvement in {metric}", f"Gain in {metric}", "Improvement")
    labels = [fill(f"{what}{unit}", MAX_SIDE_CHARS) for what in words]
    return next((one for one in labels if one.count("\n") < MAX_SIDE_LINES), labels[-1])


def build_figure_script(data: dict[str, Any], plan: DataPlan) -> FigureScript | None:
    """Build the script of the figure; None if there is nothing to draw."""
    if not (found := data["differences"]):
        return None
    part = FigurePart(
        name=FIGURE_NAME,
        description=_describe_figure(data, plan),
        placement="main",
        panels=min(3, len(found)),
        datasets=tuple(use.name for use in plan.datasets),
        code=f'differences("{FIGURE_NAME}")',
    )
    return FigureScript(script=SCRIPT_PATH.read_text(encoding="utf-8"), figures=(part,))


def _describe_figure(data: dict[str, Any], plan: DataPlan) -> str:
    """Return the caption of the figure."""
    panels, baseline = data["differences"], data["baseline"]
    margins = sorted({abs(margin) for panel in panels for margin in panel["margins"]})
    one_dataset = f" on {panels[0]['dataset']}" if len(panels) == 1 else ""
    by_level = f", by {plan.factor or 'level'}" if len(panels[0]["ticks"]) > 1 else ""
    sides = f"arm minus {baseline}" if data["higher"] else f"{baseline} minus arm"
    unit = f" point{'s' * (margins != [1.0])}" * (data["unit"] == "points")
    has_seeds = any(point and point["values"] for panel in panels for one in panel["series"] for point in one["points"])
    points = "Small points are seeds, large points means" if has_seeds else "Points are means over seeds"
    return (
        f"Improvement in {data['decided_metric']} over {baseline}{one_dataset} ({sides}; below zero: worse), paired by "
        f"seed{by_level}. {points} with their intervals (95%; for registered effects as in the table of hypotheses)."
        + f" Dashed: registered margin, {join_names([f'{one:g}' for one in margins])}{unit}."
        * bool(margins)
    )


def _find_decided_metric(plan: DataPlan) -> MetricSpec:
    """Return the metric of the first confirmatory effect, otherwise the primary one."""
    effects = [one.effects[0] for one in plan.hypotheses if one.confirmatory]
    return find_effect_metric(effects[0], plan) if effects else plan.primary_metric


def _find_baseline(plan: DataPlan) -> str:
    return next((one.name for one in plan.arms if one.role == "baseline"), plan.arms[0].name)


_Estimate = tuple[float, float | None, float | None]
"""Mean, and the ends of its interval."""


def _find_intervals(state: RunState, plan: DataPlan, metric: MetricSpec) -> dict[tuple[CellRef, CellRef], _Estimate]:
    """Return the estimates of single differences as text and tables print them, by their two cells in either order:
    those of registered effects, otherwise the exploratory ones."""
    found: dict[tuple[CellRef, CellRef], _Estimate] = {}

    def add(first: CellRef, second: CellRef, mean: float, low: float | None, high: float | None) -> None:
        found[first, second] = mean, low, high
        found[second, first] = -mean, None if high is None else -high, None if low is None else -low

    for one in compute_differences(state, compute_paper_claims(state)):
        if one.name == metric.name:
            cells = [CellRef(one.dataset, parse_arm(side), one.level) for side in (one.condition, one.other)]
            add(cells[0], cells[1], one.mean, one.low, one.high)
    # of several hypotheses on one difference the widest interval counts, as in the table
    for decided in sorted(decide_hypotheses(state), key=lambda one: -one.level):
        for part in decided.parts if decided.hypothesis.unit != "datasets" else ():
            pair = find_registered_pair(part.effect, plan)
            if pair is not None and part.mean is not None and find_effect_metric(part.effect, plan) == metric:
                add(*pair, part.mean, part.low, part.high)
    return found


def _build_differences(
    plan: DataPlan,
    runs: Sequence[ReplicateValues],
    metric: MetricSpec,
    known: Mapping[tuple[CellRef, CellRef], _Estimate],
) -> Iterator[dict[str, Any]]:
    """Yield, for each dataset, the improvements of every main arm over the baseline by level and seed, those of shares
    in points. Levels without any are left out."""
    baseline, sign = _find_baseline(plan), 1.0 if metric.higher_is_better else -1.0
    scale = 100.0 if is_share(metric) else 1.0
    order = [one.name for one in plan.arms]
    for use in plan.datasets[:MAX_DATASETS]:
        series: list[dict[str, Any]] = []
        for arm in (one for one in list_main_arms(plan) if one != baseline):
            points: list[dict[str, Any] | None] = []
            for level in plan.level_names:
                cells = (CellRef(use.name, arm, level), CellRef(use.name, baseline, level))
                pairs = [[run.values.get((use.name, cell.condition, metric.name)) for cell in cells] for run in runs]
                values = [sign * (own - other) for own, other in pairs if own is not None and other is not None]
                if not values:
                    points.append(None)
                    continue
                estimate = known.get(cells if sign > 0 else (cells[1], cells[0]))
                mean, low, high = estimate or (fmean(values), *compute_t_interval(values)[1:])
                ends = [None if end is None else scale * end for end in (mean, low, high)]
                point = {"values": [scale * value for value in values] if len(values) <= MAX_SEEDS_DRAWN else []}
                points.append(point | dict(zip(("mean", "low", "high"), ends, strict=True)))
            if any(points):
                series.append({"label": plan.name_arm(arm), "order": order.index(arm), "points": points})
        measured = [k for k in range(len(plan.level_names)) if any(one["points"][k] for one in series)]
        if series:
            yield {
                "dataset": plan.name_dataset(use.name),
                "ticks": _list_ticks(plan, [plan.name_level(plan.level_names[k]) for k in measured]),
                "series": [one | {"points": [one["points"][k] for k in measured]} for one in series],
                "margins": [scale * one for one in _find_margins(plan, metric, use.name)],
            }


def _list_ticks(plan: DataPlan, levels: Sequence[str]) -> list[str]:
    """Return the values of the levels, `0.1` of `noise rate 0.1`, if their names differ in these only: the axis names
    the factor."""
    found = [one for level in levels if (one := re.fullmatch(r"(\D*\s)([-+.]?\d.*)", level))]
    is_same = len(found) == len(levels) > 1 and len({one[1] for one in found}) == 1
    return [one[2] for one in found] if is_same and plan.factor and not plan.factors else [*levels]


def _find_margins(plan: DataPlan, metric: MetricSpec, dataset: str) -> list[float]:
    """Return the margins of the confirmatory effects on a dataset that are differences of an arm from the baseline, or
    means of them; above zero is better."""
    found: dict[float, None] = {}
    for one in plan.hypotheses:
        if not one.confirmatory or (one.unit != "datasets" and dataset != plan.datasets[0].name):
            continue
        for effect in one.effects:
            slope = _compute_slope(effect, plan, metric, dataset)
            if slope and find_effect_metric(effect, plan) == metric:
                size = (effect.limit or effect.smallest) * (slope if metric.higher_is_better else -slope)
                found |= dict.fromkeys([size, *([-size] if effect.claim == "within" else [])])
    return [*found]


def _compute_slope(effect: Effect, plan: DataPlan, metric: MetricSpec, dataset: str) -> float:
    """Return how an effect changes if all cells of the other arm rise by one: 1 or -1 for a difference from the
    baseline, or a mean of such differences; 0 for any other effect."""
    arms = {place.arm for place in list_cells_read(effect.estimand, plan, metric, dataset=dataset)}
    if len(arms) != 2 or _find_baseline(plan) not in arms or not is_contrast(effect.estimand):
        return 0.0

    def read(place: CellRef) -> float:
        return 1.0 if place.arm == _find_baseline(plan) else 2.0

    value = float(evaluate_estimand(effect.estimand, plan, metric, read, dataset=dataset))
    return value if abs(value) == 1 and "/" not in effect.estimand else 0.0
