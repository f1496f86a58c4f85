"""Roles of ideation and planning: the study as an idea and a plan, and summaries of documents by their sentences.

It has one idea. If asked for more, it repeats itself, and the rules refuse it as they would any model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from labwright.models.errors import CatalogueError
from labwright.models.offline.study import AblationSpec, find_study_by_idea, is_repository_study, load_study
from labwright.models.offline.table_study import is_table_study, plan_table_ablations, plan_table_study
from labwright.models.roles.ideation import (
    ClosestPick,
    DigestAnswer,
    DigestInputs,
    FollowUpDraft,
    FollowUpReflection,
    IdeaDraft,
    IdeaFromText,
    IdeaFromTextInputs,
    IdeaInputs,
    IdeaMatch,
    IdeaMatchInputs,
    IdeaReflectInputs,
    IdeaReflection,
    IdeaText,
    Proposal,
    ProposalInputs,
    RelatedWork,
    RelatedWorkInputs,
    WorkNote,
)
from labwright.models.roles.study_plan import (
    AblationPlan,
    AblationPlanInputs,
    MissingAblationsAnswer,
    MissingAblationsInputs,
    PlanInputs,
    PlanRevision,
    RiskTested,
)
from labwright.record.baseline_check import Ablation
from labwright.record.ideation import DocumentStatement, IdeaReason, RequiredDataset, ResourceEstimate
from labwright.record.plan_edits import PlanEdit
from labwright.record.schema.data_plan import DataPlan, Hyperparameter
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.hypotheses import FindingAnswer
from labwright.record.schema.idea import Idea, read_idea
from labwright.record.schema.prior_work import OmittedPriorWork

ESTIMATED_EXECUTIONS = 90
"""Number of executions of a study, including replicates, for estimating its hours."""
MAX_QUOTE_WORDS = 25
"""Words of a quote."""
MAX_STATEMENTS = 12
"""Statements of a document."""


@cache
def load_idea() -> IdeaText:
    """Return the idea of the study, which is that of `scientist demo`."""
    return _to_idea_text(read_idea(Path(str(files("labwright"))) / "demo" / "idea.json"))


def answer_idea(inputs: IdeaInputs) -> IdeaDraft:
    """Return the study as an idea. Raises `CatalogueError` if the topic does not name it.

    To follow a study, its idea measures what the first finding leaves, with a reason for each finding.
    """
    study = load_study()
    if not _names_study(inputs.topic):
        raise CatalogueError(
            f"the offline model has no idea for this topic; it knows only: {study}. Compare "
            "models on your own table with scientist run --data NAME=FILE,target=COLUMN, see an example with scientist "
            "demo, or configure a model for any other topic, e.g. --model openai:gpt-5-mini or --model ollama:qwen3"
        )
    seconds = study.plan.expected_seconds or 60.0
    hours = ESTIMATED_EXECUTIONS * seconds / 3600 / max(1, inputs.means.workers)
    estimate = ResourceEstimate(
        hours=round(max(hours, seconds / 3600), 4),
        node_hours=round(seconds / 3600, 5),
        data=tuple(RequiredDataset(name=use.name, source="catalogue") for use in study.plan.datasets),
        packages=("numpy",),
        reason=f"{ESTIMATED_EXECUTIONS} executions of {seconds:g} s, {inputs.means.workers} at a time, as planned.",
    )
    queries = (study.title, " ".join(line[0] for line in study.keywords))
    if inputs.study is None:
        return IdeaDraft(idea=load_idea(), estimate=estimate, queries=queries)
    base, findings = _to_idea_text(inputs.study.idea), inputs.study.findings
    follow_up = {
        "name": f"{base.name[:50]}_next",
        "title": f"{base.title[:250]}: what {findings[0].key.rsplit('/', 1)[-1]} leaves",
        "experiments": (f"Measure this again with more seeds: {findings[0].quote[:1200]}", *base.experiments[:11]),
    }
    return FollowUpDraft(
        idea=base.model_copy(update=follow_up),
        estimate=estimate,
        queries=queries,
        reasons=tuple(
            IdeaReason(key=one.key, verdict=one.verdict, why=f"It is {one.verdict}: it is measured with more seeds.")
            for one in findings[:6]
        ),
    )


def _names_study(text: str) -> bool:
    """Return whether a text matches a line of the study's keywords."""
    return any(phrase in text.lower() for line in load_study().keywords for phrase in line)


def answer_idea_reflect(inputs: IdeaReflectInputs) -> IdeaReflection:
    """Return the draft unchanged, with the first papers of the results as the closest."""
    draft = inputs.draft.idea
    picks = tuple(
        ClosestPick(
            paper=number,
            quote=_first_words(work.abstract),
            difference=f"This idea measures: {draft.experiments[0]}"[:800],
        )
        for number, work in enumerate(inputs.works[:5], 1)
    )
    said = "The closest papers are named below, by their abstracts." if picks else "The searches returned no paper."
    answer = IdeaReflection(
        thoughts="The offline model keeps the idea as it is.",
        closest=picks,
        idea=draft.model_copy(update={"related_work": said}),
        estimate=inputs.draft.estimate,
        done=True,
    )
    return answer if inputs.study is None else FollowUpReflection(**dict(answer), reasons=inputs.reasons)


def answer_idea_match(inputs: IdeaMatchInputs) -> IdeaMatch:
    """Name the newest record of a study with the same name."""
    same = next((one for one in inputs.studies if one.name == inputs.idea.name), None)
    if same is None:
        return IdeaMatch(reason="No record is of the study that this model knows.")
    return IdeaMatch(same=same.id, reason="Both make the comparison of the one study that this model knows.")


def _first_words(text: str) -> str:
    """Return the first words of a text, unchanged."""
    return " ".join(text.split()[:MAX_QUOTE_WORDS])[:400]


def answer_related_work(inputs: RelatedWorkInputs) -> RelatedWork:
    """Summarise each paper by the first sentence of its abstract."""
    first = ([*_split_sentences(work.abstract), "The source gave no abstract."][0][:800] for work in inputs.works[:12])
    notes = tuple(WorkNote(paper=number, summary=summary) for number, summary in enumerate(first, 1))
    return RelatedWork(notes=notes, challenges=inputs.idea.risks[:5] or ("The idea names no risk.",))


def answer_proposal(inputs: ProposalInputs) -> Proposal:
    """Return the fields of the idea, in the order of a proposal."""
    one = inputs.idea
    steps = "\n".join(f"{number}. {text}" for number, text in enumerate(one.experiments, 1))
    return Proposal(
        introduction=f"{one.abstract}\n\n{one.short_hypothesis}",
        method=f"The experiments take these steps, on {', '.join(one.datasets) or 'the available data'}:\n\n{steps}",
        design=f"Primary metric: {one.metric or 'of the data plan'}. Choices are made on dev, selection on validation, "
        f"test is scored once. {inputs.estimate.reason}",
        outcomes="If the difference is as the hypothesis says, the method's parts are ablated; if there is none, that "
        f"is the result. Risks: {' '.join(one.risks)}",
    )


def answer_idea_of(inputs: IdeaFromTextInputs) -> IdeaFromText:
    """Return the idea next to the text, or the study that the text is about."""
    if inputs.known is not None:
        return IdeaFromText(idea=_to_idea_text(inputs.known))
    if not _names_study(inputs.text):
        return IdeaFromText(missing="the offline model finds no study of its catalogue in it")
    return IdeaFromText(idea=load_idea())


def _to_idea_text(one: Idea) -> IdeaText:
    """Return an idea with words for the fields that its file may lack."""
    return IdeaText(
        name=re.sub(r"[^a-z0-9]+", "_", one.name.lower()).strip("_")[:60],
        title=one.title[:300],
        short_hypothesis=one.short_hypothesis or f"The claim of {one.title}.",
        related_work=one.related_work or "None.",
        abstract=one.abstract if len(one.abstract) >= 50 else f"{one.abstract} Its experiments describe the study.",
        experiments=one.experiments if len(one.experiments) > 1 else (*one.experiments, "Repeat it over seeds."),
        risks=one.risks or ("None was named.",),
        datasets=one.datasets or ("those of the data plan",),
        metric=one.metric or "the data plan's",
    )


def answer_digest(inputs: DigestInputs) -> DigestAnswer:
    """Quote the first sentences of each page."""
    share = max(1, MAX_STATEMENTS // max(1, len(inputs.pages)))
    taken = [(page.page, text) for page in inputs.pages for text in _split_sentences(page.text)[:share]]
    lines = [" ".join(line.split()) for page in inputs.pages[:1] for line in page.text.splitlines()]
    return DigestAnswer(
        subject=next((line for line in lines if " " in line), inputs.file)[:400],
        statements=tuple(
            DocumentStatement(text=text[:600], page=page, quote=_first_words(text))
            for page, text in taken[:MAX_STATEMENTS]
        ),
    )


def _split_sentences(text: str) -> list[str]:
    """Return the sentences of at least six words, unchanged."""
    flat = " ".join(text.split())
    return [one for one in re.split(r"(?<=[.!?])\s+", flat) if len(one.split()) >= 6]


# Roles `plan`, `ablation_plan` and `missing_ablations`: the study's plan, and ablations for its risks and claims.


def answer_plan(inputs: PlanInputs) -> DataPlan | PlanRevision:
    """Return the study's data plan, restricted to the available datasets and metrics that the idea names, or a plan for
    the user's tables.

    Asked to revise it, answer each finding with the reason why the plan stays; the one edit changes nothing.

    Raises:
        CatalogueError: the idea is not the study's and has no data of the user, or none of its datasets is available.
    """
    if inputs.before is not None:
        reason = "The study that this model knows is fixed."
        return PlanRevision(
            edits=(PlanEdit(path="task", value=inputs.before.task),),
            answers=tuple(
                FindingAnswer(finding=number, changed=False, reason=reason)
                for number in range(1, len(inputs.findings) + 1)
            ),
        )
    if any(entry.own for entry in inputs.catalogue):
        return plan_table_study(inputs)
    study = find_study_by_idea(inputs.idea)
    have = {entry.name for entry in inputs.catalogue}
    datasets = tuple(use for use in study.plan.datasets if use.name in have)
    if not datasets:
        wanted = ", ".join(use.name for use in study.plan.datasets)
        raise CatalogueError(f"the study {study.name} needs one of the datasets {wanted}; have {sorted(have)!r}")
    named = " ".join(inputs.idea.datasets).lower().replace(" ", "_")
    metrics = tuple(metric for metric in study.plan.metrics if metric.name in inputs.metrics) or study.plan.metrics[:1]
    known = ("", *(metric.name for metric in metrics))
    own = [one for one in inputs.studies if one.name == study.name]
    return study.plan.model_copy(
        update={
            "datasets": tuple(use for use in datasets if use.name in named) or datasets,
            "metrics": metrics,
            "hypotheses": tuple(
                one.model_copy(
                    update={"alternatives": tuple(each for each in one.alternatives if each.metric in known)}
                )
                for one in study.plan.hypotheses
            ),
            "omitted": tuple(
                OmittedPriorWork(name=row.name, reason="it is not part of the study that this model knows")
                for row in inputs.common
            ),
            "space": tuple(_start_from_earlier(one, own) for one in study.plan.space),
        }
    )


def _start_from_earlier(one: Hyperparameter, studies: Sequence[EarlierStudy]) -> Hyperparameter:
    """Return a hyperparameter whose default is the value that an earlier run selected for its method, if allowed."""
    for study in studies:
        value = study.code.settings.get("method", {}).get(one.name) if study.code is not None else None
        inside = isinstance(value, int | float) and (one.low or 0.0) <= value <= (one.high or 0.0)
        if value is not None and (inside or value in one.options):
            source = f"selected by an earlier run (record {study.id})"
            return one.model_copy(update={"default": value, "source": source})
    return one


def answer_ablation_plan(inputs: AblationPlanInputs) -> AblationPlan:
    """Return the ablations that the risks name, in order, then the study's other parts, up to the maximum."""
    if is_table_study(inputs.data_plan):
        return plan_table_ablations(inputs)
    parts = find_study_by_idea(inputs.idea).ablations
    chosen: list[AblationSpec] = []
    risks: list[RiskTested] = []
    for number, risk in enumerate(inputs.idea.risks, start=1):
        named = [one for one in parts if any(word in risk.lower() for word in one.keywords)]
        part = next((one for one in named if one not in chosen), named[0] if named else None)
        if part is not None and part not in chosen and len(chosen) < inputs.most:
            chosen.append(part)
        if part in chosen:
            risks.append(RiskTested(risk=number, by=part.condition))
        else:
            risks.append(RiskTested(risk=number, reason="none of the planned ablations corresponds to it"))
    chosen += [one for one in parts if one not in chosen]
    return AblationPlan(
        ablations=tuple(to_ablation(one, inputs.data_plan) for one in chosen[: inputs.most]), risks=tuple(risks)
    )


def answer_missing_ablations(inputs: MissingAblationsInputs) -> MissingAblationsAnswer:
    """Return the parts that the study's claims credit and that nobody measured; empty if all were."""
    if is_repository_study(inputs) or is_table_study(inputs.data_plan):
        return MissingAblationsAnswer(why="The arms of the plan separate the explanations.")
    study = find_study_by_idea(inputs.idea)
    done = {one.ablation.name for one in inputs.trials if one.outcome == "measured"}
    lacking = [one for one in study.ablations if one.needed and one.condition not in done]
    if not lacking:
        return MissingAblationsAnswer(why="Every part that the claims credit was removed alone.")
    found = tuple(to_ablation(one, inputs.data_plan) for one in lacking[: inputs.most])
    parts = " and ".join(one.part for one in found)
    return MissingAblationsAnswer(
        ablations=found, why=f"The claims credit the method as a whole; nobody measured it without {parts}."
    )


def to_ablation(spec: AblationSpec, plan: DataPlan) -> Ablation:
    """Return a part of the study as a planned ablation, which every metric of the plan should show."""
    return Ablation(
        name=spec.condition,
        part=spec.part,
        action=spec.action,
        replacement=spec.replacement,
        metrics=tuple(metric.name for metric in plan.metrics),
        why=spec.plan,
    )
