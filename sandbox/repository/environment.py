"""What a repository's commands run with: an interpreter as it is, or ours with what it asks for installed beside.

A pin that is not met is a `Deviation`, told and not hidden: old versions have no wheels for a Python of today, and
most code runs on newer ones. Docker and conda files are read by people.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from labwright.record.schema.repository import EnvironmentDeviation
from labwright.sandbox.environment_fingerprint import hash_folders
from labwright.sandbox.errors import PackageError, RepositoryError
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.packages.package_store import PackageOverlay, ResolvedLock, provide_packages, resolve_packages
from labwright.sandbox.packages.uv import IndexUnavailable
from labwright.sandbox.repository.command import CommandEnvironment
from labwright.sandbox.settings import SandboxSettings

_REQUIREMENT_FILES = (
    "requirements.txt",
    "requirements/base.txt",
    "requirements/requirements.txt",
    "pyproject.toml",
    "setup.cfg",
)
MAX_SOURCE_BUILDS = 3
"""Packages at most that are built from their sources since there is no wheel."""
_PIN_PATTERN = re.compile(r"(?<![<>~!=])={2,3}\s*([^\s,;+*]+?)(?:\.\*)?(?:\+[\w.]+)?(?=[,;\s]|$)")
"""A pin: its version, without the label of a build."""
_SAMPLED_FILE_BYTES = 10**9
"""Bytes from which of a file only its size and a sample are hashed."""


@dataclass(frozen=True)
class RepositoryEnvironment:
    """The ground of commands, with what is recorded of it."""

    command_environment: CommandEnvironment
    how: Literal["given", "interpreter", "beside"]
    version: str
    packages: Mapping[str, str]
    deviations: tuple[EnvironmentDeviation, ...]
    mounts: Mapping[str, str]
    """Name -> fingerprint; of the folders that settings make readable, too."""

    @property
    def digest(self) -> str:
        """Of all that a run depends on besides its files, words and seed."""
        runs = inspect_interpreter(self.command_environment.python)
        content = (
            runs.version,
            sorted(runs.packages.items()),
            sorted(self.packages.items()),
            self.command_environment.import_folders,
            sorted(self.mounts.items()),
        )
        return hashlib.sha256(repr(content).encode()).hexdigest()


def find_requirements(texts: Mapping[str, str]) -> list[Requirement]:
    """The packages that a repository's own files ask for; its development extras are left out."""
    for name in _REQUIREMENT_FILES:
        if name in texts and (found := _parse_requirements(name, texts[name])):
            return found
    return []


def build_environment(
    texts: Mapping[str, str],
    settings: SandboxSettings,
    *,
    python: str = "",
    mounts: Mapping[str, Path] | None = None,
    installed_before: Mapping[str, str] | None = None,
) -> RepositoryEnvironment:
    """What its commands run with; `python` is an interpreter or the prefix of a conda environment, taken as it is.
    `known`: packages that were installed beside before, which are taken again in these versions.

    Raises `RepositoryError` where that is none, `ExecutorError` where it does not run.
    """
    program = find_interpreter(python) if python else settings.python
    ground = CommandEnvironment(program, mounts=dict(mounts or {}))
    runs, wanted = inspect_interpreter(program), find_requirements(texts)
    have = {canonicalize_name(name): version for name, version in runs.packages.items()}
    prints = {name: compute_fingerprint(path) for name, path in ground.mounts.items() if path.exists()}
    prints |= hash_folders(settings.readable)
    environment = RepositoryEnvironment(ground, "given" if python else "interpreter", runs.version, {}, (), prints)
    lacking = [one for one in wanted if canonicalize_name(one.name) not in have]
    others = tuple(
        EnvironmentDeviation(wanted=str(one), found=have[canonicalize_name(one.name)])
        for one in wanted
        if canonicalize_name(one.name) in have
        and not one.specifier.contains(have[canonicalize_name(one.name)], prereleases=True)
    )
    environment = replace(environment, deviations=others)
    if python or not lacking:
        return replace(
            environment, deviations=(*others, *(EnvironmentDeviation(wanted=str(one), found="") for one in lacking))
        )
    by_address = tuple(
        EnvironmentDeviation(
            wanted=str(one),
            found=(
                "not installed: it comes from an address and not from an index (give an interpreter that has "
                "it, --python)"
            ),
        )
        for one in lacking
        if one.url
    )
    environment = replace(environment, deviations=(*others, *by_address))
    words = [f"{name}=={version}" for name, version in (installed_before or {}).items()] or _merge_requirements(lacking)
    return add_packages(environment, words, settings) if words else environment


def _merge_requirements(wanted: Iterable[Requirement]) -> list[str]:
    """One word a package that an index can have; what is asked of one in several lines holds together."""
    found: dict[str, Requirement] = {}
    for one in wanted:
        if not one.url:
            known = found.setdefault(canonicalize_name(one.name), one)
            known.specifier &= one.specifier
            known.extras |= one.extras
    return [
        one.name + (f"[{','.join(sorted(one.extras))}]" if one.extras else "") + str(one.specifier)
        for one in found.values()
    ]


def add_packages(
    environment: RepositoryEnvironment, requirements: Iterable[str], settings: SandboxSettings
) -> RepositoryEnvironment:
    """The environment with more packages beside; what cannot be had is a deviation, and keeps no other away.

    A pin that nothing fits gives way to newer versions; what has no wheel is built from its source, in the sandbox.
    """
    requirements = list(requirements)
    known = [f"{name}=={version}" for name, version in environment.packages.items()]
    taken, why = {word: word for word in requirements}, dict[str, str]()
    try:
        overlay = _install_packages([*known, *requirements], settings)
    except PackageError as error:
        taken, why = _resolve_one_by_one(known, requirements, settings, error)
        if not taken:
            return replace(environment, deviations=(*environment.deviations, *_describe_missing(why)))
        try:
            overlay = _install_packages([*known, *taken.values()], settings)
        except PackageError as again:
            why |= dict.fromkeys(taken, _first_line(again))
            return replace(environment, deviations=(*environment.deviations, *_describe_missing(why)))
    had = {
        word: overlay.lock.packages.get(canonicalize_name(Requirement(word).name), "")
        for word, other in taken.items()
        if word != other
    }
    return replace(
        environment,
        how="beside",
        packages=overlay.lock.packages,
        command_environment=replace(environment.command_environment, packages=overlay.folder),
        deviations=(
            *environment.deviations,
            *(EnvironmentDeviation(wanted=one, found=found) for one, found in had.items()),
            *_describe_missing(why),
        ),
    )


def _resolve_one_by_one(
    known: Sequence[str], words: Sequence[str], settings: SandboxSettings, error: PackageError
) -> tuple[dict[str, str], dict[str, str]]:
    """As what each of these packages can be had beside those before it, and why one cannot be."""
    if isinstance(error, IndexUnavailable):
        return {}, dict.fromkeys(words, _first_line(error))
    taken, why = dict[str, str](), dict[str, str]()
    for word in words:
        for form in dict.fromkeys((word, _PIN_PATTERN.sub(r">=\1", word))):
            try:
                _resolve_packages([*known, *taken.values(), form], settings)
            except PackageError as other:
                why.setdefault(word, _first_line(other))
                continue
            taken[word] = form
            why.pop(word, None)
            break
    return taken, why


def _describe_missing(why: Mapping[str, str]) -> Iterator[EnvironmentDeviation]:
    return (EnvironmentDeviation(wanted=word, found=f"cannot be had: {line}") for word, line in why.items())


def _first_line(error: PackageError) -> str:
    return " ".join(str(error).split())[:200]


def _install_packages(words: Sequence[str], settings: SandboxSettings) -> PackageOverlay:
    """The packages from the store, or installed into it. Raises `PackageError`."""
    return provide_packages(_resolve_packages(words, settings), settings)


def _resolve_packages(words: Sequence[str], settings: SandboxSettings) -> ResolvedLock:
    """The lock of packages; of those without a wheel the sources. Raises `PackageError`."""
    for _ in range(MAX_SOURCE_BUILDS):
        try:
            return resolve_packages(words, settings)
        except PackageError as error:
            found = re.search(r"([\w.-]+?)((?:[<>=!~]=?[\w.*]+,?)*) has no (?:usable )?wheels", str(error))
            source = f"{found[1]}{found[2]}:sdist" if found is not None else ""
            if not source or source in words:
                raise
            words = [*words, source]
    return resolve_packages(words, settings)


def add_import_folder(environment: RepositoryEnvironment, folder: str) -> RepositoryEnvironment:
    """The environment with one more folder of the repository to import from."""
    ground = environment.command_environment
    return replace(environment, command_environment=replace(ground, import_folders=(*ground.import_folders, folder)))


def find_interpreter(python: str) -> str:
    """The interpreter that a path or the prefix of an environment means. Raises `RepositoryError`."""
    path = Path(python).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    found = str(path.absolute()) if path.exists() else shutil.which(python)
    if found is None or not os.access(found, os.X_OK):
        raise RepositoryError(
            f"{python!r} is no interpreter, nor the prefix of an environment: name one, such as /opt/conda/envs/NAME"
        )
    return found


def compute_fingerprint(path: Path) -> str:
    """A hash of a file, or of all files below a folder; of large ones of their size and a sample."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    for one in files:
        size = one.stat().st_size
        digest.update(f"{one.relative_to(path) if one != path else ''}\0{size}\0".encode())
        with open(one, "rb") as file:
            if size <= _SAMPLED_FILE_BYTES:
                digest.update(hashlib.file_digest(file, "sha256").digest())
                continue
            for part in range(16):
                file.seek(part * size // 16)
                digest.update(file.read(2**20))
    return digest.hexdigest()


def _parse_requirements(name: str, text: str) -> list[Requirement]:
    if name.endswith(".toml"):
        try:
            project = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return []
        lines = list(map(str, project.get("project", {}).get("dependencies", [])))
    elif name.endswith(".cfg"):
        block = re.search(r"^install_requires\s*=\s*((?:\n[ \t]+.+)+|.*)", text, re.MULTILINE)
        lines = block[1].splitlines() if block else []
    else:
        lines = [line for line in text.splitlines() if not line.strip().startswith(("-", "git+", "http"))]
    found: list[Requirement] = []
    for line in lines:
        try:
            one = Requirement(line.partition(" #")[0].partition("--hash")[0].strip())
        except InvalidRequirement:
            continue
        if one.marker is None or one.marker.evaluate():
            found.append(one)
    return found
