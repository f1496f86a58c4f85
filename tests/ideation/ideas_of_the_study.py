"""Answers of the roles of ideation for the study of the offline model, which has none: it has this one idea.

If asked for more, it repeats itself, and the rules refuse it as they would any model. `add_ideas` puts them into place.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from labwright.models.errors import CatalogueError
from labwright.models.offline import researcher
from labwright.models.offline.planning import first_words, split_sentences
from labwright.models.offline.study import load_study
from labwright.models.roles.ideation import (
    ClosestPick,
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
from labwright.record.ideation import IdeaReason, RequiredDataset, ResourceEstimate
from labwright.record.schema.idea import Idea, read_idea

ESTIMATED_EXECUTIONS = 90
"""Number of executions of a study, including replicates, for estimating its hours."""


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
            f"the offline model has no idea for this topic; it knows only: {study}. Configure a model "
            "for any other topic, e.g. --model openai:gpt-5-mini or --model ollama:qwen3"
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
    return IdeaDraft(
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
            quote=first_words(work.abstract),
            difference=f"This idea measures: {draft.experiments[0]}"[:800],
        )
        for number, work in enumerate(inputs.works[:5], 1)
    )
    said = "The closest papers are named below, by their abstracts." if picks else "The searches returned no paper."
    return IdeaReflection(
        thoughts="The offline model keeps the idea as it is.",
        closest=picks,
        idea=draft.model_copy(update={"related_work": said}),
        estimate=inputs.draft.estimate,
        reasons=inputs.draft.reasons,
        done=True,
    )


def answer_idea_match(inputs: IdeaMatchInputs) -> IdeaMatch:
    """Name the newest record of a study with the same name."""
    same = next((one for one in inputs.studies if one.name == inputs.idea.name), None)
    if same is None:
        return IdeaMatch(reason="No record is of the study that this model knows.")
    return IdeaMatch(same=same.id, reason="Both make the comparison of the one study that this model knows.")


def answer_related_work(inputs: RelatedWorkInputs) -> RelatedWork:
    """Summarise each paper by the first sentence of its abstract."""
    first = ([*split_sentences(work.abstract), "The source gave no abstract."][0][:800] for work in inputs.works[:12])
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


def add_ideas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the offline model answer the roles of ideation."""
    for role, answer in {
        "idea": answer_idea,
        "idea_reflect": answer_idea_reflect,
        "idea_match": answer_idea_match,
        "related_work": answer_related_work,
        "proposal": answer_proposal,
        "idea_of": answer_idea_of,
    }.items():
        monkeypatch.setitem(researcher.ANSWER_FUNCTIONS, role, answer)
