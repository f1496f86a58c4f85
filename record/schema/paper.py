"""The paper: its submitted text, the works that it cites, and its judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Literal, Self

from pydantic import Field

from labwright.record.baseline_check import MissingAblation
from labwright.record.schema import FrozenModel, is_empty

# Figures: facts from their live matplotlib objects, their reviews, and their places in the paper.


class DrawnFacts(FrozenModel):
    """One object drawn from data: its kind, appearance and values."""

    kind: str
    """Line, scatter, bar, barh, image (one number per cell), picture, contour, area, box or patch."""
    label: str = Field(default="", description="label in a legend")
    points: int = 0
    finite: bool = Field(default=True, description="whether a value is finite")
    low: float | None = Field(default=None, description="minimum of the finite heights, or cells of an image")
    high: float | None = None
    mean: float | None = None
    first: float | None = None
    last: float | None = None
    constant: bool = Field(default=False, description="three or more finite values, all equal")
    interval: bool = Field(default=False, description="error bars, or a band in the same colour")
    colour: str = Field(default="", description="#rrggbb; empty: several")
    line: str = ""
    marker: str = ""
    hatch: str = ""


class AxesFacts(FrozenModel):
    """Facts about one live matplotlib axes."""

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    series: int = Field(default=0, description="lines, bar groups, scatters and images with data")
    labelled_series: int = 0
    legend: bool = False
    empty: bool = Field(default=False, description="no artist has a finite data point")
    visible: bool = True
    drawn: tuple[DrawnFacts, ...] = Field(default=(), description="the first 40")
    legend_entries: tuple[str, ...] = ()
    tick_words: tuple[str, ...] = Field(default=(), description="tick labels that are not numbers")
    notes: tuple[str, ...] = Field(default=(), description="labels within the axes, the first 40")
    note_count: int = Field(default=0, description="always the default; earlier disclosures quote it")
    xticks: int | None = Field(default=None, description="number of drawn tick labels; None: unknown")
    yticks: int | None = None
    xwords: bool = Field(default=False, description="whether all tick labels are words")
    ywords: bool = False
    xscale: str = "linear"
    yscale: str = "linear"
    xlimits: tuple[float, float] | None = None
    ylimits: tuple[float, float] | None = Field(
        default=None, description="always the default; earlier disclosures quote it"
    )
    spread: bool = Field(default=False, description="always the default; earlier disclosures quote it")
    zlabel: str | None = Field(default=None, description="None: there is no third axis")
    colourbar: bool = Field(default=False, description="always the default; earlier disclosures quote it")
    covered: float = Field(default=0.0, description="always the default; earlier disclosures quote it")


class OverlapFacts(FrozenModel):
    """Two overlapping labels; `b` may be 'the legend' or 'another panel'."""

    a: str
    b: str
    share: float = Field(description="share of the smaller text's box")


class FigureFacts(FrozenModel):
    """Facts about a live matplotlib figure when it was saved."""

    axes: tuple[AxesFacts, ...] = ()
    width_inches: float = Field(default=0.0, description="width of the file; 0: not saved by matplotlib")
    height_inches: float = 0.0
    dpi: float = Field(default=0.0, description="always the default; earlier disclosures quote it")
    words: tuple[str, ...] = Field(default=(), description="labels outside the axes: title, notes, legend")
    scales: tuple[str, ...] = Field(default=(), description="labels of its colour bars")
    clipped: tuple[str, ...] = Field(default=(), description="labels that extend beyond the canvas")
    overlaps: tuple[OverlapFacts, ...] = Field(default=(), description="the worst first")
    smallest_font: float | None = Field(default=None, description="points, at the figure's own size")
    smallest_text: str = ""
    cut: bool = Field(default=False, description="always the default; earlier disclosures quote it")
    error: str = Field(default="", description="why the figure could not be examined, or not completely")


class Figure(FrozenModel):
    """A figure saved by a plotting script, with the facts of its live matplotlib object."""

    name: str = Field(description="file name under figures/, e.g. 'loss.png'")
    sha256: str
    facts: FigureFacts


class FigureReview(FrozenModel):
    """The verdict on one figure; unreadable or unfaithful figures do not count."""

    name: str
    readable: bool = Field(description="whether a reader can use it unchanged; recorded as false if it is not faithful")
    faithful: bool = Field(default=True, description="whether the drawing agrees with the data summary")
    informative: bool = Field(default=True, description="whether it shows what text, tables and other figures do not")
    issues: tuple[str, ...] = ()
    description: str = ""


FigurePlacement = Literal["main", "appendix"]


class FinalFigure(FrozenModel):
    """A figure of the paper, drawn from recorded arrays."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="file stem under figures/; saved as .pdf and .png")
    description: str = Field(description="what it shows, without numbers")
    placement: FigurePlacement = Field(default="main", description="main text, or appendix")
    panels: int = Field(default=1, ge=1, le=3, description="panels side by side")
    datasets: tuple[str, ...] = Field(default=(), description="names of the datasets shown")
    width: float = Field(default=0.0, description="width in inches as drawn; 0: unknown")


class FigureAspectReview(FrozenModel):
    """A reviewer's verdict on one aspect of a figure."""

    ok: bool
    issues: tuple[str, ...] = ()


class PaperFigureReview(FrozenModel):
    """The verdict on a figure in the compiled paper, with its caption and the text that refers to it."""

    name: str
    image: FigureAspectReview
    caption: FigureAspectReview
    references: FigureAspectReview = Field(description="the paragraphs that refer to it")
    duplicates: tuple[str, ...] = Field(default=(), description="other figures of the paper that show the same")
    advice: Literal["keep", "appendix", "drop"] = Field(
        default="keep", description="keep, move to the appendix, or drop"
    )
    reason: str = Field(default="", description="reason for any advice other than keep")


class Section(FrozenModel):
    """One section of a paper: a title and a LaTeX body in which every number is a macro."""

    title: str
    body: str


class EstimateRequest(FrozenModel):
    """An estimate that the argument of a paper needs and that no hypothesis registered."""

    name: str = Field(description="short identifier: 'cost-of-noise'")
    estimand: str = Field(description="an expression over measured cells, as in the hypotheses of the data plan")
    metric: str = Field(default="", description="metric of the plan; empty: the primary metric")
    purpose: str = Field(default="", description="one phrase: what a reader learns from it")


class EditableText(FrozenModel):
    """The part of a draft that a person may edit."""

    title: str
    abstract: str
    sections: tuple[Section, ...] = Field(min_length=1)
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")

    @property
    def parts(self) -> dict[str, str]:
        """All texts, by the names that violations and edits give them."""
        parts = {"title": self.title, "abstract": self.abstract}
        for one in self.sections:
            parts |= {f"title of section {one.title!r}": one.title, f"section {one.title!r}": one.body}
        return parts | {f"caption of {name}": text for name, text in sorted(self.captions.items())}

    def with_parts(self, parts: Mapping[str, str]) -> Self:
        """Return the text with these parts, which may have further captions."""
        captions = {
            name.removeprefix("caption of "): text for name, text in parts.items() if name[:11] == "caption of "
        }
        sections = tuple(
            Section(title=parts[f"title of section {one.title!r}"], body=parts[f"section {one.title!r}"])
            for one in self.sections
        )
        return self.model_copy(
            update={"title": parts["title"], "abstract": parts["abstract"], "sections": sections, "captions": captions}
        )


class PaperDraft(EditableText):
    r"""A draft submitted by a writer. Values are `\\result{key}` or `\\setup{key}`; floats are
    `\\paperfigure{name}`."""

    placements: dict[str, FigurePlacement] = Field(
        default_factory=dict[str, FigurePlacement], description="only in old records"
    )
    estimates: tuple[EstimateRequest, ...] = Field(
        default=(), exclude_if=is_empty, description="estimates that it may print"
    )
    separating: tuple[str, ...] = Field(
        default=(), exclude_if=is_empty, description="keys of estimates planned to separate explanations"
    )

    @property
    def texts(self) -> tuple[str, ...]:
        """Title, abstract and section bodies of the draft."""
        sections = (text for one in self.sections for text in (one.title, one.body))
        return (self.title, self.abstract, *self.captions.values(), *sections)


class PaperFinding(FrozenModel):
    """A problem in the layout of a paper version."""

    text: str = Field(description="one line that a writer can act on")
    blocks: bool = False
    """Whether it prevents the release; otherwise it is only a minor flaw."""
    by_edit: bool = True
    """Whether editing the draft can fix it; false in the appendix and in figures."""

    def __str__(self) -> str:
        return self.text


class PublishedWork(FrozenModel):
    """A work in one catalogue, with all versions listed there."""

    source: str = Field(description="name of the catalogue")
    id: str = Field(description="id in the catalogue")
    title: str
    subtitle: str = ""
    authors: tuple[str, ...] = Field(default=(), description="in order, as `Family, Given` or as displayed")
    cut: bool = Field(default=False, description="whether the catalogue lists only the first authors")
    years: tuple[int, ...] = ()
    """Years of all versions that the catalogue lists, the published version first."""
    venue: str = ""
    dois: tuple[str, ...] = ()
    """In lower case, without URL prefix; that of the published version first."""
    arxiv: str = Field(default="", description="identifier without version")
    abstract: str = ""
    retracted: bool = False

    @property
    def identifiers(self) -> frozenset[str]:
        """Its DOIs and its arXiv identifier."""
        return frozenset((*self.dois, self.arxiv)) - {""}

    @property
    def identifier(self) -> str:
        """The preferred identifier: DOI, arXiv identifier, or the catalogue's own."""
        if self.dois:
            return f"doi:{self.dois[0]}"
        return f"arXiv:{self.arxiv}" if self.arxiv else f"{self.source}:{self.id}"


class FoundWork(PublishedWork):
    """A work that a catalogue returned for a search."""

    number: int = Field(ge=1, description="its number in the round, as used in prompts")


class CitationSearch(FrozenModel):
    """A sentence of the draft that needs a citation, and the query for it."""

    sentence: str
    query: str
    found: tuple[int, ...] = Field(default=(), description="numbers of works, the best first")
    outages: tuple[str, ...] = Field(default=(), description="catalogues that did not answer, and why")


class CitationSupport(FrozenModel):
    """A verified work that is cited to support a sentence of the draft."""

    key: str = Field(description="key of its entry in the run's library")
    sentence: str
    reason: str


class CheckedEntry(FrozenModel):
    """An entry of the user's library, and the result of checking it."""

    key: str
    outcome: Literal["verified", "refused", "unverified"]
    why: str = Field(default="", description="reason, if it may not be cited")


RemovedKind = Literal["hidden", "comment", "instruction", "encoded"]
LATE_ROLES = ("respond", "influence", "judge")
"""Roles of the steps after the release; their cost is not in the paper."""


class RemovedPassage(FrozenModel):
    """A passage that the guards removed before judging. `text` is for human readers, at most 2,000 characters."""

    kind: RemovedKind
    where: str
    text: str
    characters: int
    by: Literal["pattern", "reader"] = "pattern"
    """Reader: a model that searched for such passages."""


class AuditFacts(FrozenModel):
    """Objective findings of a program about a paper; shown next to the scores and to the judge."""

    against: str
    """The basis of comparison: the paper's record, its result files, or the paper itself."""
    numbers: int = Field(default=0, description="number of checked numbers of the paper")
    counts: tuple[tuple[str, int], ...] = Field(default=(), description="(what was counted, how many)")
    findings: tuple[str, ...] = Field(default=(), description="contradictions and missing results, one line each")
    more: int = Field(default=0, description="number of further findings that are not listed")
    left_out: tuple[str, ...] = Field(default=(), description="parts that the audit did not read")


class DimensionScore(FrozenModel):
    """The score on one dimension of a rubric, between `lowest` and `highest`."""

    dimension: str
    score: int
    lowest: int
    highest: int
    reason: str
    quote: str = Field(description="passage that the judge gave as evidence")
    quoted: bool = Field(description="whether that passage occurs in the paper")


class CheckResult(FrozenModel):
    """The answer to a yes-or-no question."""

    check: str
    answer: bool
    details: str
    quote: str = ""
    quoted: bool = Field(default=False, description="whether the passage occurs in the paper")


ResultsOriginAnswer = Literal["measured", "invented", "cannot tell"]
JudgeView = Literal["all", "paper"]


class TextOnlyScore(FrozenModel):
    """A judge's score for the text alone, independent of other material; on the scale of `overall`."""

    score: int
    lowest: int
    highest: int
    reason: str


class ResultsOrigin(FrozenModel):
    """A judge's answer about the origin of the results."""

    answer: ResultsOriginAnswer
    details: str
    quote: str = ""
    quoted: bool = Field(default=False, description="whether the passage occurs in the judge's material")
    where: str = ""
    """Part of the material that contains it: paper, code, log, task, audit or record."""


class Judgement(FrozenModel):
    """The judgement of a paper by a rubric. The judge gave every score; the program filled in none."""

    paper: str = Field(description="judged file; in a run, relative to the run's folder")
    paper_sha256: str
    rubric: str
    rubric_sha256: str
    model: str
    heuristic: bool = Field(default=False, description="computed from the record without reading the paper")
    scores: tuple[DimensionScore, ...] = Field(min_length=1)
    text_alone: TextOnlyScore | None = Field(default=None, description="None: not part of the rubric")
    results: ResultsOrigin | None = Field(default=None, description="None: not part of the rubric")
    confidence: int
    most_confidence: int
    view: JudgeView = "all"
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    left_out: tuple[str, ...] = Field(default=(), description="parts of the paper that the judge was not shown")
    checks: tuple[CheckResult, ...] = ()
    removed: tuple[RemovedPassage, ...] = ()
    coverage: str = Field(default="", description="how much of the paper was shown, read in parts, or neither")
    pages: tuple[int, ...] = Field(default=(), description="pages shown as images")
    exhibits: tuple[str, ...] = Field(default=(), description="additional material for the judge")
    audit: AuditFacts | None = Field(default=None, description="findings of the audit program; None: no audit")
    warnings: tuple[str, ...] = ()

    @property
    def score_line(self) -> str:
        """The scores in one line; a heuristic is labelled as such."""
        line = ", ".join(f"{one.dimension} {one.score}/{one.highest}" for one in self.scores)
        if self.text_alone is not None:
            line += f"; text alone {self.text_alone.score}/{self.text_alone.highest}"
        line += f"; results: {self.results.answer}" if self.results is not None else ""
        line += f"; confidence {self.confidence}/{self.most_confidence}"
        line += "".join(f"; {one.check}: {'yes' if one.answer else 'no'}" for one in self.checks)
        if unquoted := sum(not one.quoted for one in self.scores):
            line += f"; {unquoted} of {len(self.scores)} quotes not in the paper"
        return f"{line} (a heuristic over the record, no reading of the paper)" if self.heuristic else line


# --- several judges -------------------------------------------------------------------------------------------------

MIN_DISAGREEMENT_RANGE = 3
"""Minimum range of scores, on a scale of ten, for a dimension to count as disputed."""


class MissingJudgement(FrozenModel):
    """A judgement that was requested but not received. Nothing replaces it."""

    model: str
    repeat: int = Field(ge=1, description="number of the repeat")
    why: str


class ScoreSpread(FrozenModel):
    """A panel's scores on one dimension, without heuristics. `sd` uses n - 1; None for one score."""

    dimension: str
    lowest: int
    highest: int
    scores: tuple[int, ...] = Field(min_length=1)
    n: int
    mean: float
    sd: float | None
    range: int
    disagree: bool = Field(description="range of at least `MIN_DISAGREEMENT_RANGE` points, scaled for other scales")


class JudgePanel(FrozenModel):
    """Judgements of a paper by several judges, or repeated ones by one judge, with the same rubric."""

    paper: str
    rubric: str
    asked: int = Field(description="number of requested judgements")
    judgements: tuple[Judgement, ...] = ()
    missing: tuple[MissingJudgement, ...] = ()
    dimensions: tuple[ScoreSpread, ...] = Field(default=(), description="over the received judgements")
    audit: AuditFacts | None = None
    warnings: tuple[str, ...] = ()


TEXT_ONLY_DIMENSION = "text alone"


def _list_scores(judgement: Judgement) -> tuple[DimensionScore, ...]:
    """Return the scores of a judgement, including the text-only score."""
    one = judgement.text_alone
    if one is None:
        return judgement.scores
    alone = DimensionScore(dimension=TEXT_ONLY_DIMENSION, quote="", quoted=False, **one.model_dump())
    return (*judgement.scores, alone)


def compute_spreads(judgements: Sequence[Judgement]) -> tuple[ScoreSpread, ...]:
    """Return the spread of each dimension over judgements with one rubric, the text-only score last."""
    given = [one for one in judgements if not one.heuristic]
    found: list[ScoreSpread] = []
    for of, *others in zip(*map(_list_scores, given), strict=False):
        scores = (of.score, *(one.score for one in others))
        reach = max(scores) - min(scores)
        enough = max(1, -(-MIN_DISAGREEMENT_RANGE * (of.highest - of.lowest) // 9))
        found.append(
            ScoreSpread(
                dimension=of.dimension,
                lowest=of.lowest,
                highest=of.highest,
                scores=scores,
                n=len(scores),
                mean=fmean(scores),
                sd=stdev(scores) if len(scores) > 1 else None,
                range=reach,
                disagree=reach >= enough,
            )
        )
    return tuple(found)


# The revision of a paper after its reviews: what reviewers ask for, the addendum that is measured for it, and the
# answers. An addendum is registered before its experiments run, as the data plan was, but after the test data were
# opened and the paper was written. Its results are therefore exploratory and never part of the first registration.

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
    experiment: str = Field(default="", exclude_if=is_empty, description="experiment of the idea that it runs")


class RequestAnswer(FrozenModel):
    """The response to a request, as given to the reviewers."""

    request: str
    answer: str = Field(default="", description="words of the model, without numbers; empty: it gave no usable answer")
    quote: str = Field(default="", description="passage of the new paper that addresses the request; found in it")
    section: str = Field(default="", description="where that passage is")
