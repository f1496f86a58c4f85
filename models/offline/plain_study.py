"""The offline model's figure and paper for a study of a repository or of own tables, from the record alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labwright.models.offline.outline import Outline, read_outline, write_estimate
from labwright.models.offline.scripts import render_template
from labwright.models.offline.table_study import describe_table_setup, is_table_study
from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.figures import FigurePart, FigureScript, FiguresInputs
from labwright.models.roles.paper_writing import WriteInputs
from labwright.record.claims.sentences import join_names
from labwright.record.schema.data_plan import parse_arm

FIGURE_NAME = "arms"


def is_repository_study(study: StudyInputs) -> bool:
    """Return whether the cells of a study are runs of a repository's command."""
    return any(one.command for one in study.facts)


def is_scored(study: StudyInputs) -> bool:
    """Return whether predictions of the repository are scored, instead of a number being read."""
    return any(one.command and one.sizes for one in study.facts)


def is_plain_study(study: StudyInputs) -> bool:
    """Return whether the paper of a study follows from its plan and record alone."""
    return is_repository_study(study) or is_table_study(study.data_plan)


def write_plain_figure(inputs: FiguresInputs) -> FigureScript:
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
                description=f"The {title} of each arm: mean over seeds with the confidence interval of the mean. "
                f"{better} is better; "
                + (
                    "the program scored the predictions. Grade of all values: scored."
                    if is_scored(inputs) or is_table_study(inputs.data_plan)
                    else "the values are those that the repository's own code reports. Grade of all values: logged."
                ),
            ),
        ),
    )


def build_plain_outline(inputs: WriteInputs) -> Outline:
    """Build the paper for any outcome. A sentence whose results are missing is left out."""
    plan, told, words = inputs.data_plan, [*inputs.disclosures], _choose_words(inputs)
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
    places = [f"<tab:{name}>" for name in inputs.tables]
    places += [f"<fig:{one.name}>" for one in inputs.figures if one.placement == "main"]
    shown = f"The results are in {join_names(places)}." if places else ""
    nothing = "The record holds no paired comparison of the arms, so no effect is claimed."
    text = "\n\n".join(
        (
            "# Abstract",
            words.question,
            words.summary,
            *(outcomes[:2] or [nothing]),
            "# Introduction",
            words.background,
            words.introduction,
            "# Method",
            words.method,
            "\n".join(arms),
            "Differences are taken seed by seed.",
            "# Experimental Setup",
            *words.setup,
            f"The primary metric is the {title}.",
            "# Results",
            shown,
            "\n\n".join(floats),
            "\n".join(means),
            "\n".join(outcomes) or nothing,
            "\n".join(words.meaning),
            "# Limitations",
            words.limits,
            "\n".join(told),
        )
    )
    return read_outline(inputs.idea.title, text, inputs)


@dataclass(frozen=True)
class _PaperWords:
    """The sentences in which papers on a repository and on tables differ."""

    question: str
    summary: str
    background: str
    introduction: str
    method: str
    setup: tuple[str, ...]
    limits: str
    meaning: tuple[str, ...] = ()
    """What the outcomes mean to a reader, as registered."""


def _choose_words(inputs: WriteInputs) -> _PaperWords:
    if not is_repository_study(inputs):
        statements = [
            f"The hypothesis that was registered before any code ran says: ``{one.statement}''"
            for one in inputs.data_plan.hypotheses
        ]
        return _PaperWords(
            " ".join(statements[:1]),
            "We compare models of scikit-learn on the same rows, over seeds, after tuning each with equal effort.",
            " ".join((f"The task: {inputs.data_plan.task}", *statements)),
            "The comparison was planned, run and written by fixed rules, without a language model.",
            "The arms are:",
            tuple(describe_table_setup()),
            "What holds here holds for this table, these columns and these models.",
            tuple(_list_meanings(inputs)),
        )
    checkout = "Each run has a checkout of its own, without a network"
    idea = inputs.idea
    return _PaperWords(
        idea.short_hypothesis or idea.abstract,
        "We run the command of an existing repository arm by arm, over seeds, and compare the number that it reports.",
        idea.abstract or idea.short_hypothesis,
        "The repository is studied as it is: its commit is fixed, and nothing of its code is changed beyond what makes "
        "an arm.",
        "Each arm is the same command, with words of its own:",
        (f"{checkout}. The predictions that it leaves are scored against labels that it never sees.",)
        if is_scored(inputs)
        else (
            f"{checkout}, and its number is read from where the repository leaves it.",
            "The repository's own code computes that number from data that it reads itself; we did not score its "
            "predictions, so all values are logged by the code.",
        ),
        "What holds here holds for this repository, its data and these seeds.",
    )


def _list_meanings(inputs: WriteInputs) -> Iterator[str]:
    verdicts = {one.key.partition("/")[2]: one.verdict for one in inputs.decided}
    for one in inputs.data_plan.hypotheses:
        if one.outcomes is not None and one.id in verdicts:
            meaning = {"supported": one.outcomes.supported, "refuted": one.outcomes.refuted, "open": one.outcomes.open}
            yield meaning[verdicts[one.id]]
