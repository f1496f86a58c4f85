"""`--space FILE`: hyperparameters, arms and levels of a repository's command, checked before anything is created.

    hyperparameters:
      lr: {word: '--lr {value}', low: 1e-4, high: 1e-1, log: true}
    arms:
      - {name: flat, role: method, description: without the bend, words: [--no-bend]}
    factor: noise rate
    levels:
      - {name: high, value: 0.4, words: [--noise, '0.4']}

A file with only hyperparameters needs no heading. Missing defaults, sources and words are taken from the
repository's code, if found there.
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
    """Add the space in a file to the settings. Raises `UsageError`."""
    code = settings.code
    if code.repository is None:
        raise UsageError("--space requires --code")
    read = index_code(GitMirror.read_working_texts(code.repository, dirty=code.dirty))
    space = read_space(path, tuple(shlex.split(code.command)), read)
    return settings.model_copy(update={"code": code.model_copy(update={"space": space})})


def read_space(path: Path, argv: tuple[str, ...], code: CodeIndex) -> CommandSpace:
    """Read the space in a file and complete it from the repository. Raises `UsageError`."""
    content = read_yaml(path, "space")
    if not isinstance(content, dict) or not content:
        raise UsageError(f"{path} must name hyperparameters, arms or levels (docs/repositories.md)")
    content = cast("dict[str, Any]", content)
    content = dict(content) if content.keys() & _HEADINGS else {"hyperparameters": content}
    named = content.pop("hyperparameters", None) or {}
    if not isinstance(named, dict) or not all(isinstance(one, dict) for one in cast("dict[str, Any]", named).values()):
        raise UsageError(
            f"{path}: hyperparameters: write each as NAME: {{word: '--lr {{value}}', low: ..., high: ...}}"
        )
    each = [
        complete_hyperparameter(str(name), one, argv, code)
        for name, one in cast("dict[str, dict[str, Any]]", named).items()
    ]
    try:
        space = CommandSpace.model_validate({**content, "hyperparameters": each})
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
    """Combine a given plan with a given space. Raises `UsageError` if they contradict."""
    made, faults = apply_space(plan, space)
    if faults:
        raise UsageError(faults[0])
    return made
