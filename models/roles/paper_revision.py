"""Revise a draft: edits (`reflect`), missing citations (`cite_ask`) and works to cite (`cite_select`)."""

from __future__ import annotations

from pydantic import Field

from labwright.models.roles.paper_writing import ClaimLine, EstimateLine, ExploratoryComparison, Reference, WriteInputs
from labwright.models.roles.role import Role
from labwright.record.schema.figures import FigurePlacement, FigureReview, PaperFigureReview
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.idea import Idea
from labwright.record.schema.paper import CitationSearch, CitationSupport, FoundWork, PaperDraft


class SectionLength(FrozenModel):
    """Estimated length of a part of a draft, scaled to the counted pages."""

    title: str
    words: int
    floats: int
    pages: float


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
    room: int = Field(default=0, description="words that the last pages still have room for")
    over: float = Field(default=0.0, description="pages of main text beyond the limit")
    violations: tuple[str, ...] = Field(default=(), description="violations found by the binder: unbound numbers")
    compile_findings: tuple[str, ...] = ()
    complaints: tuple[str, ...] = Field(default=(), description="improvements requested by the program")
    figure_reviews: tuple[FigureReview, ...] = ()
    paper_figures: tuple[PaperFigureReview, ...] = Field(
        default=(), description="reviews of the figures in the compiled paper; empty if there are none"
    )
    lengths: tuple[SectionLength, ...] = ()
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
    placements: dict[str, FigurePlacement] = Field(
        default_factory=dict[str, FigurePlacement],
        description="figure name -> its new place; moving from the text to the appendix also moves its \\paperfigure",
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
