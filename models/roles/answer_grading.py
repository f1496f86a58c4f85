"""Grade an answer to a research question on a repository: its design, change, conclusion and conduct.

Every graded item has an id and is answered exactly once; the program looks up quotes, counts and decides.
Source: EXP-Bench (2025), section 3 and appendix, for the graded items; the prompts are not copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel

Words = Annotated[str, Field(min_length=1, max_length=600)]
Quote = Annotated[str, Field(max_length=600, description="copied word for word; a program looks it up")]
MAX_ITEMS = 60


class GroundTruthItem(FrozenModel):
    """An item of the ground truth: a variable of the design, or a requirement on the change."""

    id: str
    text: str


class DesignInputs(FrozenModel):
    question: str
    items: tuple[GroundTruthItem, ...]
    design: tuple[str, ...] = Field(description="statements in the submitted design")


class ItemVerdict(FrozenModel):
    id: str
    reason: Words
    quote: Quote
    matched: bool


class DesignVerdicts(FrozenModel):
    """A verdict on each item of a design."""

    verdicts: tuple[ItemVerdict, ...] = Field(max_length=MAX_ITEMS)


class ChangeInputs(FrozenModel):
    question: str
    method: str
    items: tuple[GroundTruthItem, ...]
    change: str = Field(description="the change as a unified diff")
    originals: str = Field(default="", description="the scripts that were removed from the repository")
    cut: bool = Field(default=False, description="whether the diff was shortened to fit")


class RequirementVerdict(FrozenModel):
    id: str
    reason: Words
    quote: Quote
    verdict: Literal["met", "not met", "not applicable"]


class ChangeVerdicts(FrozenModel):
    """A verdict on each requirement of a code change."""

    verdicts: tuple[RequirementVerdict, ...] = Field(max_length=MAX_ITEMS)


class ConclusionGradingInputs(FrozenModel):
    question: str
    expected: str
    conclusion: str
    arms: tuple[str, ...] = Field(default=(), description="names of the compared arms in the results")
    metrics: tuple[str, ...] = ()


class JudgedDirection(FrozenModel):
    """A direction between two arms on a metric that the conclusion states."""

    metric: Words
    first: Words
    second: Words
    second_is: Literal["lower", "higher", "same", "unclear"]


class ConclusionVerdict(FrozenModel):
    """The verdict on a conclusion, with its reason."""

    reason: Words
    verdict: Literal["correct", "incorrect"]
    directions: tuple[JudgedDirection, ...] = Field(default=(), max_length=20)


class ConductInputs(FrozenModel):
    question: str
    log: str
    cut: bool = False


class Conduct(FrozenModel):
    """Suspicions of a reader of the log; facts decide, and suspicions are shown next to them."""

    reason: Words
    paper_access: bool
    git_operations: bool
    faked_or_nonexperimental_data: bool


def _check_each_once(asked: Iterable[GroundTruthItem], answered: Iterable[str]) -> None:
    wanted, found = [one.id for one in asked], Counter(answered)
    wrong = [
        *(f"{one} is not answered" for one in wanted if not found[one]),
        *(f"{one} is answered {number} times" for one, number in found.items() if number > 1),
        *(f"there is no {one}" for one in found if one not in wanted),
    ]
    if wrong:
        raise ValueError("answer each id exactly once: " + "; ".join(wrong[:8]))


def _check_design(inputs: DesignInputs, answer: DesignVerdicts) -> None:
    _check_each_once(inputs.items, (one.id for one in answer.verdicts))


def _check_change(inputs: ChangeInputs, answer: ChangeVerdicts) -> None:
    _check_each_once(inputs.items, (one.id for one in answer.verdicts))


ANSWER_DESIGN = Role("answer_design", DesignInputs, DesignVerdicts, temperature=0.0, check=_check_design)
ANSWER_CHANGE = Role("answer_change", ChangeInputs, ChangeVerdicts, temperature=0.0, check=_check_change)
ANSWER_CONCLUSION = Role(
    "answer_conclusion", ConclusionGradingInputs, ConclusionVerdict, temperature=0.0, max_tokens=4096
)
ANSWER_CONDUCT = Role("answer_conduct", ConductInputs, Conduct, temperature=0.0, max_tokens=2048)
