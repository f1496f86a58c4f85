"""The paper: its submitted text, the works that it cites, and its judgements."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

from pydantic import Field

from labwright.record.schema.figures import FigurePlacement
from labwright.record.schema.frozen_model import FrozenModel


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


class PaperDraft(FrozenModel):
    r"""A draft submitted by a writer. Values are `\\result{key}` or `\\setup{key}`; floats are
    `\\paperfigure{name}`."""

    title: str
    abstract: str
    sections: tuple[Section, ...] = Field(min_length=1)
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")
    placements: dict[str, FigurePlacement] = Field(
        default_factory=dict[str, FigurePlacement],
        description="moved figures by name; others stay where their script put them",
    )
    estimates: tuple[EstimateRequest, ...] = Field(
        default=(), exclude_if=lambda value: not value, description="exploratory estimates that its text may print"
    )
    separating: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda value: not value,
        description="keys of the estimates that separate explanations of an effect, as its outline planned them",
    )

    @property
    def texts(self) -> tuple[str, ...]:
        """Title, abstract and section bodies of the draft."""
        sections = (text for one in self.sections for text in (one.title, one.body))
        return (self.title, self.abstract, *self.captions.values(), *sections)


class PaperFinding(FrozenModel):
    """A problem in the layout of a paper version."""

    text: str = Field(description="one line that a writer can act on")
    blocks: bool = Field(
        default=False, description="whether it prevents the release; otherwise it is only a minor flaw"
    )
    by_edit: bool = Field(
        default=True,
        description="whether editing the draft can fix it; false in the appendix, which the program writes",
    )

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
    years: tuple[int, ...] = Field(
        default=(), description="years of all versions that the catalogue lists, the published version first"
    )
    venue: str = ""
    dois: tuple[str, ...] = Field(
        default=(), description="in lower case, without URL prefix; that of the published version first"
    )
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
    by: Literal["pattern", "reader"] = Field(
        default="pattern", description="reader: a model that searched for such passages"
    )


class AuditFacts(FrozenModel):
    """Objective findings of a program about a paper; shown next to the scores and to the judge."""

    against: str = Field(
        description="the basis of comparison: the paper's record, its result files, or the paper itself"
    )
    provenance: tuple[str, ...] = Field(
        default=(), description="what was executed and where the numbers come from, one line each"
    )
    ran: tuple[str, ...] = Field(
        default=(), description="scripts that ran according to the logs, as paths below the code"
    )
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
"""Origin of the numbers behind a paper's claims."""
JudgeView = Literal["all", "paper"]
"""The material for a judge: everything available, or only the paper."""


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
    where: str = Field(
        default="", description="part of the material that contains it: paper, code, log, task, audit or record"
    )


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
    removed: tuple[RemovedPassage, ...] = Field(
        default=(), description="passages that the guards removed before judging"
    )
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
"""Name of the text-only score among the dimensions."""


def _list_scores(judgement: Judgement) -> tuple[DimensionScore, ...]:
    """Return the scores of a judgement, including the text-only score."""
    one = judgement.text_alone
    return (
        judgement.scores
        if one is None
        else (
            *judgement.scores,
            DimensionScore(dimension=TEXT_ONLY_DIMENSION, quote="", quoted=False, **one.model_dump()),
        )
    )


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
