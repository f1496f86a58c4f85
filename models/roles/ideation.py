"""Find ideas and write them up.

`idea` drafts, `idea_reflect` compares a draft with search results, `related_work` and `proposal` write the steps
between an idea and a run, `idea_of` extracts an idea from a document, `digest` summarises a document of the user.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labwright.models.roles.role import Role
from labwright.record.ideation import (
    AvailableResources,
    ClosestWork,
    DocumentStatement,
    Feasibility,
    FollowedStudy,
    FoundPaper,
    IdeaReason,
    LiteratureSearch,
    ResourceEstimate,
)
from labwright.record.schema import FrozenModel
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.idea import Idea

MAX_QUERIES = 4
Sentence = Annotated[str, Field(min_length=1, max_length=1500)]
Query = Annotated[str, Field(min_length=3, max_length=200)]


class IdeaText(FrozenModel):
    """An idea in the fields of an idea file."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{2,59}$", description="snake_case, up to 60 characters")
    title: str = Field(min_length=5, max_length=300)
    short_hypothesis: str = Field(min_length=20, max_length=2000, description="one claim that a measurement can refute")
    related_work: str = Field(min_length=1, max_length=4000)
    abstract: str = Field(min_length=50, max_length=5000)
    experiments: tuple[Sentence, ...] = Field(min_length=2, max_length=12)
    risks: tuple[Sentence, ...] = Field(min_length=1, max_length=12)
    datasets: tuple[str, ...] = Field(min_length=1, max_length=12, description="names from the machine's list")
    metric: str = Field(min_length=1, max_length=300, description="the primary metric, and its better direction")

    @property
    def idea(self) -> Idea:
        return Idea.model_validate(self.model_dump())


class IdeaDraft(FrozenModel):
    """A drafted idea, and the queries to make before it is final."""

    idea: IdeaText
    estimate: ResourceEstimate
    queries: tuple[Query, ...] = Field(
        min_length=1,
        max_length=MAX_QUERIES,
        description=("queries for a paper search that would find the closest work; a few keywords each"),
    )
    reasons: tuple[IdeaReason, ...] = Field(
        default=(), max_length=6, description="only if the idea follows a study: the findings that lead to it"
    )


class TopicInputs(FrozenModel):
    """Inputs shared by the roles that write about a topic."""

    topic: str
    context: tuple[str, ...] = Field(default=(), description="lines from the user's documents, with their locations")
    complaints: tuple[str, ...] = Field(default=(), description="faults of the previous answer found by a program")


class IdeationInputs(TopicInputs):
    """Inputs shared by the roles that find an idea."""

    means: AvailableResources
    study: FollowedStudy | None = Field(default=None, description="the study that the idea follows, if any")
    earlier: tuple[Idea, ...] = Field(default=(), description="final ideas, which must not be repeated")
    studies: tuple[EarlierStudy, ...] = Field(default=(), description="records of earlier runs")


class IdeaInputs(IdeationInputs):
    number: int = Field(default=1, ge=1, description="number of this idea of the topic")


class ClosestPick(FrozenModel):
    """A search result that is close to the idea."""

    paper: int = Field(ge=1, description="its number in the list of results")
    quote: str = Field(
        default="",
        max_length=400,
        description=(
            "what the work does, in up to thirty words copied word for word from its abstract; empty if it has no "
            "abstract"
        ),
    )
    difference: str = Field(min_length=1, max_length=800, description="how the idea differs from that")


class IdeaReflectInputs(IdeationInputs):
    draft: IdeaDraft
    fit: Feasibility = Field(description="feasibility of the draft's estimate, computed by a program")
    searches: tuple[LiteratureSearch, ...] = Field(
        min_length=1, description="searches and their results; the works are in `works`"
    )
    works: tuple[FoundPaper, ...] = Field(default=(), description="works found by all searches, each once")
    closest: tuple[ClosestPick, ...] = Field(default=(), description="closest works named in the previous round")
    last: bool = Field(default=False, description="whether this round's answer is final")


class IdeaReflection(FrozenModel):
    """The whole idea after a round of reflection."""

    thoughts: str = Field(min_length=1, max_length=3000, description="weaknesses found, and changes made")
    closest: tuple[ClosestPick, ...] = Field(default=(), max_length=8)
    alike: str = Field(default="", description="the name of an earlier idea that this one repeats in substance")
    idea: IdeaText
    estimate: ResourceEstimate
    queries: tuple[Query, ...] = Field(default=(), max_length=MAX_QUERIES, description="further searches; empty: none")
    reasons: tuple[IdeaReason, ...] = Field(
        default=(), max_length=6, description="only if the idea follows a study: the findings that lead to it"
    )
    done: bool = Field(description="whether another round would change nothing important")


def _check_reasons(inputs: IdeationInputs, answer: IdeaDraft | IdeaReflection) -> None:
    """Check the reasons of a follow-up against the record; another idea has none. Raises `ValueError`."""
    if inputs.study is None:
        if answer.reasons:
            raise ValueError("reasons: leave them out, since the idea follows no study")
    else:
        if not answer.reasons:
            raise ValueError("reasons: name at least one finding of the study that leads to the idea")
        for reason in answer.reasons:
            inputs.study.find_finding(reason)


IDEA = Role("idea", IdeaInputs, IdeaDraft, temperature=1.0, check=_check_reasons)
IDEA_REFLECT = Role("idea_reflect", IdeaReflectInputs, IdeaReflection, temperature=0.7, check=_check_reasons)


class IdeaMatchInputs(FrozenModel):
    idea: Idea
    studies: tuple[EarlierStudy, ...] = Field(min_length=1, description="records of settled studies")


class IdeaMatch(FrozenModel):
    """The settled study that an idea repeats."""

    same: str = Field(default="", description="id of a record; empty: no record settles the question of the idea")
    reason: str = Field(min_length=1, max_length=800)


def _check_match(inputs: IdeaMatchInputs, answer: IdeaMatch) -> None:
    if answer.same and answer.same not in {one.id for one in inputs.studies}:
        raise ValueError(f"same: there is no record {answer.same!r}: give the id of one of the records, or nothing")


IDEA_MATCH = Role("idea_match", IdeaMatchInputs, IdeaMatch, temperature=0.0, check=_check_match)


class RelatedWorkInputs(TopicInputs):
    idea: Idea
    works: tuple[FoundPaper, ...] = ()
    closest: tuple[ClosestWork, ...] = ()
    said: str = Field(description="description of the searches")


class WorkNote(FrozenModel):
    """A short version of a paper's abstract, and its meaning for the idea."""

    paper: int = Field(ge=1, description="its number in the list")
    summary: str = Field(min_length=1, max_length=800, description="from its abstract alone")


class RelatedWork(FrozenModel):
    """A review of the works that were found; it names no other works."""

    notes: tuple[WorkNote, ...] = Field(
        default=(), max_length=20, description="works that matter for the idea, in a sensible order"
    )
    challenges: tuple[Sentence, ...] = Field(min_length=1, max_length=5, description="what makes the question hard")


RELATED_WORK = Role("related_work", RelatedWorkInputs, RelatedWork)


class ProposalInputs(TopicInputs):
    idea: Idea
    means: AvailableResources
    estimate: ResourceEstimate
    fit: Feasibility
    related_work: str = Field(description="the review as written")
    said: str


class Proposal(FrozenModel):
    """A proposal, part by part, in Markdown without headings."""

    introduction: str = Field(min_length=50, max_length=6000)
    method: str = Field(min_length=50, max_length=10_000)
    design: str = Field(min_length=50, max_length=8000, description="arms, data, splits, metrics, seeds, ablations")
    outcomes: str = Field(
        min_length=50, max_length=5000, description="meaning of each outcome, including a null result"
    )


PROPOSAL = Role("proposal", ProposalInputs, Proposal, temperature=0.7)


class IdeaFromTextInputs(FrozenModel):
    text: str
    file: str
    known: Idea | None = Field(default=None, description="the idea in the file next to the text, if any")


class IdeaFromText(FrozenModel):
    """The idea that a document describes; otherwise `idea` is empty and `missing` says why."""

    idea: IdeaText | None = None
    missing: str = Field(default="", max_length=500)


IDEA_OF = Role("idea_of", IdeaFromTextInputs, IdeaFromText, temperature=0.0)


class PageText(FrozenModel):
    """A page of a document, or a part of one without pages."""

    page: int
    text: str


class DigestInputs(FrozenModel):
    file: str
    unit: str
    pages: tuple[PageText, ...]
    total: int = Field(description="number of pages of the whole document")
    unread: int = 0
    complaints: tuple[str, ...] = ()


class DigestAnswer(FrozenModel):
    """Statements of a document that are relevant to research, each with its page."""

    subject: str = Field(min_length=1, max_length=400, description="what the document is about, in one sentence")
    statements: tuple[DocumentStatement, ...] = Field(max_length=20)


DIGEST = Role("digest", DigestInputs, DigestAnswer, temperature=0.3, prompt_tokens=24_000)
