"""Derive research questions from a paper and its repository: questions, the scripts that answer them, their steps.

Source: EXP-Bench (2025), section 3, for the stages; the prompts are not copied.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labwright.models.roles.judge import ShownPaper
from labwright.models.roles.repository import ShownFile, Word
from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.research_question import ExperimentVariable

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


class QuestionScriptsInputs(FrozenModel):
    question: str
    method: str
    map: str
    shown: tuple[ShownFile, ...]
    left_out: int = 0
    requested: tuple[ShownFile, ...] = ()
    requests_left: int = 0
    complaints: tuple[str, ...] = ()


class QuestionScripts(FrozenModel):
    """The files that carry out an experiment, in the order in which they run; empty if there are none."""

    wants: tuple[Word, ...] = Field(
        default=(),
        max_length=20,
        description=("files or places to see first, as path, path:symbol or path:line; then give nothing else"),
    )
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


PAPER_QUESTIONS = Role("paper_questions", PaperQuestionsInputs, PaperQuestions, temperature=0.2, max_tokens=16_384)
QUESTION_SCRIPTS = Role("question_scripts", QuestionScriptsInputs, QuestionScripts, temperature=0.0, max_tokens=4096)
SCRIPT_STEPS = Role("script_steps", ScriptStepsInputs, ScriptSteps, temperature=0.0)
