"""The lock of a run's packages: what is taken beside what the interpreter has, each file known by its hash.

Kept: nothing is taken that was uploaded after the date of `Uv`, where the index says when; nothing but wheels, and the
sources of those packages that were named with `:sdist`; what the interpreter has stays in the version that it has. No
code of a package runs here, but in a sandbox (`sandbox.packages.source_builds`).

Not kept: that another machine finds the same packages. What was found is in the lock, and is never looked for again.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from labwright.sandbox.errors import PackageError
from labwright.sandbox.packages.requirements import SDIST_SUFFIX, PackageRequirement
from labwright.sandbox.packages.uv import TORCH_INDEX, IndexUnavailable, Uv

_SECTION_HEADS = ("# wheels", "# built from their sources", "# what builds them")
_PIN_PATTERN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+!-]+)(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)")


@dataclass(frozen=True)
class PackagePin:
    """One version of a package, and the sha256 of each file that may be taken for it."""

    name: str
    version: str
    hashes: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((f"{self.name}=={self.version}", *(f"--hash=sha256:{one}" for one in self.hashes)))


@dataclass(frozen=True)
class PackageLock:
    """What is installed: as wheels, or built from sources, by tools that are in no experiment's reach."""

    wheels: tuple[PackagePin, ...]
    sources: tuple[PackagePin, ...] = ()
    tools: tuple[PackagePin, ...] = ()

    @property
    def text(self) -> str:
        """As the file of a run has it: a list of requirements, which pip and uv read too."""
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
        """Name -> version, of what experiments can import."""
        return {pin.name: pin.version for pin in sorted((*self.wheels, *self.sources), key=lambda pin: pin.name)}


def read_lock(path: Path, sha256: str = "") -> PackageLock:
    """The lock in a file. Raises `PackageError` where it is none, or not the one with that hash."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackageError(f"{path} cannot be read ({error}): it says which packages the run has") from None
    lock = parse_lock(text)
    if lock.text != text or (sha256 and lock.sha256 != sha256):
        raise PackageError(f"{path} is not the lock that the record names: what the run had installed cannot be told")
    return lock


def parse_lock(text: str) -> PackageLock:
    """The lock that a text is; lines that belong to none are passed over."""
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
    """Pins of just these, and of each that is a source its address. Raises `PackageError`."""
    told = tomllib.loads(
        uv.run(
            "pip",
            "compile",
            "--format",
            "pylock.toml",
            "--generate-hashes",
            *options,
            "-",
            stdin="\n".join(requirements),
        )
    )
    pins, addresses = list[PackagePin](), dict[str, str]()
    for one in told.get("packages", []):
        files: list[dict[str, Any]] = [
            *([one["sdist"]] if "sdist" in one and "--no-binary" in options else []),
            *one.get("wheels", []),
        ]
        hashes = tuple(sorted({file["hashes"]["sha256"] for file in files if "sha256" in file.get("hashes", {})}))
        if not hashes:
            raise PackageError(f"the index gives no sha256 of {one['name']} {one['version']}")
        pins.append(PackagePin(one["name"], one["version"], hashes))
        if "sdist" in one:
            addresses[one["name"]] = one["sdist"].get("url") or Path(one["sdist"]["path"]).absolute().as_uri()
    return tuple(sorted(pins, key=lambda pin: pin.name)), addresses


WHEELS_ONLY_OPTIONS = ("--only-binary", ":all:")


def resolve_missing(uv: Uv, requirements: Sequence[str], installed: Mapping[str, str], *options: str) -> dict[str, str]:
    """What must be installed for these requirements beside what the interpreter has: name -> version.

    Raises `PackageError`.
    """
    constraints = "".join(f"{name}=={version}\n" for name, version in installed.items() if _is_version(version))
    with_these = uv.folder / "constraints.txt"
    with_these.write_text(constraints)
    told = json.loads(
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
            str(with_these),
            "--requirements",
            "-",
            stdin="\n".join(requirements),
        )
    )
    return {change["name"]: change["version"] for change in told["changes"] if change["action"] == "installed"}


def explain_error(
    error: PackageError, requirements: Sequence[PackageRequirement], installed: Mapping[str, str]
) -> PackageError:
    """The error as whoever named these packages is told of it, with what to do."""
    there = {canonicalize_name(name) for name in installed}
    told, names = str(error), ", ".join(one.requirement for one in requirements if one.name not in there)
    if isinstance(error, IndexUnavailable):
        own = " (or install what is built against torch into sandbox.python)" if TORCH_INDEX in told else ""
        return IndexUnavailable(
            f"an index does not answer, and {names} {'are' if ',' in names else 'is'} not in the store: "
            f"run scientist prefetch where there is a network, with the same settings and interpreter{own}"
            f"; {told[:160]}"
        )
    held = [name for name, version in installed.items() if f"{canonicalize_name(name)}=={version}" in told]
    one = requirements[0].name if len(requirements) == 1 else "NAME"
    advice = (
        f"; {held[0]} {installed[held[0]]} of sandbox.python stays as it is: name another version, or another "
        f"interpreter"
        if held
        else f"; where you trust its source, name it {one}{SDIST_SUFFIX}"
        if "wheels" in told
        else "; check the name"
        if "was not found" in told
        else ""
    )
    return PackageError(f"cannot install {', '.join(one.requirement for one in requirements)}: {told}{advice}")


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
