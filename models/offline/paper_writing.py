"""Roles that write the paper, rebuilt from the whole record for every call.

The paper is a template: `label_noise/paper.jinja` for the study that this model knows, otherwise `plain_paper.jinja`.
It has one sentence per line. In a sentence `<r:KEY>` prints a result, `<s:KEY>` a setting, `<fig:NAME>` and
`<tab:NAME>` refer to a float, `<figure:NAME>` and `<table:NAME>` place it, and `<citep:a,b>`, `<citet:a>` cite those
keys that exist. A sentence is left out if anything that it names is not in the inputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from labwright.models.offline.study import (
    STUDY_FOLDER,
    find_study_by_idea,
    is_repository_study,
    is_scored,
    render_template,
)
from labwright.models.offline.table_study import is_table_study
from labwright.models.roles.paper_revision import ReflectInputs, Reflection, TextEdit
from labwright.models.roles.paper_writing import (
    EstimateLine,
    ExploratoryComparison,
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedSection,
    RequiredStatement,
    SectionInputs,
    Sections,
    WriteInputs,
)
from labwright.record.claims.sentences import join_names
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.record.schema.paper import EstimateRequest, PaperDraft, Section

TITLE = "Calibration under Label Noise: Label Smoothing, a Temperature, and the Labels It Is Fitted On"
METHOD, BASELINE = "method", "baseline"
NOISE_COST = "cost-of-noise"
"""The estimate that the paper on label noise asks for: what noise costs the baseline."""

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


def answer_outline(inputs: OutlineInputs) -> PaperOutline:
    """Return the plan of the paper that `write` gives: what its sections use, and where they report the statements."""
    record = inputs.inputs
    draft = write_draft(record)
    places = _assign_statements(record.statements, [section.title for section in draft.sections])
    length = sum(len(one.body) for one in draft.sections)
    return PaperOutline(
        title=draft.title,
        estimates=() if is_plain_study(record) else _request_noise_cost(record),
        sections=tuple(
            PlannedSection(
                title=one.title,
                claim=_first_plain_sentence(one.body) or one.title,
                keys=_find_used_keys(one.body, "result", "setup"),
                figures=_find_used_keys(one.body, "paperfigure"),
                tables=_find_used_keys(one.body, "papertable"),
                references=_find_used_keys(one.body, "citep", "citet"),
                tells=tuple(places.get(one.title, ())),
                share=len(one.body) / length,
            )
            for one in draft.sections
        ),
        abstract=PlannedAbstract(
            claim=_first_plain_sentence(draft.abstract),
            keys=_find_used_keys(draft.abstract, "result", "setup"),
            tells=tuple(one.id for one in record.statements if one.abstract),
        ),
    )


def answer_write(inputs: SectionInputs) -> Sections:
    """Return the requested sections of the paper, with the captions of the figures that they place."""
    draft = write_draft(inputs.inputs)
    chosen = tuple(section for section in draft.sections if section.title in inputs.asked)
    placed = _find_used_keys("\n".join(section.body for section in chosen), "paperfigure")
    shown = {one.name for one in inputs.figures}
    return Sections(
        sections=chosen,
        abstract=draft.abstract if inputs.abstract else "",
        captions={name: text for name, text in draft.captions.items() if name in shown | set(placed)},
    )


def _assign_statements(statements: Sequence[RequiredStatement], titles: Sequence[str]) -> dict[str, list[str]]:
    """Map section titles to statements: outcomes to the results, ablations to theirs, disclosures to the last."""
    results = next((title for title in titles if "Result" in title), titles[0])
    ablations = next((title for title in titles if "Ablation" in title), results)
    found: dict[str, list[str]] = {}
    for one in statements:
        kind = one.id.partition("-")[0]
        found.setdefault({"disclosure": titles[-1], "ablation": ablations}.get(kind, results), []).append(one.id)
    return found


def _request_noise_cost(inputs: WriteInputs) -> tuple[EstimateRequest, ...]:
    """Ask what label noise costs the baseline, if its lowest and highest rate were measured."""
    first, last = (f"{BASELINE}@{inputs.data_plan.levels[place].name}" for place in (0, -1))
    if not all(any(f"/{end}." in key for key in inputs.result_keys) for end in (first, last)):
        return ()
    purpose = "what label noise costs plain cross-entropy"
    return (EstimateRequest(name=NOISE_COST, estimand=f"{last} - {first}", purpose=purpose),)


def _find_used_keys(text: str, *commands: str) -> tuple[str, ...]:
    pattern = rf"\\(?:{'|'.join(commands)})\{{([^}}]*)\}}"
    return tuple(dict.fromkeys(key for match in re.findall(pattern, text) for key in match.split(",")))


def _first_plain_sentence(text: str) -> str:
    """Return the first sentence without macros and formulas."""
    plain = re.sub(r"\\paragraph\{[^}]*\}", "", text)
    sentences = (one.strip() for one in re.split(r"(?<=[.?!])\s+", plain))
    return next((one for one in sentences if one and not set(one) & set("\\$")), "")


# --- the paper --------------------------------------------------------------------------------------------------------


def is_plain_study(inputs: WriteInputs) -> bool:
    """Return whether the paper follows from plan and record alone, as for a repository and for own tables."""
    return is_repository_study(inputs) or is_table_study(inputs.data_plan)


def write_draft(inputs: WriteInputs) -> PaperDraft:
    """Write the paper that the record supports, whatever it is. Raises `CatalogueError` for an unknown idea."""
    plan = inputs.data_plan
    outcomes = _describe_outcomes(inputs)
    main = [one.name for one in inputs.figures if one.placement == "main"]
    floats = [("table", "tab", name) for name in inputs.tables] + [("figure", "fig", name) for name in main]
    shared = {
        "plan": plan,
        "metric": plan.primary_metric.display_name,
        "split": "test" if any(line.key.startswith("test/") for line in inputs.results) else "validation",
        "summary": _describe_outcomes(inputs, confirmatory=True) or outcomes[:2],
        "outcomes": outcomes,
        "disclosures": inputs.disclosures,
    }
    verdicts = {one.key.partition("/")[2]: one.verdict for one in inputs.decided}
    meanings = [
        getattr(one.outcomes, verdicts[one.id])
        for one in plan.hypotheses
        if one.outcomes is not None and one.id in verdicts
    ]
    if is_plain_study(inputs):
        title, text = (
            inputs.idea.title,
            render_template(
                "plain_paper.jinja",
                idea=inputs.idea,
                repository=is_repository_study(inputs),
                scored=is_scored(inputs),
                statements=[
                    f"The hypothesis that was registered before any code ran says: ``{one.statement}''"
                    for one in plan.hypotheses
                ],
                floats=floats,
                places=join_names([f"<{mark}:{name}>" for _, mark, name in floats]),
                meanings=meanings if is_table_study(plan) else [],
                **shared,
            ),
        )
    else:
        find_study_by_idea(inputs.idea)
        measured = {line.key.split("/")[1] for line in inputs.results if line.key.count("/") >= 3}
        planned = [use.name for use in plan.datasets]
        names = [name for name in planned if name in measured] or planned[:1]
        template = (STUDY_FOLDER / "paper.jinja").read_text(encoding="utf-8")
        title, text = (
            TITLE,
            render_template(
                "paper.jinja",
                names=names,
                datasets=join_names([plan.name_dataset(name) for name in names]),
                doubled=[one.name for one in inputs.facts if one.duplicates and one.name in names],
                rates=join_names([f"<s:level.{level.name}>" for level in plan.levels]),
                ablations=_describe_ablations(inputs, names[0]),
                worse=_list_worse(inputs, printed=True),
                doubtful=_list_worse(inputs, printed=False),
                meanings=meanings,
                explained=any(one.verdict == "supported" for one in inputs.decided),
                unplaced=[one for one in floats if f"<{one[0]}:{one[2]}>" not in template],
                **shared,
            ),
        )
    known = _list_known_keys(inputs)
    abstract, *sections = (_read_section(one, known) for one in re.split(r"^# ", text, flags=re.MULTILINE)[1:])
    return PaperDraft(
        title=title,
        abstract=abstract.body,
        sections=tuple(one for one in sections if one.body),
        captions={figure.name: figure.description for figure in inputs.figures},
    )


def _describe_outcomes(inputs: WriteInputs, *, confirmatory: bool = False) -> list[str]:
    """Report each effect of the hypotheses; without any, the comparisons by the primary metric. With `confirmatory`, in
    other words, those of confirmatory hypotheses, for the abstract."""
    plan, primary, unit = inputs.data_plan, inputs.data_plan.primary_metric.name, inputs.data_plan.primary_metric.unit
    over_datasets = {one.id for one in plan.hypotheses if one.unit == "datasets"}
    units = {
        f"hypothesis/{one.id}/{number}": f"{unit} per unit of {plan.factor}"
        for one in plan.hypotheses
        for number, effect in enumerate(one.effects, 1)
        if unit and "slope(" in effect.estimand
    }
    if inputs.decided:
        return [
            f"The registered hypothesis ``<s:hypothesis.{name}.title>'' is {one.verdict}: {place}, the estimate is "
            f"{_print_estimate(line, units.get(line.key, unit))}."
            if confirmatory
            else f"For the {'registered' if one.confirmatory else 'exploratory'} hypothesis "
            f"``<s:hypothesis.{name}.title>'', the estimate {place} is "
            f"{_print_estimate(line, units.get(line.key, unit))}; "
            f"the hypothesis is {one.verdict}."
            for one in inputs.decided
            for name in (one.key.partition("/")[2],)
            for place in (
                "over the datasets" if name in over_datasets else f"on {plan.name_dataset(plan.datasets[0].name)}",
            )
            for line in one.effects
            if one.confirmatory or not confirmatory
        ]
    if confirmatory:
        return []
    arms = {arm.name for arm in inputs.data_plan.arms}
    found = [
        _describe_comparison(inputs, one)
        for one in inputs.comparisons
        if one.pair.metric == primary and {parse_arm(one.pair.condition), parse_arm(one.pair.other)} <= arms
    ]
    return found or ["The record holds no paired comparison of the arms, so no effect is claimed."]


def _describe_ablations(inputs: WriteInputs, dataset: str) -> str:
    """Report in one sentence what each ablation changes at the highest level; empty if there is none."""
    plan = inputs.data_plan
    found = [
        f"{_print_estimate(one)} for {plan.name_arm(arm)}"
        for one in inputs.comparisons
        for arm in (parse_arm(one.pair.condition),)
        if (one.pair.dataset, one.pair.metric) == (dataset, plan.primary_metric.name)
        and one.pair.other == f"{METHOD}@{plan.levels[-1].name}"
        and parse_level(one.pair.condition) == plan.levels[-1].name
        and arm.startswith("without-")
    ]
    if not found:
        return ""
    where = f"On {plan.name_dataset(dataset)} at {plan.name_level(plan.levels[-1].name)}"
    metric = plan.primary_metric.display_name
    return f"{where}, the {metric} of a variant minus that of the whole method is {join_names(found)}."


def _list_worse(inputs: WriteInputs, *, printed: bool) -> str:
    """List by level the datasets on which the method's mean of the primary metric is worse than the baseline's, with
    the differences if `printed`."""
    plan = inputs.data_plan
    worse = {
        level.title: [
            plan.name_dataset(one.pair.dataset) + f" (<r:{one.key}.mean>)" * printed
            for one in inputs.comparisons
            if one.pair.metric == plan.primary_metric.name
            and one.pair.other == f"{BASELINE}@{level.name}"
            and one.pair.condition == one.worse == f"{METHOD}@{level.name}"
        ]
        for level in plan.levels
    }
    return join_names([f"at {level} on {join_names(datasets)}" for level, datasets in worse.items() if datasets])


def _describe_comparison(inputs: WriteInputs, one: ExploratoryComparison) -> str:
    plan = inputs.data_plan
    first, second = plan.name_condition(one.pair.condition), plan.name_condition(one.pair.other)
    metric = plan.primary_metric.display_name
    return (
        f"On {plan.name_dataset(one.pair.dataset)}, we observe that the {metric} of {first} minus that of {second} is "
        f"{_print_estimate(one)}; this comparison is exploratory."
    )


def _print_estimate(line: EstimateLine, unit: str = "") -> str:
    """Return an estimate with its interval, in marks: `0.1 nats (95% interval [0.0, 0.2])`."""
    confidence = f"<r:{line.key}.confidence>" if "confidence" in line.forms else "95"
    mean = f"<r:{line.key}.mean>" + f" {unit}" * bool(unit)
    return mean + (f" ({confidence}\\% interval <r:{line.key}.ci>)" if "ci" in line.forms else "")


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


def _read_section(section: str, known: Mapping[str, Collection[str]]) -> Section:
    title, _, rest = section.partition("\n")
    paragraphs: list[str] = []
    for block in re.split(r"\n{2,}", rest.strip()):
        said = " ".join(one for line in block.splitlines() if (one := _render_sentence(line.strip(), known)))
        if re.sub(r"\\paragraph\{[^}]*\}", "", said):
            paragraphs.append(said)
    return Section(title=title.strip(), body="\n\n".join(paragraphs))


def _render_sentence(sentence: str, known: Mapping[str, Collection[str]]) -> str:
    """Return the sentence in LaTeX, or an empty string if anything that it names is missing."""
    kept = {
        mark[0]: ",".join(key for key in mark[2].split(",") if key in known[mark[1]])
        for mark in _MARK.finditer(sentence)
    }
    if not all(kept.values()):
        return ""

    def render(mark: re.Match[str]) -> str:
        away = mark[1] == "fig" and kept[mark[0]] not in known["figure"]
        return _MACRO_BY_MARK[mark[1]] % kept[mark[0]] + " in the appendix" * away

    return _MARK.sub(render, sentence)


# --- reflection -------------------------------------------------------------------------------------------------------


def answer_reflect(inputs: ReflectInputs) -> Reflection:
    """Write the paper anew if there are further results, and move its last figure to the appendix if it is too long.

    It is done if neither is needed, or if its last edit was undone; it changes no sentence that was refused.
    """
    draft, edits = inputs.draft, list[TextEdit]()
    if inputs.tried and inputs.tried[-1].outcome != "kept":
        return Reflection(done=True)
    if inputs.news and not inputs.tried:
        fresh = write_draft(inputs.inputs)
        texts = {"abstract": fresh.abstract} | {one.title: one.body for one in fresh.sections}
        edits = [
            TextEdit(section=title, old=text, new=texts[title])
            for title, text in (("abstract", draft.abstract), *((one.title, one.body) for one in draft.sections))
            if texts.get(title, text) != text
        ]
    pages, limit = inputs.pages or 0.0, inputs.inputs.page_limit
    placed = _find_used_keys("\n".join(section.body for section in draft.sections), "paperfigure")
    is_long = pages >= limit if edits else pages > limit  # added results need room
    moved = placed[-1:] if is_long else ()
    for name in moved:
        reference = _MACRO_BY_MARK["fig"] % name
        bodies = {one.title: one.body for one in draft.sections} | {one.section: one.new for one in edits}
        edits += [
            TextEdit(section=title, old=reference, new=f"{reference} in the appendix")
            for title, body in bodies.items()
            if reference in body
        ]
    return Reflection(done=not edits and not moved, edits=tuple(edits), placements=dict.fromkeys(moved, "appendix"))
