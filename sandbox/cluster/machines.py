"""Check before a run starts that experiments can run on every machine of a cluster."""

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
"""Fields of the environment fingerprint that must be equal on all machines."""


_machines_by_address: dict[str, tuple[MachineFacts, ...]] = {}
"""Settings (JSON) -> machines, surveyed once per process."""


def list_machines(settings: SandboxSettings) -> tuple[MachineFacts, ...]:
    """Return the machines of the configured cluster after checking each. Raises `ClusterError`."""
    terms = settings.model_dump_json()
    if terms not in _machines_by_address:
        _machines_by_address[terms] = _survey_machines(settings)
    return _machines_by_address[terms]


def _survey_machines(settings: SandboxSettings) -> tuple[MachineFacts, ...]:
    if settings.gpus:
        raise ClusterError(
            "--gpus selects GPUs of a single machine, but Ray assigns the GPUs of a cluster: omit it and use "
            "--set sandbox.device=cuda"
        )
    if settings.device == "cuda" and settings.gpus_per_node > 1 and settings.slots_per_gpu > 1:
        raise ClusterError("experiments that use several GPUs cannot share them: set sandbox.slots_per_gpu to 1")
    connect(settings.ray)
    return check_machines(survey_machines(WorkerTerms(settings=settings, run="survey", watch_seconds=1.0)), settings)


def check_machines(machines: tuple[MachineFacts, ...], settings: SandboxSettings) -> tuple[MachineFacts, ...]:
    """Return the machines unchanged. Raises `ClusterError` if experiments cannot run on one of them."""
    here = json.loads(compute_environment_fingerprint(settings, ()))
    for machine in machines:
        if (why := _find_unfitness(machine, here, settings)) is not None:
            raise ClusterError(f"machine {machine.address} of the Ray cluster at {settings.ray} {why}")
    if not any(machine.slots for machine in machines):
        needed = f"{settings.threads} processors" + (
            f" and {settings.gpus_per_node} GPUs" if settings.device == "cuda" else ""
        )
        raise ClusterError(
            f"no machine of the Ray cluster at {settings.ray} has room for one cell, which needs "
            f"{needed}: add machines, or request less"
        )
    return machines


def _find_unfitness(machine: MachineFacts, here: dict[str, Any], settings: SandboxSettings) -> str | None:
    """Return why experiments cannot run on a machine and how to fix that, or None."""
    if machine.version != compute_code_version():
        return (
            f"has a different version of scientist ({machine.version}, here {compute_code_version()}): "
            "install the same version there"
        )
    if machine.isolation_fault:
        return (
            f"cannot isolate experiments: {machine.isolation_fault}. Fix this on that machine, or run "
            "everything without isolation: --set sandbox.isolation=none"
        )
    if not is_private(machine.address):
        return "has a public address, and anyone who can reach a Ray port can run code: use a private network"
    if not machine.tokens and not machine.address.startswith("127."):
        return (
            "accepts commands from anyone who can reach its port: start Ray on every machine with "
            "RAY_AUTH_MODE=token (see docs/hardware.md)"
        )
    there = json.loads(machine.environment_fingerprint or "{}")
    for name in COMPARED_FIELDS:
        if there.get(name) != here[name]:
            return (
                f"has a different {_describe_difference(name, there.get(name), here[name])}: install the same version"
            )
    return None


def _describe_difference(name: str, there: Any, here: Any) -> str:
    if name != "packages" or there is None:
        return f"{name} ({there}, here {here})"
    remote, local = dict(there), dict(here)
    first = min(package for package in {*remote, *local} if remote.get(package) != local.get(package))
    return f"{first} ({remote.get(first, 'none')}, here {local.get(first, 'none')})"


def compute_max_cell_capacity(machines: Sequence[MachineFacts], settings: SandboxSettings) -> ResourceNeeds:
    """Return the maximum resources of one cell on the machine with the most GPUs and memory."""
    largest = max(machines, key=lambda machine: (machine.gpus, machine.memory))
    memory = settings.memory_gb or DEFAULT_MEMORY_SHARE * largest.memory / 1e9
    return ResourceNeeds(
        gpus=int(largest.gpus) if settings.device == "cuda" else 0, memory_gb=memory, hours=settings.timeout / 3600
    )


def describe_differences(machines: Sequence[MachineFacts]) -> tuple[str, ...]:
    """Return a warning if the machines may produce different final digits."""
    if len({machine.environment_fingerprint for machine in machines}) == 1:
        return ()
    return (
        "the machines differ in processor, GPU or driver: the last digits of a cell may depend on the machine, "
        "and measurements from other clusters are not reused",
    )
