"""Judge papers: score one by a rubric (`judge`), or choose the better of two (`prefer`).

`build_answer_type(rubric)` builds the output type: one required score per dimension, each within its own scale. A score
that is missing or out of range violates the schema, so the model is asked again; no score is ever filled in.

Also the reader that finds passages written for a judge.
"""

from __future__ import annotations

import functools
import itertools
import keyword
import re
import unicodedata
from typing import Annotated, Any, Literal, cast

from pydantic import Field, create_model, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import AuditFacts, ResultsOriginAnswer

ExhibitKind = Literal["task", "idea", "literature review", "proposal", "report", "code", "log", "results"]


class Exhibit(FrozenModel):
    """A file, or the files of a folder, shown with the paper."""

    kind: ExhibitKind
    name: str
    text: str = Field(description="the text shown; cuts are marked")
    left_out: tuple[str, ...] = Field(default=(), description="descriptions of what is left out")


class ShownPages(FrozenModel):
    """Pages of a PDF that are attached as images."""

    shown: tuple[int, ...]
    total: int
    withheld: tuple[int, ...] = Field(default=(), description="pages with a passage that was removed from the text")


Ground = Annotated[str, Field(min_length=1, max_length=2000)]
Better = Literal["first", "second", "neither"]


class ShownPaper(FrozenModel):
    """A paper as shown in a comparison of two, without name and author."""

    text: str = Field(description="by section; omissions are marked")
    characters: int = Field(description="of the whole paper, including omitted parts")
    left_out: tuple[str, ...] = ()


class PreferInputs(FrozenModel):
    first: ShownPaper
    second: ShownPaper


class PaperPreference(FrozenModel):
    """The better of two papers. The reasons come before the verdict."""

    for_first: Ground = Field(description="strengths and weaknesses of the first paper, with a passage")
    for_second: Ground = Field(description="strengths and weaknesses of the second paper, with a passage")
    deciding: Ground = Field(description="deciding reason, in one or two sentences")
    better: Better


PREFER = Role("prefer", PreferInputs, PaperPreference, temperature=0.0)


MAX_DIMENSIONS = 10
_BAND = re.compile(r"(\d{1,3})(?:\s*-\s*(\d{1,3}))?")
Text = Annotated[str, Field(min_length=1, max_length=500)]


class Band(FrozenModel):
    """Meaning of the scores from `lowest` to `highest`."""

    lowest: int = Field(ge=0, le=100)
    highest: int = Field(ge=0, le=100)
    meaning: Text


class ScoreScale(FrozenModel):
    """Integer scores with their meanings: bands from best to worst, without gap or overlap."""

    bands: tuple[Band, ...] = Field(min_length=1, max_length=11)

    @model_validator(mode="before")
    @classmethod
    def _list_bands(cls, given: Any) -> Any:
        """Read bands as files have them: `"9-10" = "what it means"`."""
        if not isinstance(given, dict):
            return given
        table = cast("dict[str, Any]", given)
        name, bands = table.get("name", "confidence"), table.get("bands")
        if isinstance(bands, list | tuple):
            return table
        if not isinstance(bands, dict):
            raise ValueError(f'{name} has no bands: add lines such as "9-10" = "what it means"')
        found: list[dict[str, Any]] = []
        for key, meaning in cast("dict[str, Any]", bands).items():
            if (match := _BAND.fullmatch(key.strip())) is None:
                raise ValueError(f'{name} has the band {key!r}, which is neither a score nor a range such as "9-10"')
            found.append({"lowest": int(match[1]), "highest": int(match[2] or match[1]), "meaning": meaning})
        return {**table, "bands": found}

    @field_validator("bands")
    @classmethod
    def _check_seamless(cls, bands: tuple[Band, ...]) -> tuple[Band, ...]:
        bands = tuple(sorted(bands, key=lambda band: -band.lowest))
        for band in bands:
            if band.lowest > band.highest:
                raise ValueError(f"band {band.lowest}-{band.highest} runs backwards; write the lower score first")
        for upper, lower in itertools.pairwise(bands):
            if upper.lowest != lower.highest + 1:
                raise ValueError(
                    f"bands {lower.lowest}-{lower.highest} and {upper.lowest}-{upper.highest} leave a gap or overlap"
                )
        if bands[0].highest == bands[-1].lowest:
            raise ValueError("a scale needs at least two scores")
        return bands

    @property
    def lowest(self) -> int:
        return self.bands[-1].lowest

    @property
    def highest(self) -> int:
        return self.bands[0].highest


class JudgeQuestion(FrozenModel):
    """A question to a judge, with the name of the field for its answer."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    questions: tuple[Text, ...] = Field(min_length=1, max_length=6)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if keyword.iskeyword(name) or hasattr(FrozenModel, name):
            raise ValueError(f"{name!r} is reserved by the program; choose another name")
        return name


class Dimension(JudgeQuestion, ScoreScale):
    """An aspect of the paper that gets a score."""


class RubricCheck(JudgeQuestion):
    """A yes/no question without a score."""

    yes: Text
    no: Text


class Rubric(FrozenModel):
    """The dimensions and checks by which a paper is judged."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")
    title: Text
    subject: Text = Field(
        default="a finished machine learning paper", description="the judged document, in a few words"
    )
    source: str = Field(default="", max_length=1000)
    advice: tuple[Text, ...] = Field(default=(), max_length=12)
    checks: tuple[RubricCheck, ...] = Field(default=(), max_length=4)
    dimensions: tuple[Dimension, ...] = Field(min_length=1, max_length=MAX_DIMENSIONS)
    confidence: ScoreScale
    results: bool = Field(
        default=False,
        description="whether to ask also for the origin of the results, and for a score of "
        "the text alone on the scale of `overall`",
    )

    @model_validator(mode="after")
    def _check_overall(self) -> Rubric:
        if self.results and self.overall_dimension is None:
            raise ValueError(
                "results = true asks for a second score on the scale of 'overall'; add [dimensions.overall]"
            )
        return self

    @property
    def overall_dimension(self) -> Dimension | None:
        """Return the dimension named `overall`, if any."""
        return next((one for one in self.dimensions if one.name == "overall"), None)

    @model_validator(mode="before")
    @classmethod
    def _list_tables(cls, given: Any) -> Any:
        """Read tables as files have them: `[dimensions.NAME]`."""
        if not isinstance(given, dict):
            return given
        found: dict[str, Any] = {"confidence": {}, **given}
        if not found.get("dimensions"):
            raise ValueError("it has no [dimensions.NAME] tables")
        for field in ("dimensions", "checks"):
            if isinstance(tables := found.get(field), dict):
                named = cast("dict[str, Any]", tables).items()
                found[field] = [{**(one if isinstance(one, dict) else {}), "name": name} for name, one in named]
        return found

    @field_validator("dimensions", "checks")
    @classmethod
    def _check_distinct(cls, named: tuple[Dimension | RubricCheck, ...]) -> tuple[Dimension | RubricCheck, ...]:
        names = [one.name for one in named]
        if len(set(names)) != len(names):
            raise ValueError(f"names must be unique; repeated: {', '.join(names)}")
        return named


class RecordFacts(FrozenModel):
    """Facts from the record about the run behind a paper of this program. All values are counts unless a unit is
    given.
    """

    released: bool = Field(description="False: the paper is a draft that the binder or LaTeX refused")
    nodes: int = Field(description="nodes of the search, without replicates and aggregates")
    failed: int = Field(description="nodes that are buggy, pruned or cancelled")
    doubted: int = Field(description="nodes judged unsound or marked as suspect")
    replicates: int = Field(description="good replicates of the reported configuration")
    replicates_failed: int
    fewest_seeds: int = Field(description="replicates behind the least replicated value of the paper; 0: none")
    ablations: int = Field(description="ablated parts whose node is good")
    datasets: int
    conditions: int = Field(description="conditions of the data plan")
    supported: int = Field(default=0, description="confirmatory hypotheses that are supported, on fresh seeds")
    refuted: int = 0
    open: int = 0
    for_method: int = Field(description="exploratory comparisons whose 95 % interval favours the method")
    for_other: int = Field(description="exploratory comparisons whose 95 % interval favours the other arm")
    unclear: int = Field(description="exploratory comparisons whose interval contains zero, or without one")
    grades: tuple[tuple[str, int], ...] = Field(
        default=(), description="grade -> number of values with it in the paper"
    )
    bound_values: int = Field(description="values in the text that are bound to the record")
    references: int = Field(description="distinct works cited")
    figures: int
    pages: int | None = Field(default=None, description="pages of main text")
    limited: str = Field(default="", description="why the run was stopped early, if it was")
    models: tuple[str, ...] = ()
    calls: int = Field(description="model answers, up to the release")
    usd: float
    unpriced: int = Field(default=0, description="calls of unknown price")
    code_seconds: float = Field(description="compute time of experiments in seconds")


class JudgeInputs(FrozenModel):
    rubric: Rubric
    paper: str = Field(description="the text by section; omissions are marked")
    characters: int = Field(description="of the whole paper, including omitted parts")
    left_out: tuple[str, ...] = ()
    facts: RecordFacts | None = Field(default=None, description="None: the paper is not from a run of this program")
    audit: AuditFacts | None = Field(default=None, description="None: nothing was audited")
    exhibits: tuple[Exhibit, ...] = Field(default=(), description="files shown with the paper")
    removed: int = Field(default=0, description="number of passages that the guards removed")
    pages: ShownPages | None = Field(default=None, description="pages attached as images")


MIN_QUOTE_CHARACTERS = 12
"""Minimum length of a quote in characters: shorter ones occur in any paper."""


class RubricScore(FrozenModel):
    """A score with its evidence. `build_answer_type` adds `score` last, so that the reason comes before the number."""

    quote: str = Field(
        min_length=MIN_QUOTE_CHARACTERS,
        max_length=600,
        description=("a passage of up to thirty words that supports the score, copied word for word from the paper"),
    )
    reason: str = Field(min_length=1, max_length=3000, description="why this score and not the next higher one")


class RubricScores(FrozenModel):
    """One `RubricScore` per dimension; `build_answer_type` adds them."""


class YesNoAnswer(FrozenModel):
    """The answer to a yes/no question, with its evidence."""

    details: str = Field(
        min_length=1,
        max_length=3000,
        description="the relevant passages, or the places that you searched for them in vain",
    )
    quote: str = Field(
        default="",
        max_length=600,
        description=("the relevant passage of the paper, copied word for word; empty if the answer is no"),
    )
    answer: bool = Field(description="true: yes")


class CheckAnswers(FrozenModel):
    """One `YesNoAnswer` per question; `build_answer_type` adds them."""


class TextAloneAnswer(FrozenModel):
    """The value of the text alone. `build_answer_type` adds the field `score` last."""

    reason: str = Field(min_length=1, max_length=3000, description=("judgement of a reader who has only the paper"))


class ResultsAnswer(FrozenModel):
    """The origin of the results, with its evidence."""

    details: str = Field(min_length=1, max_length=3000, description="what ran, what it computed, and how you know")
    quote: str = Field(
        default="",
        max_length=600,
        description=(
            "one passage of the material (facts, log, code or paper), at least twelve characters, "
            "copied word for word; empty if you cannot tell"
        ),
    )
    answer: ResultsOriginAnswer

    @model_validator(mode="after")
    def _check_ground(self) -> ResultsAnswer:
        if self.answer != "cannot tell" and len(self.quote.strip()) < MIN_QUOTE_CHARACTERS:
            raise ValueError(
                f"{self.answer!r} needs a quote of at least {MIN_QUOTE_CHARACTERS} characters; without one the "
                "answer is 'cannot tell'"
            )
        return self


Remark = Annotated[str, Field(min_length=1, max_length=2000)]


class JudgeAnswer(FrozenModel):
    """The answer of a judge: first the origin of the results, on which the scores depend."""

    results: SkipJsonSchema[ResultsAnswer | None] = Field(
        default=None, description="required if the rubric requests it"
    )
    strengths: tuple[Remark, ...] = Field(min_length=1, max_length=12)
    weaknesses: tuple[Remark, ...] = Field(min_length=1, max_length=12)
    text_alone: SkipJsonSchema[TextAloneAnswer | None] = Field(default=None, description="required with `results`")
    checks: SkipJsonSchema[CheckAnswers] = Field(
        default=CheckAnswers(), description="required if the rubric has questions"
    )
    scores: RubricScores
    confidence: int = Field(description="confidence in the overall judgement")


@functools.lru_cache(maxsize=32)
def build_answer_type(rubric: Rubric) -> type[JudgeAnswer]:
    """Return the output type for a rubric; equal rubrics share one type."""
    ranges = list(dict.fromkeys((one.lowest, one.highest) for one in rubric.dimensions))
    typed = {
        (lowest, highest): create_model(  # one schema definition for all dimensions with the same scale
            f"Score{lowest}To{highest}", __base__=RubricScore, score=(Annotated[int, Field(ge=lowest, le=highest)], ...)
        )
        for lowest, highest in ranges
    }
    fields: dict[str, Any] = {  # the prompt has the questions
        one.name: (typed[one.lowest, one.highest], ...) for one in rubric.dimensions
    }
    scores = create_model("RubricScores", __base__=RubricScores, **fields)
    asked: dict[str, Any] = {one.name: (YesNoAnswer, ...) for one in rubric.checks}
    more: dict[str, Any] = (
        {"checks": (create_model("RubricChecks", __base__=CheckAnswers, **asked), ...)} if asked else {}
    )
    if rubric.results and (of := rubric.overall_dimension) is not None:
        alone = create_model(
            "TextAlone", __base__=TextAloneAnswer, score=(Annotated[int, Field(ge=of.lowest, le=of.highest)], ...)
        )
        more |= {"text_alone": (alone, ...), "results": (ResultsAnswer, ...)}
    confidence = Annotated[int, Field(ge=rubric.confidence.lowest, le=rubric.confidence.highest)]
    return create_model(
        "Judgement",
        __base__=JudgeAnswer,
        __doc__="The judgement of a paper by the rubric.",
        scores=(scores, ...),
        confidence=(confidence, ...),
        **more,
    )


def _choose_answer_type(inputs: JudgeInputs) -> type[JudgeAnswer]:
    """Choose with a named function, since a role is pickled with its requests (tests/faults/http_study.py)."""
    return build_answer_type(inputs.rubric)


JUDGE = Role(
    "judge",
    JudgeInputs,
    JudgeAnswer,
    choose_output=_choose_answer_type,
    temperature=0.0,
    prompt_tokens=50_000,
    typical_tokens=(14_000, 2000),
)


# Role `influence`: find passages of a paper, or of its files, that address its judge instead of its readers. The
# answer has only numbers of passages and words quoted from them, so a passage cannot influence anything here,
# whatever it asks for.


class NumberedPassage(FrozenModel):
    """A sentence, or some lines, of the text."""

    number: int = Field(ge=1)
    text: str
    source: ExhibitKind | None = Field(default=None, description="kind of file; None: the paper")


class InfluenceInputs(FrozenModel):
    about: str = Field(default="", description="headings of the paper")
    passages: tuple[NumberedPassage, ...] = Field(min_length=1, description="in order, grouped by text")


class NamedPassage(FrozenModel):
    """A passage that addresses whoever judges the paper or tries to influence the judgement."""

    number: int
    quote: str = Field(min_length=1, max_length=300, description="a few words of it that do this, copied")


class Influence(FrozenModel):
    """Such passages; empty if there are none."""

    passages: tuple[NamedPassage, ...] = ()
    unread: SkipJsonSchema[bool] = Field(default=False, description="set by the offline model, which reads nothing")


def _check_named_passages(inputs: InfluenceInputs, found: Influence) -> None:
    texts = {one.number: letters_and_digits(one.text) for one in inputs.passages}
    for one in found.passages:
        if one.number not in texts:
            raise ValueError(
                f"passages: there is no passage {one.number}; they are numbered from {min(texts)} to {max(texts)}"
            )
        pieces = [letters_and_digits(piece) for piece in re.split(r"\.{3}|\u2026", one.quote)]
        if not any(pieces) or not all(piece in texts[one.number] for piece in pieces):
            raise ValueError(f"passages: {one.quote!r} is not in passage {one.number}; copy a few words of it")


def letters_and_digits(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


MAX_CALLS = 6
"""Maximum calls for a run's own paper, which has no other files (`review.judge.injection_screening`)."""

INFLUENCE = Role(
    "influence",
    InfluenceInputs,
    Influence,
    temperature=0.0,
    max_tokens=2048,
    prompt_tokens=16_000,
    typical_tokens=(6500, 40),
    check=_check_named_passages,
)
