"""The machines of a cluster, and whether experiments may run there: all is refused before anything starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.sandbox.cluster.messages import MachineFacts, WorkerTerms
from labwright.sandbox.cluster.ray_cluster import connect, is_private, survey_machines
from labwright.sandbox.cluster.worker_actor import compute_code_version
from labwright.sandbox.environment_fingerprint import compute_environment_fingerprint
from labwright.sandbox.errors import ClusterError
from labwright.sandbox.isolation.limits import DEFAULT_MEMORY_SHARE
from labwright.sandbox.settings import SandboxSettings

COMPARED_FIELDS = ("python", "packages")
"""What of the ground must be the same on every machine."""


_machines_by_address: dict[str, tuple[MachineFacts, ...]] = {}
"""Settings -> machines, asked for once a process."""


def list_machines(settings: SandboxSettings) -> tuple[MachineFacts, ...]:
    """The machines of the cluster that the settings name, each fit for experiments. Raises `ClusterError`."""
    terms = settings.model_dump_json()
    if terms not in _machines_by_address:
        _machines_by_address[terms] = _survey_machines(settings)
    return _machines_by_address[terms]


def _survey_machines(settings: SandboxSettings) -> tuple[MachineFacts, ...]:
    if settings.gpus:
        raise ClusterError(
            "--gpus names GPUs of one machine, and Ray leases those of all: leave it out, with "
            "--set sandbox.device=cuda"
        )
    if settings.device == "cuda" and settings.gpus_per_node > 1 and settings.slots_per_gpu > 1:
        raise ClusterError("experiments on several GPUs each do not share them: set sandbox.slots_per_gpu to 1")
    connect(settings.ray)
    return check_machines(survey_machines(WorkerTerms(settings=settings, run="survey", watch_seconds=1.0)), settings)


def check_machines(machines: tuple[MachineFacts, ...], settings: SandboxSettings) -> tuple[MachineFacts, ...]:
    """The same machines. Raises `ClusterError` where experiments cannot run there."""
    here = json.loads(compute_environment_fingerprint(settings, ()))
    for one in machines:
        if (why := _find_unfitness(one, here, settings)) is not None:
            raise ClusterError(f"machine {one.address} of the Ray cluster at {settings.ray} {why}")
    if not any(one.slots for one in machines):
        wanted = f"{settings.threads} processors" + (
            f" and {settings.gpus_per_node} GPUs" if settings.device == "cuda" else ""
        )
        raise ClusterError(
            f"no machine of the Ray cluster at {settings.ray} has room for one cell, which takes "
            f"{wanted}: add machines, or ask for less"
        )
    return machines


def _find_unfitness(one: MachineFacts, here: dict[str, Any], settings: SandboxSettings) -> str | None:
    """Why no experiment may run on a machine, and what to do about it."""
    if one.version != compute_code_version():
        return (
            f"has another version of scientist ({one.version}, here {compute_code_version()}): install this one there"
        )
    if one.isolation_fault:
        return (
            f"cannot isolate experiments: {one.isolation_fault}. Mend that there, or run all without isolation: "
            "--set sandbox.isolation=none"
        )
    if not is_private(one.address):
        return "has a public address, and whoever reaches a Ray port can run code: keep Ray in a private network"
    if not one.tokens and not one.address.startswith("127."):
        return (
            "takes commands from whoever reaches its port: start every machine with RAY_AUTH_MODE=token, as "
            "docs/hardware.md says"
        )
    there = json.loads(one.environment_fingerprint or "{}")
    for name in COMPARED_FIELDS:
        if there.get(name) != here[name]:
            return f"has another {_describe_difference(name, there.get(name), here[name])}: install the same"
    return None


def _describe_difference(name: str, there: Any, here: Any) -> str:
    if name != "packages" or there is None:
        return f"{name} ({there}, here {here})"
    held, ours = dict(there), dict(here)
    first = min(one for one in {*held, *ours} if held.get(one) != ours.get(one))
    return f"{first} ({held.get(first, 'none')}, here {ours.get(first, 'none')})"


def compute_max_cell_capacity(machines: Sequence[MachineFacts], settings: SandboxSettings) -> ResourceNeeds:
    """The most that one cell can have, on the machine with most GPUs and memory."""
    largest = max(machines, key=lambda one: (one.gpus, one.memory))
    memory = settings.memory_gb or DEFAULT_MEMORY_SHARE * largest.memory / 1e9
    return ResourceNeeds(
        gpus=int(largest.gpus) if settings.device == "cuda" else 0, memory_gb=memory, hours=settings.timeout / 3600
    )


def describe_differences(machines: Sequence[MachineFacts]) -> tuple[str, ...]:
    """What is to be said of machines that may give other digits than each other."""
    grounds = {one.environment_fingerprint for one in machines}
    if len(grounds) == 1:
        return ()
    return (
        "the machines differ in processor, GPU or driver: a cell may have other last digits on another one, and "
        "nothing that was measured is taken over from other clusters",
    )
