"""Resolve and install the packages of one run: those in the settings, and allowed ones that its plan requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from labwright.record.run_folder import write_file
from labwright.record.schema.packages import InstalledPackages
from labwright.sandbox.errors import PackageError
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.packages.lock_file import read_lock
from labwright.sandbox.packages.package_store import PackageOverlay, ResolvedLock, provide_packages, resolve_packages
from labwright.sandbox.packages.requirements import PackageRequirement, parse_allowed, parse_requirements
from labwright.sandbox.settings import SandboxSettings


@dataclass
class RunPackages:
    """The packages that a plan may request, and their installation. `add_packages` receives what was installed."""

    settings: SandboxSettings
    add_packages: Callable[[PackageOverlay], None] = lambda _: None
    _found: dict[tuple[str, ...], ResolvedLock] = field(default_factory=dict[tuple[str, ...], ResolvedLock])

    @property
    def names(self) -> tuple[str, ...]:
        """Return the packages that a plan may request. Raises `PackageError`."""
        return tuple(listed.requirement for listed in self._listed_requirements)

    def find_faults(self, requested: Iterable[str]) -> tuple[str, ...]:
        """Return the errors in a plan's package requests, one sentence each. May query the package index."""
        requested, listed = tuple(requested), {one.name for one in self._listed_requirements}
        odd = [name for name in requested if _parse_name(name) not in listed | self._installed_names]
        if odd:
            return tuple(
                f"package {name!r} is not allowed: `packages` may contain {', '.join(self.names) or 'none'}; remove it"
                for name in odd
            )
        if not requested:
            return ()
        try:
            self.find_lock(requested)
        except PackageError as error:
            return (f"`packages`: {error}",)
        return ()

    def find_lock(self, requested: Iterable[str] = ()) -> ResolvedLock | None:
        """Return the lock of the configured and requested packages; None if there are none. Raises `PackageError`,
        including for the errors that `find_faults` returns."""
        wanted = {_parse_name(name) for name in requested} - self._installed_names
        words = (
            *self.settings.packages,
            *(
                word
                for one, word in zip(
                    self._listed_requirements, parse_allowed(self.settings.allowed).packages, strict=True
                )
                if one.name in wanted
            ),
        )
        if not words:
            return None
        if words not in self._found:
            self._found[words] = resolve_packages(words, self.settings)
        return self._found[words]

    def build_overlay(self, requested: Iterable[str] = ()) -> PackageOverlay | None:
        """Install the configured and requested packages. Raises `PackageError`."""
        found = self.find_lock(requested)
        return provide_packages(found, self.settings) if found is not None else None

    def install(self, requested: Iterable[str], lock: Path) -> InstalledPackages | None:
        """Install the packages, write their lock file and call `add_packages`; return None if there are no packages.
        Raises `PackageError`."""
        overlay = self.build_overlay(requested)
        if overlay is None:
            return None
        write_file(lock, overlay.lock.text)
        self.add_packages(overlay)
        return overlay.installed

    @property
    def _listed_requirements(self) -> tuple[PackageRequirement, ...]:
        return parse_requirements(parse_allowed(self.settings.allowed).packages, "sandbox.allowed")

    @property
    def _installed_names(self) -> set[str]:
        installed = {_parse_name(name) for name in inspect_interpreter(self.settings.python).packages}
        return installed | {one.name for one in parse_requirements(self.settings.packages)}


def restore_packages(
    installed: InstalledPackages | None, lock: Path, settings: SandboxSettings
) -> PackageOverlay | None:
    """Restore a run's packages by its lock file, from the store or by installing them again. Raises `PackageError`."""
    if installed is None:
        return None
    found = read_lock(lock, installed.sha256)
    return provide_packages(ResolvedLock(found, installed.asked, installed.until, 0.0), settings)


def _parse_name(word: str) -> str:
    """Return the normalised name of a package, without version and extras."""
    return canonicalize_name(word.split("=")[0].split("<")[0].split(">")[0].split("[")[0].strip())
