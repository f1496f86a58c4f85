"""Whether code can be isolated on this machine, tried once a process; if not, why, and how to fix it.

Sources: Ubuntu 24.04 restricts unprivileged user namespaces by AppArmor (sysctl
kernel.apparmor_restrict_unprivileged_userns); Debian's kernels have kernel.unprivileged_userns_clone; every kernel has
user.max_user_namespaces.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import IsolationError
from sandbox.isolation.bubblewrap import PROGRAM, Sandbox, wrap
from sandbox.settings import SandboxSettings

INSTALL = "install bubblewrap: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)"

_PROFILE = ("printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap {path} flags=(unconfined) {{\\n"
            "  userns,\\n}}\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap")


@dataclass(frozen=True)
class KernelFacts:
    """What decides about user namespaces here. A sysctl that the kernel lacks is None."""

    restricted_by_apparmor: bool | None = None
    clone_allowed: bool | None = None
    most_namespaces: int | None = None
    container: str = ""
    """What kind of container we are in, or an empty string."""


def fix_for(kernel: KernelFacts, path: str) -> str:
    """What to do, from what the kernel says of itself; the container first, since inside it nothing else helps."""
    if kernel.container:
        alone = "let this container be the sandbox: mount nothing in it that experiments must not touch"
        if kernel.container in ("docker", "podman"):
            return (f"start it with: {kernel.container} run --security-opt seccomp=unconfined --security-opt "
                    f"apparmor=unconfined --security-opt systempaths=unconfined ...; where you may not, {alone}")
        return (f"in {kernel.container} it can rarely be had: ask for a pod or job that may make user namespaces, "
                f"or {alone}")
    if kernel.most_namespaces == 0:
        return "sudo sysctl -w user.max_user_namespaces=15000 (keep it in /etc/sysctl.d/60-userns.conf)"
    if kernel.clone_allowed is False:
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1 (keep it in /etc/sysctl.d/60-userns.conf)"
    if kernel.restricted_by_apparmor:
        return (f"allow bubblewrap by a profile: {_PROFILE.format(path=path)}; or, for all programs: "
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    return ("a security module or a mount option forbids it: see the system's log (dmesg) for the denial; "
            "until then run experiments in a container or a machine of their own")


def read_kernel(root: Path = Path("/")) -> KernelFacts:
    """What the kernel says, and the kind of container, by the marks that its maker leaves."""
    restricted, clone, most = (_number(root / "proc/sys" / name) for name in (
        "kernel/apparmor_restrict_unprivileged_userns", "kernel/unprivileged_userns_clone",
        "user/max_user_namespaces"))
    marks = {".dockerenv": "docker", "run/.containerenv": "podman", ".singularity.d": "singularity",
             "var/run/secrets/kubernetes.io": "kubernetes"}
    kinds = [kind for mark, kind in marks.items() if (root / mark).exists()]
    with contextlib.suppress(OSError):
        text = (root / "proc/1/cgroup").read_text(errors="replace")
        kinds += [kind for word, kind in (("kubepods", "kubernetes"), ("docker", "docker"), ("lxc", "lxc"))
                  if word in text]
    return KernelFacts(
        restricted_by_apparmor=None if restricted is None else restricted != 0,
        clone_allowed=None if clone is None else clone != 0, most_namespaces=most,
        container="kubernetes" if "kubernetes" in kinds else next(iter(kinds), ""))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


BUBBLEWRAP = "bubblewrap"
LIMIT = 15.0
"""Seconds that an empty command in a sandbox may take."""


@dataclass(frozen=True)
class Isolation:
    """Whether code runs in a sandbox; if not, why not and what to do about it."""

    on: bool
    why: str = ""
    fix: str = ""
    user_namespace: bool = True



def isolation_of(settings: SandboxSettings) -> Isolation:
    """How code runs under these settings on this machine. Raises `IsolationError` where that is required and
    impossible."""
    if settings.isolation == "none":
        return Isolation(on=False, why="sandbox.isolation is none")
    isolation = probed()
    if not isolation.on and settings.isolation == "required":
        raise IsolationError(f"experiments cannot be isolated: {isolation.why}. To fix it: {isolation.fix}. Or run "
                             "them without isolation, as yourself, with your files and network: "
                             "--set sandbox.isolation=auto")
    return isolation


def describe_isolation(settings: SandboxSettings) -> str:
    """How code runs here, for the record: 'bubblewrap' (perhaps 'with network'), or 'none: ' and why.

    Raises: `IsolationError`.
    """
    isolation = isolation_of(settings)
    if not isolation.on:
        return f"none: {isolation.why}"
    return BUBBLEWRAP if settings.network == "off" else f"{BUBBLEWRAP}, with network"


@functools.cache
def probed() -> Isolation:
    """What was found when it was first tried."""
    return probe()


def probe(kernel: KernelFacts | None = None) -> Isolation:
    """Start an empty command in a sandbox, now. `kernel` stands in for what this one says of itself."""
    path = shutil.which(PROGRAM)
    if path is None:
        return Isolation(on=False, why="bubblewrap (bwrap) is not installed", fix=INSTALL)
    problem = _attempt(user_namespace=True)
    if problem is None:
        return Isolation(on=True)
    if os.geteuid() == 0 and _attempt(user_namespace=False) is None:
        return Isolation(on=True, user_namespace=False)
    return Isolation(on=False, why=f"bubblewrap cannot make namespaces ({problem})",
                     fix=fix_for(kernel or read_kernel(), path))


def _attempt(*, user_namespace: bool) -> str | None:
    """None where it worked, else what was said."""
    with tempfile.TemporaryDirectory(prefix="lab-probe-") as name:
        sandbox = Sandbox(Path(name), user_namespace=user_namespace)
        try:
            ran = subprocess.run(wrap(["true"], sandbox), capture_output=True, text=True, timeout=LIMIT, check=False,
                                 stdin=subprocess.DEVNULL, errors="replace")
        except (OSError, subprocess.TimeoutExpired) as error:
            return " ".join(str(error).split())[:300]
    return None if ran.returncode == 0 else " ".join((ran.stderr or ran.stdout).split())[-300:] or "no reason given"
