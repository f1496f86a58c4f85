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

from labwright.record.nouns.repository import Deviation
from labwright.sandbox.errors import PackageError, RepositoryError
from labwright.sandbox.ground import contents_of
from labwright.sandbox.isolation.interpreter import interpreter
from labwright.sandbox.packages.store import Found, Overlay, find, provide
from labwright.sandbox.packages.uv import NoAnswer
from labwright.sandbox.repository.command import Ground
from labwright.sandbox.settings import SandboxSettings

_FILES = ("requirements.txt", "requirements/base.txt", "requirements/requirements.txt", "pyproject.toml", "setup.cfg")
SOURCES = 3
"""Packages at most that are built from their sources since there is no wheel."""
_NEWER = re.compile(r"(?<![<>~!=])={2,3}\s*([^\s,;+*]+?)(?:\.\*)?(?:\+[\w.]+)?(?=[,;\s]|$)")
"""A pin: its version, without the label of a build."""
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
        content = (
            runs.version,
            sorted(runs.packages.items()),
            sorted(self.packages.items()),
            self.ground.folders,
            sorted(self.mounts.items()),
        )
        return hashlib.sha256(repr(content).encode()).hexdigest()


def wanted_in(texts: Mapping[str, str]) -> list[Requirement]:
    """The packages that a repository's own files ask for; its development extras are left out."""
    for name in _FILES:
        if name in texts and (found := _requirements(name, texts[name])):
            return found
    return []


def environment_for(
    texts: Mapping[str, str],
    settings: SandboxSettings,
    *,
    python: str = "",
    mounts: Mapping[str, Path] | None = None,
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
    others = tuple(
        Deviation(wanted=str(one), found=have[canonicalize_name(one.name)])
        for one in wanted
        if canonicalize_name(one.name) in have
        and not one.specifier.contains(have[canonicalize_name(one.name)], prereleases=True)
    )
    environment = replace(environment, deviations=others)
    if python or not lacking:
        return replace(environment, deviations=(*others, *(Deviation(wanted=str(one), found="") for one in lacking)))
    by_address = tuple(
        Deviation(
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
    words = [f"{name}=={version}" for name, version in (known or {}).items()] or _words(lacking)
    return with_packages(environment, words, settings) if words else environment


def _words(wanted: Iterable[Requirement]) -> list[str]:
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


def with_packages(environment: Environment, words: Iterable[str], settings: SandboxSettings) -> Environment:
    """The environment with more packages beside; what cannot be had is a deviation, and keeps no other away.

    A pin that nothing fits gives way to newer versions; what has no wheel is built from its source, in the sandbox.
    """
    words = list(words)
    known = [f"{name}=={version}" for name, version in environment.packages.items()]
    taken, why = {word: word for word in words}, dict[str, str]()
    try:
        overlay = _installed([*known, *words], settings)
    except PackageError as error:
        taken, why = _one_by_one(known, words, settings, error)
        if not taken:
            return replace(environment, deviations=(*environment.deviations, *_lacking(why)))
        try:
            overlay = _installed([*known, *taken.values()], settings)
        except PackageError as again:
            why |= dict.fromkeys(taken, _line(again))
            return replace(environment, deviations=(*environment.deviations, *_lacking(why)))
    had = {
        word: overlay.lock.packages.get(canonicalize_name(Requirement(word).name), "")
        for word, other in taken.items()
        if word != other
    }
    return replace(
        environment,
        how="beside",
        packages=overlay.lock.packages,
        ground=replace(environment.ground, packages=overlay.folder),
        deviations=(
            *environment.deviations,
            *(Deviation(wanted=one, found=found) for one, found in had.items()),
            *_lacking(why),
        ),
    )


def _one_by_one(
    known: Sequence[str], words: Sequence[str], settings: SandboxSettings, error: PackageError
) -> tuple[dict[str, str], dict[str, str]]:
    """As what each of these packages can be had beside those before it, and why one cannot be."""
    if isinstance(error, NoAnswer):
        return {}, dict.fromkeys(words, _line(error))
    taken, why = dict[str, str](), dict[str, str]()
    for word in words:
        for form in dict.fromkeys((word, _NEWER.sub(r">=\1", word))):
            try:
                _found([*known, *taken.values(), form], settings)
            except PackageError as other:
                why.setdefault(word, _line(other))
                continue
            taken[word] = form
            why.pop(word, None)
            break
    return taken, why


def _lacking(why: Mapping[str, str]) -> Iterator[Deviation]:
    return (Deviation(wanted=word, found=f"cannot be had: {line}") for word, line in why.items())


def _line(error: PackageError) -> str:
    return " ".join(str(error).split())[:200]


def _installed(words: Sequence[str], settings: SandboxSettings) -> Overlay:
    """The packages from the store, or installed into it. Raises `PackageError`."""
    return provide(_found(words, settings), settings)


def _found(words: Sequence[str], settings: SandboxSettings) -> Found:
    """The lock of packages; of those without a wheel the sources. Raises `PackageError`."""
    for _ in range(SOURCES):
        try:
            return find(words, settings)
        except PackageError as error:
            found = re.search(r"([\w.-]+?)((?:[<>=!~]=?[\w.*]+,?)*) has no (?:usable )?wheels", str(error))
            source = f"{found[1]}{found[2]}:sdist" if found is not None else ""
            if not source or source in words:
                raise
            words = [*words, source]
    return find(words, settings)


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
        raise RepositoryError(
            f"{python!r} is no interpreter, nor the prefix of an environment: name one, such as /opt/conda/envs/NAME"
        )
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
