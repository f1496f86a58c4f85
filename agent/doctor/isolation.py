"""Whether code can be isolated here: really tried, and where it fails, why and what to do about it."""

from __future__ import annotations

from typing import Literal

from agent.doctor.finding import Finding, fault, ok, warning
from agent.doctor.systems import System
from sandbox.isolation.probe import INSTALL, KernelFacts, probe

WITHOUT = "experiments would run without isolation: as you, with your files and network"
REFUSED = "and sandbox.isolation is required: no run begins"


def isolation(
    system: System, kernel: KernelFacts | None = None, *, wanted: Literal["required", "auto", "none"] = "auto",
) -> Finding:
    """Whether kernels can be isolated, which is a fault where the settings want them to be."""
    found = probe(kernel)
    if found.on:
        with_users = "user, process and network" if found.user_namespace else "process and network"
        return ok("isolation", f"bubblewrap with {with_users} namespaces works")
    mend = system.install(["bubblewrap"]) if found.fix == INSTALL else found.fix
    if wanted == "required":
        return fault("isolation", f"{found.why}, {REFUSED}", f"{mend}; or, without isolation: --set "
                     "sandbox.isolation=auto")
    return warning("isolation", f"{found.why}: {WITHOUT}", mend)
