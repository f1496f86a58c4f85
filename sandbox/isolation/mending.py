"""Why bubblewrap does not work on a machine, and what to do about it.

Sources: Ubuntu 24.04 restricts unprivileged user namespaces by AppArmor (sysctl
kernel.apparmor_restrict_unprivileged_userns); Debian's kernels have kernel.unprivileged_userns_clone; every kernel has
user.max_user_namespaces.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

INSTALL = "install bubblewrap: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)"

_PROFILE = ("printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap {path} flags=(unconfined) {{\\n"
            "  userns,\\n}}\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap")


@dataclass(frozen=True)
class Kernel:
    """What decides about user namespaces here. A sysctl that the kernel lacks is None."""

    restricted_by_apparmor: bool | None = None
    clone_allowed: bool | None = None
    most_namespaces: int | None = None
    container: str = ""
    """What kind of container we are in, or an empty string."""


def mend(kernel: Kernel, path: str) -> str:
    """What to do, from what the kernel says of itself; the container first, since inside it nothing else helps."""
    if kernel.container:
        return in_container(kernel.container)
    if kernel.most_namespaces == 0:
        return "sudo sysctl -w user.max_user_namespaces=15000 (keep it in /etc/sysctl.d/60-userns.conf)"
    if kernel.clone_allowed is False:
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1 (keep it in /etc/sysctl.d/60-userns.conf)"
    if kernel.restricted_by_apparmor:
        return (f"allow bubblewrap by a profile: {_PROFILE.format(path=path)}; or, for all programs: "
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    return ("a security module or a mount option forbids it: see the system's log (dmesg) for the denial; "
            "until then run experiments in a container or a machine of their own")


def in_container(kind: str) -> str:
    """How a container is started so that it may make namespaces; where it cannot, the container is the wall."""
    if kind in ("docker", "podman"):
        return (f"start it with: {kind} run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
                "--security-opt systempaths=unconfined ...; where you may not, let this container be the wall: mount "
                "nothing in it that experiments must not touch")
    return (f"in {kind} it can rarely be had: ask for a pod or job that may make user namespaces, or let this "
            "container be the wall: mount nothing in it that experiments must not touch")


def read_kernel(root: Path = Path("/")) -> Kernel:
    """What the kernel and the surroundings say."""
    restricted = _number(root / "proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    clone = _number(root / "proc/sys/kernel/unprivileged_userns_clone")
    return Kernel(
        restricted_by_apparmor=None if restricted is None else restricted != 0,
        clone_allowed=None if clone is None else clone != 0,
        most_namespaces=_number(root / "proc/sys/user/max_user_namespaces"), container=container_at(root))


def container_at(root: Path) -> str:
    """The kind of container, by the marks that its maker leaves; an empty string outside one."""
    marks = {".dockerenv": "docker", "run/.containerenv": "podman", ".singularity.d": "singularity",
             "var/run/secrets/kubernetes.io": "kubernetes"}
    kinds = [kind for mark, kind in marks.items() if (root / mark).exists()]
    with contextlib.suppress(OSError):
        text = (root / "proc/1/cgroup").read_text(errors="replace")
        kinds += [kind for word, kind in (("kubepods", "kubernetes"), ("docker", "docker"), ("lxc", "lxc"))
                  if word in text]
    return "kubernetes" if "kubernetes" in kinds else next(iter(kinds), "")


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
