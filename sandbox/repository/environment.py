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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from record.nouns.repository import Deviation
from sandbox.errors import PackageError, RepositoryError
from sandbox.ground import contents_of
from sandbox.isolation.interpreter import interpreter
from sandbox.packages.store import Overlay, find, provide
from sandbox.repository.command import Ground
from sandbox.settings import SandboxSettings

_FILES = ("requirements.txt", "requirements/base.txt", "requirements/requirements.txt", "pyproject.toml", "setup.cfg")
SOURCES = 3
"""Packages at most that are built from their sources since there is no wheel."""
_SAMPLED = 10**9
"""Bytes from which of a file only its size and a sample are hashed."""


@dataclass(frozen=True)
class Environment:
    """The ground of commands, with what is recorded of it."""

    ground: Ground
    how: Literal["given", "interpreter", "beside"]
    version: str
    packages: Mapping[str, str]
    deviations: tuple[Deviation, ...]
    mounts: Mapping[str, str]
    """Name -> fingerprint; of the folders that settings make readable, too."""

    @property
    def digest(self) -> str:
        """Of all that a run depends on besides its files, words and seed."""
        runs = interpreter(self.ground.python)
        content = (runs.version, sorted(runs.packages.items()), sorted(self.packages.items()), self.ground.folders,
                   sorted(self.mounts.items()))
        return hashlib.sha256(repr(content).encode()).hexdigest()


def wanted_in(texts: Mapping[str, str]) -> list[Requirement]:
    """The packages that a repository's own files ask for; its development extras are left out."""
    for name in _FILES:
        if name in texts and (found := _requirements(name, texts[name])):
            return found
    return []


def environment_for(
    texts: Mapping[str, str], settings: SandboxSettings, *, python: str = "", mounts: Mapping[str, Path] | None = None,
    known: Mapping[str, str] | None = None,
) -> Environment:
    """What its commands run with; `python` is an interpreter or the prefix of a conda environment, taken as it is.
    `known`: packages that were installed beside before, which are taken again in these versions.

    Raises `RepositoryError` where that is none, `ExecutorError` where it does not run.
    """
    program = interpreter_in(python) if python else settings.python
    ground = Ground(program, mounts=dict(mounts or {}))
    runs, wanted = interpreter(program), wanted_in(texts)
    have = {canonicalize_name(name): version for name, version in runs.packages.items()}
    prints = {name: fingerprint(path) for name, path in ground.mounts.items() if path.exists()}
    prints |= contents_of(settings.readable)
    environment = Environment(ground, "given" if python else "interpreter", runs.version, {}, (), prints)
    lacking = [one for one in wanted if canonicalize_name(one.name) not in have]
    others = tuple(Deviation(wanted=str(one), found=have[canonicalize_name(one.name)]) for one in wanted
                   if canonicalize_name(one.name) in have and not one.specifier.contains(
                       have[canonicalize_name(one.name)], prereleases=True))
    environment = replace(environment, deviations=others)
    if python or not lacking:
        return replace(environment, deviations=(*others, *(Deviation(wanted=str(one), found="") for one in lacking)))
    words = [f"{name}=={version}" for name, version in (known or {}).items()] or [str(one) for one in lacking]
    return with_packages(environment, words, settings)


def with_packages(environment: Environment, words: Iterable[str], settings: SandboxSettings) -> Environment:
    """The environment with more packages beside; what cannot be had is a deviation.

    A pin that nothing fits gives way to newer versions; what has no wheel is built from its source, in the sandbox.
    """
    words, why = list(words), ""
    newer = [re.sub(r"(?<![<>~!=])={2,3}(?!=)", ">=", one) for one in words]
    known = [f"{name}=={version}" for name, version in environment.packages.items()]
    for asked in (words, newer) if newer != words else (words,):
        try:
            overlay = _installed([*known, *asked], settings)
        except PackageError as error:
            why = why or " ".join(str(error).split())[:200]
            continue
        had = {one: overlay.lock.packages.get(canonicalize_name(Requirement(one).name), "") for one in words}
        unmet = tuple(Deviation(wanted=one, found=found) for one, found in had.items() if asked is newer)
        return replace(environment, how="beside", packages=overlay.lock.packages,
                       ground=replace(environment.ground, packages=overlay.folder),
                       deviations=(*environment.deviations, *unmet))
    return replace(environment, deviations=(*environment.deviations, *(
        Deviation(wanted=one, found=f"cannot be had: {why}") for one in words)))


def _installed(words: Sequence[str], settings: SandboxSettings) -> Overlay:
    """The packages from the store, or installed into it; of those without a wheel the sources. Raises `PackageError`.
    """
    for _ in range(SOURCES):
        try:
            return provide(find(words, settings), settings)
        except PackageError as error:
            found = re.search(r"([\w.-]+?)((?:[<>=!~]=?[\w.*]+,?)*) has no (?:usable )?wheels", str(error))
            source = f"{found[1]}{found[2]}:sdist" if found is not None else ""
            if not source or source in words:
                raise
            words = [*words, source]
    return provide(find(words, settings), settings)


def importing_from(environment: Environment, folder: str) -> Environment:
    """The environment with one more folder of the repository to import from."""
    ground = environment.ground
    return replace(environment, ground=replace(ground, folders=(*ground.folders, folder)))


def interpreter_in(python: str) -> str:
    """The interpreter that a path or the prefix of an environment means. Raises `RepositoryError`."""
    path = Path(python).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    found = str(path.absolute()) if path.exists() else shutil.which(python)
    if found is None or not os.access(found, os.X_OK):
        raise RepositoryError(f"{python!r} is no interpreter, nor the prefix of an environment: name one, such as "
                              "/opt/conda/envs/NAME")
    return found


def fingerprint(path: Path) -> str:
    """A hash of a file, or of all files below a folder; of large ones of their size and a sample."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    for one in files:
        size = one.stat().st_size
        digest.update(f"{one.relative_to(path) if one != path else ''}\0{size}\0".encode())
        with open(one, "rb") as file:
            if size <= _SAMPLED:
                digest.update(hashlib.file_digest(file, "sha256").digest())
                continue
            for part in range(16):
                file.seek(part * size // 16)
                digest.update(file.read(2**20))
    return digest.hexdigest()


def _requirements(name: str, text: str) -> list[Requirement]:
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
