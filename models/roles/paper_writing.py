"""Write a paper from the record: its outline (`outline`) and its sections (`write`)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel
from labwright.record.schema.hypotheses import EffectDirection, HypothesisVerdict
from labwright.record.schema.paper import EstimateRequest, FinalFigure, Section


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


class EstimateLine(FrozenModel):
    """An estimate that the paper may print with `\\result{key.form}`."""

    key: str
    subject: str = Field(default="", description="what is estimated, in words")
    forms: dict[str, str] = Field(default={}, description="form -> what it prints")
    note: str = Field(default="", description="what the record supports, or what the estimate is for")
    direction: EffectDirection | None = Field(default=None, description="for an effect of a hypothesis")
    verdict: HypothesisVerdict | None = Field(default=None, description="on the claim about an effect of a hypothesis")
    listed: bool = Field(
        default=True, description="whether every writer sees it; otherwise only writers whose outline chose it see it"
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that a paper may use."""
        return tuple(f"{self.key}.{form}" for form in self.forms)

    @property
    def text(self) -> str:
        """The estimate with its interval, in words: `accuracy of A minus B: 0.027 [0.020, 0.035]`."""
        return f"{self.subject}: {' '.join(self.forms[form] for form in ('mean', 'ci') if form in self.forms)}"


class DecidedHypothesis(FrozenModel):
    """A hypothesis of the plan, and its outcome."""

    key: str = Field(description="hypothesis/ID")
    title: str = ""
    statement: str
    verdict: HypothesisVerdict
    effects: tuple[EstimateLine, ...] = ()
    alternatives: tuple[EstimateLine, ...] = Field(default=(), description="declared alternatives of the effects")
    rival: EstimateLine | None = Field(
        default=None, description="estimate on which a rival explanation disagrees; its note says what each expects"
    )
    reason: str = Field(default="", description="why smaller effects would not matter")
    confirmatory: bool = True
    confirmed: bool = Field(default=True, description="decided on test data and fresh seeds; otherwise a preview")

    @property
    def lines(self) -> tuple[EstimateLine, ...]:
        """Everything that was estimated for it."""
        return (*self.effects, *([self.rival] if self.rival is not None else []), *self.alternatives)

    @property
    def outcome(self) -> str:
        """What the record supports for each effect."""
        return "; ".join(one.note for one in self.effects)


class ExploratoryComparison(EstimateLine):
    """An unregistered, hence exploratory, paired difference."""

    dataset: str
    metric: str
    better: str = Field(description="condition with the better mean")
    worse: str
    n: int
    condition: str = Field(
        default="", description="the condition from which the other is subtracted; empty: the better one"
    )
    caveats: tuple[str, ...] = Field(default=(), description="qualifications that the text must state")
    at_common_setting: bool = Field(
        default=False, description="whether both arms had the setting tuned for one of them"
    )

    @property
    def subtracted(self) -> tuple[str, str]:
        """The two conditions of the difference: the first minus the second."""
        first = self.condition or self.better
        return first, self.worse if first == self.better else self.better


class RequiredStatement(FrozenModel):
    """A statement that the paper must report: an outcome in the record, or a disclosure."""

    id: str
    text: str = Field(description="the statement, with the macros that print its numbers")
    keys: tuple[str, ...] = Field(default=(), description="keys of the estimates that it reports, without forms")
    abstract: bool = Field(default=False, description="whether the abstract must report it too")
    required_form: Literal["", "printed", "referred"] = Field(
        default="",
        description=(
            "how a paper must report it to be released. printed: a section prints each of its estimates; "
            "referred: a section refers to its tables, whose labels are `keys`"
        ),
    )
    point: str = Field(
        default="", description="what a sentence of some section must say in words of the writer, without numbers"
    )
    equal_keys: dict[str, tuple[str, ...]] = Field(
        default={}, description="key -> keys of other hypotheses with the same estimand, which may be printed instead"
    )
    sentences: tuple[str, ...] = Field(
        default=(),
        description="what the program adds if the paper does not report it: one sentence, or one for each key",
    )


class PaperMaterial(FrozenModel):
    """What a paper, or some of its sections, may print, place and cite."""

    results: tuple[ClaimLine, ...] = Field(description="use as \\result{key}")
    setups: tuple[ClaimLine, ...] = Field(description="use as \\setup{key}")
    decided: tuple[DecidedHypothesis, ...] = Field(default=(), description="hypotheses of the plan")
    comparisons: tuple[ExploratoryComparison, ...] = Field(description="use as \\result{key.form}")
    estimates: tuple[EstimateLine, ...] = Field(default=(), description="those that the outline asked for")
    figures: tuple[FinalFigure, ...] = Field(description="place with \\paperfigure{name}, refer with \\ref{fig:name}")
    tables: tuple[str, ...] = Field(description="place with \\papertable{name}, refer with \\ref{tab:name}")
    references: tuple[Reference, ...] = Field(description="cite with \\citep{key} or \\citet{key}")
    statements: tuple[RequiredStatement, ...] = Field(default=(), description="statements that the paper must contain")


class WriteInputs(StudyInputs, PaperMaterial):
    """The record as input to a paper: shared by the roles `outline`, `write` and `reflect`."""

    table_keys: dict[str, frozenset[str]] = Field(
        default_factory=dict, description="table -> keys, without form, of the estimates that it prints"
    )
    appendix_tables: tuple[str, ...] = Field(default=(), description="tables that the program places in the appendix")
    variants: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="table of ablations -> its rows")
    program_captions: tuple[str, ...] = Field(default=(), description="figures whose captions the program writes")
    related_work_by_program: bool = Field(
        default=False, description="no published work is in reach, so the program writes two sentences"
    )
    literals: tuple[str, ...] = Field(description="the only numbers that may be typed")
    page_limit: int
    text_words: int = Field(
        default=0, description="words that the main text has room for without floats, title, headings and abstract"
    )
    float_words: dict[str, int] = Field(
        default_factory=dict, description="fig:NAME or tab:NAME -> words whose room the float takes"
    )
    context: tuple[str, ...] = Field(default=(), description="lines from the user's documents, with their locations")
    run_facts: tuple[str, ...] = Field(default=(), description="how the study was done, beyond its plan")
    winner_code: dict[str, str] = Field(default={}, description="path -> text")
    disclosures: tuple[str, ...] = Field(default=(), description="failures, limits and grades that must be disclosed")

    @property
    def result_keys(self) -> tuple[str, ...]:
        """Every key of `\\result` that the paper may use."""
        effects = (line for one in self.decided for line in one.lines)
        lines = (*effects, *self.comparisons, *self.estimates)
        return (*(line.key for line in self.results), *(key for line in lines for key in line.keys))


MAX_SECTIONS = 12


Keys = Annotated[
    tuple[str, ...],
    AfterValidator(lambda keys: tuple(re.sub(r"^\\?(?:setup|result)[/{]|\}$", "", key) for key in keys)),
]
"""Keys as in the lists, without `setup/` or a macro around them."""


class PlannedSection(FrozenModel):
    """The plan of a section: its claim, and the items that it uses."""

    title: str
    claim: str = Field(description="one sentence: what a reader learns from the section")
    keys: Keys = Field(default=(), description="keys that it prints: results with their form, and settings")
    figures: tuple[str, ...] = Field(default=(), description="figures that it places")
    tables: tuple[str, ...] = Field(default=(), description="tables that it places")
    references: tuple[str, ...] = Field(default=(), description="works that it cites")
    tells: tuple[str, ...] = Field(default=(), description="ids of the statements that it reports")
    share: float = Field(gt=0, le=1, description="share of the words that figures and tables leave")


class PlannedAbstract(FrozenModel):
    """The plan of the abstract."""

    claim: str = Field(description="one sentence: the main finding, as a colleague could repeat it")
    keys: Keys = ()
    tells: tuple[str, ...] = ()


class PlannedExplanation(FrozenModel):
    """The plan of a paragraph on why a main effect occurs."""

    effect: str = Field(description="the effect, by the key of its estimate without form")
    first: str = Field(description="the likeliest explanation, in one sentence")
    second: str = Field(description="another explanation, in one sentence")
    separated_by: str = Field(
        default="", description="key, without form, of the estimate on which the two disagree; empty: none was measured"
    )
    section: str = Field(description="title of the section with the paragraph")


class PaperOutline(FrozenModel):
    """The plan of a paper."""

    title: str
    estimates: tuple[EstimateRequest, ...] = Field(
        default=(), description="exploratory estimates that the argument needs and the lists lack"
    )
    explanations: tuple[PlannedExplanation, ...] = Field(default=(), description="one for each main effect")
    abstract: PlannedAbstract
    sections: tuple[PlannedSection, ...] = Field(min_length=1, max_length=MAX_SECTIONS)


class OutlineInputs(FrozenModel):
    inputs: WriteInputs
    complaints: tuple[str, ...] = Field(default=(), description="errors in the previous outline")
    previous: PaperOutline | None = None


OUTLINE = Role(
    "outline", OutlineInputs, PaperOutline, temperature=0.7, prompt_tokens=60_000, typical_tokens=(22_000, 1500)
)


class SectionInputs(PaperMaterial):
    """For role `write`; answered by `Sections`. The lists contain the items planned for the requested sections.

    `inputs` is the whole record; its own lists are not shown.
    """

    inputs: WriteInputs
    outline: PaperOutline
    asked: tuple[str, ...] = Field(description="titles of the sections to write now")
    abstract: bool = Field(description="whether to write the abstract now, after the last sections")
    words: dict[str, int] = Field(default_factory=dict, description="section title -> number of words to write")
    written: tuple[Section, ...] = Field(default=(), description="earlier sections, as written")
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
