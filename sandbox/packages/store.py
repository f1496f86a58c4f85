"""Where packages lie that runs share: a folder a lock, below the user's cache, made once and then only read.

Kept: a folder is made beside and renamed when it is whole; two runs at once make it once; whoever takes it checks every
file against the hash that it was made with, and makes it anew where one differs. Under isolation experiments cannot
write to it; without, they are asked not to, by its permissions. Not kept: room; what no run uses any more stays until
`scientist store --prune`, and may be removed while none is at work.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from labwright.record.descriptors import remove_tree
from labwright.record.folder import sha256, write_file
from labwright.record.nouns.packages import Installed
from labwright.sandbox.errors import PackageError
from labwright.sandbox.isolation.interpreter import interpreter
from labwright.sandbox.packages.locks import WHEELS, Lock, beside, explained, lock_in, pins_of
from labwright.sandbox.packages.sources import build, fetch, install_tools, tools_for
from labwright.sandbox.packages.uv import NoAnswer, Uv, uv_for
from labwright.sandbox.packages.wanted import Wanted, wanted_of
from labwright.sandbox.settings import SandboxSettings

POLL = 0.1
"""Seconds between looks whether another run has made a folder."""


@dataclass(frozen=True)
class Found:
    """A lock, and where it comes from."""

    lock: Lock
    asked: tuple[str, ...]
    until: str
    seconds: float
    kept: bool = False
    """Whether it was found at an earlier time, and no index answered now."""


@dataclass(frozen=True)
class Overlay:
    """Packages as kernels see them."""

    folder: Path | None
    """None where the interpreter has all."""
    lock: Lock
    installed: Installed


def store() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "scientist" / "packages"


def find(words: Sequence[str], settings: SandboxSettings) -> Found:
    """The lock of packages, found in the indexes; where none answers, as found before. Raises `PackageError`."""
    began, wanted, have = time.monotonic(), wanted_of(words), interpreter(settings.python).packages
    memory = store() / "asked" / _digest([_tag(settings), sorted(have.items())])
    try:
        with uv_for(settings.python, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}") as uv:
            lock = _resolved(uv, wanted, have, settings)
            write_file(
                memory / f"{_digest(sorted(words))}.json",
                json.dumps({"words": sorted(words), "lock": lock.text, "until": uv.until}),
            )
            return Found(lock, tuple(words), uv.until, time.monotonic() - began)
    except PackageError as error:
        if isinstance(error, NoAnswer) and (known := _remembered(memory, words)) is not None:
            return replace(known, seconds=time.monotonic() - began)
        raise explained(error, wanted, have) from None
    except OSError as error:
        raise _unwritable(error) from None


def _resolved(uv: Uv, wanted: Sequence[Wanted], have: Mapping[str, str], settings: SandboxSettings) -> Lock:
    there = {canonicalize_name(name) for name in have}
    sources = [fetch(uv, one.requirement, one.name) for one in wanted if one.sdist and one.name not in there]
    tools = tools_for(uv, sources, settings) if sources else ()
    wheels = [build(uv, one, settings) for one in sources]
    folders = [word for wheel in wheels for word in ("--find-links", str(wheel.parent))]
    built = {one.pin.name: one.pin for one in sources}
    new = beside(
        uv,
        [f"{one.name}=={built[one.name].version}" if one.name in built else one.requirement for one in wanted],
        have,
        *folders,
    )
    rest = [f"{name}=={version}" for name, version in new.items() if name not in built]
    lock = Lock(pins_of(uv, rest, "--no-deps", *WHEELS)[0] if rest else (), tuple(built.values()), tools)
    for source, wheel in zip(sources, wheels, strict=True):
        _keep_wheel(wheel, lock, source.pin.name, settings)
    return lock


def _remembered(folder: Path, words: Sequence[str]) -> Found | None:
    """Of the locks that were found here before and hold these packages, the one with the fewest others."""
    kept = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    fit = min((one for one in kept if set(words) <= set(one["words"])), key=lambda one: len(one["words"]), default=None)
    return None if fit is None else Found(lock_in(fit["lock"]), tuple(words), fit["until"], 0.0, kept=True)


def provide(found: Found, settings: SandboxSettings) -> Overlay:
    """The packages of a lock, from the store or installed into it. Raises `PackageError`."""
    lock, began, folder = found.lock, time.monotonic(), None
    facts, shared = {"bytes": 0}, True
    if lock.packages:
        place = store() / _digest([lock.text, _tag(settings)])
        try:
            with _alone(place):
                shared = _whole(place)
                if not shared:
                    _make(lock, place, settings)
                os.utime(place / "facts.json")
        except OSError as error:
            raise _unwritable(error) from None
        folder, facts = place / "packages", json.loads((place / "facts.json").read_text())
    runs = interpreter(settings.python)
    _check_needs(folder, found.asked, runs.version, runs.packages)
    return Overlay(
        folder,
        lock,
        Installed(
            sha256=lock.sha256,
            packages=lock.packages,
            asked=found.asked,
            built=tuple(one.name for one in lock.sources),
            until=found.until,
            python=runs.version,
            bytes=facts["bytes"],
            seconds=round(found.seconds + time.monotonic() - began, 2),
            shared=shared,
        ),
    )


def folders() -> Iterator[tuple[Path, int, float]]:
    """Each folder of installed packages, with its bytes and when it was last taken (seconds since 1970)."""
    for facts in store().glob("*/facts.json"):
        with suppress(OSError, ValueError, KeyError):
            yield facts.parent, int(json.loads(facts.read_text())["bytes"]), facts.stat().st_mtime


def _make(lock: Lock, place: Path, settings: SandboxSettings) -> None:
    part = place.with_name(f".{place.name}.part")
    for old in (part, place):
        remove_tree(old, ignore_errors=True)
    part.mkdir(parents=True)
    common = (
        "pip",
        "install",
        "--target",
        str(part / "packages"),
        "--no-deps",
        "--link-mode",
        "copy",
        "--compile-bytecode",
    )
    try:
        (part / "packages").mkdir()
        with uv_for(settings.python) as uv:
            if lock.wheels:
                uv.ask(
                    *common, "--require-hashes", *WHEELS, "--requirements", "-", given="\n".join(map(str, lock.wheels))
                )
            if wheels := [str(_wheel_of(uv, lock, pin.name, settings)) for pin in lock.sources]:
                uv.ask(*common, "--no-index", *wheels)
    except PackageError as error:
        remove_tree(part, ignore_errors=True)
        names = ", ".join(f"{name} {version}" for name, version in lock.packages.items())
        if isinstance(error, NoAnswer):
            raise NoAnswer(
                f"an index does not answer, and {names} {'are' if len(lock.packages) > 1 else 'is'} not in "
                f"the store: go on where there is a network, or bring {place} from where it is"
            ) from None
        raise PackageError(
            f"cannot install {names} as the lock says, with Python {interpreter(settings.python).version}: {error}"
        ) from None
    for path in part.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    (part / "facts.json").write_text(
        json.dumps(
            {
                "files": _files(part / "packages"),
                "bytes": sum(path.lstat().st_size for path in (part / "packages").rglob("*") if path.is_file()),
            }
        )
    )
    os.rename(part, place)


def _wheel_of(uv: Uv, lock: Lock, name: str, settings: SandboxSettings) -> Path:
    """The wheel of a package that is built from its source: as it was built here before, or built again."""
    kept = _kept_wheels(lock, name, settings)
    if not (wheels := list(kept.glob("*.whl"))):
        pin = next(pin for pin in lock.sources if pin.name == name)
        source = fetch(uv, f"{name}=={pin.version}", name, known=pin)
        install_tools(uv, lock.tools)
        _keep_wheel(build(uv, source, settings), lock, name, settings)
        wheels = list(kept.glob("*.whl"))
    return wheels[0]


def _keep_wheel(wheel: Path, lock: Lock, name: str, settings: SandboxSettings) -> None:
    write_file(_kept_wheels(lock, name, settings) / wheel.name, wheel.read_bytes())


def _kept_wheels(lock: Lock, name: str, settings: SandboxSettings) -> Path:
    pins = [str(pin) for pin in (*lock.tools, *lock.sources) if pin in lock.tools or pin.name == name]
    return store() / "built" / _digest([pins, _tag(settings)])


def _check_needs(folder: Path | None, asked: Sequence[str], version: str, have: Mapping[str, str]) -> None:
    """Raises `PackageError` where something that is needed is neither here nor in the interpreter, or in a version
    that does not do: the interpreter is another one than the lock was made for."""
    new = list(distributions(path=[str(folder)])) if folder is not None else []
    there = {canonicalize_name(name): version for name, version in have.items()}
    there |= {canonicalize_name(one.metadata["Name"]): one.version for one in new}
    needs = [("the run", word) for word in (one.requirement for one in wanted_of(asked))]
    needs += [(one.metadata["Name"], word) for one in new for word in one.requires or ()]
    python = {"python_version": ".".join(version.split(".")[:2]), "python_full_version": version}
    for who, word in needs:
        need = Requirement(word)
        if need.marker is not None and not need.marker.evaluate({**python, "extra": ""}):
            continue
        found = there.get(canonicalize_name(need.name))
        if found is None or not need.specifier.contains(found, prereleases=True):
            raise PackageError(
                f"{who} needs {need.name}{need.specifier}, and sandbox.python "
                f"{f'has {found}' if found else 'lacks it'}: install it there, or name the interpreter "
                "that the packages were chosen for"
            )


def _whole(place: Path) -> bool:
    with suppress(OSError, ValueError, KeyError):
        return json.loads((place / "facts.json").read_text())["files"] == _files(place / "packages")
    return False


def _files(folder: Path) -> str:
    """One hash over names and bytes of all files."""
    return _digest(
        [[str(path.relative_to(folder)), sha256(path)] for path in sorted(folder.rglob("*")) if path.is_file()]
    )


@contextmanager
def _alone(place: Path, limit: float = 900.0) -> Generator[None]:
    """Holds the lock of a folder of the store. Raises `PackageError` where others hold it for too long."""
    place.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + limit
    with open(place.with_suffix(".busy"), "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise PackageError(
                        f"another process has been making {place} for {limit:g} s: end it, or wait"
                    ) from None
                time.sleep(POLL)
        yield


def _unwritable(error: OSError) -> PackageError:
    return PackageError(
        f"cannot write to {error.filename or store()} ({error.strerror}): free it, or name another "
        "folder for what is shared by XDG_CACHE_HOME"
    )


def _tag(settings: SandboxSettings) -> str:
    return f"{'.'.join(interpreter(settings.python).version.split('.')[:2])} {sys.platform} {platform.machine()}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
