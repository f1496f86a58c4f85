"""Test once per process whether code can be isolated on this machine; if not, find out why and how to fix it.

Sources: Ubuntu 24.04 restricts unprivileged user namespaces through AppArmor (sysctl
kernel.apparmor_restrict_unprivileged_userns); Debian's kernels have kernel.unprivileged_userns_clone; every kernel has
user.max_user_namespaces.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labwright.sandbox.errors import IsolationError
from labwright.sandbox.isolation.bubblewrap import BWRAP_PROGRAM, WALLS_SCRIPT, SandboxSpec, build_command
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.settings import SandboxSettings

INSTALL_ADVICE = "install bubblewrap: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)"

_PERSIST_ADVICE = "(keep it in /etc/sysctl.d/60-userns.conf)"
_SYSCTL_FIXES = (
    ("user/max_user_namespaces", "0", f"sudo sysctl -w user.max_user_namespaces=15000 {_PERSIST_ADVICE}"),
    ("kernel/unprivileged_userns_clone", "0", f"sudo sysctl -w kernel.unprivileged_userns_clone=1 {_PERSIST_ADVICE}"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "allow bubblewrap by a profile: printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap PATH "
        "flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r "
        "/etc/apparmor.d/bwrap; or, for all programs: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Sysctls that can forbid user namespaces: name, forbidding value, fix."""
_CONTAINER_MARKERS = (".dockerenv", "run/.containerenv", ".singularity.d", "var/run/secrets/kubernetes.io")
"""Files whose presence identifies a container of Docker, Podman, Singularity or Kubernetes."""


def suggest_fix(path: str, root: Path = Path("/")) -> str:
    """Suggest how to make bubblewrap at `path` work; a container must be started differently."""
    if any((root / mark).exists() for mark in _CONTAINER_MARKERS):
        return (
            "this is a container: start it with docker (or podman) run --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined --security-opt systempaths=unconfined ..., or ask for a pod or job "
            "that may create user namespaces; if neither is possible, use this container as the sandbox: mount "
            "nothing in it that experiments must not touch"
        )
    for name, forbidding, fix in _SYSCTL_FIXES:
        with contextlib.suppress(OSError):
            if (root / "proc/sys" / name).read_text().strip() == forbidding:
                return fix.replace("PATH", path)
    return (
        "a security module or a mount option forbids it: look for the denial in the system log (dmesg); "
        "until then, run experiments in a separate container or machine"
    )


BUBBLEWRAP = "bubblewrap"
PROBE_TIMEOUT_SECONDS = 15.0
"""Timeout of an empty command in a sandbox, in seconds."""


@dataclass(frozen=True)
class IsolationStatus:
    """Whether code runs in a sandbox; otherwise the reason and the fix."""

    is_on: bool
    reason: str = ""
    fix: str = ""
    user_namespace: bool = True
    between_cells: bool = False
    """Whether cells in the same kernel are also isolated from each other (`kernel_side/lab/_walls.py`)."""


def determine_isolation(settings: SandboxSettings) -> IsolationStatus:
    """Return how code is isolated with these settings. Raises `IsolationError` if isolation is required and
    impossible."""
    if settings.isolation == "none":
        return IsolationStatus(is_on=False, reason="sandbox.isolation is none")
    isolation = get_probed_isolation()
    if not isolation.is_on and settings.isolation == "required":
        raise IsolationError(
            f"experiments cannot be isolated: {isolation.reason}. To fix it: {isolation.fix}. Or run "
            "them without isolation, with access to your files and network: "
            "--set sandbox.isolation=auto"
        )
    return isolation


def describe_isolation(settings: SandboxSettings) -> str:
    """Describe the isolation for the record: 'bubblewrap' (and limitations), or 'none: ' and the reason.

    Raises `IsolationError`.
    """
    isolation = determine_isolation(settings)
    if not isolation.is_on:
        return f"none: {isolation.reason}"
    return ", ".join(
        (
            BUBBLEWRAP,
            *(["with network"] if settings.network == "on" else []),
            *([] if isolation.between_cells else ["without isolation between cells"]),
        )
    )


@functools.cache
def get_probed_isolation() -> IsolationStatus:
    """Return the result of the first probe."""
    return probe_isolation()


def probe_isolation(root: Path = Path("/")) -> IsolationStatus:
    """Start an empty command in a sandbox. Kernel settings are read under `root`."""
    path = shutil.which(BWRAP_PROGRAM)
    if path is None:
        return IsolationStatus(is_on=False, reason="bubblewrap (bwrap) is not installed", fix=INSTALL_ADVICE)
    problem = _try_sandbox()
    if problem is None:
        return IsolationStatus(is_on=True, between_cells=_try_sandbox(inner_walls=True) is None)
    if os.geteuid() == 0 and _try_sandbox(user_namespace=False) is None:
        return IsolationStatus(is_on=True, user_namespace=False)
    return IsolationStatus(
        is_on=False, reason=f"bubblewrap cannot create namespaces ({problem})", fix=suggest_fix(path, root)
    )


def _try_sandbox(*, user_namespace: bool = True, inner_walls: bool = False) -> str | None:
    """Return None if isolation works, otherwise the error; `inner_walls` also tests the isolation between cells."""
    with tempfile.TemporaryDirectory(prefix="lab-probe-") as name:
        trees = inspect_interpreter(sys.executable).trees if inner_walls else ()
        sandbox = SandboxSpec(
            Path(name),
            Path("/experiment"),
            environments=trees,
            readable=(WALLS_SCRIPT,),
            has_inner_walls=inner_walls,
            user_namespace=user_namespace,
        )
        command = [sys.executable, "-I", "-S", str(WALLS_SCRIPT)] if inner_walls else ["true"]
        try:
            ran = subprocess.run(
                build_command(command, sandbox),
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
                errors="replace",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return " ".join(str(error).split())[:300]
    return None if ran.returncode == 0 else " ".join((ran.stderr or ran.stdout).split())[-300:] or "no reason given"


def isolate_command(command: Sequence[str], program: Path) -> list[str]:
    """Return the command in a sandbox: no network, and no file of the user but this Python and `program`, read-only.

    Returns the command itself where this machine cannot isolate code; `sandbox.isolation` is for experiments only.
    """
    isolation = get_probed_isolation()
    if not isolation.is_on:
        return list(command)
    sandbox = SandboxSpec(
        None,
        environments=inspect_interpreter(sys.executable).trees,
        readable=(program,),
        guard=sys.executable if isolation.between_cells else "",
        user_namespace=isolation.user_namespace,
    )
    return build_command(command, sandbox)
