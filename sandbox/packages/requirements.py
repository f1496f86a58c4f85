"""Parse the additional packages for experiments and the list of packages that a planner may request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from labwright.sandbox.errors import PackageError

MODEL_PREFIX, DATA_PREFIX = "model:", "data:"


@dataclass(frozen=True)
class PackageRequirement:
    """A package such as `timm`, `timm>=1.0` or `gymnasium[all]`."""

    name: str
    """Normalised as in package indexes."""
    requirement: str


@dataclass(frozen=True)
class AllowedRequests:
    """The items that a planner may request, as listed by the user."""

    packages: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """OWNER/NAME@REVISION."""
    data: tuple[str, ...] = ()
    """NAME=hf:OWNER/SET with options, as for `--data`."""


def parse_allowed(words: Iterable[str]) -> AllowedRequests:
    """Split `sandbox.allowed` into its kinds, without prefixes. Raises `PackageError` for an invalid package."""
    words = tuple(words)
    models, data = (
        tuple(word.removeprefix(kind).strip() for word in words if word.startswith(kind))
        for kind in (MODEL_PREFIX, DATA_PREFIX)
    )
    packages = tuple(word for word in words if not word.startswith((MODEL_PREFIX, DATA_PREFIX)))
    parse_requirements(packages, "sandbox.allowed")
    return AllowedRequests(packages, models, data)


def parse_requirements(words: Iterable[str], setting: str = "sandbox.packages") -> tuple[PackageRequirement, ...]:
    """Parse the packages of a setting. Raises `PackageError` for an invalid or repeated name."""
    requirements = tuple(_parse_requirement(word.strip(), setting) for word in words)
    names = [requirement.name for requirement in requirements]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PackageError(f"{setting} lists {twice[0]} twice: remove one")
    return requirements


def _parse_requirement(word: str, setting: str) -> PackageRequirement:
    try:
        found = Requirement(word)
    except InvalidRequirement:
        raise PackageError(f"{setting}: {word!r} is not a package: write NAME or NAME==VERSION") from None
    if found.url or found.marker:
        raise PackageError(
            f"{setting}: {word!r} has {'an address' if found.url else 'a condition'}: packages are "
            "installed from an index, so give only names (and versions)"
        )
    return PackageRequirement(canonicalize_name(found.name), word)
