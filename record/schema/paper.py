"""The paper: its text as a writer hands it in, the works that it cites, and what a judge said of it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

from pydantic import Field

from labwright.record.schema.figures import FigurePlacement
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.hypotheses import HypothesisVerdict


class Section(FrozenModel):
    """One section of a paper: a title and a LaTeX body in which every number is a macro."""

    title: str
    body: str


class PaperDraft(FrozenModel):
    """What a writer hands in. Values are `\\result`, `\\setup` or `\\verdict{key}`; floats `\\paperfigure{name}`."""

    title: str
    abstract: str
    sections: tuple[Section, ...] = Field(min_length=1)
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")
    placements: dict[str, FigurePlacement] = Field(
        default_factory=dict[str, FigurePlacement],
        description="figures that were moved, by name; the others stand where their script put them",
    )

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text in it."""
        sections = (text for one in self.sections for text in (one.title, one.body))
        return (self.title, self.abstract, *self.captions.values(), *sections)


class ScopeFinding(FrozenModel):
    """A passage that claims more than the study decided."""

    quote: str = Field(min_length=1, description="as it is printed, within one sentence")
    why: str = Field(description="what in it goes beyond which verdict, one phrase")
    may: str = Field(default="", description="what may be said in its place")


class ClaimReading(FrozenModel):
    """What a paper says of a claim."""

    id: str = Field(description="of the claim")
    says: HypothesisVerdict | Literal["nothing"] = Field(
        description="what a reader takes from the text; nothing: it is not told"
    )
    quote: str = Field(default="", description="the sentence that says so most plainly, copied")


class PaperReading(FrozenModel):
    """A paper as a reader understood it."""

    finding: str = Field(description="one sentence: what the paper found")
    claims: tuple[ClaimReading, ...] = Field(default=(), description="one for each claim")


class PaperFinding(FrozenModel):
    """Something to mend in how a version of a paper is set."""

    text: str = Field(description="one line that a writer can act on")
    blocks: bool = Field(default=False, description="whether a paper with it is not released; else it is a blemish")
    by_edit: bool = Field(
        default=True,
        description="whether an edit of the draft can mend it: not in the appendix, which the program writes",
    )

    def __str__(self) -> str:
        return self.text


class PublishedWork(FrozenModel):
    """A work in one catalogue, with every version that this catalogue lists."""

    source: str = Field(description="name of the catalogue")
    id: str = Field(description="in the catalogue")
    title: str
    subtitle: str = ""
    authors: tuple[str, ...] = Field(default=(), description="in order, as `Family, Given` or as they are shown")
    cut: bool = Field(default=False, description="whether the catalogue lists no more than the first of the authors")
    years: tuple[int, ...] = Field(
        default=(), description="of every version that the catalogue lists, the published one first"
    )
    venue: str = ""
    dois: tuple[str, ...] = Field(default=(), description="in lower case, without an address; the published one first")
    arxiv: str = Field(default="", description="identifier without its version")
    abstract: str = ""
    retracted: bool = False

    @property
    def identifiers(self) -> frozenset[str]:
        """Its DOIs and its arXiv identifier."""
        return frozenset((*self.dois, self.arxiv)) - {""}

    @property
    def identifier(self) -> str:
        """The best name for the work: its DOI, its arXiv identifier, or the catalogue's own."""
        if self.dois:
            return f"doi:{self.dois[0]}"
        return f"arXiv:{self.arxiv}" if self.arxiv else f"{self.source}:{self.id}"


class FoundWork(PublishedWork):
    """A work that a catalogue gave to a search."""

    number: int = Field(ge=1, description="in its round, as prompts name it")


class CitationSearch(FrozenModel):
    """A sentence of the draft that wants support, and what was asked for it."""

    sentence: str
    query: str
    found: tuple[int, ...] = Field(default=(), description="numbers of works, the best first")
    outages: tuple[str, ...] = Field(default=(), description="catalogues that gave no answer, and why")


class CitationSupport(FrozenModel):
    """A verified work that was taken to support a sentence of the draft."""

    key: str = Field(description="of its entry in the run's library")
    sentence: str
    reason: str


class CheckedEntry(FrozenModel):
    """An entry of the library that the run was given, and what was found of it."""

    key: str
    outcome: Literal["verified", "refused", "unverified"]
    why: str = Field(default="", description="of one that may not be cited; of others empty")


RemovedKind = Literal["hidden", "comment", "instruction", "encoded"]
JUDGING_ROLES = ("influence", "judge")
"""The roles of a run's last step, after the release: what they cost is in no paper."""


class RemovedPassage(FrozenModel):
    """A passage that the guards kept from the judge. `text` is for a person to read, at most 2,000 characters of it."""

    kind: RemovedKind
    where: str
    text: str
    characters: int
    by: Literal["pattern", "reader"] = Field(default="pattern", description="reader: a model that read for it")


class AuditFacts(FrozenModel):
    """What a program found on a paper, without an opinion on it; shown beside the scores, and to the judge."""

    against: str = Field(description="what the paper was held against: its record, its result files, or itself")
    provenance: tuple[str, ...] = Field(
        default=(), description="what was executed, and where the numbers come from, a line each"
    )
    ran: tuple[str, ...] = Field(default=(), description="scripts that ran, by the logs, as paths below the code")
    flagged: tuple[str, ...] = Field(default=(), description="files of code with signs of made-up numbers")
    numbers: int = Field(default=0, description="numbers of the paper that were looked at")
    counts: tuple[tuple[str, int], ...] = Field(default=(), description="what was counted, and how many")
    findings: tuple[str, ...] = Field(default=(), description="what speaks against the paper, a line each")
    more: int = Field(default=0, description="findings beyond those that are listed")
    left_out: tuple[str, ...] = Field(default=(), description="what the audit did not read")


class DimensionScore(FrozenModel):
    """The score on one dimension of a rubric, between `lowest` and `highest`."""

    dimension: str
    score: int
    lowest: int
    highest: int
    reason: str
    quote: str = Field(description="the passage that the judge gave as its ground")
    quoted: bool = Field(description="whether that passage stands in the paper")


class CheckResult(FrozenModel):
    """The answer to a question by yes or no."""

    check: str
    answer: bool
    details: str
    quote: str = ""
    quoted: bool = Field(default=False, description="whether the passage stands in the paper")


ResultsOriginAnswer = Literal["measured", "invented", "cannot tell"]
"""How the numbers that carry a paper's claims came about."""
JudgeView = Literal["all", "paper"]
"""What a judge is shown: whatever there is, or what a reader of the paper has."""


class TextOnlyScore(FrozenModel):
    """What a judge gives the text by itself, whatever else it was shown; on the scale of `overall`."""

    score: int
    lowest: int
    highest: int
    reason: str


class ResultsOrigin(FrozenModel):
    """What a judge says of how the results came about."""

    answer: ResultsOriginAnswer
    details: str
    quote: str = ""
    quoted: bool = Field(default=False, description="whether the passage stands in what the judge was shown")
    where: str = Field(default="", description="in which of it: paper, code, log, task, audit or record")


class Judgement(FrozenModel):
    """A paper judged by a rubric. Every score was given by the judge; none was filled in."""

    paper: str = Field(description="the judged file; within a run relative to its folder")
    paper_sha256: str
    rubric: str
    rubric_sha256: str
    model: str
    heuristic: bool = Field(default=False, description="counted from the record; nobody read the paper")
    scores: tuple[DimensionScore, ...] = Field(min_length=1)
    text_alone: TextOnlyScore | None = Field(default=None, description="None: the rubric does not ask for it")
    results: ResultsOrigin | None = Field(default=None, description="None: the rubric does not ask for it")
    confidence: int
    most_confidence: int
    view: JudgeView = "all"
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    left_out: tuple[str, ...] = Field(default=(), description="what the judge was not shown of the paper")
    checks: tuple[CheckResult, ...] = ()
    removed: tuple[RemovedPassage, ...] = Field(
        default=(), description="what the guards took out before the judge saw it"
    )
    coverage: str = Field(default="", description="how much of the paper was shown, read in parts, or neither")
    pages: tuple[int, ...] = Field(default=(), description="pages that were shown as pictures")
    exhibits: tuple[str, ...] = Field(default=(), description="what the paper was held against")
    audit: AuditFacts | None = Field(default=None, description="what a program found; None: nothing was audited")
    warnings: tuple[str, ...] = ()

    @property
    def score_line(self) -> str:
        """The scores in one line, a heuristic labelled so."""
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
"""Points on a scale of ten from which the lowest and the highest score of a dimension count as a disagreement."""


class MissingJudgement(FrozenModel):
    """A judgement that was asked for and not had. Nothing stands in its place."""

    model: str
    repeat: int = Field(ge=1, description="which of its repeats")
    why: str


class ScoreSpread(FrozenModel):
    """The scores that a panel gave on one dimension, heuristics apart. `sd` is with n - 1, None for one score."""

    dimension: str
    lowest: int
    highest: int
    scores: tuple[int, ...] = Field(min_length=1)
    n: int
    mean: float
    sd: float | None
    range: int
    disagree: bool = Field(description="range of at least `DISAGREE` points, on another scale in proportion")


class JudgePanel(FrozenModel):
    """What several judges, or one several times, said of a paper by one rubric."""

    paper: str
    rubric: str
    asked: int = Field(description="judgements that were asked for")
    judgements: tuple[Judgement, ...] = ()
    missing: tuple[MissingJudgement, ...] = ()
    dimensions: tuple[ScoreSpread, ...] = Field(default=(), description="over the judgements that were given")
    audit: AuditFacts | None = None
    warnings: tuple[str, ...] = ()


TEXT_ONLY_DIMENSION = "text alone"
"""How the score of the text by itself is called among the dimensions."""


def _list_scores(judgement: Judgement) -> tuple[DimensionScore, ...]:
    """The scores of a judgement, with that of the text alone."""
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
    """Each dimension over judgements by one rubric, the text alone last."""
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
