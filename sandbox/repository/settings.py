"""What a study of a user's repository is told of it (`scientist run --code`)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from labwright.record.schema.command_space import CommandSpace
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.repository import RepositoryCommand


def parse_pairs(raw: object) -> object:
    """NAME=VALUE, each a text, as a mapping; anything else as it is. Raises `ValueError`."""
    if not isinstance(raw, list | tuple):
        return raw
    found: dict[str, str] = {}
    for one in map(str, cast("list[object]", raw)):
        name, equals, value = one.partition("=")
        if not name or not equals or not value:
            raise ValueError(f"{one!r}: write NAME=VALUE")
        found[name] = value
    return found


def resolve_paths(paths: dict[str, str]) -> dict[str, str]:
    """Paths as they stand from anywhere."""
    return {name: str(Path(path).expanduser().absolute()) for name, path in paths.items()}


class CodeSettings(FrozenModel):
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
    mounts: Annotated[dict[str, str], BeforeValidator(parse_pairs), AfterValidator(resolve_paths)] = Field(
        default_factory=dict,
        description=("name beside the checkout, or with a slash in it -> data outside; flag --mount NAME=PATH"),
    )
    env: Annotated[dict[str, str], BeforeValidator(parse_pairs)] = Field(
        default_factory=dict, description="variables of the command; flag --env NAME=VALUE"
    )
    resume: str = Field(default="", description="the command after one that was cut")
    space: CommandSpace = Field(
        default=CommandSpace(), description="what can be set of it, as a plan has it; flag --space (a file)"
    )
    dirty: bool = Field(default=False, description="whether work that is not committed is taken too")
    commit: str = Field(default="", description="the program fills it in: where the run began from")
    tree: str = Field(default="", description="the program fills it in: git's id of its files")
    packages: dict[str, str] = Field(
        default_factory=dict,
        description=("the program fills it in: what was installed beside, which a resumed run takes again"),
    )

    @property
    def command_record(self) -> RepositoryCommand:
        """The command as it is recorded."""
        argv = tuple(shlex.split(self.command))
        return RepositoryCommand(
            argv=argv,
            env=self.env,
            metric=self.metric,
            direction=self.direction,
            scale=self.scale,
            seeded=any("{seed}" in word for word in argv),
        )
