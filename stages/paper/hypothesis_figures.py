"""Define the figures that show what was decided, and their data: paired differences from the baseline with the
registered margin, and validation curves. The program draws them itself from recorded values; plots by
experiment code show dev data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill
from typing import Any

from pydantic import ValidationError

from labwright.models.roles.figures import FigurePart, FigureScript
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims, compute_t_interval
from labwright.record.claims.formatting import is_share
from labwright.record.claims.hypothesis_tests import (
    ReplicateValues,
    decide_hypotheses,
    find_deciding_nodes,
    read_deciding_runs,
)
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
from labwright.record.run_folder import RunFolder, list_result_folders
from labwright.record.schema.data_plan import DataPlan, Measurement, MetricSpec, parse_arm, parse_level
from labwright.record.schema.hypotheses import Effect
from labwright.record.schema.paper import FigurePlacement

SCRIPT_PATH = Path(__file__).with_name("hypothesis_plots.py")
_FIGURES: dict[str, tuple[str, FigurePlacement]] = {
    "differences": ("decided", "main"),
    "curves": ("validation-curves", "appendix"),
}
"""Part of the data -> the figure's name and placement."""
RETIRED_FIGURES = frozenset({"effects-over-levels"})
"""Figures that the program drew for older papers."""
PROGRAM_FIGURES = RETIRED_FIGURES | {name for name, _ in _FIGURES.values()}
"""Figures for which no writer wrote a caption: their description is the caption, and unless placed in the text they
go to the appendix.
"""
MAX_CURVES = 6
MAX_SIDE_CHARS, MAX_SIDE_LINES = 18, 2
"""Characters per line of an axis label, and its lines."""
MAX_DATASETS = 9
"""Maximum number of datasets in the figure of paired differences."""


def build_figure_data(state: RunState, folder: RunFolder) -> dict[str, Any]:
    """Return the data of the figures; lists are empty if there is nothing to draw."""
    plan = state.search.data_plan
    if plan is None:
        return {}
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
        "factor": plan.factor,
        "metric": plan.primary_metric.display_name,
        "curves": list(_build_curves(state, plan, folder)),
    }


def _wrap_side(metric: str, unit: str) -> str:
    """Return the label of the axis of differences, in two lines as high as a panel; the caption has the rest."""
    words = (f"improvement in {metric}", f"gain in {metric}", "improvement")
    labels = [fill(f"{what}{unit}", MAX_SIDE_CHARS) for what in words]
    return next((one for one in labels if one.count("\n") < MAX_SIDE_LINES), labels[-1])


def build_figure_script(data: dict[str, Any], plan: DataPlan) -> FigureScript | None:
    """Build the script for the figures that have data; None if there are none."""
    figures = [
        FigurePart(
            name=name,
            description=_describe_figure(what, data),
            placement=place,
            panels=min(3, len(found)),
            datasets=tuple(use.name for use in plan.datasets),
            code=f'{what}("{name}")',
        )
        for what, (name, place) in _FIGURES.items()
        if (found := data.get(what))
    ]
    return FigureScript(script=SCRIPT_PATH.read_text(encoding="utf-8"), figures=tuple(figures)) if figures else None


def _describe_figure(what: str, data: dict[str, Any]) -> str:
    """Return the caption of a figure."""
    if what == "curves":
        return (
            f"Validation {data['metric']} over training, at the last level: mean and standard deviation over the "
            "deciding seeds."
        )
    panels, baseline = data["differences"], data["baseline"]
    margins = sorted({abs(margin) for panel in panels for margin in panel["margins"]})
    one_dataset = f" on {panels[0]['dataset']}" if len(panels) == 1 else ""
    by_level = f", by {data['factor'] or 'level'}" if len(panels[0]["ticks"]) > 1 else ""
    sides = f"arm minus {baseline}" if data["higher"] else f"{baseline} minus arm"
    series = [one for panel in panels for one in panel["series"]]
    same = {f" {name} has the same values as {one['label']}." for one in series for name in one["same"]}
    unit = f" point{'s' * (margins != [1.0])}" * (data["unit"] == "points")
    return (
        f"Improvement in {data['decided_metric']} over {baseline}{one_dataset} ({sides}; below zero: worse), paired by "
        f"seed{by_level}. Small points are seeds, large points means with their intervals (95%; for registered effects "
        "as in the table of hypotheses)."
        + f" Dashed: registered margin, {join_names([f'{one:g}' for one in margins])}{unit}." * bool(margins)
        + "".join(sorted(same))
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
    in points. Levels without any are left out, and arms with the values of an earlier one (`same`)."""
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
                point = {"values": [scale * value for value in values]}
                points.append(point | dict(zip(("mean", "low", "high"), ends, strict=True)))
            equal = next((one for one in series if _list_values(one["points"]) == _list_values(points)), None)
            if equal is not None:
                equal["same"].append(plan.name_arm(arm))
            elif any(points):
                series.append({"label": plan.name_arm(arm), "order": order.index(arm), "points": points, "same": []})
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


def _list_values(points: Sequence[Mapping[str, Any] | None]) -> list[Any]:
    return [None if one is None else one["values"] for one in points]


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


def format_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1)


def _build_curves(state: RunState, plan: DataPlan, folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the curves of the compared arms at the last level, one entry per dataset, from stepwise values of the
    deciding runs."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for node in find_deciding_nodes(state)[0]:
        logs = [one.path / "measurements.jsonl" for one in list_result_folders(state, folder, node)]
        for measurement in (one for path in logs for one in _read_measurements(path)):
            if (
                measurement.step is not None
                and (measurement.name, measurement.split) == (plan.primary_metric.name, "validation")
                and (
                    parse_arm(measurement.condition) in plan.compared_arms
                    and parse_level(measurement.condition) == plan.level_names[-1]
                )
            ):
                found.setdefault((measurement.dataset, measurement.condition), {}).setdefault(
                    measurement.step, []
                ).append(measurement.value)
    for use in plan.datasets:
        lines = [
            {
                "label": plan.name_arm(parse_arm(condition)),
                "step": sorted(steps),
                "mean": [fmean(steps[step]) for step in sorted(steps)],
                "sd": [stdev(steps[step]) if len(steps[step]) > 1 else 0.0 for step in sorted(steps)],
            }
            for (dataset, condition), steps in found.items()
            if dataset == use.name and len(steps) > 1
        ]
        if lines:
            yield {"dataset": plan.name_dataset(use.name), "lines": lines[:MAX_CURVES]}


def _read_measurements(path: Path) -> Iterator[Measurement]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            yield Measurement.model_validate_json(line)
        except ValidationError:  # a truncated line
            continue
