"""Data plans as YAML files: written by `run --dry-run --out`, given to `run --plan` and `amend --plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from labwright.agent.code import check_words
from labwright.agent.data import sources_of
from labwright.agent.environment import room_here
from labwright.agent.settings import Settings
from labwright.record.errors import WrongUse
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.idea import Idea
from labwright.record.yaml_text import load_yaml
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.packages.of_run import RunPackages
from labwright.sandbox.scorers import scorers_of
from labwright.stages.prepare import given_faults

MOST_BYTES = 200_000


def plan_text(plan: DataPlan) -> str:
    """A plan as YAML, without what is as it is by default."""
    return yaml.safe_dump(
        plan.model_dump(mode="json", exclude_defaults=True), sort_keys=False, allow_unicode=True, width=110
    )


def read_yaml(path: Path, noun: str) -> Any:
    """What a file holds. Raises `WrongUse`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise WrongUse(f"{path} is too large for a {noun} (more than {MOST_BYTES} bytes)")
        return load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise WrongUse(f"{path} is no YAML: {' '.join(str(error).split())[:200]}") from None


def read_plan(path: Path) -> DataPlan:
    """The plan in a file. Raises `WrongUse`."""
    told = read_yaml(path, "data plan")
    try:
        return DataPlan.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise WrongUse(f"{path}: {where}: {first['msg']}; write one with: scientist run --dry-run --out FILE") from None


def check_plan(plan: DataPlan, path: Path, idea: Idea, settings: Settings) -> None:
    """Refuse a given plan that cannot be carried out. Raises `WrongUse`, `DatasetError`, `PackageError`."""
    check_words(plan, settings)
    sources = sources_of(settings)
    faults = given_faults(
        plan,
        idea,
        sources,
        scorers_of(sources, settings.sandbox.scorers),
        settings.seed,
        tuple(settings.subjects),
        room_here(settings.sandbox),
        HubOffers(settings.sandbox),
    )
    if faults := faults or RunPackages(settings.sandbox).faults(plan.packages):
        raise WrongUse(f"{path}: {'; '.join(faults)}")
