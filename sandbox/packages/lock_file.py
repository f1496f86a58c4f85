"""Resolve and parse the lock of a run's packages: the packages added to those of the interpreter, each file with its
hash.

Guarantees: only wheels are used, so no code of a package runs; packages of the interpreter keep their versions.

Limits: another machine may resolve different packages. Packages in a lock are not resolved again.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from labwright.sandbox.errors import PackageError
from labwright.sandbox.packages.requirements import PackageRequirement
from labwright.sandbox.packages.uv import TORCH_INDEX, IndexUnavailable, Uv

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
    """Packages to install as wheels."""

    pins: tuple[PackagePin, ...]

    @property
    def text(self) -> str:
        """The content of the lock file: a list of requirements that pip and uv can read."""
        return "# wheels\n" * bool(self.pins) + "".join(f"{pin}\n" for pin in self.pins)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def packages(self) -> dict[str, str]:
        """Name -> version of the packages that experiments can import."""
        return {pin.name: pin.version for pin in self.pins}


def read_lock(path: Path, sha256: str = "") -> PackageLock:
    """Read a lock file. Raises `PackageError` if it is invalid or does not have the given hash."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackageError(
            f"the lock file {path} cannot be read ({error}): restore it, since it lists the run's packages"
        ) from None
    lock = PackageLock(
        tuple(
            PackagePin(match["name"], match["version"], tuple(re.findall(r"[0-9a-f]{64}", match["hashes"])))
            for match in map(_PIN_PATTERN.fullmatch, text.splitlines())
            if match is not None
        )
    )
    if lock.text != text or (sha256 and lock.sha256 != sha256):
        raise PackageError(
            f"{path} is not the lock file in the record: restore it, since the run's packages are unknown without it"
        )
    return lock


WHEELS_ONLY_OPTIONS = ("--only-binary", ":all:")


def lock_packages(uv: Uv, requirements: Sequence[str], installed: Mapping[str, str]) -> PackageLock:
    """Lock the packages to install in addition to the interpreter's. Raises `PackageError`."""
    missing = _resolve_missing(uv, requirements, installed)
    if not missing:
        return PackageLock(())
    compile_lock = "pip compile --format pylock.toml --generate-hashes --no-deps"
    wanted = "\n".join(f"{name}=={version}" for name, version in missing.items())
    pins: list[PackagePin] = []
    for package in tomllib.loads(uv.run(compile_lock, *WHEELS_ONLY_OPTIONS, "-", stdin=wanted))["packages"]:
        files: list[dict[str, Any]] = package.get("wheels", [])
        hashes = tuple(sorted({file["hashes"]["sha256"] for file in files if "sha256" in file.get("hashes", {})}))
        if not hashes:
            raise PackageError(f"the index gives no sha256 of {package['name']} {package['version']}")
        pins.append(PackagePin(package["name"], package["version"], hashes))
    return PackageLock(tuple(sorted(pins, key=lambda pin: pin.name)))


def _resolve_missing(uv: Uv, requirements: Sequence[str], installed: Mapping[str, str]) -> dict[str, str]:
    """Return the packages that the interpreter lacks: name -> version. Raises `PackageError`."""
    constraints = "".join(f"{name}=={version}\n" for name, version in installed.items() if _is_version(version))
    constraints_file = uv.folder / "constraints.txt"
    constraints_file.write_text(constraints)
    report = json.loads(
        uv.run(
            "pip install --dry-run --output-format json --break-system-packages --requirements -",
            *("--constraints", str(constraints_file)),
            *WHEELS_ONLY_OPTIONS,
            stdin="\n".join(requirements),
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
    advice = (
        f"; {pinned[0]} {installed[pinned[0]]} of sandbox.python cannot be changed: request another version, or use "
        f"another interpreter"
        if pinned
        else "; if you trust its source, install it into sandbox.python"
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
