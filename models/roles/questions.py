"""Answer a research question by an experiment on a repository: its design, its code, its conclusion."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.models.roles.experiment_code import AuthorTask, CoderInputs, HandIn
from labwright.models.roles.repository import ShownFile, Word
from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel
from labwright.record.schema.idea import ExperimentDesign, ResearchQuestion


class RepositoryInputs(FrozenModel):
    """A repository as shown to a role that may request more of it."""

    map: str
    shown: tuple[ShownFile, ...]
    left_out: int = Field(default=0, description="number of text files that are not shown")
    requested: tuple[ShownFile, ...] = ()
    requests_left: int = 0
    complaints: tuple[str, ...] = Field(default=(), description="reason why the previous answer cannot be used")


class QuestionInputs(RepositoryInputs):
    """Inputs shared by the three roles."""

    asked: ResearchQuestion
    packages: tuple[str, ...] = Field(default=(), description="packages that its code can import")
    as_it_is: str = Field(default="", description="result of the unmodified repository, if measured")


class AuthorAnswer(FrozenModel):
    """An answer about a repository, or the places that the model must see first."""

    wants: tuple[Word, ...] = Field(
        default=(),
        max_length=20,
        description="files or places to see first, as path, path:symbol or path:line; then give nothing else",
    )


class DesignAnswer(AuthorAnswer):
    """A design, or the places that the model must see first."""

    design: ExperimentDesign | None = None


class ExperimentScript(HandIn):
    """The script that runs a designed experiment; the changes of files are those of the scratch copy."""

    script: str = Field(min_length=1, max_length=4000, description="bash: runs all of it from the repository's root")


class ExperimentInputs(CoderInputs):
    task: AuthorTask = "experiment"


class ListedValue(FrozenModel):
    """A value that a conclusion may print by its key."""

    key: str
    text: str = Field(description="as it will be printed")
    what: str


class QuestionConclusionInputs(FrozenModel):
    asked: ResearchQuestion
    design: ExperimentDesign
    values: tuple[ListedValue, ...]
    compared: tuple[str, ...] = Field(description="one line per two arms and metric: the direction of the first")
    doubts: tuple[str, ...] = Field(default=(), description="what two readings of the code call untrue")
    complaints: tuple[str, ...] = ()


class StatedDirection(FrozenModel):
    metric: Word
    arm: Word
    against: Word
    is_: Literal["higher", "lower", "the same", "open"] = Field(
        alias="is",
        description="`arm` compared with `against`; the same: no difference that matters; open: none of the others",
    )


class ConclusionAnswer(FrozenModel):
    """The conclusion of a study, with the directions that it states."""

    conclusion: str = Field(min_length=1, max_length=2400, description="numbers are written as {key}")
    directions: tuple[StatedDirection, ...] = Field(
        default=(), max_length=20, description="every direction that the conclusion states"
    )


def _check_design(inputs: QuestionInputs, answer: DesignAnswer) -> None:
    for named in (answer.design.arms, answer.design.metrics) if answer.design is not None else ():
        if len({one.name for one in named}) < len(named):
            raise ValueError("arms and metrics need different names")
    if answer.design is None and not (answer.wants and inputs.requests_left):
        raise ValueError("give a design" + ("; no more can be shown" if answer.wants else ""))


QUESTION_DESIGN = Role("question_design", QuestionInputs, DesignAnswer, temperature=0.3, check=_check_design)
QUESTION_CONCLUSION = Role(
    "question_conclusion", QuestionConclusionInputs, ConclusionAnswer, temperature=0.0, max_tokens=4096
)
