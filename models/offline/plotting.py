"""Roles `plot`, `figures` and `figure_review`: replots, the plots of an aggregate, the figures of the paper."""

from __future__ import annotations

import re
from collections.abc import Iterator

from models.offline.mending import replot
from models.offline.scripts import render, titles
from models.offline.study import FigureSpec, study_of_idea, study_of_plan
from models.roles import (
    FigurePart,
    FigureReviewInputs,
    FigureScript,
    FiguresInputs,
    PaperFigureReviews,
    PlotInputs,
    Plots,
)
from record.nouns.data import arm_of

MAX_ABLATIONS = 5

COMMON_FIGURES = (
    FigureSpec(slot="primary", name="primary-by-level", call='by_level("{primary}", "{title}", "primary-by-level")',
               panels="datasets",
               description="The {title} of the compared arms, one panel a dataset: mean over replicates with the "
                           "confidence interval of the mean. {better} is better."),
    FigureSpec(slot="inside", name="training-curves", call='curves("loss", 2, "loss on dev", "training-curves")',
               array="/loss__", panels="levels", shows="main",
               description="The loss on development data while training, on {main}: mean and standard deviation over "
                           "replicates."),
    FigureSpec(slot="parts", name="ablation", call='ablation("ablation")', ablations=True, shows="main",
               description="The {title} of the whole method and of its ablations on {main}: mean over replicates with "
                           "the confidence interval of the mean. {better} is better."),
)
"""What `common/figures.py.jinja` can draw, for a study that names no figures of its own."""


def plot(inputs: PlotInputs) -> Plots:
    """The plots of an aggregate, or refused plots mended by their complaints."""
    aggregate = inputs.purpose == "aggregate" or any(array.path.startswith("inputs/") for array in inputs.arrays)
    sound = render(study_of_plan(inputs.data_plan).home, "aggregate.py.jinja" if aggregate else "plots.py.jinja",
                   **titles(inputs.data_plan))
    # A replot of an aggregate carries the script that was refused.
    refused = inputs.purpose == "replot" or inputs.complaints
    return replot(inputs, sound) if refused else Plots(plots=sound)


def figures(inputs: FiguresInputs) -> FigureScript:
    """The final figures of the study, by what was recorded."""
    plan, study = inputs.data_plan, study_of_idea(inputs.idea)
    measured = {statistic.dataset for statistic in inputs.statistics}
    datasets = [use.name for use in plan.datasets if use.name in measured][:3] or [plan.datasets[0].name]
    every = list(_chosen(inputs, tuple(datasets)))
    chosen = [one for one in every if one.name not in inputs.keep] or every
    said = titles(plan) | {
        "arms": {arm.name: arm.title or arm.name for arm in plan.arms if arm.role != "ablation"},
        "level_titles": titles(plan)["levels"], "levels": {level.name: level.value or 0.0 for level in plan.levels},
        "datasets": datasets, "split": _split(inputs), "ablations": _ablated_arms(inputs)[:MAX_ABLATIONS],
        "ablation_labels": study.ablation_labels,
    }
    return FigureScript(script=render(study.home, "figures.py.jinja", **said), figures=tuple(chosen))


def figure_review(_: FigureReviewInputs) -> PaperFigureReviews:
    """Nothing: this model sees no images."""
    return PaperFigureReviews(looked=False)


def _split(inputs: FiguresInputs) -> str:
    """Test where it was scored, else validation."""
    return "test" if any(s.key.startswith("test/") for s in inputs.statistics) else "validation"


def _ablated_arms(inputs: FiguresInputs) -> list[str]:
    measured = {arm_of(s.condition) for s in inputs.statistics if s.name == inputs.data_plan.primary.name}
    arms = dict.fromkeys(arm_of(condition) for condition in inputs.ablations)
    return [arm for arm in arms if arm in measured]


def _chosen(inputs: FiguresInputs, datasets: tuple[str, ...]) -> Iterator[FigurePart]:
    """The figures with the calls that draw them, the first of each slot that can be drawn."""
    plan, taken = inputs.data_plan, set[str]()
    main = plan.datasets[0].name.replace("_", " ")
    names = {"primary": plan.primary.name, "title": plan.primary.title or plan.primary.name.replace("_", " "),
             # A number in a caption must be tied to the record, and a name is no exception.
             "main": "the main dataset" if any(char.isdigit() for char in main) else main,
             "better": "Higher" if plan.primary.higher_is_better else "Lower"}
    for spec in study_of_idea(inputs.idea).figures or COMMON_FIGURES:
        if spec.slot not in taken and _drawable(spec, inputs):
            taken.add(spec.slot)
            yield FigurePart(
                name=spec.name, description=spec.description.format(**names), code=spec.call.format(**names),
                placement=spec.placement, panels=_panels(spec, inputs, datasets),
                datasets=datasets if spec.shows == "all" else datasets[:1])


def _panels(spec: FigureSpec, inputs: FiguresInputs, datasets: tuple[str, ...]) -> int:
    counts = {"datasets": len(datasets), "levels": len(inputs.data_plan.levels)}
    return max(1, min(3, counts[spec.panels] if isinstance(spec.panels, str) else spec.panels))


def _drawable(spec: FigureSpec, inputs: FiguresInputs) -> bool:
    return ((not spec.array or any(re.search(spec.array, array.path) for array in inputs.arrays))
            and (not spec.metric or any(metric.name == spec.metric for metric in inputs.data_plan.metrics))
            and (not spec.ablations or bool(_ablated_arms(inputs))))
