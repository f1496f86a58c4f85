"""What a run runs in: versions, device, and what must be told of it."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from pathlib import Path

from labwright.record.fold.state import RunState
from labwright.record.machine import Machine, Rate
from labwright.record.nouns.data import Needs
from labwright.record.nouns.packages import Installed
from labwright.sandbox.errors import GpuError
from labwright.sandbox.gpu_leases import open_leases
from labwright.sandbox.gpus import Device, cuda_visible_devices
from labwright.sandbox.isolation.interpreter import interpreter, timed_rate
from labwright.sandbox.isolation.limits import limits_of, machine_memory, room_of
from labwright.sandbox.isolation.probe import BUBBLEWRAP
from labwright.sandbox.settings import SandboxSettings

SHOWN = ("torch", "numpy", "scipy", "scikit-learn", "transformers", "datasets", "pandas", "matplotlib", "pillow")
"""Packages that prompts name when they are installed."""


def packages(python: str) -> tuple[str, ...]:
    """Packages that experiments may import, as `name version`, of the interpreter that runs them."""
    found = {name.lower(): version for name, version in interpreter(python).packages.items()}
    return tuple(f"{name} {found[name]}" for name in SHOWN if name in found)


def environment_text(python: str, installed: Installed | None = None) -> str:
    """Python, platform and every distribution of the interpreter that runs experiments, one a line, and what was
    installed for the run."""
    found = interpreter(python)
    lines = sorted((f"{name}=={version}" for name, version in found.packages.items()), key=str.lower)
    more = (
        [
            f"installed for the run, by packages.lock (sha256 {installed.sha256}):",
            *(f"{name}=={version}" for name, version in installed.packages.items()),
        ]
        if installed is not None
        else []
    )
    return "\n".join((f"python {found.version}", found.platform, *lines, *more, ""))


def machine_of(settings: SandboxSettings) -> Machine:
    """This machine, and the interpreter of its kernels. Raises `ExecutorError` where that does not run."""
    found, processor = interpreter(settings.python), platform.machine()
    with contextlib.suppress(OSError):
        if model := re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            processor = " ".join(model[1].split())
    return Machine(
        processor=processor,
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=machine_memory(),
        gpus=tuple(one.name for one in devices_of(settings)),
        platform=found.platform,
        python=found.version,
        packages=found.packages,
    )


def rate_of(settings: SandboxSettings, *, at_once: int, known: Rate | None = None) -> Rate | None:
    """How fast so many experiments at once run here; None where `known` was measured on the same terms.

    Raises `ExecutorError` where the interpreter of the kernels does not run.
    """
    machine, gpus = machine_of(settings), devices_of(settings)
    places = len(gpus) * settings.slots_per_gpu // settings.gpus_per_node if gpus else at_once
    terms = Rate(
        processor=machine.processor,
        cores=machine.cores,
        gpus=machine.gpus,
        threads=settings.threads,
        memory_bytes=limits_of(settings, slots=at_once).memory,
        at_once=max(1, min(at_once, places)),
        library="torch" if gpus else "numpy",
        moved=known is not None,
    )
    if known is not None and known.untimed == terms.untimed:
        return None
    return timed_rate(terms, settings, gpus)


def room_here(settings: SandboxSettings) -> Needs:
    """The most that one cell can have on this machine, or on one of the cluster's."""
    if settings.executor == "ray":
        from labwright.sandbox.cluster.machines import machines_of, room_in  # what a run on one machine does without

        return room_in(machines_of(settings), settings)
    return room_of(settings, len(devices_of(settings)))


def devices_of(settings: SandboxSettings) -> tuple[Device, ...]:
    """The GPUs that the settings choose; none where they cannot be asked for, which the executor says."""
    try:
        return open_leases(settings, cuda_visible_devices()).devices
    except GpuError:
        return ()


UNWALLED = "Experiments ran as ordinary processes, without isolation"
EXPOSED = (
    f"{UNWALLED}: withheld labels were not handed to their code, but it "
    "could have reached them, so values computed from its predictions are graded 'computed', not 'scored'."
)
CONNECTED = (
    "Each experiment ran in a sandbox (bubblewrap) that kept the withheld labels from its code, but with a network, "
    "where labels of public data can be found; so values computed from its predictions are graded 'computed', not "
    "'scored'."
)
ISOLATED = (
    "Each experiment ran in a sandbox (bubblewrap), with no network and no file but its own folder and the data views: "
    "its code could not reach the withheld labels, so values computed from its predictions are graded 'scored'."
)
OWN_NUMBERS = (
    " The numbers are those that the repository's own code computes and reports, on data that it reads itself: no "
    "label was withheld from it, and all its values are graded 'logged'."
)
SCORED_NUMBERS = (
    " The labels of its predictions lay where the repository's code could not reach them, so values computed from "
    "these are graded 'scored'. On what the code trained, it alone decides."
)
COMPUTED_NUMBERS = (
    " The repository's code could have reached the labels of its predictions, so values computed from these are graded "
    "'computed', not 'scored'."
)
ALONE = (
    "Each experiment ran in a sandbox (bubblewrap), with no network and no file but a checkout of its own and what was "
    "mounted for it."
)
PARTLY = " This holds for a part of the run: it was resumed under other conditions."


def isolation_text(state: RunState) -> str:
    """What a reader must be told of how experiments ran: the weakest of the terms that the run had."""
    held = [
        ISOLATED if one == BUBBLEWRAP else CONNECTED if one.startswith(BUBBLEWRAP) else EXPOSED
        for one in state.isolations or ("",)
    ]
    if any(facts.source.startswith("git:") for facts in state.datasets):
        where = UNWALLED + "." if EXPOSED in held else ALONE
        scored = any(facts.sizes for facts in state.datasets)
        return where + (OWN_NUMBERS if not scored else SCORED_NUMBERS if where == ALONE else COMPUTED_NUMBERS)
    weakest = next(text for text in (EXPOSED, CONNECTED, ISOLATED) if text in held)
    return weakest + PARTLY * (len(set(held)) > 1)


def notice(state: RunState) -> str:
    """What the first page of a paper says of its origin."""
    assert state.started is not None
    ran = (
        "Experiments ran without isolation."
        if isolation_text(state).startswith(UNWALLED)
        else ("Experiments ran in isolation.")
    )
    early = f" The run was ended early: {state.limited}." if state.limited else ""
    written = [f"{node.id} ({node.author})" for node in state.human_nodes]
    people = (
        f"A person wrote the code of {', '.join(written)}; no person checked or edited the rest."
        if written
        else "No person checked or edited it."
    )
    branched = " It continues from a point of another run." if state.ancestry else ""
    return (
        f"This paper was written by a program, scientist {state.started.version}, with the model "
        f"{' and '.join(state.models)}: plan, code, experiments, figures and text. {people}{branched} "
        f"{ran}{early} The appendix lists every experiment that was run."
    )
