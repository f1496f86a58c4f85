"""The packages of one run: those of the settings, and what its plan asks for from the list that may be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from labwright.record.folder import write_file
from labwright.record.nouns.packages import Installed
from labwright.sandbox.errors import PackageError
from labwright.sandbox.isolation.interpreter import interpreter
from labwright.sandbox.packages.locks import read_lock
from labwright.sandbox.packages.store import Found, Overlay, find, provide
from labwright.sandbox.packages.wanted import Wanted, allowed_of, wanted_of
from labwright.sandbox.settings import SandboxSettings


@dataclass
class RunPackages:
    """What a plan may ask for, and what comes of it; `equip` is handed what was installed."""

    settings: SandboxSettings
    equip: Callable[[Overlay], None] = lambda _: None
    _found: dict[tuple[str, ...], Found] = field(default_factory=dict[tuple[str, ...], Found])

    @property
    def names(self) -> tuple[str, ...]:
        """What a plan may ask for beside what is there anyway. Raises `PackageError`."""
        return tuple(one.requirement for one in self._listed)

    def faults(self, asked: Iterable[str]) -> tuple[str, ...]:
        """What is wrong with what a plan asks for, one sentence each; waits for an index where it asks for any."""
        asked, listed = tuple(asked), {one.name for one in self._listed}
        odd = [name for name in asked if _name(name) not in listed | self._there]
        if odd:
            return tuple(
                f"package {name!r} cannot be asked for: `packages` may name "
                f"{', '.join(self.names) or 'none'}; do without it"
                for name in odd
            )
        if not asked:
            return ()
        try:
            self.find(asked)
        except PackageError as error:
            return (f"`packages`: {error}",)
        return ()

    def find(self, asked: Iterable[str] = ()) -> Found | None:
        """The lock of the settings' packages with those that were asked for; None without any. Raises `PackageError`,
        also for what `faults` tells."""
        wanted = {_name(name) for name in asked} - self._there
        words = (
            *self.settings.packages,
            *(
                word
                for one, word in zip(self._listed, allowed_of(self.settings.allowed).packages, strict=True)
                if one.name in wanted
            ),
        )
        if not words:
            return None
        if words not in self._found:
            self._found[words] = find(words, self.settings)
        return self._found[words]

    def overlay(self, asked: Iterable[str] = ()) -> Overlay | None:
        """The same, installed. Raises `PackageError`."""
        found = self.find(asked)
        return provide(found, self.settings) if found is not None else None

    def install(self, asked: Iterable[str], lock: Path) -> Installed | None:
        """Install them, write their lock there, and hand them over; None without any. Raises `PackageError`."""
        overlay = self.overlay(asked)
        if overlay is None:
            return None
        write_file(lock, overlay.lock.text)
        self.equip(overlay)
        return overlay.installed

    @property
    def _listed(self) -> tuple[Wanted, ...]:
        return wanted_of(allowed_of(self.settings.allowed).packages, "sandbox.allowed")

    @property
    def _there(self) -> set[str]:
        have = {_name(name) for name in interpreter(self.settings.python).packages}
        return have | {one.name for one in wanted_of(self.settings.packages)}


def again(installed: Installed | None, lock: Path, settings: SandboxSettings) -> Overlay | None:
    """What a run has installed, by its own lock: from the store, or installed again. Raises `PackageError`."""
    if installed is None:
        return None
    found = read_lock(lock, installed.sha256)
    return provide(Found(found, installed.asked, installed.until, 0.0), settings)


def _name(word: str) -> str:
    """The name of a package as a plan gives it, perhaps with a version."""
    return canonicalize_name(word.split("=")[0].split("<")[0].split(">")[0].split("[")[0].strip())
