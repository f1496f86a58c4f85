"""Roles `plot`, `figures` and `figure_review`: redrawn figures, aggregate plots, and the figures of the paper."""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.models.offline import plain_study
from labwright.models.offline.edits import compute_changes
from labwright.models.offline.repairs import add_labels
from labwright.models.offline.scripts import render_template
from labwright.models.offline.study import FigureSpec, find_study_by_idea, find_study_by_plan
from labwright.models.offline.table_study import is_table_study, write_table_plots
from labwright.models.roles.figures import (
    FigurePart,
    FigureReviewInputs,
    FigureScript,
    FiguresInputs,
    PaperFigureReviews,
    PlotInputs,
    Plots,
)
from labwright.record.schema.data_plan import parse_arm

MAX_ABLATIONS = 5


def answer_plot(inputs: PlotInputs) -> Plots:
    """Return the plots of an aggregate, or refused plots repaired according to the complaints."""
    if is_table_study(inputs.data_plan):
        return Plots(plots=write_table_plots(inputs.data_plan))
    aggregate = inputs.purpose == "aggregate" or any(array.path.startswith("inputs/") for array in inputs.arrays)
    study = find_study_by_plan(inputs.data_plan)
    sound = render_template("aggregate.py.jinja" if aggregate else "plots.py.jinja")
    # A replot of an aggregate contains the refused script.
    refused = inputs.purpose == "replot" or inputs.complaints
    script = add_labels(study, inputs.plots, " ".join(inputs.complaints), sound) if refused else sound
    edits = compute_changes(inputs.plots, script) if refused and inputs.plots else ()
    shorter = edits and sum(len(one.find) + len(one.replace) for one in edits) < len(script)
    return Plots(edits=edits) if shorter else Plots(plots=script)


def answer_figures(inputs: FiguresInputs) -> FigureScript:
    """Return the final figures of the study, according to what was recorded."""
    plan = inputs.data_plan
    if plain_study.is_plain_study(inputs):
        return plain_study.write_plain_figure(inputs)
    measured = {statistic.dataset for statistic in inputs.statistics}
    datasets = [use.name for use in plan.datasets if use.name in measured][:3] or [plan.datasets[0].name]
    every = list(_choose_figures(inputs, tuple(datasets)))
    chosen = [one for one in every if one.name not in inputs.keep] or every
    ablated, primary = _list_ablated_arms(inputs)[:MAX_ABLATIONS], plan.primary_metric
    script = render_template(
        "figures.py.jinja",
        datasets=datasets,
        ablations=ablated,
        factor=plan.factor,
        split="test" if any(one.key.startswith("test/") for one in inputs.statistics) else "validation",
        arms={arm.name: arm.title or arm.name for arm in plan.arms if arm.role != "ablation"},
        levels={level.name: level.title or level.name for level in plan.levels},
        values={level.name: level.value for level in plan.levels},
        primary=primary.name,
        method=next(arm.name for arm in plan.arms if arm.role == "method"),
        primary_title=primary.title or primary.name,
    )
    return FigureScript(script=script, figures=tuple(chosen))


def answer_figure_review(_: FigureReviewInputs) -> PaperFigureReviews:
    """Review nothing: this model sees no images."""
    return PaperFigureReviews(looked=False)


def _list_ablated_arms(inputs: FiguresInputs) -> list[str]:
    measured = {parse_arm(s.condition) for s in inputs.statistics if s.name == inputs.data_plan.primary_metric.name}
    arms = dict.fromkeys(parse_arm(condition) for condition in inputs.ablations)
    return [arm for arm in arms if arm in measured]


def _choose_figures(inputs: FiguresInputs, datasets: tuple[str, ...]) -> Iterator[FigurePart]:
    """Yield the figures with the calls that draw them: of each slot, the first that can be drawn."""
    plan, taken = inputs.data_plan, set[str]()
    names = {
        "primary": plan.primary_metric.name,
        "title": plan.primary_metric.title or plan.primary_metric.name,
        "main": plan.datasets[0].name.replace("_", " "),
        "better": "Higher" if plan.primary_metric.higher_is_better else "Lower",
    }
    for spec in find_study_by_idea(inputs.idea).figures:
        if spec.slot not in taken and _is_drawable(spec, inputs):
            taken.add(spec.slot)
            yield FigurePart(
                name=spec.name,
                description=spec.description.format(**names),
                code=spec.call.format(**names),
                panels=len(datasets) if spec.panels == "datasets" else spec.panels,
                datasets=datasets if spec.shows == "all" else datasets[:1],
            )


def _is_drawable(spec: FigureSpec, inputs: FiguresInputs) -> bool:
    return (
        (not spec.array or any(re.search(spec.array, array.path) for array in inputs.arrays))
        and (not spec.metric or any(metric.name == spec.metric for metric in inputs.data_plan.metrics))
        and (not spec.ablations or bool(_list_ablated_arms(inputs)))
    )
