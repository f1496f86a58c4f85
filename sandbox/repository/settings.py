"""What a study of a user's repository is told of it (`scientist run --code`)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.repository import Command
from labwright.record.nouns.space import Space


def pairs(given: object) -> object:
    """NAME=VALUE, each a text, as a mapping; anything else as it is. Raises `ValueError`."""
    if not isinstance(given, list | tuple):
        return given
    found: dict[str, str] = {}
    for one in map(str, cast("list[object]", given)):
        name, equals, value = one.partition("=")
        if not name or not equals or not value:
            raise ValueError(f"{one!r}: write NAME=VALUE")
        found[name] = value
    return found


def places(given: dict[str, str]) -> dict[str, str]:
    """Paths as they stand from anywhere."""
    return {name: str(Path(path).expanduser().absolute()) for name, path in given.items()}


class CodeSettings(Frozen):
    """The repository that a study is of. Without `repository` a run has none, and its experiments are written."""

    repository: Path | None = Field(default=None, description="its folder; flag --code")
    command: str = Field(
        default="", description=("how it is run, with {seed} and, for arms, {overrides}; flag --command")
    )
    metric: str = Field(default="", description="where its number is read, which selects; flag --metric")
    direction: Literal["max", "min"] = Field(default="max", description="whether more or less of it is better")
    scale: float = Field(default=1.0, description="what the number that is read is multiplied with")
    test_metric: str = Field(default="", description="read as the metric is, and sealed until the search is over")
    predictions: str = Field(
        default="",
        description=("in place of metric and test_metric: the file of predictions that it leaves, which we score"),
    )
    truth: Path | None = Field(default=None, description="labels of these, a table; never visible to it")
    expect: str = Field(
        default="", description=("what it is known to give, such as 0.83±0.02; another value ends the run")
    )
    hide: tuple[str, ...] = Field(default=(), description="regular expressions of lines of its output that nobody sees")
    frozen: tuple[str, ...] = Field(default=(), description="patterns of its files that no patch may change")
    python: str = Field(default="", description="an interpreter or a conda environment, taken as it is")
    mounts: Annotated[dict[str, str], BeforeValidator(pairs), AfterValidator(places)] = Field(
        default_factory=dict,
        description=("name beside the checkout, or with a slash in it -> data outside; flag --mount NAME=PATH"),
    )
    env: Annotated[dict[str, str], BeforeValidator(pairs)] = Field(
        default_factory=dict, description="variables of the command; flag --env NAME=VALUE"
    )
    resume: str = Field(default="", description="the command after one that was cut")
    space: Space = Field(default=Space(), description="what can be set of it, as a plan has it; flag --space (a file)")
    dirty: bool = Field(default=False, description="whether work that is not committed is taken too")
    commit: str = Field(default="", description="the program fills it in: where the run began from")
    tree: str = Field(default="", description="the program fills it in: git's id of its files")
    packages: dict[str, str] = Field(
        default_factory=dict,
        description=("the program fills it in: what was installed beside, which a resumed run takes again"),
    )

    @property
    def as_command(self) -> Command:
        """The command as it is recorded."""
        argv = tuple(shlex.split(self.command))
        return Command(
            argv=argv,
            env=self.env,
            metric=self.metric,
            direction=self.direction,
            scale=self.scale,
            seeded=any("{seed}" in word for word in argv),
        )
