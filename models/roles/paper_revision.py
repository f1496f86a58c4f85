"""Revising a draft: edits (`reflect`), what claims too much (`scope`), what a reader takes from it (`reader`),
works that it needs (`cite_ask`) and works to
cite (`cite_select`)."""

from __future__ import annotations

from pydantic import Field

from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.paper_writing import (
    ClaimLine,
    DecidedHypothesis,
    ExploratoryComparison,
    Reference,
    WriteInputs,
)
from labwright.models.roles.role import Role
from labwright.record.schema.figures import FigurePlacement, FigureReview, PaperFigureReview
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.idea import Idea
from labwright.record.schema.paper import (
    CitationSearch,
    CitationSupport,
    FoundWork,
    PaperDraft,
    PaperReading,
    ScopeFinding,
)


class SectionLength(FrozenModel):
    """How long a part of a draft is, by an estimate that is scaled to the pages that were counted."""

    title: str
    words: int
    floats: int
    pages: float


class ReflectionRound(FrozenModel):
    """An earlier round of reflection, as the next one is told of it."""

    number: int
    outcome: str = Field(description="kept, or taken back and why")
    edits: tuple[str, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="edits that could not be made, and why")


class ReflectInputs(FrozenModel):
    inputs: WriteInputs
    results: tuple[ClaimLine, ...] = Field(default=(), description="of the record's what the draft may need")
    comparisons: tuple[ExploratoryComparison, ...] = Field(default=(), description="likewise")
    draft: PaperDraft
    pages: int | None = Field(default=None, description="pages of main text; None where it did not compile")
    over: float = Field(default=0.0, description="pages of main text beyond the limit")
    violations: tuple[str, ...] = Field(default=(), description="of the binder: what is not tied to the record")
    compile_findings: tuple[str, ...] = ()
    complaints: tuple[str, ...] = Field(default=(), description="what should be better, found by the program")
    figure_reviews: tuple[FigureReview, ...] = ()
    paper_figures: tuple[PaperFigureReview, ...] = Field(
        default=(), description="of figures as they stand in the compiled paper; empty where nobody looked"
    )
    lengths: tuple[SectionLength, ...] = ()
    rewritable: tuple[str, ...] = Field(default=(), description="titles of sections that may be rewritten as a whole")
    tried: tuple[ReflectionRound, ...] = Field(default=(), description="the rounds before this one")
    news: tuple[str, ...] = Field(default=(), description="what was run since the draft was written, and is to be told")
    supports: tuple[CitationSupport, ...] = Field(
        default=(), description="works that were found for sentences of the draft"
    )


class TextEdit(FrozenModel):
    """A passage replaced. `old` must stand exactly once in the part that is named."""

    section: str = Field(description="a section's title, or 'abstract' or 'title'")
    old: str = Field(description="the passage exactly as it stands, long enough to stand there only once")
    new: str = Field(description="what stands there instead; empty takes the passage out")


class SectionEdit(FrozenModel):
    """A whole section anew; only of those that may be rewritten."""

    title: str
    body: str


class Reflection(FrozenModel):
    """Targeted edits, made in this order; `done` with no edits ends the reflection."""

    done: bool
    edits: tuple[TextEdit, ...] = ()
    rewrites: tuple[SectionEdit, ...] = ()
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> its whole new caption")
    placements: dict[str, FigurePlacement] = Field(
        default_factory=dict[str, FigurePlacement],
        description="figure name -> where it is moved; from the text to the appendix its \\paperfigure goes with it",
    )

    @property
    def is_empty(self) -> bool:
        return not (self.edits or self.rewrites or self.captions or self.placements)


REFLECT = Role(
    "reflect", ReflectInputs, Reflection, max_tokens=16_384, prompt_tokens=70_000, typical_tokens=(23_000, 2000)
)


class PrintedText(FrozenModel):
    """A part of a draft as a reader gets it: macros printed."""

    where: str = Field(description="title, abstract, or a section by its title")
    text: str


class ScopeInputs(StudyInputs):
    """For role `scope`, which quotes what claims more than the verdicts."""

    decided: tuple[DecidedHypothesis, ...] = ()
    comparisons: tuple[str, ...] = Field(default=(), description="clauses of exploratory verdicts in these texts")
    texts: tuple[PrintedText, ...]


class ScopeFindings(FrozenModel):
    """Passages that claim more than was decided; none, where the texts keep to it."""

    findings: tuple[ScopeFinding, ...] = ()


SCOPE = Role("scope", ScopeInputs, ScopeFindings, temperature=0.0, prompt_tokens=20_000, typical_tokens=(5000, 400))


class ClaimQuestion(FrozenModel):
    """A claim, as it was before anything was measured."""

    id: str
    statement: str


class ReaderInputs(FrozenModel):
    """For role `reader`, which sees the paper's text and nothing of the record."""

    texts: tuple[PrintedText, ...]
    questions: tuple[ClaimQuestion, ...] = Field(
        description="what to look for: claims that the paper may bear out or not"
    )


READER = Role("reader", ReaderInputs, PaperReading, temperature=0.0, prompt_tokens=15_000, typical_tokens=(4000, 300))


MAX_QUERIES = 8


class CiteAskInputs(FrozenModel):
    idea: Idea
    draft: PaperDraft
    references: tuple[Reference, ...] = Field(description="what may be cited already")
    before: tuple[CitationSearch, ...] = Field(default=(), description="searches of earlier rounds")
    most: int = Field(ge=1, description="searches at most")


class CiteQuery(FrozenModel):
    """A work that is wanted."""

    sentence: str = Field(description="the sentence of the draft that needs support, exactly as it stands there")
    query: str = Field(description="what to search for: a few technical words, or the title of a known work")


class CiteQueries(FrozenModel):
    """What the draft's claims still need; nothing, where nothing is missing."""

    queries: tuple[CiteQuery, ...] = Field(default=(), max_length=MAX_QUERIES)


CITE_ASK = Role("cite_ask", CiteAskInputs, CiteQueries, prompt_tokens=40_000, typical_tokens=(10_000, 500))


class CiteSelectInputs(FrozenModel):
    idea: Idea
    searches: tuple[CitationSearch, ...]
    works: tuple[FoundWork, ...]
    references: tuple[Reference, ...] = Field(description="what may be cited already")


class ChosenWork(FrozenModel):
    """A work that is to be cited."""

    number: int = Field(description="of the work")
    search: int = Field(ge=1, description="number of the search whose sentence it supports")
    reason: str = Field(min_length=1, description="what of its title or abstract supports the sentence")


class CiteSelection(FrozenModel):
    """The works that are worth citing; none, where none fits."""

    chosen: tuple[ChosenWork, ...] = ()


CITE_SELECT = Role(
    "cite_select", CiteSelectInputs, CiteSelection, temperature=0.0, prompt_tokens=60_000, typical_tokens=(8000, 500)
)
