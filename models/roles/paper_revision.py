"""Revise a draft: edits (`reflect`), missing citations (`cite_ask`) and works to cite (`cite_select`)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from labwright.models.roles.paper_writing import ClaimLine, EstimateLine, ExploratoryComparison, Reference, WriteInputs
from labwright.models.roles.role import Role
from labwright.models.roles.study_plan import MissingAblationsInputs
from labwright.record.baseline_check import Ablation
from labwright.record.schema import FrozenModel
from labwright.record.schema.idea import Idea
from labwright.record.schema.paper import (
    CitationSearch,
    CitationSupport,
    EstimateRequest,
    FigureReview,
    FoundWork,
    PaperDraft,
    PaperFigureReview,
    RequestKind,
    ReviewerRequest,
)


class ReflectionRound(FrozenModel):
    """An earlier round of reflection, as shown to the next one."""

    number: int
    outcome: str = Field(description="whether the edit was kept, or why it was undone")
    edits: tuple[str, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="edits that could not be applied, and why")


class ReflectInputs(FrozenModel):
    inputs: WriteInputs
    results: tuple[ClaimLine, ...] = Field(default=(), description="results of the record that the draft may need")
    comparisons: tuple[ExploratoryComparison, ...] = Field(default=(), description="likewise")
    estimates: tuple[EstimateLine, ...] = Field(default=(), description="likewise")
    draft: PaperDraft
    pages: float | None = Field(default=None, description="filled pages of main text; None if it did not compile")
    excess_lines: int = Field(default=0, description="lines of main text over the page limit")
    room: int = Field(default=0, description="words that the last pages still have room for")
    violations: tuple[str, ...] = Field(default=(), description="violations found by the binder: unbound numbers")
    compile_findings: tuple[str, ...] = ()
    complaints: tuple[str, ...] = Field(default=(), description="improvements requested by the program")
    figure_reviews: tuple[FigureReview, ...] = ()
    paper_figures: tuple[PaperFigureReview, ...] = Field(
        default=(), description="reviews of the figures in the compiled paper; empty if there are none"
    )
    lengths: dict[str, int] = Field(default={}, description="words of the abstract and of each section")
    rewritable: tuple[str, ...] = Field(default=(), description="titles of sections that may be rewritten as a whole")
    tried: tuple[ReflectionRound, ...] = Field(default=(), description="earlier rounds")
    news: tuple[str, ...] = Field(default=(), description="experiments run since the draft was written, to be reported")
    supports: tuple[CitationSupport, ...] = Field(default=(), description="works found for sentences of the draft")


class TextEdit(FrozenModel):
    """A replacement of a passage. `old` must occur exactly once in the named part."""

    section: str = Field(description="a section's title, 'abstract', 'title', or the place that a violation names")
    old: str = Field(description="the passage exactly as written, long enough to occur there only once")
    new: str = Field(description="its replacement; empty deletes the passage")


class SectionEdit(FrozenModel):
    """A rewritten section; only for sections that may be rewritten."""

    title: str
    body: str


class Reflection(FrozenModel):
    """Targeted edits, applied in order; `done` with no edits ends the reflection."""

    done: bool
    edits: tuple[TextEdit, ...] = ()
    rewrites: tuple[SectionEdit, ...] = ()
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> its whole new caption")
    placements: dict[str, Literal["appendix"]] = Field(
        default_factory=dict[str, Literal["appendix"]],
        description="figure name -> 'appendix', if it leaves the text; the program removes its \\paperfigure",
    )

    @property
    def is_empty(self) -> bool:
        return not (self.edits or self.rewrites or self.captions or self.placements)


REFLECT = Role(
    "reflect", ReflectInputs, Reflection, max_tokens=16_384, prompt_tokens=70_000, typical_tokens=(23_000, 2000)
)


MAX_QUERIES = 8


class CiteAskInputs(FrozenModel):
    idea: Idea
    draft: PaperDraft
    references: tuple[Reference, ...] = Field(description="works that may already be cited")
    before: tuple[CitationSearch, ...] = Field(default=(), description="searches of earlier rounds")
    most: int = Field(ge=1, description="maximum number of searches")


class CiteQuery(FrozenModel):
    """A search for a work that the draft needs."""

    sentence: str = Field(description="the sentence of the draft that needs support, exactly as written")
    query: str = Field(description="the search terms: a few technical words, or the title of a known work")


class CiteQueries(FrozenModel):
    """Works that the draft's claims still need; empty if none is missing."""

    queries: tuple[CiteQuery, ...] = Field(default=(), max_length=MAX_QUERIES)


CITE_ASK = Role("cite_ask", CiteAskInputs, CiteQueries, prompt_tokens=40_000, typical_tokens=(10_000, 500))


class CiteSelectInputs(FrozenModel):
    idea: Idea
    searches: tuple[CitationSearch, ...]
    works: tuple[FoundWork, ...]
    references: tuple[Reference, ...] = Field(description="works that may already be cited")


class ChosenWork(FrozenModel):
    """A work to cite."""

    number: int = Field(description="number of the work")
    search: int = Field(ge=1, description="number of the search whose sentence it supports")
    reason: str = Field(min_length=1, description="part of its title or abstract that supports the sentence")


class CiteSelection(FrozenModel):
    """The works worth citing; empty if none fits."""

    chosen: tuple[ChosenWork, ...] = ()


CITE_SELECT = Role(
    "cite_select", CiteSelectInputs, CiteSelection, temperature=0.0, prompt_tokens=60_000, typical_tokens=(8000, 500)
)


# Copy-edit the final text of a paper (`copy_edit`): grammar, flow and length, and nothing else.


class SourceText(FrozenModel):
    """A part of a draft as LaTeX."""

    where: str = Field(description="abstract, a section's title, or `caption of` a figure")
    text: str


class CopyEditInputs(FrozenModel):
    """The text of a paper. The copy editor sees nothing from the record."""

    title: str
    texts: tuple[SourceText, ...]


class CopyEdits(FrozenModel):
    """Replacements of passages, applied in order; empty if the text needs none."""

    edits: tuple[TextEdit, ...] = ()


COPY_EDIT = Role(
    "copy_edit", CopyEditInputs, CopyEdits, temperature=0.2, prompt_tokens=20_000, typical_tokens=(5500, 1500)
)


# Revise a paper after its reviews: what they ask for (`reviewer_requests`), the experiments that are registered for
# it (`addendum`), and the response to the reviewers (`respond`). Passages of reviews and of the paper are copied, and
# looked up by the program.

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
    room: str = Field(default="", description="what an arm or a seed takes, and what is left")


class PlannedMeasure(FrozenModel):
    """What is measured for a request: an arm, further seeds, an estimate over measured arms, or nothing."""

    request: str = Field(description="id of the request")
    ablation: Ablation | None = Field(default=None, description="an arm to add; null: none")
    experiment: str = Field(
        default="", description="the experiment of the idea that the arm runs, copied word for word; empty: none"
    )
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
