"""Roles `plot` and `figures`: replots, the plots of an aggregate, the figures of the paper."""

from __future__ import annotations

import re

from models.offline.mending import replot
from models.offline.scripts import render
from models.offline.study import study_of_idea, study_of_plan
from models.roles import FigureScript, FiguresInputs, FinalFigure, PlotInputs, Plots

MAX_ABLATIONS = 5


def plot(inputs: PlotInputs) -> Plots:
    """The plots of an aggregate, or refused plots mended by their complaints."""
    folder = study_of_plan(inputs.data_plan).folder
    if inputs.purpose == "aggregate":
        sound = render(folder, "aggregate.py.jinja")
        # A replot of an aggregate carries the script that was refused.
        return replot(inputs, sound) if inputs.complaints else Plots(plots=sound)
    aggregate = any(array.path.startswith("inputs/") for array in inputs.arrays)
    return replot(inputs, render(folder, "aggregate.py.jinja" if aggregate else "plots.py.jinja"))


def figures(inputs: FiguresInputs) -> FigureScript:
    """The three final figures, by what was recorded."""
    chosen = _chosen(inputs)
    plan = inputs.data_plan
    measured = {statistic.dataset for statistic in inputs.statistics}
    datasets = [use.name for use in plan.datasets if use.name in measured][:3] or [plan.datasets[0].name]
    script = render(
        study_of_idea(inputs.idea).folder, "figures.py.jinja",
        arms={arm.name: arm.title or arm.name for arm in plan.arms if arm.role != "ablation"},
        levels={level.name: level.value or 0.0 for level in plan.levels}, datasets=datasets, split=_split(inputs),
        ablations=_ablated_arms(inputs)[:MAX_ABLATIONS], primary=plan.primary.name,
        primary_title=plan.primary.title or plan.primary.name.replace("_", " "), calls=[call for call, _ in chosen],
    )
    return FigureScript(script=script, figures=tuple(figure for _, figure in chosen))


def _split(inputs: FiguresInputs) -> str:
    """Test where it was scored, else validation."""
    return "test" if any(s.key.startswith("test/") for s in inputs.statistics) else "validation"


def _ablated_arms(inputs: FiguresInputs) -> list[str]:
    measured = {s.condition.partition("@")[0] for s in inputs.statistics if s.name == inputs.data_plan.primary.name}
    arms = dict.fromkeys(condition.partition("@")[0] for condition in inputs.ablations)
    return [arm for arm in arms if arm in measured]


def _chosen(inputs: FiguresInputs) -> list[tuple[str, FinalFigure]]:
    """The calls of the script and the figures that they draw."""
    title = inputs.data_plan.primary.title or inputs.data_plan.primary.name
    main = inputs.data_plan.datasets[0].name.replace("_", " ")
    chosen = [_by_noise(inputs.data_plan.primary.name, title, "primary-by-noise"), _inside(inputs, main)]
    if _ablated_arms(inputs):
        chosen.append(('ablation("ablation")', FinalFigure(
            name="ablation", description=f"The {title} of the whole method and of its ablations on {main}: mean "
            "over replicates with the confidence interval of the mean. Lower is better.")))
    elif any(metric.name == "ece" for metric in inputs.data_plan.metrics):
        chosen.append(_by_noise("ece", "ECE", "ece-by-noise"))
    return chosen


def _inside(inputs: FiguresInputs, main: str) -> tuple[str, FinalFigure]:
    """Reliability beside what was recorded of the training: wrong labels learned, else the loss."""
    learned = any(re.search(r"fitted__", array.path) for array in inputs.arrays)
    name = "memorisation" if learned else "training"
    right = ("the share of wrong training labels that the network predicts as given" if learned else
             "the log loss on development data before any temperature")
    return f'reliability_and_{name}("reliability-and-{name}")', FinalFigure(
        name=f"reliability-and-{name}",
        description=f"On {main}: accuracy against confidence by bin on the development part, rows of all replicates "
        "pooled (points above the dotted line are underconfident, points below it overconfident); and, on the right, "
        f"{right}, by epoch, mean and standard deviation over replicates.")


def _by_noise(metric: str, title: str, name: str) -> tuple[str, FinalFigure]:
    description = (f"The {title} by label noise rate, one panel a dataset: mean over replicates with the confidence "
                   "interval of the mean. Lower is better.")
    return f'by_noise("{metric}", "{title}", "{name}")', FinalFigure(name=name, description=description)
