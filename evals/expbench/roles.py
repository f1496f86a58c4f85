"""Roles of EXP-Bench: derive research questions from a paper and its repository (questions, the scripts that answer
them, their steps), and grade answers to them.

Source: EXP-Bench (2025), section 3, for the stages; the prompts are not copied.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from labwright.evals.ablationbench.roles import check_each_once
from labwright.models.roles.judge import ShownPaper
from labwright.models.roles.repository import AuthorAnswer, RepositoryInputs, ShownFile
from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel
from labwright.record.schema.idea import ExperimentVariable

PROMPTS = Path(__file__).parent
Text = Annotated[str, Field(min_length=1, max_length=3000)]
MAX_QUESTIONS, MAX_SCRIPTS, MAX_STEPS = 12, 12, 30


class PaperQuestionsInputs(FrozenModel):
    title: str
    paper: ShownPaper
    map: str = Field(description="map of its repository")


class DraftQuestion(FrozenModel):
    """A question answered by one experiment of the paper."""

    question: Text
    method: Text = Field(description="all that is needed to carry it out, without the outcome")
    outcome: Text = Field(description="finding of the paper")
    quote: str = Field(max_length=600, description="a passage that reports the outcome, copied; a program looks it up")
    section: str = Field(default="", max_length=200)
    constants: tuple[ExperimentVariable, ...] = Field(default=(), max_length=20)
    varied: tuple[ExperimentVariable, ...] = Field(min_length=1, max_length=8)
    measured: tuple[ExperimentVariable, ...] = Field(min_length=1, max_length=8)
    setup: tuple[Text, ...] = Field(default=(), max_length=MAX_STEPS, description="steps, in order")


class PaperQuestions(FrozenModel):
    """Questions that the experiments of a paper answer."""

    questions: tuple[DraftQuestion, ...] = Field(max_length=MAX_QUESTIONS)


class QuestionScriptsInputs(RepositoryInputs):
    question: str
    method: str


class QuestionScripts(AuthorAnswer):
    """The files that carry out an experiment, in the order in which they run; empty if there are none."""

    scripts: tuple[str, ...] = Field(default=(), max_length=MAX_SCRIPTS)
    usage: str = Field(default="", max_length=2000, description="how to run them")
    why: str = Field(min_length=1, max_length=600)


class ScriptStepsInputs(FrozenModel):
    question: str
    method: str
    scripts: tuple[ShownFile, ...] = Field(description="with numbered lines")
    complaints: tuple[str, ...] = ()


class ScriptStep(FrozenModel):
    text: str = Field(min_length=1, max_length=600, description="an instruction that does not name the script")
    path: str
    line: int = Field(ge=1)


class ScriptSteps(FrozenModel):
    """The steps of an implementation, and instructions for its author."""

    steps: tuple[ScriptStep, ...] = Field(min_length=1, max_length=MAX_STEPS)
    instructions: Text


PAPER_QUESTIONS = Role(
    "paper_questions", PaperQuestionsInputs, PaperQuestions, temperature=0.2, max_tokens=16_384, folder=PROMPTS
)
QUESTION_SCRIPTS = Role(
    "question_scripts", QuestionScriptsInputs, QuestionScripts, temperature=0.0, max_tokens=4096, folder=PROMPTS
)
SCRIPT_STEPS = Role("script_steps", ScriptStepsInputs, ScriptSteps, temperature=0.0, folder=PROMPTS)


# Grade an answer to a research question on a repository: its design, change, conclusion and conduct. Every graded
# item has an id and is answered exactly once; the program looks up quotes, counts and decides. Source: EXP-Bench
# (2025), section 3 and appendix, for the graded items; the prompts are not copied.

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
    cut: bool = Field(default=False, description="whether this is one part of the diff")


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
