"""Settings of a study of a user's repository (`scientist run --code`)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from labwright.record.schema.command_space import CommandSpace
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.repository import RepositoryCommand


def parse_pairs(raw: object) -> object:
    """Parse a list of NAME=VALUE texts into a mapping; other values are returned unchanged. Raises `ValueError`."""
    if not isinstance(raw, list | tuple):
        return raw
    found: dict[str, str] = {}
    for text in map(str, cast("list[object]", raw)):
        name, equals, value = text.partition("=")
        if not name or not equals or not value:
            raise ValueError(f"{text!r}: write NAME=VALUE")
        found[name] = value
    return found


def resolve_paths(paths: dict[str, str]) -> dict[str, str]:
    """Make paths absolute."""
    return {name: str(Path(path).expanduser().absolute()) for name, path in paths.items()}


class CodeSettings(FrozenModel):
    """The repository of a study. Without `repository`, a run has none and experiment code is written from scratch."""

    repository: Path | None = Field(default=None, description="folder of the repository; option --code")
    command: str = Field(
        default="", description="command line, with {seed} and, for arms, {overrides}; option --command"
    )
    metric: str = Field(default="", description="where to read the metric used for selection; option --metric")
    direction: Literal["max", "min"] = Field(default="max", description="whether larger or smaller values are better")
    scale: float = Field(default=1.0, description="factor applied to the metric, e.g. 0.01 for percentages")
    test_metric: str = Field(default="", description="where to read the test metric, sealed until the search ends")
    predictions: str = Field(
        default="", description="replaces metric and test_metric: predictions file of the command, scored by the host"
    )
    truth: Path | None = Field(
        default=None, description="table of labels for the predictions; never visible to the command"
    )
    expect: str = Field(
        default="",
        description="expected value of the unmodified repository, such as 0.83±0.02; another value ends the run",
    )
    hide: tuple[str, ...] = Field(default=(), description="regular expressions of output lines to withhold")
    frozen: tuple[str, ...] = Field(default=(), description="patterns of files that patches must not change")
    python: str = Field(default="", description="Python interpreter or conda environment, used unchanged")
    mounts: Annotated[dict[str, str], BeforeValidator(parse_pairs), AfterValidator(resolve_paths)] = Field(
        default_factory=dict,
        description="name next to the checkout, or path in it (with slash) -> external data; option --mount NAME=PATH",
    )
    env: Annotated[dict[str, str], BeforeValidator(parse_pairs)] = Field(
        default_factory=dict, description="environment variables of the command; option --env NAME=VALUE"
    )
    resume: str = Field(default="", description="command that resumes an interrupted run in the same folder")
    space: CommandSpace = Field(
        default=CommandSpace(), description="hyperparameters of the command, as in a plan; option --space (a file)"
    )
    dirty: bool = Field(default=False, description="whether to include uncommitted changes")
    commit: str = Field(default="", description="set by the program: the commit that the run started from")
    tree: str = Field(default="", description="set by the program: git's id of the file tree")
    packages: dict[str, str] = Field(
        default_factory=dict,
        description="set by the program: additionally installed packages, reused when the run is resumed",
    )

    @property
    def command_record(self) -> RepositoryCommand:
        """The command in the form used by the record."""
        argv = tuple(shlex.split(self.command))
        return RepositoryCommand(
            argv=argv,
            env=self.env,
            metric=self.metric,
            direction=self.direction,
            scale=self.scale,
            seeded=any("{seed}" in word for word in argv),
        )
