"""The offline model's figure and paper for a study of a repository or of own tables, from the record alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from labwright.models.offline.edits import render_template
from labwright.models.offline.table_study import describe_table_setup, is_table_study
from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.figures import FigurePart, FigureScript, FiguresInputs
from labwright.models.roles.paper_writing import EstimateLine, WriteInputs
from labwright.record.claims.sentences import join_names
from labwright.record.schema.data_plan import parse_arm

# A paper as sections of paragraphs, read from text with one sentence per line; each sentence depends on the inputs.
# In a sentence `<r:KEY>` prints a result, `<s:KEY>` a setting, `<fig:NAME>` and `<tab:NAME>` refer to a float,
# `<figure:NAME>` and `<table:NAME>` place it, and `<citep:a,b>`, `<citet:a>` cite those keys that exist. A sentence
# is left out if anything that it names is not in the inputs.

_MACRO_BY_MARK = {
    "r": r"\result{%s}",
    "s": r"\setup{%s}",
    "fig": r"Figure~\ref{fig:%s}",
    "tab": r"Table~\ref{tab:%s}",
    "figure": r"\paperfigure{%s}",
    "table": r"\papertable{%s}",
    "citep": r"\citep{%s}",
    "citet": r"\citet{%s}",
}
_MARK = re.compile(rf"<({'|'.join(_MACRO_BY_MARK)}):([^<>]+)>")
_RANK = re.compile(r"\[(\d)\](?:\n|$)")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph and its rank for shortening: 0 is never dropped, the highest rank is dropped first."""

    text: str
    spare_rank: int = 0


@dataclass(frozen=True)
class OutlineSection:
    """A section before it is flattened into text."""

    title: str
    paragraphs: tuple[Paragraph, ...]

    @property
    def body(self) -> str:
        return "\n\n".join(paragraph.text for paragraph in self.paragraphs)


@dataclass(frozen=True)
class Outline:
    """A paper before it is flattened into a draft."""

    title: str
    abstract: str
    sections: tuple[OutlineSection, ...]


def read_outline(title: str, text: str, inputs: WriteInputs) -> Outline:
    """Read an outline from a text whose sections begin with `# TITLE`, the abstract first."""
    known = _list_known_keys(inputs)
    abstract, *parts = (_read_section(section, known) for section in re.split(r"^# ", text, flags=re.MULTILINE)[1:])
    return Outline(title, abstract.body, tuple(one for one in parts if one.paragraphs))


def _list_known_keys(inputs: WriteInputs) -> dict[str, frozenset[str]]:
    """Return the names that each kind of mark may use."""
    references, tables = frozenset(one.key for one in inputs.references), frozenset(inputs.tables)
    return {
        "r": frozenset(inputs.result_keys),
        "s": frozenset(line.key for line in inputs.setups),
        "fig": frozenset(one.name for one in inputs.figures),
        "tab": tables,
        "table": tables,
        "figure": frozenset(one.name for one in inputs.figures if one.placement == "main"),
        "citep": references,
        "citet": references,
    }


def _read_section(section: str, known: Mapping[str, Collection[str]]) -> OutlineSection:
    title, _, rest = section.partition("\n")
    paragraphs: list[Paragraph] = []
    for block in re.split(r"\n{2,}", rest.strip()):
        rank = _RANK.match(block)
        lines = block[rank.end() :] if rank else block
        said = " ".join(one for line in lines.splitlines() if (one := _render_sentence(line.strip(), known)))
        if re.sub(r"\\paragraph\{[^}]*\}", "", said):
            paragraphs.append(Paragraph(said, int(rank[1]) if rank else 0))
    return OutlineSection(title.strip(), tuple(paragraphs))


def _render_sentence(sentence: str, known: Mapping[str, Collection[str]]) -> str:
    """Return the sentence in LaTeX, or an empty string if anything that it names is missing."""
    kept = {
        mark[0]: ",".join(key for key in mark[2].split(",") if key in known[mark[1]])
        for mark in _MARK.finditer(sentence)
    }
    if not all(kept.values()):
        return ""
    return _MARK.sub(lambda mark: _MACRO_BY_MARK[mark[1]] % kept[mark[0]], sentence)


def write_estimate(line: EstimateLine) -> str:
    """Return an estimate with its interval, in marks: `0.1 (95% interval [0.0, 0.2])`."""
    confidence = f"<r:{line.key}.confidence>" if "confidence" in line.forms else "95"
    return f"<r:{line.key}.mean>" + (f" ({confidence}\\% interval <r:{line.key}.ci>)" if "ci" in line.forms else "")


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
