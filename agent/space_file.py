"""`--space FILE`: what can be set of a repository's command, read and held against it before anything is made.

    hyperparameters:
      lr: {word: '--lr {value}', low: 1e-4, high: 1e-1, log: true}
    arms:
      - {name: flat, role: method, description: without the bend, words: [--no-bend]}
    factor: noise rate
    levels:
      - {name: high, value: 0.4, words: [--noise, '0.4']}

A file of hyperparameters alone needs no heading. A default, its source and the word are the repository's own where the
file does not say them and its code does.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from labwright.agent.plan_files import read_yaml
from labwright.agent.settings import Settings
from labwright.record.errors import UsageError
from labwright.record.schema.command_space import CommandSpace, apply_space
from labwright.record.schema.data_plan import DataPlan
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.stages.repository.cli_args import complete_hyperparameter, find_space_faults
from labwright.stages.repository.code_index import CodeIndex, index_code
from labwright.stages.tuning_validation import find_range_faults

_HEADINGS = set(CommandSpace.model_fields)


def add_space_from_file(settings: Settings, path: Path) -> Settings:
    """The settings with the space in a file. Raises `WrongUse`."""
    code = settings.code
    if code.repository is None:
        raise UsageError("--space goes with --code: name the repository whose command it is of")
    read = index_code(GitMirror.read_working_texts(code.repository, dirty=code.dirty))
    space = read_space(path, tuple(shlex.split(code.command)), read)
    return settings.model_copy(update={"code": code.model_copy(update={"space": space})})


def read_space(path: Path, argv: tuple[str, ...], code: CodeIndex) -> CommandSpace:
    """The space in a file, with what the repository tells of it. Raises `WrongUse`."""
    told = read_yaml(path, "space")
    if not isinstance(told, dict) or not told:
        raise UsageError(f"{path} must name hyperparameters, arms or levels (docs/repositories.md)")
    told = cast("dict[str, Any]", told)
    told = dict(told) if told.keys() & _HEADINGS else {"hyperparameters": told}
    named = told.pop("hyperparameters", None) or {}
    if not isinstance(named, dict) or not all(isinstance(one, dict) for one in cast("dict[str, Any]", named).values()):
        raise UsageError(f"{path}: hyperparameters: each is NAME: {{word: '--lr {{value}}', low: ..., high: ...}}")
    each = [
        complete_hyperparameter(str(name), one, argv, code)
        for name, one in cast("dict[str, dict[str, Any]]", named).items()
    ]
    try:
        space = CommandSpace.model_validate({**told, "hyperparameters": each})
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(one) for one in first["loc"]]
        if place[0] == "hyperparameters":
            place[1:2] = [str(each[int(place[1])]["name"])]
        raise UsageError(f"{path}: {'.'.join(place)}: {first['msg']}") from None
    ranges = (
        f"hyperparameter {one.name!r}: {fault}" for one in space.hyperparameters for fault in find_range_faults(one)
    )
    for fault in (*ranges, *find_space_faults(space, argv, code)):
        raise UsageError(f"{path}: {fault}")
    return space


def merge_space(plan: DataPlan, space: CommandSpace) -> DataPlan:
    """A given plan with a given space. Raises `WrongUse` where they say different things."""
    made, faults = apply_space(plan, space)
    if faults:
        raise UsageError(faults[0])
    return made
