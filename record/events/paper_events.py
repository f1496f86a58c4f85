"""Ideation; and the paper: its figures, its citations, its drafts, its release and what a judge said."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from labwright.record.events.run_events import LOG_FORMAT_VERSION
from labwright.record.ideation import AvailableResources, DocumentDigest, FinalIdea, LiteratureSearch
from labwright.record.schema.figures import FigureReview, FinalFigure, PaperFigureReview
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import Failure
from labwright.record.schema.paper import (
    CheckedEntry,
    CitationSearch,
    CitationSupport,
    FoundWork,
    Judgement,
    PaperDraft,
    PaperFinding,
    PaperReading,
    ScopeFinding,
)
from labwright.record.schema.prior_work import PriorPaper


class ContextRead(FrozenModel):
    """The documents that the person gave were read and summarised."""

    type: Literal["context_read"] = "context_read"
    documents: tuple[DocumentDigest, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="what could not be read, and why, one line each")


class PriorWorkRead(FrozenModel):
    """The full texts of the closest papers were read, before the plan; without any, page one says so."""

    type: Literal["prior_work_read"] = "prior_work_read"
    papers: tuple[PriorPaper, ...] = ()
    queries: tuple[str, ...] = Field(default=(), description="what catalogues were asked for")
    refused: tuple[str, ...] = Field(default=(), description="what was not reached or read, and why, one line each")

    @property
    def is_unread(self) -> bool:
        """Whether no paper was read."""
        return not self.papers


class IdeationStarted(FrozenModel):
    """Ideation on a topic began; its log is no run's."""

    type: Literal["ideating"] = "ideating"
    format: int = LOG_FORMAT_VERSION
    topic: str
    sha256: str = Field(description="of the topic's file")
    means: AvailableResources
    rounds: int = Field(description="reflections on an idea at most")
    version: str
    model: str


class LiteratureSearched(FrozenModel):
    """The n-th query of decision k was made."""

    type: Literal["looked_up"] = "looked_up"
    k: int
    n: int
    search: LiteratureSearch


class IdeaProposed(FrozenModel):
    """Decision k came to an idea, or to none since each draft repeated an earlier one."""

    type: Literal["idea_proposed"] = "idea_proposed"
    k: int
    idea: FinalIdea | None = None
    reason: str = Field(default="", description="why there is none")


IdeaEvent = ContextRead | PriorWorkRead | IdeationStarted | LiteratureSearched | IdeaProposed


class FiguresDrawn(FrozenModel):
    """The paper's figures were drawn from recorded arrays."""

    type: Literal["figures_made"] = "figures_made"
    figures: dict[str, str] = Field(description="file under paper/figures -> sha256")
    descriptions: dict[str, str] = Field(description="stem -> what it shows")
    arrays: tuple[str, ...] = Field(description="sha256 of every array that the script was given")
    reviews: tuple[FigureReview, ...] = ()
    looked: bool = True
    failure: Failure | None = Field(default=None, description="of the figures that could not be drawn, a line each")
    placed: tuple[FinalFigure, ...] = Field(default=(), description="in order")
    left_out: dict[str, str] = Field(default_factory=dict, description="name of a figure -> why the paper has it not")


class FiguresReviewed(FrozenModel):
    """The figures of an assessed draft were looked at in its PDF, with captions and the text that refers to them.

    A figure without changes keeps the review of the round before.
    """

    type: Literal["figures_seen"] = "figures_seen"
    round: int
    looked: bool = Field(description="whether a model saw the pictures")
    why: str = Field(default="", description="why nobody looked")
    reviews: tuple[PaperFigureReview, ...] = ()
    seen: dict[str, str] = Field(
        default_factory=dict, description="figure -> sha256 over picture, caption and text, as it was reviewed"
    )


class ScopeChecked(FrozenModel):
    """The texts of a draft were held against the scope of the verdicts, and read by one who sees nothing else."""

    type: Literal["scoped"] = "scoped"
    round: int
    findings: tuple[ScopeFinding, ...] = Field(default=(), description="those whose quotes stand there")
    why: str = Field(default="", description="why nobody looked")
    reading: PaperReading | None = Field(default=None, description="what a reader of the text alone takes from it")


class LibraryChecked(FrozenModel):
    """The library that the run was given was held against its records of verification, and against catalogues."""

    type: Literal["library_checked"] = "library_checked"
    entries: tuple[CheckedEntry, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="papers of the user's folder that are not found")
    files: dict[str, str] = Field(description="what may be cited of it: file in the run -> sha256")


class WorksFound(FrozenModel):
    """A round of gathering citations: what was searched for, and what catalogues gave."""

    type: Literal["works_found"] = "works_found"
    version: int = Field(default=1, description="the writing of the paper that it is for")
    round: int
    searches: tuple[CitationSearch, ...]
    works: tuple[FoundWork, ...] = ()


class WorksChosen(FrozenModel):
    """Of the works of a round, those that joined the library, with the sentences that they are to support."""

    type: Literal["works_chosen"] = "works_chosen"
    version: int = 1
    round: int
    supports: tuple[CitationSupport, ...] = ()
    refused: dict[str, str] = Field(default_factory=dict, description="title of a chosen work -> why it is not cited")
    files: dict[str, str] = Field(description="the verified entries: file in the run -> sha256")


class DraftAssessed(FrozenModel):
    """A version of the paper's text: round 0 by the writer, then by the reflector."""

    type: Literal["drafted"] = "drafted"
    round: int
    draft: PaperDraft
    violations: tuple[str, ...] = ()
    untied: dict[str, int] = Field(default_factory=dict, description="place (section 'Results') -> violations there")
    findings: tuple[PaperFinding, ...] = ()
    pages: int | None = None
    done: bool = False
    anew: bool = Field(
        default=False,
        description="assessed again, since the record has changed: the versions before it no longer count",
    )
    over: float = Field(default=0.0, description="pages of main text beyond the limit")
    left_out: tuple[str, ...] = Field(default=(), description="what it owes a reader and does not say: not released")
    complaints: tuple[str, ...] = Field(default=(), description="what should be better, and does not hold up a release")
    edits: tuple[str, ...] = Field(default=(), description="a reflector's edits that were made, shortened")
    refused: tuple[str, ...] = Field(default=(), description="its edits that could not be made, and why")


class PaperReleased(FrozenModel):
    """The paper was built for the last time. `released` is False for a DRAFT that the binder refused."""

    type: Literal["released"] = "released"
    released: bool
    pdf: str | None
    files: dict[str, str] = Field(default_factory=dict, description="paper file -> sha256")
    companion_files: dict[str, str] = Field(
        default_factory=dict, description="the disclosure and what else is released with it: file in the run -> sha256"
    )
    reasons: tuple[str, ...] = ()
    pages: int | None = None
    round: int | None = Field(default=None, description="of the draft that it prints")


class RewriteStarted(FrozenModel):
    """The paper of a finished run is written again, beside the one that is there."""

    type: Literal["rewriting"] = "rewriting"
    version: int
    settings: dict[str, Any] = Field(default_factory=dict, description="overrides given with it, by dotted key")
    model: str = ""
    template: str = Field(
        default="", description="sha256 of the run's own copy of the paper's template, where another was named"
    )


class PaperJudged(FrozenModel):
    """The paper was judged, after its release and without bearing on it; or why there is no judgement."""

    type: Literal["assessed"] = "assessed"
    judgement: Judgement | None = None
    why: str = Field(default="", description="why there is no judgement")
    files: dict[str, str] = Field(default_factory=dict, description="report, relative to the run's folder -> sha256")


PaperEvent = (
    FiguresDrawn
    | FiguresReviewed
    | ScopeChecked
    | LibraryChecked
    | WorksFound
    | WorksChosen
    | DraftAssessed
    | PaperReleased
    | RewriteStarted
    | PaperJudged
)
