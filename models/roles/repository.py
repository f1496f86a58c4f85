"""What an author finds out about a user's repository: the command that produces its result, and its parts."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from labwright.models.roles.coder import AuthorTask, CoderInputs, HandIn
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.repository import MetricDirection, RepositoryEdit

Word = Annotated[str, Field(min_length=1, max_length=500)]


class ShownFile(FrozenModel):
    """A file, or the part of it that is shown."""

    path: str
    text: str
    first: int = Field(default=1, description="number of its first line")
    whole: bool = True


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
            "the value that the documents state, in the unit that is read, as 0.83 or 0.83±0.02; empty: they state none"
        ),
    )
    pins: tuple[Word, ...] = Field(
        default=(), max_length=20, description="packages to install, such as name or name==1.2"
    )


class PrepareInputs(CoderInputs):
    result: ClassVar[type[HandIn]] = PreparedCommand
    task: AuthorTask = "prepare"


class PartWay(FrozenModel):
    """One way to take a part out: words added to the command, edits of files, or both."""

    what: str = Field(min_length=1, max_length=200, description="in words: `--no-gust`, `ln_1 is the identity`")
    words: tuple[Word, ...] = Field(default=(), max_length=20)
    edits: tuple[RepositoryEdit, ...] = Field(default=(), max_length=12)


class ProposedPart(FrozenModel):
    """A part of the method that can be taken out."""

    name: str = Field(min_length=1, max_length=60, description="short, unique, as the code calls it")
    path: str = Field(description="file in which it is")
    symbol: str = Field(description="function, class, Class.method, option or key in that file")
    why: str = Field(min_length=1, max_length=300, description="what it does in the method")
    prior: float = Field(ge=0, le=1)
    ways: tuple[PartWay, ...] = Field(min_length=1, max_length=3)


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
    targets: tuple[Word, ...] = Field(min_length=1, max_length=20, description="where targets are made or read")
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
    result: ClassVar[type[HandIn]] = ProposedParts
    task: AuthorTask = "parts"
    functions: tuple[FunctionFact, ...] = Field(default=(), description="what ran, in the order of the code")
    switches: tuple[SwitchFact, ...] = ()
    metric_places: tuple[str, ...] = Field(default=(), description="`path:symbol` of the code that writes the metric")
