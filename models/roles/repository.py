"""What an author finds out about a user's repository: the command that produces its result, and its parts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.models.roles.experiment_code import (
    AuthorInputs,
    AuthorTask,
    CoderInputs,
    HandIn,
    ProgramDescription,
    check_added_arms,
)
from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel
from labwright.record.schema.idea import ExperimentDesign, ResearchQuestion
from labwright.record.schema.repository import MetricDirection, PartWay, ProposedPart, RepositoryEdit, Word
from labwright.record.source_tree import ArmCode


class ShownFile(FrozenModel):
    """A file, or the part of it that is shown."""

    path: str
    text: str
    first: int = Field(default=1, description="number of its first line")
    whole: bool = True


class ShownCode(FrozenModel):
    """The files of a repository, as a prompt shows them."""

    map: str
    shown: tuple[ShownFile, ...]
    left_out: int = Field(default=0, description="number of text files that are not shown in full")


class PreparedCommand(HandIn):
    """The command that produces a repository's main result here, and the place from which the number is read.

    The changes of files are those of the scratch copy.
    """

    words: tuple[Word, ...] = Field(
        min_length=1, max_length=60, description="the command line, one word per entry, with {seed} for the seed"
    )
    env: dict[str, str] = Field(default_factory=dict, description="environment variables that it needs")
    metric: str = Field(min_length=3, max_length=300, description="where the number is, in one of the forms above")
    direction: MetricDirection = Field(description="whether higher (max) or lower (min) is better")
    expected: str = Field(
        default="",
        max_length=40,
        description=(
            "the value that the documents state, in the unit that is read, as 0.83 or 0.83±0.02 (0 only with a "
            "tolerance); empty: they state none"
        ),
    )
    pins: tuple[Word, ...] = Field(
        default=(), max_length=20, description="packages to install, such as name or name==1.2"
    )
    impossible: str = Field(
        default="", description="why it gives no result here, such as missing data or hours; then the work ends with it"
    )


class PrepareInputs(CoderInputs):
    task: AuthorTask = "prepare"


class ProposedParts(HandIn):
    """The parts of a method, and the places that no part may touch. Changes of the scratch copy do not count."""

    parts: tuple[ProposedPart, ...] = Field(
        max_length=40, description="empty only if the method has no part that a run can do without"
    )
    whole: PartWay | None = Field(
        default=None,
        description=(
            "a way after which nothing of the model is left, such as an output of zeros, or steps of training that "
            "change nothing: the result without it is the floor; null if PyTorch optimizers train the model"
        ),
    )
    data: tuple[Word, ...] = Field(min_length=1, max_length=20, description="where inputs are made or read")
    targets: tuple[Word, ...] = Field(default=(), max_length=20, description="where targets are made or read")
    metric: tuple[Word, ...] = Field(min_length=1, max_length=20, description="where the number is computed")
    left_out: tuple[str, ...] = Field(
        default=(), max_length=40, description="candidates that are no parts, each as `name: reason`"
    )


class FunctionFact(FrozenModel):
    """A function that the traced run called, with kinds of values such as `array(32, 6)`, `number` or a class name."""

    path: str
    symbol: str
    name: str = Field(description="its symbol; the class of a method that runs when an instance is called")
    calls: int
    callers: tuple[str, ...] = Field(description="`path:symbol`, or `path` for code outside functions")
    arguments: dict[str, str]
    result: str
    alike: tuple[str, ...] = Field(default=(), description="arguments with the shape of the result in every call")

    @property
    def place(self) -> str:
        return f"{self.path}:{self.symbol}"

    def __str__(self) -> str:
        given = ", ".join(f"{name}: {kind}" for name, kind in self.arguments.items())
        return f"{self.place}({given}) -> {self.result}, {self.calls} calls from {', '.join(self.callers) or 'outside'}"


class SwitchFact(FrozenModel):
    """An option or a key of the configuration that turns something off that is on by default."""

    name: str
    path: str
    symbol: str
    way: PartWay

    def __str__(self) -> str:
        return f"{self.way.what} ({self.path})"


class PartsInputs(CoderInputs):
    task: AuthorTask = "parts"
    functions: tuple[FunctionFact, ...] = Field(default=(), description="what ran, in the order of the code")
    switches: tuple[SwitchFact, ...] = ()
    metric_places: tuple[str, ...] = Field(default=(), description="`path:symbol` of the code that writes the metric")


# Change a user's repository so that the arms of a study exist: the task `arms` of an author (`roles.coder`).


class ShownRepository(ShownCode):
    """A user's repository as shown in prompts."""

    command: str = Field(description="the command that every cell runs once")
    metric: str = Field(description="where its number is read")
    scored: bool = Field(
        default=False, description="whether the program scores its predictions instead of reading a number"
    )
    test_metric: bool = Field(default=False, description="whether test results are read too, and withheld")
    as_it_is: str = Field(default="", description="result and run time of one unmodified run")
    frozen: tuple[str, ...] = Field(default=(), description="patterns of files that may not change")


class ArmPatch(FrozenModel):
    """A change of the files of some arms."""

    arms: tuple[str, ...] = Field(min_length=1, max_length=20, description="the arms that it makes, never the baseline")
    start: str = Field(
        default="", description=("the arm whose files it changes; empty: each arm's own files, as in the starting node")
    )
    scratch: bool = Field(
        default=False, description="whether its files are those of the scratch copy as it is now; then give no edits"
    )
    words: tuple[Word, ...] | None = Field(
        default=None,
        max_length=30,
        description=(
            "arguments for the command of these arms that replace those of the data plan; null: keep the plan's"
        ),
    )
    edits: tuple[RepositoryEdit, ...] = Field(
        default=(),
        description="`old`, text that occurs exactly once, and `new` in its place; without `old`: a new file",
    )


class Patches(ProgramDescription, HandIn):
    """Patches that make the arms of a repository."""

    patches: tuple[ArmPatch, ...] = Field(default=(), max_length=20)


class PatchingInputs(AuthorInputs, CoderInputs):
    task: AuthorTask = "arms"
    repository: ShownRepository
    start: str = Field(default="", description="the arm with whose files the scratch copy starts; empty: the baseline")
    made: dict[str, ArmCode] = Field(default={}, description="arms of the starting node")


def check_patches(inputs: PatchingInputs, answer: Patches) -> None:
    """Raise `ValueError` if patches do not fit the task."""
    if answer.nothing_left and inputs.covered:
        return
    if not answer.patches:
        raise ValueError("no patch was written, and this task requires one")
    check_added_arms(inputs, answer, named=inputs.kind == "ablate")


# Answer a research question by an experiment on a repository: its design, its code, its conclusion.


class RepositoryInputs(ShownCode):
    """A repository as shown to a role that may request more of it."""

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
