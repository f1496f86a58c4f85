"""The packages of a run: resolved to a lock, and installed into the store that runs share (`sandbox.content_store`).

Guarantees: a set of packages appears atomically; concurrent runs install it only once; on each use every file is
verified, and the set is installed again if one differs. In a sandbox experiments cannot write to it; without one, only
file permissions prevent that. Limits: unused sets are kept until `scientist store --prune`, which may only be used
while no run is active.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from labwright.record.run_folder import write_file
from labwright.record.schema.packages import InstalledPackages
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.content_store import ContentStore, compute_key, default_store_root
from labwright.sandbox.errors import PackageError
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.packages.resolver import (
    TOTAL_TIMEOUT_SECONDS,
    WHEELS_ONLY_OPTIONS,
    IndexUnavailable,
    PackageLock,
    PackageRequirement,
    explain_error,
    lock_packages,
    open_uv,
    parse_allowed,
    parse_requirements,
    read_lock,
)
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.slots import try_lock

# --- the store --------------------------------------------------------------------------------------------------------

POLL_SECONDS = 0.1
"""Seconds between checks whether another run has finished a folder."""


@dataclass(frozen=True)
class ResolvedLock:
    """A lock and its origin."""

    lock: PackageLock
    requested: tuple[str, ...]
    until: str
    seconds: float
    is_from_cache: bool = False
    """Whether no index answered, so that its earlier answers were used."""


@dataclass(frozen=True)
class PackageOverlay:
    """Installed packages as used by kernels."""

    folder: Path | None
    """None if the interpreter already has all packages."""
    lock: PackageLock
    installed: InstalledPackages


def resolve_packages(requirements: Sequence[str], settings: SandboxSettings) -> ResolvedLock:
    """Resolve packages with the index, or with its earlier answers if it does not answer. Raises `PackageError`."""
    began, wanted = time.monotonic(), parse_requirements(requirements)
    installed = inspect_interpreter(settings.python).packages
    try:
        with open_uv(settings.python) as uv:
            lock = lock_packages(uv, [one.requirement for one in wanted], installed)
            now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            return ResolvedLock(lock, tuple(requirements), now, time.monotonic() - began, uv.is_offline)
    except PackageError as error:
        raise explain_error(error, wanted, installed) from None
    except OSError as error:
        raise _unwritable_error(error) from None


def provide_packages(found: ResolvedLock, settings: SandboxSettings) -> PackageOverlay:
    """Return the packages of a lock, installing them into the store if necessary. Raises `PackageError`."""
    lock, began, folder, shared = found.lock, time.monotonic(), None, True
    if lock.packages:
        try:
            folder, shared = _find_or_install(lock, settings)
        except OSError as error:
            raise _unwritable_error(error) from None
    runs = inspect_interpreter(settings.python)
    _check_needs(folder, found.requested, runs.version, runs.packages)
    return PackageOverlay(
        folder,
        lock,
        InstalledPackages(
            sha256=lock.sha256,
            packages=lock.packages,
            asked=found.requested,
            until=found.until,
            python=runs.version,
            bytes=0 if folder is None else sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()),
            seconds=round(found.seconds + time.monotonic() - began, 2),
            shared=shared,
        ),
    )


def _find_or_install(lock: PackageLock, settings: SandboxSettings) -> tuple[Path, bool]:
    """Return the folder of a lock's packages, and whether it existed undamaged. Raises `PackageError`, `OSError`."""
    store = ContentStore(settings.store or default_store_root())
    version = inspect_interpreter(settings.python).version.split(".")[:2]
    place = json.dumps([lock.text, version, sys.platform, platform.machine()])
    pointer = store.root / "packages" / hashlib.sha256(place.encode()).hexdigest()[:32]
    pointer.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + TOTAL_TIMEOUT_SECONDS
    with ExitStack() as locks:
        while try_lock(pointer.with_suffix(".lock"), locks) is None:
            if time.monotonic() > until:
                raise PackageError(f"another process has been creating {pointer} for a long time: stop it or wait")
            time.sleep(POLL_SECONDS)
        key = pointer.read_text() if pointer.is_file() else "missing"
        if (folder := store.find(key)) is not None and compute_key(folder) == key:
            return folder, True
        remove_tree(store.root / key, ignore_errors=True)
        key = _install_lock(lock, store, settings)
        write_file(pointer, key)
        return store.root / key / "content", False


def _install_lock(lock: PackageLock, store: ContentStore, settings: SandboxSettings) -> str:
    """Install the packages of a lock into the store and return their key there."""
    names = ", ".join(f"{name} {version}" for name, version in lock.packages.items())
    install = "pip install --no-deps --link-mode copy --compile-bytecode --require-hashes --requirements -"
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=store.root))
    content = part / "content"
    try:
        with open_uv(settings.python) as uv:
            uv.run(install, "--target", str(content), *WHEELS_ONLY_OPTIONS, stdin="\n".join(map(str, lock.pins)))
        for path in (content, *content.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~0o222)
        store.finish(part, key := compute_key(content), "packages", names)
        return key
    except IndexUnavailable:
        raise IndexUnavailable(
            f"the package index is unreachable, and {names} {'are' if len(lock.packages) > 1 else 'is'} not in "
            f"the store: continue with a network, or copy {store.root} from a machine that has it"
        ) from None
    except PackageError as error:
        version = inspect_interpreter(settings.python).version
        raise PackageError(f"cannot install {names} from the lock with Python {version}: {error}") from None
    finally:
        remove_tree(part, ignore_errors=True)


def _check_needs(folder: Path | None, asked: Sequence[str], version: str, installed: Mapping[str, str]) -> None:
    """Raise `PackageError` if a required package is missing from both the folder and the interpreter or has a wrong
    version, which means that the lock was made for another interpreter.
    """
    new = list(distributions(path=[str(folder)])) if folder is not None else []
    available = {canonicalize_name(name): version for name, version in installed.items()}
    available |= {canonicalize_name(distribution.metadata["Name"]): distribution.version for distribution in new}
    needs = [("the run", word) for word in (distribution.requirement for distribution in parse_requirements(asked))]
    needs += [(distribution.metadata["Name"], word) for distribution in new for word in distribution.requires or ()]
    python = {"python_version": ".".join(version.split(".")[:2]), "python_full_version": version}
    for who, word in needs:
        need = Requirement(word)
        if need.marker is not None and not need.marker.evaluate({**python, "extra": ""}):
            continue
        found = available.get(canonicalize_name(need.name))
        if found is None or not need.specifier.contains(found, prereleases=True):
            raise PackageError(
                f"{who} needs {need.name}{need.specifier}, but sandbox.python "
                f"{f'has {found}' if found else 'lacks it'}: install it there, or use the interpreter "
                "for which the packages were resolved"
            )


def _unwritable_error(error: OSError) -> PackageError:
    return PackageError(
        f"cannot write to {error.filename or 'the store'} ({error.strerror}): make it writable, or set another folder "
        "(sandbox.store)"
    )


# --- the packages of a run --------------------------------------------------------------------------------------------


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
