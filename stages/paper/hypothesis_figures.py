"""Define the figures that show what was decided, and their data: effects against their smallest effect of interest,
effects over levels, validation curves. The program draws them itself from recorded values; plots by experiment code
show dev data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import ValidationError

from labwright.models.roles.figures import FigurePart, FigureScript
from labwright.record.claims.estimates import compute_t_interval
from labwright.record.claims.hypothesis_tests import (
    ReplicateValues,
    decide_hypotheses,
    find_deciding_nodes,
    read_replicate_values,
)
from labwright.record.estimands import CellRef, EstimandError, MissingCell, evaluate_by_level, find_effect_metric
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan, Measurement, parse_arm, parse_level
from labwright.record.schema.figures import FigurePlacement

SCRIPT_PATH = Path(__file__).with_name("hypothesis_plots.py")
_FIGURES: dict[str, tuple[str, FigurePlacement, str]] = {
    "parts": (
        "decided",
        "main",
        (
            "Every registered effect with its interval, in units of its own smallest effect of interest: circles "
            "are confirmatory, squares exploratory; grey band: effects too small to matter; dashed "
            "lines: bounds of what was claimed."
        ),
    ),
    "levels": (
        "effects-over-levels",
        "appendix",
        ("Effects by level: mean over seeds with the confidence interval; dashed line: smallest effect of interest."),
    ),
    "curves": (
        "validation-curves",
        "appendix",
        (
            "The primary metric on validation data over training, at the last level: mean and standard "
            "deviation over the deciding seeds."
        ),
    ),
}
"""Part of the data -> the figure's name, placement and description."""
PROGRAM_FIGURES = frozenset(name for name, _, _ in _FIGURES.values())
"""Figures for which no writer wrote a caption: their description is the caption, and unless placed in the text they
go to the appendix.
"""
MAX_CURVES = 6


def build_figure_data(state: RunState, folder: RunFolder) -> dict[str, Any]:
    """Return the data of the figures; lists are empty if there is nothing to draw."""
    plan = state.data_plan
    if plan is None:
        return {}
    nodes, _ = find_deciding_nodes(state)
    tested = any(node.id in state.test_measurements for node in nodes)
    runs = [read_replicate_values(node, state.test_measurements.get(node.id, ()) if tested else None) for node in nodes]
    parts = [
        {
            "label": one.hypothesis.id + (f" ({k})" if len(one.parts) > 1 else ""),
            "mean": part.mean,
            "low": part.low,
            "high": part.high,
            "smallest": part.effect.smallest,
            "limits": [-part.effect.limit, part.effect.limit] if part.effect.claim == "within" else [part.effect.limit],
            "outcome": f"{part.direction}, {part.verdict}",
            "confirmatory": one.hypothesis.confirmatory,
        }
        for one in decide_hypotheses(state)
        for k, part in enumerate(one.parts, 1)
        if part.mean is not None and part.low is not None
    ]
    return {
        "parts": parts,
        "levels": list(_build_level_series(plan, runs)),
        "factor": plan.factor,
        "metric": plan.primary_metric.display_name,
        "curves": list(_build_curves(state, plan, folder)),
    }


def build_figure_script(data: dict[str, Any], plan: DataPlan) -> FigureScript | None:
    """Build the script for the figures that have data; None if there are none."""
    figures: list[FigurePart] = []
    for what, (name, place, text) in _FIGURES.items():
        if found := data.get(what):
            figures.append(
                FigurePart(
                    name=name,
                    description=text,
                    placement=place,
                    panels=1 if what == "parts" else min(3, len(found)),
                    datasets=tuple(use.name for use in plan.datasets),
                    code=f'{what}("{name}")',
                )
            )
    return FigureScript(script=SCRIPT_PATH.read_text(encoding="utf-8"), figures=tuple(figures)) if figures else None


def format_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1)


def _build_level_series(plan: DataPlan, runs: list[ReplicateValues]) -> Iterator[dict[str, Any]]:
    """Yield the values of each effect at each of its levels."""
    titles = {one.name: (one.title or one.name, one.value) for one in plan.levels}
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
                title, x = titles.get(level, (level, None))
                points.append({"level": title, "value": x, "mean": fmean(values), "low": low, "high": high})
            if len(points) > 1:
                yield {
                    "label": hypothesis.id + (f" ({number})" if len(hypothesis.effects) > 1 else ""),
                    "points": points,
                    "smallest": None if "slope(" in effect.estimand else effect.smallest,
                }


def _build_curves(state: RunState, plan: DataPlan, folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the curves of the compared arms at the last level, one entry per dataset, from stepwise values of the
    deciding runs."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for node in find_deciding_nodes(state)[0]:
        path = folder.get_attempt_path(node.id, len(node.attempts)) / "measurements.jsonl"
        for measurement in _read_measurements(path):
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
    titles = {one.name: one.title or one.name for one in plan.arms}
    for use in plan.datasets:
        lines = [
            {
                "label": titles[parse_arm(condition)],
                "step": sorted(steps),
                "mean": [fmean(steps[step]) for step in sorted(steps)],
                "sd": [stdev(steps[step]) if len(steps[step]) > 1 else 0.0 for step in sorted(steps)],
            }
            for (dataset, condition), steps in found.items()
            if dataset == use.name and len(steps) > 1
        ]
        if lines:
            yield {"dataset": use.name.replace("_", " "), "lines": lines[:MAX_CURVES]}


def _read_measurements(path: Path) -> Iterator[Measurement]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            yield Measurement.model_validate_json(line)
        except ValidationError:  # a truncated line
            continue
