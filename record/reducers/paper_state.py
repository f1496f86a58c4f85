"""The paper of a study: literature, figures, drafts, their reviews, the release and the judgement."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from labwright.record.events import paper_events
from labwright.record.schema.claims import SentenceReading, SetupReading
from labwright.record.schema.paper import PaperDraft
from labwright.record.schema.revision import ReviewFile


@dataclass(frozen=True)
class CurrentPaper:
    """The current paper of a run: the last released one, otherwise the latest draft, with its judgement."""

    version: int
    released: paper_events.PaperReleased
    judged: paper_events.PaperJudged | None = None


@dataclass
class PaperState:
    """The current version of the paper, and what all versions share."""

    context: paper_events.ContextRead | None = None
    """Statements from the user's own documents; None before they are read, and if none were given."""
    prior_work: paper_events.PriorWorkRead | None = None
    """Content of the closest papers. The appendix says that no prior work was read if this is None or `is_unread`."""
    library: paper_events.LibraryChecked | None = None
    """The citable part of the user's library; None without one."""
    works_found: list[paper_events.WorksFound] = field(default_factory=list[paper_events.WorksFound])
    works_chosen: list[paper_events.WorksChosen] = field(default_factory=list[paper_events.WorksChosen])
    """Works gathered for the draft, over all versions of the paper."""
    figures: paper_events.FiguresDrawn | None = None
    drafts: list[paper_events.DraftAssessed] = field(default_factory=list[paper_events.DraftAssessed])
    figure_reviews: dict[int, paper_events.FiguresReviewed] = field(
        default_factory=dict[int, paper_events.FiguresReviewed]
    )
    claims_read: dict[int, paper_events.ClaimsRead] = field(default_factory=dict[int, paper_events.ClaimsRead])
    """Comparison of a draft's claims with the record, by its round."""
    sentence_readings: dict[str, SentenceReading] = field(default_factory=dict[str, SentenceReading])
    """Readings of sentences by hash, over all versions of the paper."""
    setup_readings: dict[str, SetupReading] = field(default_factory=dict[str, SetupReading])
    """Comparisons of sentences on the set-up with the facts, likewise."""
    released: paper_events.PaperReleased | None = None
    judged: paper_events.PaperJudged | None = None
    """Judgement of the current version."""
    current: CurrentPaper | None = None
    version: int = 1
    """Paper version to which the current drafts, release and judgement belong."""
    template_sha256: str = ""
    """sha256 of the run's copy of the template used for drafts and release."""
    reviews: tuple[ReviewFile, ...] = ()
    """The reviews that the current version answers; empty for another version."""
    requests: paper_events.RequestsRead | None = None
    """What these reviews ask for."""
    reviewed_draft: PaperDraft | None = None
    """The text that was reviewed."""
    answered: paper_events.ReviewersAnswered | None = None
    """The response of the current version to its reviews."""

    def apply(self, event: paper_events.PaperEvent) -> None:
        """Fold one event of the paper into the state, in place."""
        match event:
            case paper_events.ContextRead():
                self.context = event
            case paper_events.PriorWorkRead():
                self.prior_work = event
            case paper_events.FiguresDrawn():
                self.figures = event
            case paper_events.FiguresReviewed():
                self.figure_reviews[event.round] = event
            case paper_events.ClaimsRead():
                self.claims_read[event.round] = event
                self.sentence_readings |= {one.sha256: one for one in event.readings}
                self.setup_readings |= {one.sha256: one for one in event.setup}
            case paper_events.LibraryChecked():
                self.library = event
            case paper_events.WorksFound():
                self.works_found.append(event)
            case paper_events.WorksChosen():
                self.works_chosen.append(event)
            case paper_events.DraftAssessed():
                self.drafts.append(event)
            case paper_events.PaperReleased():
                self.released = event
                if event.released or self.current is None:
                    self.current = CurrentPaper(self.version, event)
            case paper_events.PaperJudged():
                self.judged = event
                if self.current is not None and self.current.released is self.released:
                    self.current = replace(self.current, judged=event)
            case paper_events.RequestsRead():
                self.requests = event
            case paper_events.ReviewersAnswered():
                self.answered = event
            case paper_events.RewriteStarted():
                self.reviews, self.requests, self.answered = event.reviews, None, None
                self.reviewed_draft = self.find_released_draft() if event.reviews else None
                self.version, self.template_sha256 = event.version, event.template or self.template_sha256
                self.drafts, self.figure_reviews, self.claims_read = [], {}, {}
                self.released = self.judged = None
                if self.current is not None and not self.current.released.released:
                    self.current = None

    def find_released_draft(self) -> PaperDraft | None:
        """Return the text that the current version printed at its release, or None before it."""
        printed = self.released.round if self.released is not None else None
        return next((one.draft for one in reversed(self.drafts) if one.round == printed), None)

    def format_task(self, name: str) -> str:
        """Return the name of a paper task for the current version; each version has its own decisions."""
        return name if self.version == 1 else f"{name} v{self.version}"
