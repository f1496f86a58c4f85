"""What the values of an experiment depend on besides its code, its data and its seed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sandbox.gpus import Device
from sandbox.isolation.interpreter import interpreter
from sandbox.packages.store import Overlay
from sandbox.settings import SandboxSettings

_MODEL = re.compile(r"^(?:model name|Model|CPU part)\s*:\s*(.+)$", re.MULTILINE)
_FLAGS = re.compile(r"^(?:flags|Features)\s*:\s*(.+)$", re.MULTILINE)


def ground_of(settings: SandboxSettings, devices: Sequence[Device], packages: Overlay | None = None) -> str:
    """A text that is the same wherever these are the same: interpreter, packages, processor, kind of GPU and driver,
    threads, determinism. Raises `ExecutorError`.

    Of what was installed for the run its lock counts, which knows each file. Not in it: how another package of one
    version was built, the microcode of the processor, and how many GPUs there are.
    """
    runs = interpreter(settings.python)
    installed = {"installed": packages.installed.sha256} if packages is not None and packages.folder else {}
    return json.dumps({
        "python": runs.version, "platform": runs.platform, "packages": sorted(runs.packages.items()),
        "processor": processor(), "gpus": sorted({(device.name, device.memory) for device in devices}),
        "driver": _driver() if devices else "", "gpus_per_node": settings.gpus_per_node if devices else 0,
        "threads": settings.threads, "deterministic": settings.deterministic, **installed}, sort_keys=True)


def processor() -> str:
    """Model and instruction sets of this machine's processor, as the system tells them."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(errors="replace")
        found = [pattern.search(text) for pattern in (_MODEL, _FLAGS)]
        return "; ".join(" ".join(sorted(one[1].split()) if n else one[1].split())
                         for n, one in enumerate(found) if one)
    return ""


def _driver() -> str:
    with suppress(OSError):
        return Path("/proc/driver/nvidia/version").read_text(errors="replace").partition("\n")[0]
    return ""
