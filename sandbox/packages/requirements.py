"""How packages are named that experiments import beside those of their interpreter, and what a planner may ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from labwright.sandbox.errors import PackageError

SDIST_SUFFIX = ":sdist"
"""After a name: it may be built from its source."""
MODEL_PREFIX, DATA_PREFIX = "model:", "data:"


@dataclass(frozen=True)
class PackageRequirement:
    """A package, as `timm`, `timm>=1.0`, `gymnasium[all]` or, where it may be built from its source, `box2d:sdist`."""

    name: str
    """As indexes normalise it."""
    requirement: str
    allows_sdist: bool = False


@dataclass(frozen=True)
class AllowedRequests:
    """What a planner may ask for, as the user lists it."""

    packages: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """OWNER/NAME@REVISION."""
    data: tuple[str, ...] = ()
    """NAME=hf:OWNER/SET and options, as `--data` takes them."""


def parse_allowed(words: Iterable[str]) -> AllowedRequests:
    """The parts of `sandbox.allowed`, the prefixes taken off. Raises `PackageError` for what is no package there."""
    words = tuple(words)
    models, data = (
        tuple(word.removeprefix(kind).strip() for word in words if word.startswith(kind))
        for kind in (MODEL_PREFIX, DATA_PREFIX)
    )
    packages = tuple(word for word in words if not word.startswith((MODEL_PREFIX, DATA_PREFIX)))
    parse_requirements(packages, "sandbox.allowed")
    return AllowedRequests(packages, models, data)


def parse_requirements(words: Iterable[str], setting: str = "sandbox.packages") -> tuple[PackageRequirement, ...]:
    """The packages that a setting names. Raises `PackageError` for what is no name of one."""
    found = tuple(_parse_requirement(word.strip(), setting) for word in words)
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PackageError(f"{setting} names {twice[0]} twice: give it once")
    return found


def _parse_requirement(word: str, setting: str) -> PackageRequirement:
    text = word.removesuffix(SDIST_SUFFIX)
    try:
        found = Requirement(text)
    except InvalidRequirement:
        raise PackageError(
            f"{setting}: {word!r} is no package: write NAME, NAME==VERSION or NAME{SDIST_SUFFIX}"
        ) from None
    if found.url or found.marker:
        raise PackageError(
            f"{setting}: {word!r} has {'an address' if found.url else 'a condition'}: packages come "
            "from an index, by their names (and versions)"
        )
    return PackageRequirement(canonicalize_name(found.name), text, allows_sdist=text != word)
