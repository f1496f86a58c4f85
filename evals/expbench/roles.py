"""Grade an answer to a research question on a repository: its design, change, conclusion and conduct.

Every graded item has an id and is answered exactly once; the program looks up quotes, counts and decides. Source:
EXP-Bench (2025), section 3 and appendix, for the graded items; the prompts are not copied.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from labwright.evals.ablationbench.roles import check_each_once
from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel

PROMPTS = Path(__file__).parent
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


def _check_verdicts(inputs: DesignInputs | ChangeInputs, answer: DesignVerdicts | ChangeVerdicts) -> None:
    check_each_once((one.id for one in inputs.items), (one.id for one in answer.verdicts), "verdicts")


ANSWER_DESIGN = Role(
    "answer_design", DesignInputs, DesignVerdicts, temperature=0.0, check=_check_verdicts, folder=PROMPTS
)
ANSWER_CHANGE = Role(
    "answer_change", ChangeInputs, ChangeVerdicts, temperature=0.0, check=_check_verdicts, folder=PROMPTS
)
ANSWER_CONCLUSION = Role(
    "answer_conclusion", ConclusionGradingInputs, ConclusionVerdict, temperature=0.0, max_tokens=4096, folder=PROMPTS
)
ANSWER_CONDUCT = Role("answer_conduct", ConductInputs, Conduct, temperature=0.0, max_tokens=2048, folder=PROMPTS)
