"""Join a Ray cluster, or start Ray on this machine, and check before a run that every machine can run its cells.

Limits: anyone with the cluster's token can run code on the cluster and on this machine, since Ray pickles its messages.

Source: docs.ray.io, "Ray token authentication".
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.whole_numbers import parse_whole_number
from labwright.sandbox.environment_fingerprint import compute_environment_fingerprint, hash_path
from labwright.sandbox.errors import ClusterError
from labwright.sandbox.gpus import GpuDevice, GpuLeases, open_gpu_leases
from labwright.sandbox.isolation.bubblewrap import determine_isolation
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.processes import compute_cell_capacity, read_machine_memory
from labwright.sandbox.settings import SandboxSettings

_CONNECT_SECONDS = 3.0
"""Time limit for a connection to the cluster's head, in seconds."""
_SURVEY_SECONDS = 120.0
"""Time limit for the check of a machine, in seconds: its first process imports Ray."""


@dataclass(frozen=True)
class MachineFacts:
    """A machine of the cluster. `slots` is the number of cells that it can run at once."""

    node: str
    address: str
    gpus: int
    slots: int
    environment_fingerprint: str
    devices: tuple[GpuDevice, ...]
    memory: int
    """Bytes."""


# --- on each machine --------------------------------------------------------------------------------------------------


def describe_machine(settings: SandboxSettings, head: dict[str, str], node: dict[str, Any]) -> MachineFacts:
    """Return the facts of the machine on which this runs, a node of `ray.nodes`. Raises `SandboxError` if the
    conditions of values differ from those on the head, or if the machine cannot run experiments or is not safe."""
    address, resources = node["NodeManagerAddress"], node["Resources"]
    check_address(address, os.environ.get("RAY_AUTH_MODE") == "token")
    gpus, slots = int(resources.get("GPU", 0)), int(resources["CPU"] // settings.threads)
    if settings.device == "cuda":
        slots = min(slots, gpus * settings.slots_per_gpu // settings.gpus_per_node)
    settings = adapt_settings(settings)
    devices = open_machine_gpus(settings).devices
    here = describe_conditions(settings)
    for name in sorted({*here, *head}):
        if (found := here.get(name)) != (wanted := head.get(name)):
            raise ClusterError(f"its {name} is {found}, but {wanted} on the head: install the same version")
    fingerprint = compute_environment_fingerprint(settings, devices)
    return MachineFacts(node["NodeID"], address, gpus, slots, fingerprint, devices, read_machine_memory())


def describe_conditions(settings: SandboxSettings) -> dict[str, str]:
    """Return what must be equal on all machines: code, Python, packages and isolation. Raises `IsolationError`."""
    runs, isolation = inspect_interpreter(settings.python), determine_isolation(settings)
    walls = "full" if isolation.between_cells else "partial" if isolation.is_on else f"missing ({isolation.reason})"
    root = Path(__file__).resolve().parents[2]
    code = " and ".join(hash_path(str(root / name))[:12] for name in ("record", "sandbox"))
    return {"version of scientist": code, "python": runs.version, "isolation": walls} | runs.packages


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
    if threading.current_thread() is threading.main_thread():
        # Ray's own handler ends the process with a crash report; if it dies at once, helpers of a Ray that it started
        # stay behind
        def end(number: int, _: object) -> None:
            sys.exit(128 + number)

        signal.signal(signal.SIGTERM, end if on_end == signal.SIG_DFL else on_end)


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
    ask, here = ray.remote(num_cpus=0, max_retries=0)(describe_machine), describe_conditions(settings)
    found = list[MachineFacts]()
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    refs = [ask.options(scheduling_strategy=pin_to_node(one["NodeID"])).remote(settings, here, one) for one in nodes]
    for node, ref in zip(nodes, refs, strict=True):
        try:
            found.append(ray.get(ref, timeout=_SURVEY_SECONDS))
        except ray.exceptions.RayError as error:
            where, why = node["NodeManagerAddress"], format_error(error)
            raise ClusterError(f"machine {where} of the Ray cluster cannot run experiments: {why}") from None
    if not any(machine.slots for machine in found):
        gpus = f" and {settings.gpus_per_node} GPUs" if settings.device == "cuda" else ""
        raise ClusterError(
            f"no machine of the Ray cluster has room for one cell, which needs {settings.threads} processors{gpus}: "
            "add machines, or request less"
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
    return compute_cell_capacity(settings, largest.gpus if settings.device == "cuda" else 0, largest.memory)
