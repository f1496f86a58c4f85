"""Judging papers: one by a rubric (`judge`), and the better of two (`prefer`).

`answer_type(rubric)` makes the output type: one required score a dimension, each within its own scale. A score that is
missing or out of range does not fit the schema, so the model is asked again; nothing is ever filled in for a judge.
"""

from __future__ import annotations

import functools
import itertools
import keyword
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import AuditFacts, ResultsOriginAnswer

ExhibitKind = Literal["task", "code", "log", "results"]


class Exhibit(FrozenModel):
    """A file, or a folder's files, that the paper is held against."""

    kind: ExhibitKind
    name: str
    text: str = Field(description="what is shown of it; cuts are marked")
    left_out: tuple[str, ...] = Field(default=(), description="what is not, in words")


class ShownPages(FrozenModel):
    """Pages of a PDF that go with the question as pictures."""

    shown: tuple[int, ...]
    total: int
    withheld: tuple[int, ...] = Field(default=(), description="pages with a passage that was taken out of the text")


Ground = Annotated[str, Field(min_length=1, max_length=2000)]
Better = Literal["first", "second", "neither"]


class ShownPaper(FrozenModel):
    """A paper as a judge of two sees it: neither its name nor its maker."""

    text: str = Field(description="by section; what was left out is marked in it")
    characters: int = Field(description="of the whole paper, the parts left out included")
    left_out: tuple[str, ...] = ()


class PreferInputs(FrozenModel):
    first: ShownPaper
    second: ShownPaper


class PaperPreference(FrozenModel):
    """Which of two papers is the better one. The grounds come before the verdict."""

    for_first: Ground = Field(description="what carries the first paper, and what it lacks, with a passage")
    for_second: Ground = Field(description="the same of the second")
    deciding: Ground = Field(description="what decides between them, in one or two sentences")
    better: Better


PREFER = Role("prefer", PreferInputs, PaperPreference, temperature=0.0)


MAX_DIMENSIONS = 10
Text = Annotated[str, Field(min_length=1, max_length=500)]


class Band(FrozenModel):
    """What the scores from `lowest` to `highest` mean."""

    lowest: int = Field(ge=0, le=100)
    highest: int = Field(ge=0, le=100)
    meaning: Text


class ScoreScale(FrozenModel):
    """Whole scores with a meaning each: bands from the best down, without gap or overlap."""

    bands: tuple[Band, ...] = Field(min_length=1, max_length=11)

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
    """What a judge is asked, and the name of the field that it answers in."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    questions: tuple[Text, ...] = Field(min_length=1, max_length=6)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if keyword.iskeyword(name) or hasattr(FrozenModel, name):
            raise ValueError(f"{name!r} is a word that the program needs itself; choose another name")
        return name


class Dimension(JudgeQuestion, ScoreScale):
    """One thing that is scored."""


class RubricCheck(JudgeQuestion):
    """A question that is answered by yes or no, and not scored."""

    yes: Text
    no: Text


class Rubric(FrozenModel):
    """What a paper is scored on."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")
    title: Text
    subject: Text = Field(default="a finished machine learning paper", description="what is judged, in a few words")
    source: str = Field(default="", max_length=1000)
    advice: tuple[Text, ...] = Field(default=(), max_length=12)
    checks: tuple[RubricCheck, ...] = Field(default=(), max_length=4)
    dimensions: tuple[Dimension, ...] = Field(min_length=1, max_length=MAX_DIMENSIONS)
    confidence: ScoreScale
    results: bool = Field(
        default=False,
        description="whether it is also asked how the results came about, and what "
        "the text alone is worth, on the scale of `overall`",
    )

    @model_validator(mode="after")
    def _check_overall(self) -> Rubric:
        if self.results and self.overall_dimension is None:
            raise ValueError(
                "results = true asks for a second score on the scale of 'overall', and there is no [dimensions.overall]"
            )
        return self

    @property
    def overall_dimension(self) -> Dimension | None:
        """The dimension of that name."""
        return next((one for one in self.dimensions if one.name == "overall"), None)

    @field_validator("dimensions", "checks")
    @classmethod
    def _check_distinct(cls, named: tuple[Dimension | RubricCheck, ...]) -> tuple[Dimension | RubricCheck, ...]:
        names = [one.name for one in named]
        if len(set(names)) != len(names):
            raise ValueError(f"a name is given twice: {', '.join(names)}")
        return named


class RecordFacts(FrozenModel):
    """What the record says of the run behind a paper of ours. Counts, unless a unit is given."""

    released: bool = Field(description="False: the paper is a draft that the binder or LaTeX refused")
    nodes: int = Field(description="nodes of the search, without replicates and aggregates")
    failed: int = Field(description="of these: buggy, pruned or cancelled")
    doubted: int = Field(description="of these: judged unsound, or marked as suspect")
    replicates: int = Field(description="good replicates of the reported configuration")
    replicates_failed: int
    fewest_seeds: int = Field(description="replicates behind the least replicated value of the paper; 0: none")
    ablations: int = Field(description="ablated parts whose node is good")
    datasets: int
    conditions: int = Field(description="of the data plan")
    for_method: int = Field(description="comparisons in which the method is measurably better, by paired intervals")
    for_other: int = Field(description="comparisons in which it is measurably worse")
    no_difference: int
    undecided: int = Field(description="comparisons with too few replicates to say")
    grades: tuple[tuple[str, int], ...] = Field(default=(), description="grade -> values of the paper with it")
    bound_values: int = Field(description="values in the text that are tied to the record")
    references: int = Field(description="distinct works cited")
    figures: int
    pages: int | None = Field(default=None, description="of main text")
    limited: str = Field(default="", description="why the run was ended early, if it was")
    models: tuple[str, ...] = ()
    calls: int = Field(description="model answers, up to the release")
    usd: float
    unpriced: int = Field(default=0, description="calls whose price is unknown")
    code_seconds: float = Field(description="seconds that experiments ran")


class JudgeInputs(FrozenModel):
    rubric: Rubric
    paper: str = Field(description="the text by section; what was left out is marked in it")
    characters: int = Field(description="of the whole paper, the parts left out included")
    left_out: tuple[str, ...] = ()
    facts: RecordFacts | None = Field(default=None, description="None: a paper that is not of a run of ours")
    audit: AuditFacts | None = Field(default=None, description="None: nothing was audited")
    exhibits: tuple[Exhibit, ...] = Field(default=(), description="what the paper is held against")
    removed: int = Field(default=0, description="passages that the guards took out")
    pages: ShownPages | None = Field(default=None, description="pages that go with the question as pictures")


MIN_QUOTE_CHARACTERS = 12
"""Characters of a quote: less stands in any paper."""


class RubricScore(FrozenModel):
    """A score and what it rests on. `answer_type` adds the field `score`, last: the ground comes before the number."""

    quote: str = Field(
        min_length=MIN_QUOTE_CHARACTERS,
        max_length=600,
        description=("a passage of up to thirty words that supports the score, copied word for word from the paper"),
    )
    reason: str = Field(min_length=1, max_length=3000, description="why this score and not the next higher one")


class RubricScores(FrozenModel):
    """One `Score` a dimension; `answer_type` adds them."""


class YesNoAnswer(FrozenModel):
    """The answer to a question by yes or no, and what it rests on."""

    details: str = Field(min_length=1, max_length=3000, description="the places meant, or what was looked at in vain")
    quote: str = Field(
        default="",
        max_length=600,
        description=("for a yes: the passage of the paper that is meant, copied word for word; for a no: empty"),
    )
    answer: bool = Field(description="true: yes")


class CheckAnswers(FrozenModel):
    """One `Answer` a question; `answer_type` adds them."""


class TextAloneAnswer(FrozenModel):
    """What the text is worth by itself. `answer_type` adds the field `score`, last."""

    reason: str = Field(
        min_length=1, max_length=3000, description=("what a reader who has the paper and nothing else would say of it")
    )


class ResultsAnswer(FrozenModel):
    """How the results came about, and what that rests on."""

    details: str = Field(min_length=1, max_length=3000, description="what ran, what it computed, and how you know")
    quote: str = Field(
        default="",
        max_length=600,
        description=(
            "one passage of what you were shown (facts, log, code or paper), of twelve characters at least, "
            "copied word "
            "for word; empty if you cannot tell"
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
    """What a judge answers."""

    strengths: tuple[Remark, ...] = Field(min_length=1, max_length=12)
    weaknesses: tuple[Remark, ...] = Field(min_length=1, max_length=12)
    text_alone: SkipJsonSchema[TextAloneAnswer | None] = Field(default=None, description="asked for with `results`")
    results: SkipJsonSchema[ResultsAnswer | None] = Field(default=None, description="asked for where the rubric does")
    checks: SkipJsonSchema[CheckAnswers] = Field(
        default=CheckAnswers(), description="asked for where the rubric has questions"
    )
    scores: RubricScores
    confidence: int = Field(description="in the overall judgement")
    heuristic: SkipJsonSchema[bool] = Field(default=False, description="set by the offline model: counted, not read")


def build_answer_type(rubric: Rubric) -> type[JudgeAnswer]:
    """The output type for a rubric; the same one for an equal rubric."""
    return _build_answer_type(rubric.model_dump_json())


@functools.lru_cache(maxsize=32)
def _build_answer_type(text: str) -> type[JudgeAnswer]:
    rubric = Rubric.model_validate_json(text)
    ranges = list(dict.fromkeys((one.lowest, one.highest) for one in rubric.dimensions))
    typed = {
        (lowest, highest): create_model(  # one definition in the schema for all that have the same scale
            f"Score{lowest}To{highest}", __base__=RubricScore, score=(Annotated[int, Field(ge=lowest, le=highest)], ...)
        )
        for lowest, highest in ranges
    }
    fields: dict[str, Any] = {  # what is asked stands in the prompt
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
    return create_model("Judgement", __base__=JudgeAnswer, scores=(scores, ...), confidence=(confidence, ...), **more)


def _choose_answer_type(inputs: JudgeInputs) -> type[JudgeAnswer]:
    """By name, since a role is pickled with its requests (tests/faults/http_study.py)."""
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
