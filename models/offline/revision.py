"""Roles `reviewer_requests`, `addendum` and `respond`: requests by their words, controls from the study's own parts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.models.offline.plain_study import is_repository_study
from labwright.models.offline.study import find_study_by_idea
from labwright.models.offline.study_plan import to_ablation
from labwright.models.offline.table_study import is_table_study
from labwright.models.roles.revision import (
    MAX_REQUESTS,
    AddendumInputs,
    AddendumPlan,
    FoundRequest,
    PlannedMeasure,
    RequestOutcome,
    RespondInputs,
    ReviewerRequests,
    ReviewerRequestsInputs,
    WrittenAnswer,
    WrittenAnswers,
)
from labwright.record.schema.paper import EstimateRequest
from labwright.record.schema.revision import RequestKind, ReviewerRequest

USUAL_ADDED_SEEDS = 3
_ASKING = re.compile(
    r"\b(?:please|should|could|would|must|need|needs|missing|lacks?|unclear|only|why|how|ask|asks|want)\b|\?$",
    re.IGNORECASE,
)
_KINDS: tuple[tuple[RequestKind, re.Pattern[str]], ...] = (
    ("more seeds", re.compile(r"\b(?:seeds|repetitions|runs)\b", re.IGNORECASE)),
    ("new control", re.compile(r"\b(?:without|ablat\w+|controls?|alone|remov\w+)\b", re.IGNORECASE)),
    ("other baseline", re.compile(r"\bbaselines?\b|\bcompare\w* (?:with|to|against)\b", re.IGNORECASE)),
    (
        "clearer text",
        re.compile(r"\b(?:unclear|clarif\w+|explain\w*|defin\w+|describe\w*|text|figure)\b", re.IGNORECASE),
    ),
    ("other", re.compile(r"\b(?:data|datasets?|larger|theory|code)\b", re.IGNORECASE)),
)


def answer_reviewer_requests(inputs: ReviewerRequestsInputs) -> ReviewerRequests:
    """Return each sentence that asks for something, by the first kind whose words it has."""
    found = [one for number, review in enumerate(inputs.reviews, 1) for one in _list_requests(number, review)]
    return ReviewerRequests(requests=tuple(found[:MAX_REQUESTS]))


def _list_requests(number: int, review: str) -> Iterator[FoundRequest]:
    for sentence in re.split(r"(?<=[.?!])\s+", " ".join(review.split())):
        kind: RequestKind | None = next((kind for kind, words in _KINDS if words.search(sentence)), None)
        if kind is not None and len(sentence.split()) > 3 and _ASKING.search(sentence):
            quote = " ".join(sentence.split()[:30])
            yield FoundRequest(review=number, kind=kind, request=sentence[:600], quote=quote)


def answer_addendum(inputs: AddendumInputs) -> AddendumPlan:
    """Return an arm for each part of the method that a request names and nobody measured, and seeds where asked for."""
    taken = {one.ablation.name for one in inputs.trials if one.outcome == "measured"}
    measures: list[PlannedMeasure] = []
    for one in inputs.requests:
        if one.kind == "more seeds" and inputs.seeds:
            measures.append(PlannedMeasure(request=one.id, seeds=USUAL_ADDED_SEEDS))
        else:
            found = _plan_arm(inputs, one, taken)
            taken |= {found.ablation.name} if found.ablation is not None else set()
            measures.append(found)
    return AddendumPlan(measures=tuple(measures))


def _plan_arm(inputs: AddendumInputs, one: ReviewerRequest, taken: set[str]) -> PlannedMeasure:
    text = f"{one.request} {one.quote}".lower()
    unknown = is_repository_study(inputs) or is_table_study(inputs.data_plan)
    parts = () if unknown else find_study_by_idea(inputs.idea).ablations
    named = [part for part in parts if part.part.lower() in text or any(word in text for word in part.keywords)]
    new = next((part for part in named if part.condition not in taken), None)
    if new is None:
        known = f"the paper has it as {named[0].condition}" if named else "the offline model knows no such experiment"
        return PlannedMeasure(request=one.id, reason=known)
    level = f"@{inputs.data_plan.levels[-1].name}" if inputs.data_plan.levels else ""
    estimand = f"{new.condition}{level} - method{level}"
    estimate = EstimateRequest(name=new.condition, estimand=estimand, purpose=f"what {new.part} contributes")
    return PlannedMeasure(request=one.id, ablation=to_ablation(new, inputs.data_plan), estimates=(estimate,))


def answer_respond(inputs: RespondInputs) -> WrittenAnswers:
    """Return an answer for each request according to its outcome, with the first sentence of the paper on it."""
    texts = [section.body for section in inputs.draft.sections]
    sentences = [one for text in texts for one in re.split(r"(?<=[.?!])\s+", text)]
    return WrittenAnswers(answers=tuple(_answer_request(one, sentences) for one in inputs.outcomes))


def _answer_request(one: RequestOutcome, sentences: list[str]) -> WrittenAnswer:
    if one.values:
        answer = "Thank you, we measured this and report it, whatever it shows."
        quote = next((text for text in sentences if text.startswith("Reviewers of an earlier version")), "")
    elif one.outcome:
        answer, quote = "We agree that this would be worth knowing, but we did not measure it.", ""
    else:
        answer, quote = "Thank you.", next(_find_shared(one.request, sentences), "")
        answer += " The paper says this in the passage below." if quote else " We changed nothing for it."
    return WrittenAnswer(request=one.request.id, answer=answer, quote=" ".join(quote.split()[:30]))


def _find_shared(request: ReviewerRequest, sentences: list[str]) -> Iterator[str]:
    """Yield sentences with three long words of a request."""
    words = {one for one in re.findall(r"[a-z]+", request.quote.lower()) if len(one) > 5}
    yield from (one for one in sentences if len(words & set(re.findall(r"[a-z]+", one.lower()))) > 2)
