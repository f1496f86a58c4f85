"""Build the environment of a repository's commands: a given interpreter, or scientist's own with added packages.

A pin that is not met is disclosed as an `EnvironmentDeviation`: old versions have no wheels for a current Python, and
most code runs with newer ones. Docker and conda files are not read.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, cast

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import AfterValidator, BeforeValidator, Field

from labwright.record.baseline_check import parse_expected
from labwright.record.events.repository_events import EnvironmentBuilt
from labwright.record.schema import FrozenModel
from labwright.record.schema.repository import CommandSpace, EnvironmentDeviation, ExpectedResult, RepositoryCommand
from labwright.record.source_tree import RepositoryProgram
from labwright.sandbox.isolation.interpreter import format_environment, inspect_interpreter
from labwright.sandbox.job import PackageError, RepositoryError
from labwright.sandbox.packages import (
    TORCH_INDEX,
    IndexUnavailable,
    PackageOverlay,
    hash_path,
    provide_packages,
    resolve_packages,
)
from labwright.sandbox.repository.command import CommandEnvironment, OutputRedactor
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.metric import PREDICTIONS_KIND
from labwright.sandbox.settings import SandboxSettings

_REQUIREMENT_FILES = "requirements.txt requirements/base.txt requirements/requirements.txt pyproject.toml".split()
_NOT_FROM_INDEX = "not installed: it comes from an address, not from an index (use --python)"
_PIN_PATTERN = re.compile(r"(?<![<>~!=])={2,3}\s*([^\s,;+*]+?)(?:\.\*)?(?:\+[\w.]+)?(?=[,;\s]|$)")
"""A pin with its version, without the build label."""


@dataclass(frozen=True)
class RepositoryEnvironment:
    """The environment of commands and its recorded facts. Its mounts include the folders that settings make
    readable."""

    command_environment: CommandEnvironment
    facts: EnvironmentBuilt

    @property
    def text(self) -> str:
        """All packages, for `environment.txt` of a run."""
        return format_environment(self.command_environment.python, self.facts.packages)

    @property
    def digest(self) -> str:
        """Hash of everything on which a run depends besides its files, command line and seed."""
        runs, facts = inspect_interpreter(self.command_environment.python), self.facts
        packages = sorted(runs.packages.items()), sorted(facts.packages.items())
        content = (runs.version, *packages, sorted(facts.mounts.items()))
        return hashlib.sha256(repr(content).encode()).hexdigest()


def find_requirements(texts: Mapping[str, str]) -> list[Requirement]:
    """Return the packages required by a repository's own files, without development extras."""
    found = (_parse_requirements(name, texts[name]) for name in _REQUIREMENT_FILES if name in texts)
    return next(filter(None, found), list[Requirement]())


def build_environment(
    texts: Mapping[str, str],
    settings: SandboxSettings,
    *,
    python: str = "",
    mounts: Mapping[str, Path] | None = None,
    installed_before: Mapping[str, str] | None = None,
) -> RepositoryEnvironment:
    """Build the environment of a repository's commands. `python` is an interpreter or conda prefix, used unchanged.
    `installed_before` are packages added earlier, which are installed again in the same versions.

    Raises `RepositoryError` for an invalid interpreter, `ExecutorError` if it does not run.
    """
    program = find_interpreter(python) if python else settings.python
    runs, mounted = inspect_interpreter(program), dict(mounts or {})
    installed = {canonicalize_name(name): version for name, version in runs.packages.items()}
    fingerprints = {name: hash_path(str(path)) for name, path in mounted.items() if path.exists()}
    fingerprints |= {folder: hash_path(folder) for folder in settings.readable}
    missing: list[Requirement] = []
    deviations: list[EnvironmentDeviation] = []
    for requirement in find_requirements(texts):
        found = installed.get(canonicalize_name(requirement.name))
        if found is None:
            missing.append(requirement)
            if python or requirement.url:
                why = "" if python else _NOT_FROM_INDEX
                deviations.append(EnvironmentDeviation(wanted=str(requirement), found=why))
        elif not requirement.specifier.contains(found, prereleases=True):
            deviations.append(EnvironmentDeviation(wanted=str(requirement), found=found))
    facts = EnvironmentBuilt(
        python=runs.version, deviations=tuple(deviations), mounts=fingerprints, device=settings.device
    )
    environment = RepositoryEnvironment(CommandEnvironment(program, mounts=mounted), facts)
    if python or not missing:
        return environment
    words = [f"{name}=={version}" for name, version in (installed_before or {}).items()]
    words = words or _merge_requirements(missing)
    return add_packages(environment, words, settings) if words else environment


def _merge_requirements(wanted: Iterable[Requirement]) -> list[str]:
    """Return one requirement per package from an index, combining those on several lines."""
    found: dict[str, Requirement] = {}
    for requirement in wanted:
        if not requirement.url:
            known = found.setdefault(canonicalize_name(requirement.name), requirement)
            known.specifier &= requirement.specifier
            known.extras |= requirement.extras
            known.marker = None  # it holds here
    return list(map(str, found.values()))


def add_packages(
    environment: RepositoryEnvironment, requirements: Iterable[str], settings: SandboxSettings
) -> RepositoryEnvironment:
    """Add packages to the environment; each one that cannot be installed becomes a deviation.

    A pin that cannot be met is relaxed to newer versions.
    """
    requirements, command_environment, facts = list(requirements), environment.command_environment, environment.facts
    known = [f"{name}=={version}" for name, version in facts.packages.items()]
    accepted, why = {word: word for word in requirements}, dict[str, str]()

    def install() -> PackageOverlay | None:
        words = [*known, *accepted.values()]
        return provide_packages(resolve_packages(words, settings), settings) if accepted else None

    overlay = None
    try:
        overlay = install()
    except PackageError as error:
        accepted, why = _resolve_one_by_one(known, requirements, settings, error)
        try:
            overlay = install()
        except PackageError as second_error:
            why |= dict.fromkeys(accepted, _format_cause(second_error))
    found, packages = {word: f"not installed: {line}" for word, line in why.items()}, facts.packages
    if overlay is not None:
        packages, command_environment = overlay.lock.packages, replace(command_environment, packages=overlay.folder)
        relaxed = (word for word, other in accepted.items() if word != other)
        found |= {word: packages.get(canonicalize_name(Requirement(word).name), "") for word in relaxed}
    deviations = (EnvironmentDeviation(wanted=word, found=other) for word, other in found.items())
    update = {"packages": packages, "deviations": (*facts.deviations, *deviations)}
    return RepositoryEnvironment(command_environment, facts.model_copy(update=update))


def _resolve_one_by_one(
    known: Sequence[str], words: Sequence[str], settings: SandboxSettings, error: PackageError
) -> tuple[dict[str, str], dict[str, str]]:
    """Return, for each package, a form that can be installed together with the earlier packages, and the reasons why
    others cannot be installed.
    """
    if isinstance(error, IndexUnavailable) and TORCH_INDEX not in (cause := _format_cause(error)):
        return {}, dict.fromkeys(words, cause)
    accepted, why = dict[str, str](), dict[str, str]()
    for word in words:
        for form in dict.fromkeys((word, _PIN_PATTERN.sub(r">=\1", word))):
            try:
                resolve_packages([*known, *accepted.values(), form], settings)
            except PackageError as other:
                why.setdefault(word, _format_cause(other))
                continue
            accepted[word] = form
            why.pop(word, None)
            break
    return accepted, why


def _format_cause(error: PackageError) -> str:
    """Return why a package cannot be installed, without advice for those who plan a run."""
    text = " ".join(str(error.__cause__ or error).split())
    if isinstance(error, IndexUnavailable):
        return f"{TORCH_INDEX if TORCH_INDEX in text else 'the package index'} does not answer"
    return text[:400]


def find_interpreter(python: str) -> str:
    """Return the interpreter for a path or an environment prefix. Raises `RepositoryError`."""
    path = Path(python).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    found = str(path.absolute()) if path.exists() else shutil.which(python)
    if found is None or not os.access(found, os.X_OK):
        raise RepositoryError(
            f"{python!r} is neither an interpreter nor an environment prefix, as /opt/conda/envs/NAME"
        )
    return found


def _parse_requirements(name: str, text: str) -> list[Requirement]:
    if name.endswith(".toml"):
        try:
            lines = list(map(str, tomllib.loads(text)["project"]["dependencies"]))
        except (ValueError, LookupError, TypeError, RecursionError):
            return []
    else:
        lines = [line for line in text.splitlines() if not line.strip().startswith(("-", "git+", "http"))]
    found: list[Requirement] = []
    for line in lines:
        try:
            requirement = Requirement(line.partition(" #")[0].partition("--hash")[0].strip())
            if requirement.marker is None or requirement.marker.evaluate():
                found.append(requirement)
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName, RecursionError):
            continue
    return found


# Settings of a study of a user's repository (`scientist run --code`).


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

    repository: Path | None = Field(default=None, description="git repository to study (docs/repositories.md)")
    command: str = Field(
        default="",
        description="command to run, with {seed} for the seed, {out} for an output folder, {device} for cpu or cuda, "
        "and {overrides} for the options of an arm; a model finds it for ablate if it is not given",
    )
    metric: str = Field(
        default="",
        description="where to read the selection metric: FILE.json:a.b, FILE.csv:column@last, FILE.txt:REGEX or "
        "stdout:REGEX; with ablate --predictions, a metric such as accuracy",
    )
    direction: Literal["max", "min"] = Field(default="max", description="optimisation direction of the metric")
    test_metric: str = Field(default="", description="where to read the test metric; sealed until the search ends")
    predictions: str = Field(
        default="",
        description="instead of metric and test_metric: predictions file that the command writes and scientist scores",
    )
    truth: Path | None = Field(
        default=None, description="table of labels (label, id, split) for the predictions, hidden from the command"
    )
    expect: str = Field(
        default="", description="expected result, such as 0.83, 0.83±0.02 or 0.83±5%; any other value ends the run"
    )
    hide: tuple[str, ...] = Field(default=(), description="regular expressions of output lines to hide")
    frozen: tuple[str, ...] = Field(default=(), description="patterns of files that patches must not change")
    python: str = Field(
        default="",
        description="Python interpreter or conda prefix of the repository, used unchanged; empty: scientist's own, "
        "with the repository's requirements installed separately",
    )
    mounts: Annotated[dict[str, str], BeforeValidator(parse_pairs), AfterValidator(resolve_paths)] = Field(
        default_factory=dict,
        description=(
            "external data, mounted read-only: name next to the checkout (inside it, if the name has a slash) -> path"
        ),
    )
    env: Annotated[dict[str, str], BeforeValidator(parse_pairs)] = Field(
        default_factory=dict, description="environment variables of the command"
    )
    space: CommandSpace = Field(default=CommandSpace(), description="hyperparameters, arms and levels of the command")
    dirty: bool = Field(default=False, description="include uncommitted changes of the repository")
    commit: str = Field(default="", description="set automatically: commit that the run started from")
    tree: str = Field(default="", description="set automatically: git tree id of the files")
    packages: dict[str, str] = Field(
        default_factory=dict,
        description="set automatically: packages installed for the command, which a resumed run reuses",
    )

    @property
    def expected(self) -> ExpectedResult | None:
        """The expected result of the unmodified repository. Raises `ExpectedError`."""
        return parse_expected(self.expect) if self.expect else None

    @property
    def command_record(self) -> RepositoryCommand:
        """The command in the form used by the record."""
        return RepositoryCommand(
            argv=tuple(shlex.split(self.command)) or ("python",),
            env=self.env,
            metric=f"{PREDICTIONS_KIND}:{self.predictions}@{self.metric}" if self.predictions else self.metric,
            direction=self.direction,
        )


@dataclass(frozen=True)
class StudyRepository:
    """The repository of a study: its settings, the mirror with its files, the environment of its commands, and the
    program of its cells."""

    settings: CodeSettings
    mirror: GitMirror
    built: RepositoryEnvironment | None = None
    """None in a dry run, which runs no command."""

    @property
    def environment(self) -> RepositoryEnvironment:
        assert self.built is not None
        return self.built

    @cached_property
    def redactor(self) -> OutputRedactor:
        """Finds the output lines that reveal test results."""
        return OutputRedactor.from_metric(self.settings.test_metric, self.settings.hide)

    @cached_property
    def program(self) -> RepositoryProgram:
        """The part of every cell's program that does not depend on a plan."""
        code = self.settings
        return RepositoryProgram(
            commit=code.commit,
            tree=code.tree,
            command=code.command_record,
            name="",
            test_metric=code.test_metric,
            environment=self.built.digest if self.built is not None else "",
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
    reproduce_only: bool = Field(default=False, description="reproduce the result only; skip ablations")
    accept_baseline: bool = Field(default=False, description="ablate even if the result differs from code.expect")
