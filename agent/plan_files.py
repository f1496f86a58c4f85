"""Read and write data plans as YAML files (`run --dry-run --out`, `run --plan`, `amend --plan`, `approve --edit`), and
read the text of a paper that a person changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from labwright.agent.data import list_sources
from labwright.agent.environment import max_cell_resources
from labwright.agent.repository_setup import check_repository_plan
from labwright.agent.settings import Settings
from labwright.record.errors import UsageError
from labwright.record.events.search_events import ProtocolReviewed
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.frozen_model import describe_validation_error
from labwright.record.schema.idea import Idea
from labwright.record.schema.paper import EditableText, PaperDraft
from labwright.record.yaml_text import dump_yaml, load_yaml
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.packages import RunPackages
from labwright.sandbox.scorers import parse_scorers
from labwright.stages.data_planning import find_given_plan_faults

MAX_PLAN_BYTES = 200_000


def plan_to_yaml(plan: DataPlan) -> str:
    """Format a plan as YAML, omitting defaults."""
    return dump_yaml(plan.model_dump(mode="json", exclude_defaults=True))


def read_yaml(path: Path, noun: str) -> Any:
    """Read a YAML file. Raises `UsageError`."""
    try:
        if path.stat().st_size > MAX_PLAN_BYTES:
            raise UsageError(f"{path} is too large for a {noun} (more than {MAX_PLAN_BYTES} bytes)")
        return load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(error).split())[:200]}") from None


def read_plan(path: Path) -> DataPlan:
    """Read the plan in a file. Raises `UsageError`."""
    content = read_yaml(path, "data plan")
    try:
        return DataPlan.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(
            f"{path}: {where}: {first['msg']}; create a valid plan with: scientist run --dry-run --out FILE"
        ) from None


def read_text_file(path: Path, before: PaperDraft) -> PaperDraft:
    """Return a version of a paper's text with the changes of a file (`draft_versions.format_text`). Raises
    `UsageError`."""
    content = read_yaml(path, "paper")
    try:
        text = EditableText.model_validate(content)
    except ValidationError as error:
        raise UsageError(
            f"{path}: {describe_validation_error(error)}; start from a copy of the text.yaml that status names"
        ) from None
    return before.model_copy(update={name: getattr(text, name) for name in EditableText.model_fields})


def find_review_path(plan: Path) -> Path:
    """Return the path of the review of a plan file."""
    return plan.with_suffix(".review.json")


def read_review(path: Path, plan: DataPlan) -> ProtocolReviewed | None:
    """Read the review that a dry run saved next to a plan file; None if there is none for exactly this plan."""
    kept = find_review_path(path)
    try:
        review = ProtocolReviewed.model_validate_json(kept.read_bytes()) if kept.is_file() else None
    except (OSError, ValidationError):
        raise UsageError(f"{kept} is not a valid review: delete it to have the plan reviewed again") from None
    return review if review is not None and review.outcome == plan else None


def check_plan(plan: DataPlan, path: Path, idea: Idea, settings: Settings) -> None:
    """Refuse a given plan that cannot be carried out. Raises `UsageError`, `DatasetError`, `PackageError`."""
    check_repository_plan(plan, settings)
    sources = list_sources(settings)
    faults = find_given_plan_faults(
        plan,
        idea,
        sources,
        parse_scorers(sources, settings.sandbox.scorers),
        settings.seed,
        tuple(settings.subjects),
        max_cell_resources(settings.sandbox),
        HubOffers(settings.sandbox),
    )
    if faults := faults or RunPackages(settings.sandbox).find_faults(plan.packages):
        raise UsageError(f"{path}: {'; '.join(faults)}")
