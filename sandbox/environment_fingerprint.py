"""Fingerprint of the conditions, besides code, data and seed, on which an experiment's values depend."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.packages import PackageOverlay
from labwright.sandbox.settings import SandboxSettings

FINGERPRINTED_VARIABLES = ("CUDA_HOME", "LD_LIBRARY_PATH", "TZ")
"""Environment variables visible to experiments that determine the loaded libraries or the local time."""
_SAMPLED_FILE_BYTES = 10**9
"""For larger files, only the size and a sample are hashed."""
_CPU_MODEL_PATTERN = re.compile(r"^(?:model name|Model|CPU part)\s*:\s*(.+)$", re.MULTILINE)
_CPU_FLAGS_PATTERN = re.compile(r"^(?:flags|Features)\s*:\s*(.+)$", re.MULTILINE)


def compute_environment_fingerprint(
    settings: SandboxSettings, devices: Sequence[GpuDevice], packages: PackageOverlay | None = None
) -> str:
    """Return a string that is equal for equal environments. Raises `ExecutorError`.

    It covers interpreter, packages, readable folders, variables, isolation, processor, GPU model and driver, threads
    and determinism. Packages installed for the run are represented by their lock, which lists every file. It leaves out
    the build of a package of a given version, the processor's microcode, the number of GPUs, PATH, the locale, and
    limits (of time, memory, processes, disk), which stop an experiment but should not change its values.
    """
    runs = inspect_interpreter(settings.python)
    some: dict[str, object] = {
        "installed": packages.installed.sha256 if packages is not None and packages.folder else "",
        "readable": {folder: hash_path(folder) for folder in settings.readable},
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


def hash_path(place: str) -> str:
    """Return a sha256 over the names and contents of a file, or of all files in a folder.

    Links are hashed by their target name, and links to files by content as well. Python's bytecode caches are ignored.
    """
    digest = hashlib.sha256(_hash_file(place).encode())
    for parent, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        for name in sorted((*inner, *names)):
            path = os.path.join(parent, name)
            link = os.readlink(path) if os.path.islink(path) else ""
            with suppress(OSError):  # the experiment cannot read it either
                line = f"{os.path.relpath(path, place)}\0{link}\0{_hash_file(path)}\n"
                digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _hash_file(path: str) -> str:
    """Return the sha256 of a file; empty if it is not a regular file."""
    if not os.path.isfile(path):
        return ""
    stat = os.stat(path)
    return _compute_sha256(path, stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=2**17)
def _compute_sha256(path: str, size: int, *_state: int) -> str:
    """Cached until the file's state changes, since it is needed for every node."""
    with open(path, "rb") as file:
        if size <= _SAMPLED_FILE_BYTES:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(f"{size}".encode())
        for part in range(16):
            file.seek(part * size // 16)
            digest.update(file.read(2**20))
        return digest.hexdigest()


def describe_processor() -> str:
    """Return the model and instruction sets of this machine's processor, as reported by the system."""
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
