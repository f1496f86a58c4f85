"""The revision of a paper after its reviews: what reviewers ask for, the addendum that is measured for it, and the
answers.

An addendum is registered before its experiments run, as the data plan was, but after the test data were opened and the
paper was written. Its results are therefore exploratory and never part of the first registration.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.ablation import MissingAblation
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import EstimateRequest

RequestKind = Literal["new control", "other baseline", "more seeds", "clearer text", "other"]
MEASURABLE_KINDS: tuple[RequestKind, ...] = ("new control", "other baseline", "more seeds", "other")
"""Kinds of requests for which an experiment may be registered."""
SeedSet = Literal["registered", "added", "all"]
"""The fresh seeds that an estimate reads: those of the registration, those of the addendum, or both."""


class ReviewFile(FrozenModel):
    """A review as it was given; the run keeps its text."""

    name: str = Field(description="name of the file that was given")
    stored: str = Field(description="path of the text within the run")
    sha256: str = Field(description="sha256 of the text")


class ReviewerRequest(FrozenModel):
    """Something that a review asks for."""

    id: str = Field(description="'R1', 'R2' ...")
    review: int = Field(ge=1, description="number of the review")
    kind: RequestKind
    request: str = Field(description="the request in one sentence")
    quote: str = Field(description="passage of the review, found in it by the program")


class AddendumEstimate(EstimateRequest):
    """An estimate that an addendum registers for a request."""

    request: str = Field(description="id of the request")
    seeds: SeedSet = "registered"


class AddendumItem(MissingAblation):
    """An arm that an addendum adds for a request, or the reason why none is added."""

    request: str = Field(description="id of the request")


class RequestAnswer(FrozenModel):
    """The response to a request, as given to the reviewers."""

    request: str
    answer: str = Field(default="", description="words of the model, without numbers; empty: it gave no usable answer")
    quote: str = Field(default="", description="passage of the new paper that addresses the request; found in it")
    section: str = Field(default="", description="where that passage is")
