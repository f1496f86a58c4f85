"""What the values of an experiment depend on besides its code, its data and its seed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.probe import get_probed_isolation
from labwright.sandbox.packages.package_store import PackageOverlay
from labwright.sandbox.settings import SandboxSettings

FINGERPRINTED_VARIABLES = ("CUDA_HOME", "LD_LIBRARY_PATH", "TZ")
"""Of the environment, those that reach experiments and say which libraries they load, or what time it is."""
_CPU_MODEL_PATTERN = re.compile(r"^(?:model name|Model|CPU part)\s*:\s*(.+)$", re.MULTILINE)
_CPU_FLAGS_PATTERN = re.compile(r"^(?:flags|Features)\s*:\s*(.+)$", re.MULTILINE)


def compute_environment_fingerprint(
    settings: SandboxSettings, devices: Sequence[GpuDevice], packages: PackageOverlay | None = None
) -> str:
    """A text that is the same wherever these are the same: interpreter, packages, readable folders, variables, whether
    code is isolated, processor, kind of GPU and driver, threads, determinism. Raises `ExecutorError`.

    Of what was installed for the run its lock counts, which knows each file. Not in it: how another package of one
    version was built, the microcode of the processor, how many GPUs there are, PATH and the language of the
    environment, and limits (of time, memory, processes, disk), which end an experiment and are not to change a value.
    """
    runs = inspect_interpreter(settings.python)
    some: dict[str, object] = {
        "installed": packages.installed.sha256 if packages is not None and packages.folder else "",
        "readable": hash_folders(settings.readable),
        "variables": {name: os.environ[name] for name in FINGERPRINTED_VARIABLES if os.environ.get(name)},
        "isolation": "" if settings.isolation != "none" and get_probed_isolation().between_cells else "none",
    }
    return json.dumps(
        {
            "python": runs.version,
            "platform": runs.platform,
            "packages": sorted(runs.packages.items()),
            "processor": describe_processor(),
            "gpus": sorted({(device.name, device.memory_bytes) for device in devices}),
            "driver": _read_driver_version() if devices else "",
            "gpus_per_node": settings.gpus_per_node if devices else 0,
            "threads": settings.threads,
            "deterministic": settings.deterministic,
            **{name: value for name, value in some.items() if value},
        },
        sort_keys=True,
    )


def hash_folders(folders: Iterable[str]) -> dict[str, str]:
    """Folder -> the sha256 over names and contents of all files below it; links count by what they name, and those to
    files by their contents too. What Python compiles there by itself does not count."""
    found: dict[str, str] = {}
    for folder in folders:
        digest = hashlib.sha256()
        for place, inner, names in os.walk(folder):
            inner[:] = sorted(name for name in inner if name != "__pycache__")
            for name in sorted((*inner, *names)):
                path = os.path.join(place, name)
                link = os.readlink(path) if os.path.islink(path) else ""
                with suppress(OSError):  # code cannot read it either
                    digest.update(
                        f"{os.path.relpath(path, folder)}\0{link}\0{_hash_file(path)}\n".encode(
                            errors="surrogateescape"
                        )
                    )
        found[folder] = digest.hexdigest()
    return found


def _hash_file(path: str) -> str:
    """The sha256 of a file; empty for what is none."""
    stat = os.stat(path)
    return (
        _compute_sha256(path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if os.path.isfile(path)
        else ""
    )


@lru_cache(maxsize=2**17)
def _compute_sha256(path: str, *_state: int) -> str:
    """Kept until the file's state changes, since each node asks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_processor() -> str:
    """Model and instruction sets of this machine's processor, as the system tells them."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(errors="replace")
        found = [pattern.search(text) for pattern in (_CPU_MODEL_PATTERN, _CPU_FLAGS_PATTERN)]
        return "; ".join(
            " ".join(sorted(one[1].split()) if n else one[1].split()) for n, one in enumerate(found) if one
        )
    return ""


def _read_driver_version() -> str:
    with suppress(OSError):
        return Path("/proc/driver/nvidia/version").read_text(errors="replace").partition("\n")[0]
    return ""
