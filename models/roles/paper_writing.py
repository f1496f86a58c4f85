"""Write a paper from the record: its outline (`outline`) and its sections (`write`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.role import Role
from labwright.record.schema.figures import FinalFigure
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.hypotheses import HypothesisVerdict
from labwright.record.schema.nodes import StageSummary
from labwright.record.schema.paper import Section


class ClaimLine(FrozenModel):
    """A number that the paper may print, and the macro that prints it."""

    key: str
    printed: str
    meaning: str = ""
    listed: bool = Field(
        default=True, description="whether every writer sees it; otherwise only writers whose outline chose it see it"
    )


class Reference(FrozenModel):
    """A verified work that may be cited; only its abstract is known."""

    key: str
    title: str
    authors: str
    year: str
    note: str = ""
    abstract: str = Field(default="", description="empty if no catalogue has an abstract")


class DecidedHypothesis(FrozenModel):
    """A hypothesis of the plan, and its outcome."""

    key: str = Field(description="use as \\verdict{key}")
    statement: str
    verdict: HypothesisVerdict
    outcome: str = Field(default="", description="direction and claim of each effect")
    clause: str = Field(description="what its macro prints")
    reason: str = Field(default="", description="why smaller effects would not matter")
    confirmatory: bool = True
    confirmed: bool = Field(default=True, description="decided on test data and fresh seeds; otherwise a preview")


class ExploratoryComparison(FrozenModel):
    """An unregistered, hence exploratory, paired difference."""

    key: str = Field(description="use as \\verdict{key}")
    dataset: str
    metric: str
    better: str = Field(description="condition with the better mean")
    worse: str
    equal: bool = Field(default=False, description="whether the means are equal, so that neither is better")
    n: int
    condition: str = Field(
        default="", description="the condition from which the other is subtracted; empty: the better one"
    )
    caveats: tuple[str, ...] = Field(default=(), description="printed with the estimate wherever it appears")
    clause: str = Field(default="", description="what its macro prints")
    listed: bool = Field(
        default=True, description="whether every writer sees it; otherwise only writers whose outline chose it see it"
    )

    @property
    def basis_text(self) -> str:
        """Return the term that may be used for it, with its caveats: `exploratory, stale tuning`."""
        return ", ".join(("exploratory", *self.caveats))

    @property
    def subject(self) -> str:
        return self.condition or self.better

    @property
    def partner(self) -> str:
        """Return the condition that the subject is compared with."""
        return self.worse if self.subject == self.better else self.better


class RequiredStatement(FrozenModel):
    """A statement that the paper must report: an outcome in the record, or a disclosure."""

    id: str
    text: str = Field(description="the text, with the macros that print its numbers")
    keys: tuple[str, ...] = Field(default=(), description="keys of the hypothesis or the comparisons that it reports")
    abstract: bool = Field(default=False, description="whether the abstract must report it too")
    required_form: Literal["", "verdict", "shown", "sentence"] = Field(
        default="",
        description=(
            "how a paper must report it to be released. verdict: by one of its keys in a section (and the "
            "abstract); "
            "shown: each key by a verdict in a section or in a placed table; sentence: the abstract has the "
            "text unchanged"
        ),
    )


class WriteInputs(StudyInputs):
    """The record as input to a paper: shared by the roles `outline`, `write` and `reflect`."""

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
    text_words: int = Field(
        default=0, description="words that the main text has room for without floats, title, headings and abstract"
    )
    float_words: dict[str, int] = Field(
        default_factory=dict, description="fig:NAME or tab:NAME -> words whose room the float takes"
    )
    context: tuple[str, ...] = Field(default=(), description="lines from the user's documents, with their locations")
    winner_plan: str = ""
    winner_code: dict[str, str] = Field(default={}, description="path -> text")
    disclosures: tuple[str, ...] = Field(default=(), description="failures, limits and grades that must be disclosed")
    statements: tuple[RequiredStatement, ...] = Field(default=(), description="statements that the paper must contain")


MAX_SECTIONS = 12


class PlannedSection(FrozenModel):
    """The plan of a section: its claim, and the items that it uses."""

    title: str
    claim: str = Field(description="one sentence: what a reader learns from the section")
    keys: tuple[str, ...] = Field(
        default=(), description=("keys that it prints: results with their suffix, settings, and verdicts")
    )
    figures: tuple[str, ...] = Field(default=(), description="figures that it places")
    tables: tuple[str, ...] = Field(default=(), description="tables that it places")
    references: tuple[str, ...] = Field(default=(), description="works that it cites")
    tells: tuple[str, ...] = Field(default=(), description="ids of the statements that it reports")
    share: float = Field(gt=0, le=1, description="share of the words that figures and tables leave")


class PlannedAbstract(FrozenModel):
    """The plan of the abstract."""

    claim: str = Field(description="one sentence: the main finding, in the words of its verdict")
    keys: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()


class PaperOutline(FrozenModel):
    """The plan of a paper."""

    title: str
    abstract: PlannedAbstract
    sections: tuple[PlannedSection, ...] = Field(min_length=1, max_length=MAX_SECTIONS)


class OutlineInputs(FrozenModel):
    inputs: WriteInputs
    complaints: tuple[str, ...] = Field(default=(), description="errors in the previous outline")
    previous: PaperOutline | None = None


OUTLINE = Role(
    "outline", OutlineInputs, PaperOutline, temperature=0.7, prompt_tokens=60_000, typical_tokens=(22_000, 1500)
)


class SectionInputs(FrozenModel):
    """For role `write`; answered by `Sections`. The lists contain the items planned for the requested sections.

    `inputs` is the whole record; its own lists are not shown.
    """

    inputs: WriteInputs
    outline: PaperOutline
    asked: tuple[str, ...] = Field(description="titles of the sections to write now")
    abstract: bool = Field(description="whether to write the abstract now, after the last sections")
    words: dict[str, int] = Field(default_factory=dict, description="section title -> number of words to write")
    written: tuple[Section, ...] = Field(default=(), description="earlier sections, as written")
    results: tuple[ClaimLine, ...] = ()
    setups: tuple[ClaimLine, ...] = ()
    decided: tuple[DecidedHypothesis, ...] = ()
    comparisons: tuple[ExploratoryComparison, ...] = ()
    figures: tuple[FinalFigure, ...] = ()
    tables: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    statements: tuple[RequiredStatement, ...] = ()
    complaints: tuple[str, ...] = Field(default=(), description="errors in the previous answer")


class Sections(FrozenModel):
    """The requested sections, and captions of the figures that they place."""

    sections: tuple[Section, ...] = Field(description="empty only if just the abstract is requested")
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")
    abstract: str = Field(default="", description="empty unless requested")


def _check_sections(inputs: SectionInputs, answer: Sections) -> None:
    if inputs.asked and not answer.sections:
        raise ValueError("no section given: write the requested ones")


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
