"""Build wheels from source for packages that the user names with `:sdist`.

Source code runs only in a sandbox, without a network, and with access only to the interpreter, the build tools (wheels)
and its own folder. Limits: builds are not reproducible byte for byte, and the code is not inspected.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import tomllib
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from labwright.record.untrusted_files import (
    BadFile,
    copy_file,
    iterate_entries,
    make_folder,
    read_file,
    remove_path,
    remove_tree,
)
from labwright.sandbox.cluster.archives import unpack_archive
from labwright.sandbox.errors import PackageError
from labwright.sandbox.isolation.bubblewrap import SandboxSpec, build_command
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.mounts import list_label_paths
from labwright.sandbox.isolation.probe import determine_isolation
from labwright.sandbox.packages.lock_file import WHEELS_ONLY_OPTIONS, PackagePin, resolve_pins
from labwright.sandbox.packages.uv import Uv
from labwright.sandbox.settings import SandboxSettings

MAX_SOURCE_BYTES = 2**30
"""Size limit of one source, packed or unpacked, and of its wheel."""
_MAX_PROJECT_BYTES = 2**20
BUILD_QUERY_TIMEOUT_SECONDS = 60.0
"""Seconds within which an index must send more data."""
_BUILD_CODE = """
import contextlib, importlib, json, os, sys
backend, path, task = json.loads(sys.argv[1])
sys.path[:0] = [os.path.abspath(one) for one in path]
module, _, inner = backend.partition(":")
made = importlib.import_module(module)
for name in filter(None, inner.split(".")):
    made = getattr(made, name)
with contextlib.redirect_stdout(sys.stderr):
    if task == "requires":
        found = getattr(made, "get_requires_for_build_wheel", lambda config: [])(None)
    else:
        found = made.build_wheel("../out")
open("../answer.json", "w").write(json.dumps(found))
"""


@dataclass(frozen=True)
class SourcePackage:
    """A source package, downloaded and unpacked under `folder`."""

    pin: PackagePin
    folder: Path

    @property
    def build_requirements(self) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
        """Its build requirements, build backend and backend path (PEP 517). Raises `PackageError`."""
        try:
            text = read_file(self.folder, "source/pyproject.toml", _MAX_PROJECT_BYTES).decode()
            whole: dict[str, Any] = tomllib.loads(text)
            system: dict[str, Any] = whole.get("build-system", {})
            return (
                tuple(map(str, system.get("requires", ("setuptools", "wheel")))),
                str(system.get("build-backend", "setuptools.build_meta:__legacy__")),
                tuple(map(str, system.get("backend-path", ()))),
            )
        except (OSError, BadFile, ValueError, AttributeError, TypeError, RecursionError) as error:
            raise PackageError(f"the source of {self.pin.name} has no usable pyproject.toml ({error})") from None


def fetch_source(uv: Uv, requirement: str, name: str, *, locked_pin: PackagePin | None = None) -> SourcePackage:
    """Download and unpack the source of a package without running it; if there is a pin, exactly the pinned source.
    Raises `PackageError`.
    """
    pins, addresses = resolve_pins(uv, [requirement], "--no-deps", "--no-binary", name)
    if not pins or name not in addresses:
        raise PackageError(f"the index has no source of {requirement}")
    pin = locked_pin or PackagePin(pins[0].name, pins[0].version, ())
    folder = uv.folder / f"source-{name}"
    folder.mkdir()
    content = bytearray()
    try:
        with urllib.request.urlopen(addresses[name], timeout=BUILD_QUERY_TIMEOUT_SECONDS) as answer:
            while block := answer.read(2**20):
                content += block
                if len(content) > MAX_SOURCE_BYTES or not uv.seconds_left:
                    raise PackageError(f"the source of {name} has more than {MAX_SOURCE_BYTES} bytes")
    except (OSError, ValueError) as error:
        raise PackageError(f"the source of {name} cannot be downloaded ({str(error)[:160]})") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest not in (locked_pin or pins[0]).hashes:
        raise PackageError(f"the source of {name} {pin.version} does not have the expected hash")
    (folder / "archive").write_bytes(content)
    try:
        unpack_archive(folder / "archive", folder / "whole", max_bytes=MAX_SOURCE_BYTES, packed=True)
        (only,) = (folder / "whole").iterdir()
        os.rename(only, folder / "source")
    except (OSError, BadFile, ValueError) as error:
        raise PackageError(f"the source of {name} cannot be unpacked ({str(error)[:160]})") from None
    return SourcePackage(locked_pin or PackagePin(pin.name, pin.version, (digest,)), folder)


def resolve_build_tools(uv: Uv, sources: Sequence[SourcePackage], settings: SandboxSettings) -> tuple[PackagePin, ...]:
    """Resolve the build tools of these sources and install them under `uv.folder`. Raises `PackageError`."""
    wanted = sorted({word for source in sources for word in source.build_requirements[0]})
    pins, _ = resolve_pins(uv, wanted, *WHEELS_ONLY_OPTIONS)
    install_build_tools(uv, pins)
    asked: set[str] = set()
    for source in sources:
        asked.update(map(str, _run_in_sandbox(uv, source, settings, "requires")))
    if asked - set(wanted):
        pins, _ = resolve_pins(uv, [*wanted, *asked], *WHEELS_ONLY_OPTIONS)
        install_build_tools(uv, pins)
    return pins


def install_build_tools(uv: Uv, pins: Sequence[PackagePin]) -> None:
    """Install the build tools under `uv.folder`. Raises `PackageError`."""
    if pins:
        uv.run(
            "pip",
            "install",
            "--target",
            str(uv.folder / "tools"),
            "--no-deps",
            "--require-hashes",
            *WHEELS_ONLY_OPTIONS,
            "--requirements",
            "-",
            stdin="\n".join(map(str, pins)),
        )


def build_wheel(uv: Uv, source: SourcePackage, settings: SandboxSettings) -> Path:
    """Build the wheel of a source in a separate folder. Raises `PackageError`."""
    try:
        remove_path(source.folder, "out")
        make_folder(source.folder, "out")
        _run_in_sandbox(uv, source, settings, "build")
        (wheel,) = (name for name, _ in iterate_entries(source.folder, "out"))
        if canonicalize_name(parse_wheel_filename(wheel)[0]) != source.pin.name:
            raise ValueError(f"it is {wheel}")
        folder = Path(tempfile.mkdtemp(dir=uv.folder, prefix="wheel-"))
        copy_file(source.folder, f"out/{wheel}", folder, wheel, MAX_SOURCE_BYTES)
    except (OSError, BadFile, ValueError, InvalidWheelFilename) as error:
        raise PackageError(f"the source of {source.pin.name} did not build one wheel ({error})") from None
    return folder / wheel


def _run_in_sandbox(uv: Uv, source: SourcePackage, settings: SandboxSettings, task: str) -> list[object]:
    isolation, name = determine_isolation(settings), source.pin.name
    if not isolation.is_on:
        raise PackageError(
            f"{name} must be built from source in a sandbox, which is not available here: {isolation.reason}"
        )
    _, backend, path = source.build_requirements
    tmp = Path(tempfile.mkdtemp(dir=uv.folder, prefix="tmp-"))  # a folder that the code could replace by a link
    trees = (*inspect_interpreter(settings.python).trees, uv.folder / "tools")
    sandbox = SandboxSpec(
        source.folder,
        environments=trees,
        hidden=list_label_paths(trees, os.environ),
        tmp=tmp,
        guard=settings.python if isolation.between_cells else "",
        user_namespace=isolation.user_namespace,
    )
    environment = {key: os.environ[key] for key in ("PATH", "LANG", "LD_LIBRARY_PATH") if key in os.environ}
    code = [
        "sh",
        "-c",
        'cd source && exec "$0" "$@"',
        settings.python,
        "-c",
        _BUILD_CODE,
        json.dumps([backend, path, task]),
    ]
    try:
        ran = subprocess.run(
            build_command(code, sandbox),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=uv.seconds_left,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment | {"HOME": str(source.folder), "PYTHONPATH": str(uv.folder / "tools")},
        )
        if ran.returncode:
            last_lines = " ".join((ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-3:])
            raise PackageError(f"the source of {name} cannot be built: {last_lines[-300:]}")
        answer = json.loads(read_file(source.folder, "answer.json", 2**20))
    except subprocess.TimeoutExpired:
        raise PackageError(f"the source of {name} was not built within {uv.limit:g} s") from None
    except (OSError, BadFile, ValueError) as error:
        raise PackageError(f"the source of {name} cannot be built: {error}") from None
    finally:
        remove_tree(tmp, ignore_errors=True)
    return cast("list[object]", answer) if isinstance(answer, list) else [answer]
