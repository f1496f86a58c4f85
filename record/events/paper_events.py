"""Events of ideation and of the paper: figures, citations, drafts, release and judgement."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from labwright.record.events.event import Event
from labwright.record.ideation import AvailableResources, DocumentDigest, FinalIdea, FollowedStudy, LiteratureSearch
from labwright.record.schema import is_empty
from labwright.record.schema.claims import SentenceReading, SetupReading
from labwright.record.schema.nodes import Failure
from labwright.record.schema.paper import (
    CheckedEntry,
    CitationSearch,
    CitationSupport,
    FigureReview,
    FinalFigure,
    FoundWork,
    Judgement,
    PaperDraft,
    PaperFigureReview,
    PaperFinding,
    RequestAnswer,
    ReviewerRequest,
    ReviewFile,
)
from labwright.record.schema.prior_work import PriorPaper


class ContextRead(Event, type="context_read", latest="paper.context"):
    """The user's documents were read and summarised."""

    documents: tuple[DocumentDigest, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="documents that could not be read, and why, one line each")


class PriorWorkRead(Event, type="prior_work_read", latest="paper.prior_work"):
    """The full texts of the closest papers were read before planning; if none was read, the appendix of the paper
    says so."""

    papers: tuple[PriorPaper, ...] = ()
    queries: tuple[str, ...] = Field(default=(), description="queries sent to the catalogues")
    refused: tuple[str, ...] = ()
    """Papers that could not be retrieved or read, and why, one line each."""

    @property
    def is_unread(self) -> bool:
        """Whether no paper was read."""
        return not self.papers


class IdeationStarted(Event, type="ideating", latest="ideation.started"):
    """Ideation on a topic started; its log does not belong to a run."""

    topic: str
    sha256: str = Field(description="sha256 of the topic file")
    means: AvailableResources
    study: FollowedStudy | None = Field(default=None, exclude_if=is_empty)
    """The study that the ideas follow."""
    rounds: int = Field(description="maximum number of reflections on an idea")
    version: str
    model: str


class LiteratureSearched(Event, type="looked_up", latest="ideation.literature_searches", by="k n"):
    """The n-th query of decision k was made."""

    k: int
    n: int
    search: LiteratureSearch


class IdeaProposed(Event, type="idea_proposed", latest="ideation.proposed_ideas", by="k"):
    """Decision k produced an idea, or none because each draft repeated an earlier idea."""

    k: int
    idea: FinalIdea | None = None
    reason: str = Field(default="", description="reason for having no idea")


class FiguresDrawn(Event, type="figures_made", latest="paper.figures"):
    """The paper's figures were drawn from recorded arrays."""

    version: int = Field(default=1, description="version of the paper for which they were drawn")
    figures: dict[str, str] = Field(description="file in the version's folder of figures -> sha256")
    descriptions: dict[str, str] = Field(description="stem -> description of the figure")
    arrays: tuple[str, ...] = Field(description="sha256 of every array given to the script")
    reviews: tuple[FigureReview, ...] = ()
    looked: bool = True
    failure: Failure | None = None
    """Failures of figures that could not be drawn, one line each."""
    placed: tuple[FinalFigure, ...] = Field(default=(), description="figures of the paper, in order")
    left_out: dict[str, str] = Field(default_factory=dict)
    """Figure name -> reason why it is not in the paper."""


class FiguresReviewed(Event, type="figures_seen", latest="paper.figure_reviews", by="round"):
    """The figures of an assessed draft were reviewed in its PDF, with captions and the text that refers to them.

    An unchanged figure keeps the review of the previous round.
    """

    round: int
    looked: bool = Field(description="whether a model saw the images")
    why: str = Field(default="", description="why the figures were not reviewed")
    reviews: tuple[PaperFigureReview, ...] = ()
    seen: dict[str, str] = Field(default_factory=dict)
    """Figure -> sha256 of image, caption and text at the time of review."""


class ClaimsRead(Event, type="claims_read"):
    """The sentences of a draft were read by models that do not know the record, and compared with it by rule; those on
    the set-up were compared with facts of the record by a model."""

    round: int
    readings: tuple[SentenceReading, ...] = Field(default=(), description="readings of sentences that had none")
    setup: tuple[SetupReading, ...] = Field(default=(), exclude_if=is_empty)
    """The same for sentences on the set-up."""
    unread: int = Field(default=0, description="sentences without a usable reading; they prevent the release")
    violations: tuple[str, ...] = Field(default=(), description="claims that the record does not have, one line each")
    unreported: tuple[str, ...] = Field(default=(), description="outcomes that the text does not report")


class LibraryChecked(Event, type="library_checked", latest="paper.library"):
    """The user's library was checked against its verification records and against catalogues."""

    entries: tuple[CheckedEntry, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="papers of the user's folder that were not found")
    files: dict[str, str] = Field(description="citable entries: file in the run -> sha256")


class WorksFound(Event, type="works_found", listed="paper.works_found"):
    """A citation round: search queries, and the works that catalogues returned."""

    version: int = Field(default=1, description="version of the paper")
    round: int
    searches: tuple[CitationSearch, ...]
    works: tuple[FoundWork, ...] = ()


class WorksChosen(Event, type="works_chosen", listed="paper.works_chosen"):
    """The works of a round that were added to the library, with the sentences that they support."""

    version: int = 1
    round: int
    supports: tuple[CitationSupport, ...] = ()
    refused: dict[str, str] = Field(default_factory=dict, description="title of a chosen work -> why it is not cited")
    files: dict[str, str] = Field(description="verified entries: file in the run -> sha256")


class DraftAssessed(Event, type="drafted", listed="paper.drafts"):
    """A version of the paper's text was assessed: round 0 by the writer, later rounds by the reflector."""

    round: int
    draft: PaperDraft
    violations: tuple[str, ...] = ()
    untied: dict[str, int] = Field(default_factory=dict)
    """Place (such as section 'Results') -> number of violations there."""
    findings: tuple[PaperFinding, ...] = ()
    pages: int | None = None
    filled: float | None = None
    """Pages of main text, with the used part of the last page; None if it did not compile."""
    done: bool = False
    anew: bool = False
    """Whether earlier versions no longer count, because the record changed or overclaims were cut."""
    over: float = Field(default=0.0, description="pages of main text over the limit")
    left_out: tuple[str, ...] = ()
    """Required disclosures that are missing; they prevent the release."""
    complaints: tuple[str, ...] = Field(default=(), description="improvements that do not prevent the release")
    edits: tuple[str, ...] = Field(default=(), description="the reflector's applied edits, shortened")
    refused: tuple[str, ...] = Field(default=(), description="its edits that could not be applied, and why")


class PaperReleased(Event, type="released"):
    """The final build of the paper. `released` is False for a DRAFT that was refused."""

    released: bool
    pdf: str | None
    files: dict[str, str] = Field(default_factory=dict, description="paper file -> sha256")
    companion_files: dict[str, str] = Field(default_factory=dict)
    """Disclosure and other released files: file in the run -> sha256."""
    reasons: tuple[str, ...] = ()
    pages: int | None = None
    round: int | None = Field(default=None, description="round of the printed draft")


class RewriteStarted(Event, type="rewriting"):
    """The paper of a finished run is written again, next to the existing one."""

    version: int
    settings: dict[str, Any] = Field(default_factory=dict, description="overrides for this version, by dotted key")
    model: str = ""
    template: str = ""
    """sha256 of the run's own copy of the paper's template, if another template was given."""
    reviews: tuple[ReviewFile, ...] = Field(default=(), exclude_if=is_empty)
    """Reviews of the released version, which this one answers; empty: the paper is only written again."""


class RequestsRead(Event, type="requests_read", latest="paper.requests"):
    """The reviews of the released version were read: what they ask for."""

    requests: tuple[ReviewerRequest, ...] = ()
    dropped: tuple[str, ...] = ()
    """Requests whose passage is in no review, and other faults of the answer, one line each."""


class ReviewersAnswered(Event, type="reviewers_answered", latest="paper.answered"):
    """The response to the reviewers and the list of changes were written, after the release."""

    answers: tuple[RequestAnswer, ...] = ()
    why: str = Field(default="", description="why the model gave no answers; the response has the facts all the same")
    files: dict[str, str] = Field(default_factory=dict, description="file in the run -> sha256")


class PaperJudged(Event, type="assessed"):
    """The paper was judged after its release, which the judgement does not affect; or `why` says why there is no
    judgement.
    """

    judgement: Judgement | None = None
    why: str = Field(default="", description="reason for having no judgement")
    files: dict[str, str] = Field(default_factory=dict)
    """Report file, relative to the run's folder -> sha256."""
