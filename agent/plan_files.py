"""Read and write data plans as YAML files (`run --dry-run --out`, `run --plan`, `amend --plan`, `approve --edit`), and
read the text of a paper that a person changed.

Also the files of a question and of a command's space.
"""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from labwright.agent.data import list_sources
from labwright.agent.environment import max_cell_resources
from labwright.agent.repository_setup import check_repository_plan
from labwright.agent.settings import Settings
from labwright.record.errors import UsageError
from labwright.record.events.search_events import ProtocolReviewed
from labwright.record.schema import describe_validation_error
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.idea import Idea, ResearchQuestion
from labwright.record.schema.paper import EditableText, PaperDraft
from labwright.record.schema.repository import CommandSpace, apply_space
from labwright.record.source_tree import OUTPUT_FOLDER
from labwright.record.yaml_text import describe_yaml_error, dump_yaml, load_yaml
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.packages import RunPackages
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.metric import MetricError, parse_metric
from labwright.sandbox.scorers import parse_scorers
from labwright.stages.data_planning import read_plan_choices
from labwright.stages.difference_tables import find_range_faults
from labwright.stages.repository.patch_scope import CodeIndex, index_code
from labwright.stages.repository.program_facts import complete_hyperparameter, find_space_faults

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
        raise UsageError(f"{path} is not valid YAML: {describe_yaml_error(error)}") from None


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
    """Return a version of a paper's text with the changes of a file (`stages.paper.typesetting.format_text`). Raises
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
    choices = read_plan_choices(
        idea,
        sources,
        parse_scorers(sources, settings.sandbox.scorers),
        settings.seed,
        HubOffers(settings.sandbox),
        subjects=tuple(settings.subjects),
        room=max_cell_resources(settings.sandbox),
        packages=RunPackages(settings.sandbox),
    )
    if faults := choices.find_faults(plan):
        raise UsageError(f"{path}: {'; '.join(faults)}")


# `--space FILE`: hyperparameters, arms and levels of a repository's command, checked before anything is created.
# hyperparameters: lr: {word: '--lr {value}', low: 1e-4, high: 1e-1, log: true} arms: - {name: flat, role: method,
# description: without the bend, words: [--no-bend]} factor: noise rate levels: - {name: high, value: 0.4, words:
# [--noise, '0.4']} A file with only hyperparameters needs no heading. Missing defaults, sources and words are taken
# from the repository's code, if found there.

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


def read_short_text(option: str, path: Path, max_bytes: int, fix: str) -> str:
    """Read the text file that an option names; `fix` says what to give. Raises `UsageError` if it is too large, no
    UTF-8 text or shorter than three words."""
    try:
        if path.stat().st_size > max_bytes:
            raise UsageError(f"{option} {path} is larger than {max_bytes // 1000} kB: {fix}")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {option} {path} ({error.strerror}): {fix}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{option} {path} is not UTF-8 text (byte {error.start}): save it as text") from None
    is_short = len(text.split()) < 3 and path.suffix != ".toml"
    fault = "is not text" if "\0" in text else "has fewer than three words" if is_short else ""
    if fault:
        raise UsageError(f"{option} {path} {fault}: {fix}")
    return text


# Read the file of a question: Markdown with just the question, or TOML with its fields.

MAX_QUESTION_BYTES = 100_000


def read_question(file: Path) -> ResearchQuestion:
    """Read a question file: A Markdown file contains just the question, a TOML file its fields. Raises `UsageError`."""
    text = read_short_text("--task", file, MAX_QUESTION_BYTES, "give only the question (.md or .toml)")
    if file.suffix != ".toml":
        return ResearchQuestion(question=text.strip())
    try:
        return parse_question(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError, MetricError) as error:
        why = describe_validation_error(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"--task {file}: {' '.join(why.split())}") from None


def parse_question(table: dict[str, Any]) -> ResearchQuestion:
    """Parse the fields of a question. Raises `ValueError`, `MetricError`."""
    known = sorted(ResearchQuestion.model_fields)
    if odd := [name for name in table if name not in known]:
        raise ValueError(f"unknown key {odd[0]!r}; known keys are {', '.join(known)}")
    if "question" not in table:
        raise ValueError("`question` is missing")
    measure, run = table.get("measure", ""), table.get("run", ())
    if isinstance(measure, dict):
        given = cast("dict[str, Any]", measure)
        better = given.get("better", table.get("better", "max"))
        table = table | {"better": {"lower": "min", "higher": "max"}.get(better, better)}
        printed = f"stdout:{given.get('stdout')}"
        measure = printed if "stdout" in given else f"{given.get('file', '')}:{given.get('key', '')}"
    words = shlex.split(run) if isinstance(run, str) else run
    run = tuple(str(word).replace("{out}", OUTPUT_FOLDER) for word in words)
    if bool(run) != bool(measure):
        raise ValueError("`run` (the command) and `measure` (where to read its number) must be given together")
    if measure:
        parse_metric(str(measure))
    return ResearchQuestion.model_validate(table | {"measure": measure, "run": run})
