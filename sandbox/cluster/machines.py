"""The machines of a cluster, and whether experiments may run there: all is refused before anything starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from labwright.record.nouns.data import Needs
from labwright.sandbox.cluster.engine import connect, is_private, surveyed
from labwright.sandbox.cluster.messages import Facts, Terms
from labwright.sandbox.cluster.node import code_version
from labwright.sandbox.errors import ClusterError
from labwright.sandbox.ground import ground_of
from labwright.sandbox.isolation.limits import SHARE
from labwright.sandbox.settings import SandboxSettings

COMPARED = ("python", "packages")
"""What of the ground must be the same on every machine."""


_known: dict[str, tuple[Facts, ...]] = {}
"""Settings -> machines, asked for once a process."""


def machines_of(settings: SandboxSettings) -> tuple[Facts, ...]:
    """The machines of the cluster that the settings name, each fit for experiments. Raises `ClusterError`."""
    terms = settings.model_dump_json()
    if terms not in _known:
        _known[terms] = _found(settings)
    return _known[terms]


def _found(settings: SandboxSettings) -> tuple[Facts, ...]:
    if settings.gpus:
        raise ClusterError(
            "--gpus names GPUs of one machine, and Ray leases those of all: leave it out, with "
            "--set sandbox.device=cuda"
        )
    if settings.device == "cuda" and settings.gpus_per_node > 1 and settings.slots_per_gpu > 1:
        raise ClusterError("experiments on several GPUs each do not share them: set sandbox.slots_per_gpu to 1")
    connect(settings.ray)
    return checked(surveyed(Terms(settings=settings, run="survey", watch_seconds=1.0)), settings)


def checked(found: tuple[Facts, ...], settings: SandboxSettings) -> tuple[Facts, ...]:
    """The same machines. Raises `ClusterError` where experiments cannot run there."""
    here = json.loads(ground_of(settings, ()))
    for one in found:
        if (why := _unfit(one, here, settings)) is not None:
            raise ClusterError(f"machine {one.address} of the Ray cluster at {settings.ray} {why}")
    if not any(one.places for one in found):
        wanted = f"{settings.threads} processors" + (
            f" and {settings.gpus_per_node} GPUs" if settings.device == "cuda" else ""
        )
        raise ClusterError(
            f"no machine of the Ray cluster at {settings.ray} has room for one cell, which takes "
            f"{wanted}: add machines, or ask for less"
        )
    return found


def _unfit(one: Facts, here: dict[str, Any], settings: SandboxSettings) -> str | None:
    """Why no experiment may run on a machine, and what to do about it."""
    if one.version != code_version():
        return f"has another version of scientist ({one.version}, here {code_version()}): install this one there"
    if one.walls:
        return (
            f"cannot isolate experiments: {one.walls}. Mend that there, or run all without isolation: "
            "--set sandbox.isolation=none"
        )
    if not is_private(one.address):
        return "has a public address, and whoever reaches a Ray port can run code: keep Ray in a private network"
    if not one.tokens and not one.address.startswith("127."):
        return (
            "takes commands from whoever reaches its port: start every machine with RAY_AUTH_MODE=token, as "
            "docs/machines.md says"
        )
    there = json.loads(one.ground or "{}")
    for name in COMPARED:
        if there.get(name) != here[name]:
            return f"has another {_differing(name, there.get(name), here[name])}: install the same"
    return None


def _differing(name: str, there: Any, here: Any) -> str:
    if name != "packages" or there is None:
        return f"{name} ({there}, here {here})"
    held, ours = dict(there), dict(here)
    first = min(one for one in {*held, *ours} if held.get(one) != ours.get(one))
    return f"{first} ({held.get(first, 'none')}, here {ours.get(first, 'none')})"


def room_in(machines: Sequence[Facts], settings: SandboxSettings) -> Needs:
    """The most that one cell can have, on the machine with most GPUs and memory."""
    largest = max(machines, key=lambda one: (one.gpus, one.memory))
    memory = settings.memory_gb or SHARE * largest.memory / 1e9
    return Needs(
        gpus=int(largest.gpus) if settings.device == "cuda" else 0, memory_gb=memory, hours=settings.timeout / 3600
    )


def unlike(machines: Sequence[Facts]) -> tuple[str, ...]:
    """What is to be said of machines that may give other digits than each other."""
    grounds = {one.ground for one in machines}
    if len(grounds) == 1:
        return ()
    return (
        "the machines differ in processor, GPU or driver: a cell may have other last digits on another one, and "
        "nothing that was measured is taken over from other clusters",
    )
