"""Join a Ray cluster, or start Ray on this machine, and check before a run that every machine can run its cells.

Limits: anyone with the cluster's token can run code on the cluster and on this machine, since Ray pickles its messages.

Source: docs.ray.io, "Ray token authentication".
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labwright.record.run_folder import hash_file
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.whole_numbers import parse_whole_number
from labwright.sandbox.environment_fingerprint import compute_environment_fingerprint
from labwright.sandbox.errors import ClusterError
from labwright.sandbox.gpu_leases import GpuLeases, open_gpu_leases
from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.limits import DEFAULT_MEMORY_SHARE, read_machine_memory
from labwright.sandbox.isolation.probe import determine_isolation
from labwright.sandbox.settings import SandboxSettings

_CONNECT_SECONDS = 3.0
"""Time limit for a connection to the cluster's head, in seconds."""
_SURVEY_SECONDS = 120.0
"""Time limit for the check of a machine, in seconds: its first process imports Ray."""


@dataclass(frozen=True)
class MachineFacts:
    """A machine of the cluster. `slots` is the number of cells that it can run at once."""

    environment_fingerprint: str
    devices: tuple[GpuDevice, ...]
    memory: int
    """Bytes."""
    has_token: bool
    node: str = ""
    address: str = ""
    gpus: int = 0
    slots: int = 0


# --- on each machine --------------------------------------------------------------------------------------------------


def describe_machine(settings: SandboxSettings, head: dict[str, str]) -> MachineFacts:
    """Return the facts of the machine on which this runs. Raises `SandboxError` if the conditions of values differ
    from those on the head, or if the machine cannot run experiments."""
    settings = adapt_settings(settings)
    devices = open_machine_gpus(settings).devices
    here = describe_conditions(settings)
    for name in sorted({*here, *head}):
        if (found := here.get(name)) != (wanted := head.get(name)):
            raise ClusterError(f"its {name} is {found}, but {wanted} on the head: install the same version")
    fingerprint = compute_environment_fingerprint(settings, devices)
    return MachineFacts(fingerprint, devices, read_machine_memory(), os.environ.get("RAY_AUTH_MODE", "") == "token")


def describe_conditions(settings: SandboxSettings) -> dict[str, str]:
    """Return what must be equal on all machines: code, Python, packages and isolation. Raises `IsolationError`."""
    runs, isolation = inspect_interpreter(settings.python), determine_isolation(settings)
    walls = "full" if isolation.between_cells else "partial" if isolation.is_on else f"missing ({isolation.reason})"
    return {"version of scientist": compute_code_version(), "python": runs.version, "isolation": walls} | runs.packages


def adapt_settings(settings: SandboxSettings) -> SandboxSettings:
    """Return the settings with this machine's interpreter if the configured one does not exist here."""
    return settings if Path(settings.python).exists() else settings.model_copy(update={"python": sys.executable})


def open_machine_gpus(settings: SandboxSettings) -> GpuLeases:
    """Return the leases of the GPUs that Ray may use on this machine: those of its parent, the Ray process of the
    machine, since Ray shows none to a process that claims none. Raises `GpuError`."""
    with suppress(OSError):
        for line in Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0"):
            if line.startswith(b"CUDA_VISIBLE_DEVICES="):
                return open_gpu_leases(settings, line.partition(b"=")[2].decode())
    return open_gpu_leases(settings, None)


def compute_code_version() -> str:
    """Return a hash of the code that must be the same on all machines."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    for path in sorted(path for package in ("record", "sandbox") for path in (root / package).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()[:12]


# --- on the head ------------------------------------------------------------------------------------------------------


def import_ray() -> Any:
    """Import Ray, which only runs on a cluster do. Raises `ClusterError` if it is not installed."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # the caller reports failures in one line
    try:
        import ray
    except ImportError:
        raise ClusterError("Ray is not installed: pip install 'labwright[ray]'") from None
    return ray


def is_head_reachable(address: str) -> bool:
    """Return whether a process answers at HOST:PORT; True for a cluster without an address."""
    if address in ("", "auto"):
        return True
    host, _, port = address.rpartition(":")
    if not host or (number := parse_whole_number(port)) is None:
        raise ClusterError(f"--ray {address!r} is neither auto nor HOST:PORT, as in --ray 10.0.0.1:6379")
    with suppress(OSError):
        socket.create_connection((host, number), timeout=_CONNECT_SECONDS).close()
        return True
    return False


def join_cluster(address: str) -> None:
    """Join the cluster at HOST:PORT or, with `auto`, that of this machine; if empty, start Ray here until this process
    ends. A process that is part of a cluster stays in it. Raises `ClusterError`."""
    if not is_head_reachable(address):
        raise ClusterError(
            f"no Ray cluster answers at {address}: start one (see docs/hardware.md), or run without --ray"
        )
    if not address and "RAY_AUTH_MODE" not in os.environ:  # Ray listens on all addresses
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = import_ray()
    if ray.is_initialized():
        return
    options: dict[str, Any] = {"address": address} if address else {"address": "local", "include_dashboard": False}
    on_end = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(namespace="scientist", log_to_driver=False, logging_level=logging.ERROR, **options)
    except (RuntimeError, ConnectionError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise ClusterError(
            f"the Ray cluster at {address or 'this machine'} cannot be joined: {format_error(error)}; this machine "
            "must belong to it (ray start), with the same Python, Ray and token"
        ) from None
    if threading.current_thread() is threading.main_thread():  # Ray's own handler ends the process with a crash report
        signal.signal(signal.SIGTERM, end_by_signal if on_end == signal.SIG_DFL else on_end)


def end_by_signal(number: int, _: object) -> None:
    """End this process in order: if it dies at once, helpers of a Ray that it started stay behind."""
    sys.exit(128 + number)


def format_error(error: Exception) -> str:
    """Return an error, or its cause on another machine, in one line."""
    return " ".join(str(getattr(error, "cause", None) or error).split())[:300]


@functools.cache
def list_machines(settings: SandboxSettings) -> tuple[MachineFacts, ...]:
    """Return the machines of the cluster that offer processors, after checking each. Raises `ClusterError`."""
    if settings.gpus:
        raise ClusterError("--gpus selects GPUs of one machine; on a cluster use --set sandbox.device=cuda")
    if settings.device == "cuda" and settings.gpus_per_node > 1 and settings.slots_per_gpu > 1:
        raise ClusterError("experiments that use several GPUs cannot share them: set sandbox.slots_per_gpu to 1")
    join_cluster(settings.ray)
    ray = import_ray()
    describe = ray.remote(num_cpus=0, max_retries=0)(describe_machine)
    nodes: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    terms = settings, describe_conditions(settings)
    refs = [describe.options(scheduling_strategy=pin_to_node(node["NodeID"])).remote(*terms) for node in nodes]
    found: list[MachineFacts] = []
    for node, ref in zip(nodes, refs, strict=True):
        address, resources = str(node["NodeManagerAddress"]), node["Resources"]
        gpus, slots = int(resources.get("GPU", 0)), int(resources["CPU"] // settings.threads)
        if settings.device == "cuda":
            slots = min(slots, gpus * settings.slots_per_gpu // settings.gpus_per_node)
        try:
            facts: MachineFacts = ray.get(ref, timeout=_SURVEY_SECONDS)
            check_address(address, facts.has_token)
        except (ray.exceptions.RayError, ValueError, ClusterError) as error:
            why = format_error(error)
            raise ClusterError(f"machine {address} of the Ray cluster cannot run experiments: {why}") from None
        found.append(replace(facts, node=node["NodeID"], address=address, gpus=gpus, slots=slots))
    if not any(machine.slots for machine in found):
        needed = f"{settings.threads} processors" + (
            f" and {settings.gpus_per_node} GPUs" if settings.device == "cuda" else ""
        )
        raise ClusterError(
            f"no machine of the Ray cluster has room for one cell, which needs {needed}: add machines, or request less"
        )
    return tuple(found)


def pin_to_node(node: str) -> Any:
    """Return Ray's scheduling strategy for work on one machine."""
    return import_ray().util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def check_address(address: str, has_token: bool) -> None:
    """Raise `ClusterError` if anyone could run code through the address of a machine."""
    with suppress(ValueError):  # host names are assumed to be private
        if ipaddress.ip_address(address).is_global:
            raise ClusterError("it has a public address: use a private network, since Ray's ports run any code")
    if not has_token and not address.startswith("127."):
        raise ClusterError(
            "it accepts commands from anyone who can reach its port: start Ray on every machine with "
            "RAY_AUTH_MODE=token (see docs/hardware.md)"
        )


def compute_max_cell_capacity(settings: SandboxSettings) -> ResourceNeeds:
    """Return the maximum resources of one cell on the machine with the most GPUs and memory."""
    largest = max(list_machines(settings), key=lambda machine: (machine.gpus, machine.memory))
    memory = settings.memory_gb or DEFAULT_MEMORY_SHARE * largest.memory / 1e9
    gpus = largest.gpus if settings.device == "cuda" else 0
    return ResourceNeeds(gpus=gpus, memory_gb=memory, hours=settings.timeout / 3600)
