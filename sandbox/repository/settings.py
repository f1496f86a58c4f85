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
    """Parse a list of NAME=VALUE strings into a mapping; other values are returned unchanged. Raises `ValueError`."""
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

    repository: Path | None = Field(default=None, description="folder of the repository; flag --code")
    command: str = Field(
        default="", description="command to run, with {seed} and, for arms, {overrides}; flag --command"
    )
    metric: str = Field(default="", description="where to read the selection metric; flag --metric")
    direction: Literal["max", "min"] = Field(default="max", description="optimisation direction")
    scale: float = Field(default=1.0, description="factor applied to the metric, e.g. 0.01 for percentages")
    test_metric: str = Field(default="", description="where to read the test metric; sealed until the search ends")
    predictions: str = Field(
        default="",
        description="instead of metric and test_metric: predictions file that the command writes and scientist scores",
    )
    truth: Path | None = Field(default=None, description="table of labels for the predictions, hidden from the command")
    expect: str = Field(default="", description="expected result, such as 0.83±0.02; any other value ends the run")
    hide: tuple[str, ...] = Field(default=(), description="regular expressions of output lines to hide")
    frozen: tuple[str, ...] = Field(default=(), description="patterns of files that patches must not change")
    python: str = Field(default="", description="Python interpreter or conda environment, used unchanged")
    mounts: Annotated[dict[str, str], BeforeValidator(parse_pairs), AfterValidator(resolve_paths)] = Field(
        default_factory=dict,
        description=(
            "external data: name next to the checkout (inside it, if the name has a slash) -> path; flag "
            "--mount NAME=PATH"
        ),
    )
    env: Annotated[dict[str, str], BeforeValidator(parse_pairs)] = Field(
        default_factory=dict, description="environment variables of the command; flag --env NAME=VALUE"
    )
    resume: str = Field(default="", description="command that resumes after a timeout")
    space: CommandSpace = Field(
        default=CommandSpace(), description="hyperparameters, arms and levels of the command; flag --space (a file)"
    )
    dirty: bool = Field(default=False, description="include uncommitted changes")
    commit: str = Field(default="", description="set automatically: commit that the run started from")
    tree: str = Field(default="", description="set automatically: git tree id of the files")
    packages: dict[str, str] = Field(
        default_factory=dict,
        description="set automatically: packages installed for the command, which a resumed run reuses",
    )

    @property
    def command_record(self) -> RepositoryCommand:
        """The command in the form used by the record."""
        argv = tuple(shlex.split(self.command)) or ("python",)
        return RepositoryCommand(
            argv=argv,
            env=self.env,
            metric=self.metric,
            direction=self.direction,
            scale=self.scale,
            seeded=any("{seed}" in word for word in argv),
        )


class AblationSettings(FrozenModel):
    """Settings of an ablation (`scientist ablate`)."""

    top: int = Field(default=5, ge=1, description="number of top components to report")
    budget_runs: int | None = Field(
        default=None,
        ge=8,
        description="total runs of the command, of which the baseline and its check take five; None: derived from the "
        "number of components",
    )
    proxy: str = Field(default="", description="cheaper command with the same metric, used to rank components")
    reproduce_only: bool = Field(default=False, description="reproduce the result only; skip ablations")
    accept_baseline: bool = Field(default=False, description="ablate even if the result differs from code.expect")
