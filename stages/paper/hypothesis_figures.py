"""Define the figures that show what was decided, and their data: paired differences from the baseline with the
registered margin, effects over levels, validation curves. The program draws them itself from recorded values; plots by
experiment code show dev data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import ValidationError

from labwright.models.roles.figures import FigurePart, FigureScript
from labwright.record.claims.estimates import compute_t_interval
from labwright.record.claims.hypothesis_tests import ReplicateValues, find_deciding_nodes, read_replicate_values
from labwright.record.estimands import (
    CellRef,
    EstimandError,
    MissingCell,
    evaluate_by_level,
    evaluate_estimand,
    find_effect_metric,
    is_contrast,
    list_cells_read,
    list_main_arms,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.result_folders import list_result_folders
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan, Measurement, MetricSpec, parse_arm, parse_level
from labwright.record.schema.figures import FigurePlacement
from labwright.record.schema.hypotheses import Effect

SCRIPT_PATH = Path(__file__).with_name("hypothesis_plots.py")
_FIGURES: dict[str, tuple[str, FigurePlacement]] = {
    "differences": ("decided", "main"),
    "levels": ("effects-over-levels", "appendix"),
    "curves": ("validation-curves", "appendix"),
}
"""Part of the data -> the figure's name and placement."""
PROGRAM_FIGURES = frozenset(name for name, _ in _FIGURES.values())
"""Figures for which no writer wrote a caption: their description is the caption, and unless placed in the text they
go to the appendix.
"""
MAX_CURVES = 6
MAX_DATASETS = 9
"""Maximum number of datasets in the figure of paired differences."""


def build_figure_data(state: RunState, folder: RunFolder) -> dict[str, Any]:
    """Return the data of the figures; lists are empty if there is nothing to draw."""
    plan = state.data_plan
    if plan is None:
        return {}
    nodes, _ = find_deciding_nodes(state)
    tested = any(node.id in state.test_measurements for node in nodes)
    runs = [read_replicate_values(node, state.test_measurements.get(node.id, ()) if tested else None) for node in nodes]
    titles = {one.name: one.title for one in (*state.datasets, *plan.datasets) if one.title}
    metric = _find_decided_metric(plan)
    return {
        "differences": list(_build_differences(plan, runs, metric, titles)),
        "decided_metric": metric.display_name,
        "baseline": plan.name_arm(_find_baseline(plan)),
        "levels": list(_build_level_series(plan, runs)),
        "factor": plan.factor,
        "metric": plan.primary_metric.display_name,
        "curves": list(_build_curves(state, plan, folder)),
    }


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
    if what == "levels":
        return "Effects by level: mean over seeds with its 95% interval; dashed line: smallest effect of interest."
    if what == "curves":
        return (
            f"Validation {data['metric']} over training, at the last level: mean and standard deviation over the "
            "deciding seeds."
        )
    panels = data["differences"]
    arms = dict.fromkeys(series["label"] for panel in panels for series in panel["series"])
    margins = sorted({abs(margin) for panel in panels for margin in panel["margins"]})
    one_dataset = f" on {panels[0]['dataset']}" if len(panels) == 1 else ""
    by_level = f" and by {data['factor'] or 'level'}" if len(panels[0]["ticks"]) > 1 else ""
    return (
        f"Difference in {data['decided_metric']} from {data['baseline']}{one_dataset}, paired by seed{by_level}, for "
        f"{_join_names([*arms])}: small points are seeds, large ones their means with 95% intervals over seeds, not "
        "corrected for the number of comparisons. "
        f"Above zero is better than {data['baseline']}."
        + f" Dashed: the registered margin, {' and '.join(f'{one:g}' for one in margins)}."
        * bool(margins)
    )


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _find_decided_metric(plan: DataPlan) -> MetricSpec:
    """Return the metric of the first confirmatory effect, otherwise the primary one."""
    effects = [one.effects[0] for one in plan.hypotheses if one.confirmatory]
    return find_effect_metric(effects[0], plan) if effects else plan.primary_metric


def _find_baseline(plan: DataPlan) -> str:
    return next((one.name for one in plan.arms if one.role == "baseline"), plan.arms[0].name)


def _build_differences(
    plan: DataPlan, runs: Sequence[ReplicateValues], metric: MetricSpec, titles: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield, for each dataset, the differences of every main arm from the baseline by level and seed; above zero is
    better."""
    baseline, sign = _find_baseline(plan), 1.0 if metric.higher_is_better else -1.0
    order = [one.name for one in plan.arms]
    for use in plan.datasets[:MAX_DATASETS]:
        series: list[dict[str, Any]] = []
        for arm in (one for one in list_main_arms(plan) if one != baseline):
            points: list[dict[str, Any] | None] = []
            for level in plan.level_names:
                cells = [CellRef(use.name, one, level).condition for one in (arm, baseline)]
                pairs = [[run.values.get((use.name, cell, metric.name)) for cell in cells] for run in runs]
                values = [sign * (own - other) for own, other in pairs if own is not None and other is not None]
                _, low, high = compute_t_interval(values) if values else (None, None, None)
                points.append({"values": values, "mean": fmean(values), "low": low, "high": high} if values else None)
            if any(points):
                series.append({"label": plan.name_arm(arm), "order": order.index(arm), "points": points})
        if series:
            yield {
                "dataset": titles.get(use.name, plan.name_dataset(use.name)),
                "ticks": [plan.name_level(level) for level in plan.level_names],
                "series": series,
                "margins": _find_margins(plan, metric, use.name),
            }


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


def _build_level_series(plan: DataPlan, runs: list[ReplicateValues]) -> Iterator[dict[str, Any]]:
    """Yield the values of each effect at each of its levels."""
    for hypothesis in plan.hypotheses:
        for number, effect in enumerate(hypothesis.effects, 1):
            metric, found = find_effect_metric(effect, plan), dict[str, list[float]]()
            for run in runs:

                def read(place: CellRef, run: ReplicateValues = run, name: str = metric.name) -> float:
                    value = run.values.get((place.dataset, place.condition, name))
                    if value is None:
                        raise MissingCell(place)
                    return value

                try:
                    for level, value in evaluate_by_level(effect.estimand, plan, metric, read).items():
                        found.setdefault(level, []).append(float(value))
                except (MissingCell, EstimandError):
                    continue
            points: list[dict[str, Any]] = []
            for level, values in found.items():
                _, low, high = compute_t_interval(values)
                points.append({"level": plan.name_level(level), "mean": fmean(values), "low": low, "high": high})
            if len(points) > 1:
                yield {
                    "label": hypothesis.name + (f" ({number})" if len(hypothesis.effects) > 1 else ""),
                    "points": points,
                    "smallest": None if "slope(" in effect.estimand else effect.smallest,
                }


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
