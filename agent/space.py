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

from labwright.agent.plans import read_yaml
from labwright.agent.settings import Settings
from labwright.record.errors import WrongUse
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.space import Space, with_space
from labwright.sandbox.repository.mirror import Mirror
from labwright.stages.planned_tuning import range_faults
from labwright.stages.repository.code import Code, code_in
from labwright.stages.repository.words import completed, space_faults

_HEADINGS = set(Space.model_fields)


def of_file(settings: Settings, path: Path) -> Settings:
    """The settings with the space in a file. Raises `WrongUse`."""
    code = settings.code
    if code.repository is None:
        raise WrongUse("--space goes with --code: name the repository whose command it is of")
    read = code_in(Mirror.texts_of(code.repository, dirty=code.dirty))
    space = read_space(path, tuple(shlex.split(code.command)), read)
    return settings.model_copy(update={"code": code.model_copy(update={"space": space})})


def read_space(path: Path, argv: tuple[str, ...], code: Code) -> Space:
    """The space in a file, with what the repository tells of it. Raises `WrongUse`."""
    told = read_yaml(path, "space")
    if not isinstance(told, dict) or not told:
        raise WrongUse(f"{path} must name hyperparameters, arms or levels (docs/repositories.md)")
    told = cast("dict[str, Any]", told)
    told = dict(told) if told.keys() & _HEADINGS else {"hyperparameters": told}
    named = told.pop("hyperparameters", None) or {}
    if not isinstance(named, dict) or not all(isinstance(one, dict) for one in cast("dict[str, Any]", named).values()):
        raise WrongUse(f"{path}: hyperparameters: each is NAME: {{word: '--lr {{value}}', low: ..., high: ...}}")
    each = [completed(str(name), one, argv, code) for name, one in cast("dict[str, dict[str, Any]]", named).items()]
    try:
        space = Space.model_validate({**told, "hyperparameters": each})
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(one) for one in first["loc"]]
        if place[0] == "hyperparameters":
            place[1:2] = [str(each[int(place[1])]["name"])]
        raise WrongUse(f"{path}: {'.'.join(place)}: {first['msg']}") from None
    ranges = (f"hyperparameter {one.name!r}: {fault}" for one in space.hyperparameters for fault in range_faults(one))
    for fault in (*ranges, *space_faults(space, argv, code)):
        raise WrongUse(f"{path}: {fault}")
    return space


def merged(plan: DataPlan, space: Space) -> DataPlan:
    """A given plan with a given space. Raises `WrongUse` where they say different things."""
    made, faults = with_space(plan, space)
    if faults:
        raise WrongUse(faults[0])
    return made
