"""Revise a paper after its reviews: what they ask for (`reviewer_requests`), the experiments that are registered for it
(`addendum`), and the response to the reviewers (`respond`).

Passages of reviews and of the paper are copied, and looked up by the program.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from labwright.models.roles.role import Role
from labwright.models.roles.study_plan import MissingAblationsInputs
from labwright.record.ablation import Ablation
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import EstimateRequest, PaperDraft
from labwright.record.schema.revision import RequestKind, ReviewerRequest

MAX_REVIEWS, MAX_REQUESTS = 8, 30
"""Maximum number of reviews of one paper, and of requests in all of them."""
Passage = Annotated[str, Field(max_length=600, description="copied word for word; a program looks it up")]


class ReviewerRequestsInputs(FrozenModel):
    title: str
    abstract: str
    reviews: tuple[str, ...] = Field(max_length=MAX_REVIEWS)
    complaints: tuple[str, ...] = Field(default=(), description="errors in the previous answer")


class FoundRequest(FrozenModel):
    """Something that a review asks for; equal requests of several reviews are one."""

    review: int = Field(ge=1, description="number of the review")
    kind: RequestKind
    request: str = Field(min_length=1, max_length=600, description="the request in one sentence")
    quote: Passage


class ReviewerRequests(FrozenModel):
    """The requests of the reviews, the most important ones first."""

    requests: tuple[FoundRequest, ...] = Field(default=(), max_length=MAX_REQUESTS)


REVIEWER_REQUESTS = Role(
    "reviewer_requests", ReviewerRequestsInputs, ReviewerRequests, temperature=0.0, prompt_tokens=60_000
)


class AddendumInputs(MissingAblationsInputs):
    requests: tuple[ReviewerRequest, ...] = Field(description="requests for which an experiment may be run")
    seeds: int = Field(description="fresh seeds that decided the hypotheses; 0: none were locked, so none can be added")


class PlannedMeasure(FrozenModel):
    """What is measured for a request: an arm, further seeds, an estimate over measured arms, or nothing."""

    request: str = Field(description="id of the request")
    ablation: Ablation | None = Field(default=None, description="an arm to add; null: none")
    seeds: int = Field(default=0, ge=0, description="further fresh seeds of the confirmed program; 0: none")
    estimates: tuple[EstimateRequest, ...] = Field(
        default=(), max_length=3, description="how the results will be read, fixed before anything runs"
    )
    reason: str = Field(default="", description="if nothing is measured: why, in one sentence")


class AddendumPlan(FrozenModel):
    """What is measured for each request, the request that matters most for the claims first."""

    measures: tuple[PlannedMeasure, ...] = Field(max_length=MAX_REQUESTS)


def _check_addendum(inputs: AddendumInputs, answer: AddendumPlan) -> None:
    known = {one.id for one in inputs.requests}
    if strange := [one.request for one in answer.measures if one.request not in known]:
        raise ValueError(f"measures: there is no request {strange[0]!r}, only {', '.join(sorted(known))}")
    for one in answer.measures:
        if not (one.ablation or one.seeds or one.estimates or one.reason.strip()):
            raise ValueError(f"measures: {one.request} has nothing to measure: say in `reason` why")


ADDENDUM = Role("addendum", AddendumInputs, AddendumPlan, prompt_tokens=60_000, check=_check_addendum)


class RequestOutcome(FrozenModel):
    """A request, and what was done for it."""

    request: ReviewerRequest
    outcome: str = Field(description="facts of the record; empty: only the text can address it")
    values: tuple[str, ...] = Field(default=(), description="registered estimates with their values, one line each")


class RespondInputs(FrozenModel):
    draft: PaperDraft = Field(description="the new paper, with the values that its macros print")
    outcomes: tuple[RequestOutcome, ...]
    changes: tuple[str, ...] = Field(default=(), description="changed passages of the text, shortened")


class WrittenAnswer(FrozenModel):
    """The response to one request."""

    request: str = Field(description="id of the request")
    answer: str = Field(min_length=1, max_length=1200, description="one to four sentences, without any number")
    quote: Passage = Field(default="", description="passage of the new paper that addresses it; empty: none does")


class WrittenAnswers(FrozenModel):
    """The responses, each request exactly once."""

    answers: tuple[WrittenAnswer, ...]


def _check_answers(inputs: RespondInputs, answer: WrittenAnswers) -> None:
    given, known = [one.request for one in answer.answers], [one.request.id for one in inputs.outcomes]
    if sorted(given) != sorted(known):
        raise ValueError(f"answers: give each of {', '.join(known)} exactly once")
    names = re.compile("|".join(sorted(map(re.escape, known), key=len, reverse=True)) or r"(?!)")
    if typed := [one.request for one in answer.answers if re.search(r"\d", names.sub("", one.answer))]:
        raise ValueError(f"answers: {typed[0]} has a number: leave it out, the program prints the values below it")


RESPOND = Role("respond", RespondInputs, WrittenAnswers, prompt_tokens=60_000, check=_check_answers)
