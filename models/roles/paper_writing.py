"""Writing a paper from the record: its outline (`outline`) and its sections (`write`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.role import Role
from labwright.record.claims.differences import DifferenceOutcome
from labwright.record.schema.figures import FinalFigure
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.hypotheses import HypothesisVerdict
from labwright.record.schema.nodes import StageSummary
from labwright.record.schema.paper import Section


class ClaimLine(FrozenModel):
    """A number that the paper may print, and the macro that prints it."""

    key: str
    printed: str
    meaning: str
    listed: bool = Field(default=True, description="whether every writer is shown it; else only where it is chosen")


class Reference(FrozenModel):
    """A verified work that may be cited; of what it did and found, the abstract is all that is known."""

    key: str
    title: str
    authors: str
    year: str
    note: str = ""
    abstract: str = Field(default="", description="empty where no catalogue gave one")


class DecidedHypothesis(FrozenModel):
    """A hypothesis of the plan, and what came of it."""

    key: str = Field(description="use as \\verdict{key}")
    statement: str
    verdict: HypothesisVerdict
    clause: str = Field(description="what its macro prints")
    reason: str = Field(default="", description="why smaller effects would not matter")
    confirmatory: bool = True
    confirmed: bool = Field(default=True, description="on test data and fresh seeds; else it is a preview")


class ExploratoryComparison(FrozenModel):
    """A paired difference that nobody registered: it is exploratory."""

    key: str = Field(description="use as \\verdict{key}")
    dataset: str
    metric: str
    better: str = Field(description="condition with the better mean")
    worse: str
    equal: bool = Field(default=False, description="whether the means are equal, so that neither is better")
    verdict: DifferenceOutcome = Field(
        description="of `subject` against the other; corrected for the comparisons beside it"
    )
    n: int
    condition: str = Field(default="", description="whose verdict it is; that of the better one where it is not said")
    note: str = Field(default="", description="what has to be told with the verdict")
    caveats: tuple[str, ...] = Field(default=(), description="what stands beside the verdict wherever it stands")
    clause: str = Field(default="", description="what its macro prints")
    listed: bool = Field(default=True, description="whether every writer is shown it; else only where it is chosen")

    @property
    def verdict_text(self) -> str:
        """The verdict with its caveats: `improved, stale tuning`."""
        return ", ".join((self.verdict, *self.caveats))

    @property
    def subject(self) -> str:
        return self.condition or self.better

    @property
    def partner(self) -> str:
        """The condition that the subject is compared with."""
        return self.worse if self.subject == self.better else self.better


class RequiredStatement(FrozenModel):
    """Something that the paper has to tell: an outcome that the record holds, or what a reader must be told."""

    id: str
    text: str = Field(description="in words, with the macros that print its numbers")
    keys: tuple[str, ...] = Field(default=(), description="of the hypothesis or the comparisons that it is about")
    abstract: bool = Field(default=False, description="whether the abstract has to tell it as well")
    required_form: Literal["", "verdict", "shown", "sentence"] = Field(
        default="",
        description=(
            "how a paper has to tell it, or is not released. verdict: by one of its keys in a section (and the "
            "abstract); "
            "shown: each key by a verdict in a section or in a placed table; sentence: the abstract has the "
            "text as it is"
        ),
    )


class WriteInputs(StudyInputs):
    """The record as a paper is made from it: what roles `outline`, `write` and `reflect` share."""

    summaries: tuple[StageSummary, ...]
    results: tuple[ClaimLine, ...] = Field(description="use as \\result{key}")
    setups: tuple[ClaimLine, ...] = Field(description="use as \\setup{key}")
    decided: tuple[DecidedHypothesis, ...] = Field(
        default=(), description="every hypothesis of the plan, use as \\verdict{key}"
    )
    comparisons: tuple[ExploratoryComparison, ...] = Field(description="use as \\verdict{key}")
    figures: tuple[FinalFigure, ...] = Field(description="place with \\paperfigure{name}, refer with \\ref{fig:name}")
    tables: tuple[str, ...] = Field(description="place with \\papertable{name}, refer with \\ref{tab:name}")
    references: tuple[Reference, ...] = Field(description="cite with \\citep{key} or \\citet{key}")
    literals: tuple[str, ...] = Field(description="the only numbers that may be typed")
    page_limit: int
    context: tuple[str, ...] = Field(default=(), description="lines from the user's own documents, with their places")
    winner_plan: str = ""
    winner_code: dict[str, str] = Field(default={}, description="path -> text")
    disclosures: tuple[str, ...] = Field(default=(), description="what a reader must be told: failures, limits, grades")
    statements: tuple[RequiredStatement, ...] = Field(default=(), description="all that the paper must state")


MAX_SECTIONS = 12


class PlannedSection(FrozenModel):
    """A section before it is written: what it says, and what it uses."""

    title: str
    claim: str = Field(description="one sentence: what a reader knows after it")
    keys: tuple[str, ...] = Field(
        default=(), description=("that it prints: results with their suffix, settings, and verdicts")
    )
    figures: tuple[str, ...] = Field(default=(), description="that it places")
    tables: tuple[str, ...] = Field(default=(), description="that it places")
    references: tuple[str, ...] = Field(default=(), description="that it cites")
    tells: tuple[str, ...] = Field(default=(), description="ids of what has to be told and is told here")
    share: float = Field(gt=0, le=1, description="of the main text, its figures and tables included")


class PlannedAbstract(FrozenModel):
    """The abstract before it is written."""

    claim: str = Field(description="one sentence: the main finding, in the words of its verdict")
    keys: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()


class PaperOutline(FrozenModel):
    """A paper before it is written."""

    title: str
    abstract: PlannedAbstract
    sections: tuple[PlannedSection, ...] = Field(min_length=1, max_length=MAX_SECTIONS)


class OutlineInputs(FrozenModel):
    inputs: WriteInputs
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the outline handed in before")
    previous: PaperOutline | None = None


OUTLINE = Role(
    "outline", OutlineInputs, PaperOutline, temperature=0.7, prompt_tokens=60_000, typical_tokens=(22_000, 1500)
)


class SectionInputs(FrozenModel):
    """For role `write`; answers with `Sections`. The lists hold what the asked sections were planned with.

    `inputs` is the whole record; its own lists are not shown.
    """

    inputs: WriteInputs
    outline: PaperOutline
    asked: tuple[str, ...] = Field(description="titles of the sections to write now")
    abstract: bool = Field(description="whether to write the abstract now, after the last sections")
    written: tuple[Section, ...] = Field(default=(), description="the sections before these, as they were written")
    results: tuple[ClaimLine, ...] = ()
    setups: tuple[ClaimLine, ...] = ()
    decided: tuple[DecidedHypothesis, ...] = ()
    comparisons: tuple[ExploratoryComparison, ...] = ()
    figures: tuple[FinalFigure, ...] = ()
    tables: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    statements: tuple[RequiredStatement, ...] = ()
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the answer before")


class Sections(FrozenModel):
    """Sections as they were asked for, and captions of the figures that they place."""

    sections: tuple[Section, ...] = Field(description="none only where the abstract alone is asked for")
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")
    abstract: str = Field(default="", description="empty unless it is asked for")


def _check_sections(inputs: SectionInputs, answer: Sections) -> None:
    if inputs.asked and not answer.sections:
        raise ValueError("no section: write those that are asked for")


WRITE = Role(
    "write",
    SectionInputs,
    Sections,
    temperature=1.0,
    max_tokens=16_384,
    prompt_tokens=60_000,
    typical_tokens=(16_000, 2500),
    check=_check_sections,
)
