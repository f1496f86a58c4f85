"""Roles of ideation: the study as an idea, if a topic names it, and summaries of documents by their sentences.

It has one idea. If asked for more, it repeats itself, and the rules refuse it as they would any model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labwright.models.errors import CatalogueError
from labwright.models.offline.plain_study import is_repository_study
from labwright.models.offline.study import AblationSpec, OfflineStudy, find_study_by_idea, load_study
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
from labwright.record.ideation import (
    AvailableResources,
    DocumentStatement,
    FollowedStudy,
    IdeaReason,
    RequiredDataset,
    ResourceEstimate,
)
from labwright.record.plan_edits import PlanEdit
from labwright.record.schema.data_plan import DataPlan, Hyperparameter
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.hypotheses import FindingAnswer
from labwright.record.schema.idea import Idea
from labwright.record.schema.prior_work import OmittedPriorWork

ESTIMATED_EXECUTIONS = 90
"""Number of executions of a study, including replicates, for estimating its hours."""
MAX_QUOTE_WORDS = 25
"""Words of a quote."""
MAX_STATEMENTS = 12
"""Statements of a document."""


def answer_idea(inputs: IdeaInputs) -> IdeaDraft:
    """Return the study as an idea. Raises `CatalogueError` if the topic does not name it."""
    study = load_study()
    if not _names_study(inputs.topic, study):
        raise CatalogueError(
            f"the offline model has no idea for this topic; it knows only: {study}. Configure a model "
            "for any other topic, e.g. --model openai:gpt-5-mini or --model ollama:qwen3"
        )
    if inputs.study is not None:
        return _follow_study(inputs.study, study, inputs.means)
    words = " ".join(line[0] for line in study.keywords)
    return IdeaDraft(
        idea=_build_idea_text(study, inputs.means),
        estimate=_estimate_cost(study, inputs.means),
        queries=(study.title, words),
    )


def _follow_study(followed: FollowedStudy, study: OfflineStudy, means: AvailableResources) -> FollowUpDraft:
    """Return an idea that measures what the first finding of a study leaves, with a reason for each finding."""
    base, first = _to_idea_text(followed.idea), followed.findings[0]
    name = first.key.rsplit("/", 1)[-1]
    return FollowUpDraft(
        idea=base.model_copy(
            update={
                "name": f"{base.name[:50]}_next",
                "title": f"{base.title[:250]}: what {name} leaves",
                "experiments": (f"Measure this again with more seeds: {first.quote[:1200]}", *base.experiments[:11]),
                "datasets": tuple(one for one in base.datasets if one in means.datasets)
                or _list_datasets(study, means),
            }
        ),
        estimate=_estimate_cost(study, means),
        queries=(study.title, " ".join(line[0] for line in study.keywords)),
        reasons=tuple(
            IdeaReason(
                key=one.key,
                verdict=one.verdict,
                why=f"It is {one.verdict}; the experiments measure it again with more seeds.",
            )
            for one in followed.findings[:6]
        ),
    )


def _names_study(text: str, study: OfflineStudy) -> bool:
    """Return whether a text matches a line of the study's keywords."""
    return any(phrase in text.lower() for line in study.keywords for phrase in line)


def _build_idea_text(study: OfflineStudy, means: AvailableResources) -> IdeaText:
    plan = study.plan
    base, method = (next(arm for arm in plan.arms if arm.role == role) for role in ("baseline", "method"))
    metric = plan.primary_metric.title or plan.primary_metric.name
    better = "higher" if plan.primary_metric.higher_is_better else "lower"
    return IdeaText(
        name=study.name,
        title=f"{study.title[:1].upper()}{study.title[1:]}: {method.title} and {base.title}",
        short_hypothesis=f"With regard to {study.title}, {method.title} gives a {better} {metric} than {base.title}, "
        f"over every level of {plan.factor or 'the comparison'}; equal or worse values refute it.",
        related_work="Nothing was looked up yet: the closest papers show what the searches returned.",
        abstract=f"{plan.task} {base.title}: {base.description}. {method.title}: {method.description}. Both are "
        f"compared by {metric}, over seeds.",
        experiments=tuple(
            dict.fromkeys(
                (
                    f"Compare {method.title} with {base.title} on every dataset by {metric}.",
                    *(f"{one.title}: {one.plan}" for one in study.agenda),
                    *(f"{one.title}: {one.plan}" for one in study.ablations),
                )
            )
        )[:12],
        risks=(
            "The datasets are small, so chance may hide the effect.",
            f"The effect may depend on hyperparameters that both arms share: {plan.notes[:300] or 'they are tuned'}",
        ),
        datasets=_list_datasets(study, means),
        metric=f"{metric}, {better} is better",
    )


def _list_datasets(study: OfflineStudy, means: AvailableResources) -> tuple[str, ...]:
    named = tuple(use.name for use in study.plan.datasets)
    return tuple(name for name in named if name in means.datasets) or named


def _estimate_cost(study: OfflineStudy, means: AvailableResources) -> ResourceEstimate:
    seconds = study.plan.expected_seconds or 60.0
    hours = ESTIMATED_EXECUTIONS * seconds / 3600 / max(1, means.workers)
    return ResourceEstimate(
        hours=round(max(hours, seconds / 3600), 4),
        node_hours=round(seconds / 3600, 5),
        data=tuple(RequiredDataset(name=name, source="catalogue") for name in _list_datasets(study, means)),
        packages=("numpy",),
        reason=f"{ESTIMATED_EXECUTIONS} executions of {seconds:g} s, {means.workers} at a time, as the "
        f"catalogue's study plans them.",
    )


def answer_idea_reflect(inputs: IdeaReflectInputs) -> IdeaReflection:
    """Return the draft unchanged, with the first papers of the results as the closest."""
    draft = inputs.draft.idea
    difference = f"This idea measures: {draft.experiments[0]}"
    picks = tuple(
        ClosestPick(paper=number, quote=_first_words(work.abstract), difference=difference)
        for number, work in enumerate(inputs.works[:5], 1)
    )
    said = (
        "The closest papers are named below, by their abstracts."
        if picks
        else "A search was answered and returned no paper."
        if any(one.answered for one in inputs.searches)
        else "No source answered, so nothing could be looked up."
    )
    answer = IdeaReflection(
        thoughts="The offline model keeps the studies of its catalogue as they are.",
        closest=picks,
        idea=draft.model_copy(update={"related_work": said}),
        estimate=inputs.draft.estimate,
        done=True,
    )
    if inputs.study is None:
        return answer
    return FollowUpReflection(**dict(answer), reasons=inputs.reasons)


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
    study = load_study()
    if not _names_study(inputs.text, study):
        return IdeaFromText(missing="the offline model finds no study of its catalogue in it")
    return IdeaFromText(
        idea=_build_idea_text(study, AvailableResources(processor="", cores=1, memory_gb=1, hours=1, node_hours=1))
    )


def _to_idea_text(one: Idea) -> IdeaText:
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
    """Quote the first sentences of the pages, taking one from every page in turn."""
    pages = [(page, _split_sentences(page.text)) for page in inputs.pages]
    longest = max((len(sentences) for _, sentences in pages), default=0)
    taken = [(page, sentences[at]) for at in range(longest) for page, sentences in pages if at < len(sentences)]
    lines = [" ".join(line.split()) for page in inputs.pages[:1] for line in page.text.splitlines()]
    subject = next((line for line in lines if " " in line), "".join(lines[:1]) or inputs.file)
    return DigestAnswer(
        subject=subject[:400],
        statements=tuple(
            DocumentStatement(text=text[:600], page=page.page, quote=_first_words(text))
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

    Asked to revise it, answer the findings and leave the rest.

    Raises:
        CatalogueError: the idea is not the study's and has no data of the user, or none of its datasets is available.
    """
    if inputs.before is not None:
        return _answer_findings(inputs)
    if any(entry.own for entry in inputs.catalogue):
        return plan_table_study(inputs)
    study = find_study_by_idea(inputs.idea)
    have = {entry.name for entry in inputs.catalogue}
    datasets = tuple(use for use in study.plan.datasets if use.name in have)
    if not datasets:
        wanted = ", ".join(use.name for use in study.plan.datasets)
        raise CatalogueError(f"the study {study.name} needs one of the datasets {wanted}; have {sorted(have)!r}")
    named = " ".join(inputs.idea.datasets).lower().replace(" ", "_")
    asked = tuple(use for use in datasets if use.name in named)
    metrics = tuple(metric for metric in study.plan.metrics if metric.name in inputs.metrics)
    metrics = metrics or study.plan.metrics[:1]
    known = ("", *(metric.name for metric in metrics))
    hypotheses = tuple(
        one.model_copy(update={"alternatives": tuple(other for other in one.alternatives if other.metric in known)})
        for one in study.plan.hypotheses
    )
    omitted = tuple(
        OmittedPriorWork(name=row.name, reason="it is not part of the study that this model knows")
        for row in inputs.common
    )
    own = [one for one in inputs.studies if one.name == study.name]
    return study.plan.model_copy(
        update={
            "datasets": asked or datasets,
            "metrics": metrics,
            "hypotheses": hypotheses,
            "omitted": omitted,
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


def _answer_findings(inputs: PlanInputs) -> PlanRevision:
    """Answer findings: doubts about scope add a line to `untested`; others get the reason why the plan stays.

    A plan with faults, or one that is too large for the hours, stays: an edit changes nothing.
    """
    assert inputs.before is not None
    scope = any(one.kind == "scope" for one in inputs.findings)
    edit = (
        PlanEdit(action="add", path="untested", value="other data than those of the plan")
        if scope
        else PlanEdit(path="task", value=inputs.before.task)
    )
    return PlanRevision(
        edits=(edit,),
        answers=tuple(
            FindingAnswer(finding=number, changed=True, reason="`untested` says so now.")
            if one.kind == "scope"
            else FindingAnswer(finding=number, changed=False, reason="The study that this model knows is fixed.")
            for number, one in enumerate(inputs.findings, 1)
        ),
    )


def answer_ablation_plan(inputs: AblationPlanInputs) -> AblationPlan:
    """Return the ablations that the risks name, in order, then the study's other parts, up to the maximum."""
    if is_table_study(inputs.data_plan):
        return plan_table_ablations(inputs)
    study = find_study_by_idea(inputs.idea)
    named = [
        [one for one in study.ablations if any(word in risk.lower() for word in one.keywords)]
        for risk in inputs.idea.risks
    ]
    chosen: list[AblationSpec] = []
    risks: list[RiskTested] = []
    for number, specs in enumerate(named, start=1):
        first = next((one for one in specs if one not in chosen), None) or next(iter(specs), None)
        if first is None:
            risks.append(RiskTested(risk=number, reason="no part of the method corresponds to it"))
        elif first in chosen or len(chosen) < inputs.most:
            chosen += [] if first in chosen else [first]
            risks.append(RiskTested(risk=number, by=first.condition))
        else:
            risks.append(RiskTested(risk=number, reason="the other ablations leave no room for it"))
    chosen += [one for one in study.ablations if one not in chosen]
    return AblationPlan(
        ablations=tuple(to_ablation(one, inputs.data_plan) for one in chosen[: inputs.most]), risks=tuple(risks)
    )


def answer_missing_ablations(inputs: MissingAblationsInputs) -> MissingAblationsAnswer:
    """Return the parts that the study's claims credit and that nobody measured; empty if all were."""
    if is_repository_study(inputs):
        return MissingAblationsAnswer(
            why="Arms of a repository are words of its command, and the plan has all of them."
        )
    if is_table_study(inputs.data_plan):
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
