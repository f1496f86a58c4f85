"""The offline model's figure and paper for a study of a repository, from the record alone."""

from __future__ import annotations

from labwright.models.offline.outline import Outline, read_outline, write_estimate
from labwright.models.offline.scripts import render_template
from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.figures import FigurePart, FigureScript, FiguresInputs
from labwright.models.roles.paper_writing import WriteInputs
from labwright.record.schema.data_plan import parse_arm

FIGURE_NAME = "arms"


def is_repository_study(study: StudyInputs) -> bool:
    """Return whether the cells of a study are runs of a repository's command."""
    return any(one.command for one in study.facts)


def is_scored(study: StudyInputs) -> bool:
    """Return whether predictions of the repository are scored, instead of a number being read."""
    return any(one.command and one.sizes for one in study.facts)


def write_repository_figure(inputs: FiguresInputs) -> FigureScript:
    """Draw one figure: every arm with the interval of its mean."""
    plan = inputs.data_plan
    method = next(arm.name for arm in plan.arms if arm.role == "method")
    measured = {parse_arm(one.condition) for one in inputs.statistics if one.name == plan.primary_metric.name}
    title = plan.primary_metric.title or plan.primary_metric.name
    script = render_template(
        "figures.py.jinja",
        datasets=[plan.datasets[0].name],
        factor=plan.factor or "dataset",
        method=method,
        ablations=[arm.name for arm in plan.arms if arm.name != method and arm.name in measured],
        split="test" if any(one.key.startswith("test/") for one in inputs.statistics) else "validation",
        arms={arm.name: arm.title or arm.name for arm in plan.arms},
        levels={level.name: level.title or level.name for level in plan.levels},
        values={level.name: level.value for level in plan.levels},
        primary=plan.primary_metric.name,
        primary_title=title,
    )
    script = script.replace('return "whole method" if arm == METHOD else ARMS', "return ARMS")
    better = "Higher" if plan.primary_metric.higher_is_better else "Lower"
    return FigureScript(
        script=script,
        figures=(
            FigurePart(
                name=FIGURE_NAME,
                code=f'ablation("{FIGURE_NAME}")',
                panels=1,
                datasets=(plan.datasets[0].name,),
                description=f"The {title} of each arm of the repository's command: mean over seeds with the confidence "
                f"interval of the mean. {better} is better; "
                + (
                    "the program scored the predictions. Grade of all values: scored."
                    if is_scored(inputs)
                    else "the values are those that the repository's own code reports. Grade of all values: logged."
                ),
            ),
        ),
    )


def build_repository_outline(inputs: WriteInputs) -> Outline:
    """Build the paper for any outcome. A sentence whose results are missing is left out."""
    plan, told = inputs.data_plan, [*inputs.disclosures]
    title = plan.primary_metric.title or plan.primary_metric.name
    outcomes = [
        f"For the {'registered' if one.confirmatory else 'exploratory'} hypothesis ``<s:hypothesis.{name}.title>'', "
        f"the estimate is {write_estimate(line)}; the hypothesis is {one.verdict}."
        for one in inputs.decided
        for name in (one.key.partition("/")[2],)
        for line in one.effects
    ] or [
        f"We observe that the {title} of {plan.name_condition(first)} minus that of {plan.name_condition(second)} is "
        f"{write_estimate(one)}; this comparison is exploratory."
        for one in inputs.comparisons
        for first, second in (one.subtracted,)
        if one.metric == plan.primary_metric.name
    ]
    split = "test" if any(line.key.startswith("test/") for line in inputs.results) else "validation"
    arms = [
        f"\\emph{{{arm.title or arm.name.replace('_', ' ')}}} ({arm.role}): "
        f"{arm.description or 'no description'}.".replace("..", ".")
        for arm in plan.arms
    ]
    means = [
        f"The {title} of {arm.title or arm.name} is <r:{split}/{use.name}/{plan.primary_metric.name}/{condition}.pm>."
        for use in plan.datasets
        for condition in plan.conditions
        for arm in plan.arms
        if arm.name == parse_arm(condition)
    ]
    floats = [
        f"<{kind}:{name}>"
        for kind, names in (
            ("table", list(inputs.tables)),
            ("figure", [one.name for one in inputs.figures if one.placement == "main"]),
        )
        for name in names
    ]
    shown = [
        f"<{short}:{name}> shows the arms side by side."
        for short, names in (
            ("tab", list(inputs.tables)),
            ("fig", [one.name for one in inputs.figures if one.placement == "main"]),
        )
        for name in names
    ]
    nothing = "The record holds no paired comparison of the arms, so no effect is claimed."
    text = "\n\n".join(
        (
            "# Abstract",
            *(outcomes[:2] or [nothing]),
            inputs.idea.short_hypothesis or inputs.idea.abstract,
            "We run the command of an existing repository arm by arm, over seeds, and compare the number that "
            "it reports.",
            "# Introduction",
            inputs.idea.abstract or inputs.idea.short_hypothesis,
            "The repository is studied as it is: its commit is fixed, and nothing of its code is changed beyond "
            "what makes "
            "an arm.",
            "# Method",
            "Each arm is the same command, with words of its own:",
            "\n".join(arms),
            "Differences are taken seed by seed.",
            "# Experimental Setup",
            *(
                (
                    "Each run has a checkout of its own, without a network. The predictions that it leaves are "
                    "scored against "
                    "labels that it never sees.",
                )
                if is_scored(inputs)
                else (
                    "Each run has a checkout of its own, without a network, and its number is read from where "
                    "the repository "
                    "leaves it.",
                    "The repository's own code computes that number from data that it reads itself; we did not "
                    "score its "
                    "predictions, so all values are logged by the code.",
                )
            ),
            f"The primary metric is the {title}.",
            "# Results",
            "\n".join(shown),
            "\n\n".join(floats),
            "\n".join(means),
            "\n".join(outcomes) or nothing,
            "# Limitations",
            "What holds here holds for this repository, its data and these seeds.",
            "\n".join(told),
        )
    )
    return read_outline(inputs.idea.title or "A Study of a Repository", text, inputs)
