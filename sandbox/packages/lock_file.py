"""Resolve and parse the lock of a run's packages: the packages added to those of the interpreter, each file with its
hash.

Guarantees: if the index has upload dates, nothing uploaded after the date of `Uv` is used; only wheels and the sources
of packages named with `:sdist` are used; packages of the interpreter keep their versions. Package code runs only in a
sandbox (`sandbox.packages.source_builds`).

Limits: another machine may resolve different packages. Packages in a lock are not resolved again.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from labwright.sandbox.errors import PackageError
from labwright.sandbox.packages.requirements import SDIST_SUFFIX, PackageRequirement
from labwright.sandbox.packages.uv import TORCH_INDEX, IndexUnavailable, Uv

_SECTION_HEADS = ("# wheels", "# built from their sources", "# what builds them")
_PIN_PATTERN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+!-]+)(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)")


@dataclass(frozen=True)
class PackagePin:
    """One version of a package and the sha256 of each of its permitted files."""

    name: str
    version: str
    hashes: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((f"{self.name}=={self.version}", *(f"--hash=sha256:{digest}" for digest in self.hashes)))


@dataclass(frozen=True)
class PackageLock:
    """Packages to install as wheels or build from source, and the build tools, which experiments cannot import."""

    wheels: tuple[PackagePin, ...]
    sources: tuple[PackagePin, ...] = ()
    tools: tuple[PackagePin, ...] = ()

    @property
    def text(self) -> str:
        """The content of the lock file: a list of requirements that pip and uv can read."""
        return "".join(
            f"{head}\n" + "".join(f"{pin}\n" for pin in pins)
            for head, pins in zip(_SECTION_HEADS, (self.wheels, self.sources, self.tools), strict=True)
            if pins
        )

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def packages(self) -> dict[str, str]:
        """Name -> version of the packages that experiments can import."""
        return {pin.name: pin.version for pin in sorted((*self.wheels, *self.sources), key=lambda pin: pin.name)}


def read_lock(path: Path, sha256: str = "") -> PackageLock:
    """Read a lock file. Raises `PackageError` if it is invalid or does not have the given hash."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackageError(
            f"the lock file {path} cannot be read ({error}): restore it, since it lists the run's packages"
        ) from None
    lock = parse_lock(text)
    if lock.text != text or (sha256 and lock.sha256 != sha256):
        raise PackageError(
            f"{path} is not the lock file in the record: restore it, since the run's packages are unknown without it"
        )
    return lock


def parse_lock(text: str) -> PackageLock:
    """Parse the text of a lock file; unknown lines are ignored."""
    found: dict[str, list[PackagePin]] = {head: [] for head in _SECTION_HEADS}
    head = _SECTION_HEADS[0]
    for line in text.splitlines():
        if line in found:
            head = line
        elif match := _PIN_PATTERN.fullmatch(line):
            hashes = tuple(re.findall(r"[0-9a-f]{64}", match["hashes"]))
            found[head].append(PackagePin(match["name"], match["version"], hashes))
    return PackageLock(*(tuple(found[head]) for head in _SECTION_HEADS))


def resolve_pins(uv: Uv, requirements: Iterable[str], *options: str) -> tuple[tuple[PackagePin, ...], dict[str, str]]:
    """Return the pins of exactly these requirements, and the addresses of source packages. Raises `PackageError`."""
    lock = tomllib.loads(
        uv.run(
            "pip",
            "compile",
            "--format",
            "pylock.toml",
            "--generate-hashes",
            *options,
            "-",
            stdin=_format_requirements(requirements),
        )
    )
    pins, addresses = list[PackagePin](), dict[str, str]()
    for package in lock.get("packages", []):
        files: list[dict[str, Any]] = [
            *([package["sdist"]] if "sdist" in package and "--no-binary" in options else []),
            *package.get("wheels", []),
        ]
        hashes = tuple(sorted({file["hashes"]["sha256"] for file in files if "sha256" in file.get("hashes", {})}))
        if not hashes:
            raise PackageError(f"the index gives no sha256 of {package['name']} {package['version']}")
        pins.append(PackagePin(package["name"], package["version"], hashes))
        if "sdist" in package:
            addresses[package["name"]] = (
                package["sdist"].get("url") or Path(package["sdist"]["path"]).absolute().as_uri()
            )
    return tuple(sorted(pins, key=lambda pin: pin.name)), addresses


def _format_requirements(words: Iterable[str]) -> str:
    """Return the input of uv: packages from an index only, one per line.

    Build requirements are written by strangers, and uv reads other lines as options: it includes a file, takes another
    index, or runs the code of a folder. Raises `PackageError`.
    """
    lines = list(words)
    for line in lines:
        with suppress(InvalidRequirement, RecursionError):
            if line.isprintable() and not Requirement(line).url:
                continue
        raise PackageError(f"{line[:100]!r} is not a package from an index")
    return "\n".join(lines)


WHEELS_ONLY_OPTIONS = ("--only-binary", ":all:")


def resolve_missing(uv: Uv, requirements: Sequence[str], installed: Mapping[str, str], *options: str) -> dict[str, str]:
    """Return the packages to install in addition to the interpreter's: name -> version.

    Raises `PackageError`.
    """
    constraints = "".join(f"{name}=={version}\n" for name, version in installed.items() if _is_version(version))
    constraints_file = uv.folder / "constraints.txt"
    constraints_file.write_text(constraints)
    report = json.loads(
        uv.run(
            "pip",
            "install",
            "--dry-run",
            "--output-format",
            "json",
            "--break-system-packages",
            *WHEELS_ONLY_OPTIONS,
            *options,
            "--constraints",
            str(constraints_file),
            "--requirements",
            "-",
            stdin=_format_requirements(requirements),
        )
    )
    return {change["name"]: change["version"] for change in report["changes"] if change["action"] == "installed"}


def explain_error(
    error: PackageError, requirements: Sequence[PackageRequirement], installed: Mapping[str, str]
) -> PackageError:
    """Return the error with the packages' names and advice, for the user."""
    installed_names = {canonicalize_name(name) for name in installed}
    message, names = str(error), ", ".join(one.requirement for one in requirements if one.name not in installed_names)
    if isinstance(error, IndexUnavailable):
        own = " (or install packages that depend on torch into sandbox.python)" if TORCH_INDEX in message else ""
        return IndexUnavailable(
            f"the package index is unreachable, and {names} {'are' if ',' in names else 'is'} not in the store: "
            f"run `scientist prefetch` with a network, with the same settings and interpreter{own}"
            f"; {message[:160]}"
        )
    pinned = [name for name, version in installed.items() if f"{canonicalize_name(name)}=={version}" in message]
    one = requirements[0].name if len(requirements) == 1 else "NAME"
    advice = (
        f"; {pinned[0]} {installed[pinned[0]]} of sandbox.python cannot be changed: request another version, or use "
        f"another interpreter"
        if pinned
        else f"; if you trust its source, write {one}{SDIST_SUFFIX}"
        if "wheels" in message
        else "; check the name"
        if "was not found" in message
        else ""
    )
    return PackageError(f"cannot install {', '.join(one.requirement for one in requirements)}: {message}{advice}")


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
