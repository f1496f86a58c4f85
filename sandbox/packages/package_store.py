"""The packages of a run, and the store of installed packages that runs share.

The store has one folder per lock in the user's cache, created once, then read-only.

Guarantees: a folder appears atomically; concurrent runs create it only once; on each use every file is verified by
hash, and the folder is recreated if one differs. In a sandbox experiments cannot write to it; without one, only file
permissions prevent that. Limits: unused folders are kept until `scientist store --prune`, which may only be used while
no run is active.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from labwright.record.run_folder import write_file
from labwright.record.schema.packages import InstalledPackages
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.content_store import compute_key
from labwright.sandbox.errors import PackageError
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.packages.resolver import (
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


def get_store_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "scientist" / "packages"


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
    lock, began, folder = found.lock, time.monotonic(), None
    facts, shared = {"bytes": 0}, True
    if lock.packages:
        store_folder = get_store_folder() / _compute_digest([lock.text, _compute_tag(settings)])
        try:
            with _hold_folder_lock(store_folder):
                shared = _is_complete(store_folder)
                if not shared:
                    _install_lock(lock, store_folder, settings)
                os.utime(store_folder / "facts.json")
        except OSError as error:
            raise _unwritable_error(error) from None
        folder, facts = store_folder / "packages", json.loads((store_folder / "facts.json").read_text())
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
            bytes=facts["bytes"],
            seconds=round(found.seconds + time.monotonic() - began, 2),
            shared=shared,
        ),
    )


def iterate_package_folders() -> Iterator[tuple[Path, int, float]]:
    """Yield each folder of installed packages, its size in bytes and its last use (seconds since 1970)."""
    for facts in get_store_folder().glob("*/facts.json"):
        with suppress(OSError, ValueError, KeyError):
            yield facts.parent, int(json.loads(facts.read_text())["bytes"]), facts.stat().st_mtime


def _install_lock(lock: PackageLock, store_folder: Path, settings: SandboxSettings) -> None:
    part = store_folder.with_name(f".{store_folder.name}.part")
    for old in (part, store_folder):
        remove_tree(old, ignore_errors=True)
    part.mkdir(parents=True)
    install = "pip install --no-deps --link-mode copy --compile-bytecode --require-hashes --requirements -"
    try:
        (part / "packages").mkdir()
        with open_uv(settings.python) as uv:
            uv.run(
                install, "--target", str(part / "packages"), *WHEELS_ONLY_OPTIONS, stdin="\n".join(map(str, lock.pins))
            )
    except PackageError as error:
        remove_tree(part, ignore_errors=True)
        names = ", ".join(f"{name} {version}" for name, version in lock.packages.items())
        if isinstance(error, IndexUnavailable):
            raise IndexUnavailable(
                f"the package index is unreachable, and {names} {'are' if len(lock.packages) > 1 else 'is'} not in "
                f"the store: continue with a network, or copy {store_folder} from a machine that has it"
            ) from None
        raise PackageError(
            f"cannot install {names} from the lock with Python {inspect_interpreter(settings.python).version}: {error}"
        ) from None
    for path in part.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    (part / "facts.json").write_text(
        json.dumps(
            {
                "files": compute_key(part / "packages"),
                "bytes": sum(path.lstat().st_size for path in (part / "packages").rglob("*") if path.is_file()),
            }
        )
    )
    os.rename(part, store_folder)


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


def _is_complete(store_folder: Path) -> bool:
    with suppress(OSError, ValueError, KeyError):
        return json.loads((store_folder / "facts.json").read_text())["files"] == compute_key(store_folder / "packages")
    return False


@contextmanager
def _hold_folder_lock(store_folder: Path, limit: float = 900.0) -> Generator[None]:
    """Hold the lock of a store folder. Raises `PackageError` if another process holds it for too long."""
    store_folder.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + limit
    with open(store_folder.with_suffix(".busy"), "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise PackageError(
                        f"another process has been creating {store_folder} for {limit:g} s: stop it or wait"
                    ) from None
                time.sleep(POLL_SECONDS)
        yield


def _unwritable_error(error: OSError) -> PackageError:
    return PackageError(
        f"cannot write to {error.filename or get_store_folder()} ({error.strerror}): make it writable, or set "
        "XDG_CACHE_HOME to another folder"
    )


def _compute_tag(settings: SandboxSettings) -> str:
    return (
        f"{'.'.join(inspect_interpreter(settings.python).version.split('.')[:2])} {sys.platform} {platform.machine()}"
    )


def _compute_digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]


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
