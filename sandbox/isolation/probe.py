"""Whether code can be isolated here, tried once a process, and what `sandbox.isolation` makes of the answer."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.errors import IsolationError
from sandbox.isolation import mending
from sandbox.isolation.walls import PROGRAM, Walls, wrap
from sandbox.settings import SandboxSettings

BUBBLEWRAP = "bubblewrap"
LIMIT = 15.0
"""Seconds that an empty command behind walls may take."""


@dataclass(frozen=True)
class Isolation:
    """Whether code runs behind walls; if not, why not and what to do about it."""

    on: bool
    why: str = ""
    mend: str = ""
    user_namespace: bool = True


CHOSEN = Isolation(on=False, why="sandbox.isolation is none")


def isolation_of(settings: SandboxSettings) -> Isolation:
    """How code runs under these settings on this machine. Raises `IsolationError` where walls are required."""
    if settings.isolation == "none":
        return CHOSEN
    found = available()
    if not found.on and settings.isolation == "required":
        raise IsolationError(f"experiments cannot be isolated: {found.why}. Mend it: {found.mend}. Or run them without "
                             "isolation, as yourself, with your files and network: --set sandbox.isolation=auto")
    return found


def terms_of(settings: SandboxSettings) -> str:
    """How code runs here, for the record: 'bubblewrap' (perhaps 'with network'), or 'none: ' and why.

    Raises: `IsolationError`.
    """
    found = isolation_of(settings)
    if not found.on:
        return f"none: {found.why}"
    return BUBBLEWRAP if settings.network == "off" else f"{BUBBLEWRAP}, with network"


@functools.cache
def available() -> Isolation:
    """What was found when it was first tried."""
    return tried()


def tried(kernel: mending.Kernel | None = None) -> Isolation:
    """Start an empty command behind walls, now. `kernel` stands in for what this one says of itself."""
    path = shutil.which(PROGRAM)
    if path is None:
        return Isolation(on=False, why="bubblewrap (bwrap) is not installed", mend=mending.INSTALL)
    said = _attempt(user_namespace=True)
    if said is None:
        return Isolation(on=True)
    if os.geteuid() == 0 and _attempt(user_namespace=False) is None:
        return Isolation(on=True, user_namespace=False)
    return Isolation(on=False, why=f"bubblewrap cannot make namespaces ({said})",
                     mend=mending.mend(kernel or mending.read_kernel(), path))


def _attempt(*, user_namespace: bool) -> str | None:
    """None where it worked, else what was said."""
    with tempfile.TemporaryDirectory(prefix="lab-probe-") as name:
        walls = replace(Walls(Path(name)), user_namespace=user_namespace)
        try:
            ran = subprocess.run(wrap(["true"], walls), capture_output=True, text=True, timeout=LIMIT, check=False,
                                 stdin=subprocess.DEVNULL, errors="replace")
        except (OSError, subprocess.TimeoutExpired) as error:
            return " ".join(str(error).split())[:300]
    return None if ran.returncode == 0 else " ".join((ran.stderr or ran.stdout).split())[-300:] or "no reason given"
