"""Roles of ideation: the study as an idea, if a topic names it, and summaries of documents by their sentences.

It has one idea. If asked for more, it repeats itself, and the rules refuse it as they would any model.
"""

from __future__ import annotations

import re

from labwright.models.errors import CatalogueError
from labwright.models.offline.study import OfflineStudy, load_study
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
from labwright.record.ideation import (
    AvailableResources,
    DocumentStatement,
    FollowedStudy,
    IdeaReason,
    RequiredDataset,
    ResourceEstimate,
)
from labwright.record.schema.idea import Idea

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
