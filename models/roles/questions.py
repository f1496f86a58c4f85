"""Answering a research question by an experiment on a repository: its design, its code, its conclusion."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from labwright.models.roles.repository import Shown, Word
from labwright.models.roles.role import Role
from labwright.record.edits import Edit, File
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.question import Design, Question

Sentence = Annotated[str, Field(min_length=1, max_length=600)]


class QuestionInputs(Frozen):
    """What its three roles share."""

    asked: Question
    map: str
    shown: tuple[Shown, ...]
    left_out: int = Field(default=0, description="text files that are not shown")
    packages: tuple[str, ...] = Field(default=(), description="that its code can import")
    as_it_is: str = Field(default="", description="what the repository gave as it is, where that was measured")
    requested: tuple[Shown, ...] = ()
    requests_left: int = 0
    complaints: tuple[str, ...] = Field(default=(), description="why the answer before cannot be used")


class DesignAnswer(Frozen):
    """A design; or what has to be seen first."""

    wants: tuple[Word, ...] = Field(
        default=(),
        max_length=20,
        description=("files or places to see first, as path, path:symbol or path:line; nothing else is given then"),
    )
    design: Design | None = None


class CodeInputs(QuestionInputs):
    design: Design
    seconds: float = Field(description="that the script may take")
    written: tuple[Shown, ...] = Field(default=(), description="files of the try before, as they are now")
    failed: str = Field(default="", description="what was wrong with that try")
    output: str = Field(default="", description="the end of what it printed")


class CodeAnswer(Frozen):
    """The change that carries the experiment out; or what has to be seen first."""

    wants: tuple[Word, ...] = Field(default=(), max_length=20, description="as for the design")
    edits: tuple[Edit, ...] = Field(default=(), max_length=40, description="changes of files that are there")
    files: tuple[File, ...] = Field(default=(), max_length=20, description="whole files: new ones, or written anew")
    script: str = Field(default="", max_length=4000, description="bash: runs all of it from the repository's root")


class ConclusionInputs(Frozen):
    asked: Question
    design: Design
    measured: tuple[str, ...] = Field(description="an arm on a metric, its mean, spread and n, a line each")
    compared: tuple[str, ...] = Field(description="two arms on a metric, and which way the second differs")
    complaints: tuple[str, ...] = ()


class StatedDirection(Frozen):
    metric: Word
    first: Word
    second: Word
    second_is: str = Field(pattern="^(lower|higher|same|unclear)$", description="against the first")


class StatedNumber(Frozen):
    text: Word = Field(description="the number as the conclusion prints it, with its % where it has one")
    what: Literal["mean", "sd", "value", "difference", "ratio", "percent"] = Field(
        description=(
            "of the arm: its mean, its standard deviation, one value; or its mean against that of `against`: the "
            "difference, the ratio, or the difference as a percentage of that of `against`"
        )
    )
    metric: Word
    arm: Word
    against: str = Field(default="", max_length=200)


class ConclusionAnswer(Frozen):
    conclusion: str = Field(min_length=1, max_length=2400)
    numbers: tuple[StatedNumber, ...] = Field(
        default=(),
        max_length=40,
        description=(
            "each number that the conclusion prints, but for those of the question and counts of arms and seeds"
        ),
    )
    directions: tuple[StatedDirection, ...] = Field(
        default=(),
        max_length=20,
        description=("each direction that the conclusion states, by the names of arms and metrics"),
    )


def _designed(inputs: QuestionInputs, answer: DesignAnswer) -> None:
    if answer.design is None and not (answer.wants and inputs.requests_left):
        raise ValueError("give a design" + ("; no more can be shown" if answer.wants else ""))


def _coded(inputs: CodeInputs, answer: CodeAnswer) -> None:
    if answer.wants and not answer.script:
        if not inputs.requests_left:
            raise ValueError("wants: no more can be shown; give the change from what you have seen")
    elif not answer.script.strip() or not (answer.files or answer.edits):
        raise ValueError("give files or edits, and the script that runs the whole experiment")


QUESTION_DESIGN = Role("question_design", QuestionInputs, DesignAnswer, temperature=0.3, check=_designed)
QUESTION_CODE = Role("question_code", CodeInputs, CodeAnswer, temperature=0.3, max_tokens=16_384, check=_coded)
QUESTION_CONCLUSION = Role("question_conclusion", ConclusionInputs, ConclusionAnswer, temperature=0.0, max_tokens=4096)
