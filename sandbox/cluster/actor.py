"""Run cells and commands on a machine of the cluster, in the same kernels as on a single machine. Folders and files
travel by Ray's object store; what arrives is verified by its sha256, and has the times of the receiving file system.

One actor serves a machine. Its processes are started by the one thread of its event loop, which lives as long as the
actor, because bubblewrap ends with the thread that started it: a killed actor leaves no process in a sandbox. Labels
never reach it. Limits: without a sandbox, a command may outlive its killed actor.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from labwright.record.float_compare import parse_whole_number
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.untrusted_files import BadFile, make_harmless, remove_path, remove_tree
from labwright.sandbox.cell_runner import KernelHost
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.content_store import default_store_root, pack_archive, read_file_time, unpack_archive
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.gpus import GpuDevice, GpuLeases, open_gpu_leases
from labwright.sandbox.isolation.bubblewrap import determine_isolation
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.processes import (
    ScratchFolder,
    compute_cell_capacity,
    read_machine_memory,
    remove_stale,
)
from labwright.sandbox.job import CellStarted, ClusterError
from labwright.sandbox.packages import compute_environment_fingerprint, hash_path
from labwright.sandbox.repository.command import CommandJob
from labwright.sandbox.results import failure_from_error
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import KernelScript

# Join a Ray cluster, or start Ray on this machine, and check before a run that every machine can run its cells.
# Limits: anyone with the cluster's token can run code on the cluster and on this machine, since Ray pickles its
# messages. Source: docs.ray.io, "Ray token authentication".

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


def open_machine_gpus(settings: SandboxSettings) -> GpuLeases:
    """Return the leases of the GPUs that Ray may use on this machine: those of its parent, the Ray process of the
    machine, since Ray shows none to a process that claims none. Raises `GpuError`."""
    with suppress(psutil.Error):
        return open_gpu_leases(settings, psutil.Process(os.getppid()).environ().get("CUDA_VISIBLE_DEVICES"))
    return open_gpu_leases(settings, None)


# --- on the head ------------------------------------------------------------------------------------------------------


def import_ray() -> Any:
    """Import Ray, which only runs on a cluster do. Raises `ClusterError` if it is not installed."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # the caller reports failures in one line
    try:
        import ray
    except ImportError:
        raise ClusterError("Ray is not installed: in the checkout, pip install '.[ray]'") from None
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
        raise ClusterError(f"no Ray cluster answers at {address}: start one (see docs/hardware.md)")
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
        where, why = address or "this machine", format_error(error)
        raise ClusterError(
            f"the Ray cluster at {where} cannot be joined: {why}; this machine must belong to it (ray start)"
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
        needs = f"{settings.threads} processors{gpus}"
        raise ClusterError(f"no machine of the Ray cluster has room for one cell, which needs {needs}")
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
            "it accepts commands from anyone: start Ray on every machine with RAY_AUTH_MODE=token (docs/hardware.md)"
        )


def compute_max_cell_capacity(settings: SandboxSettings) -> ResourceNeeds:
    """Return the maximum resources of one cell on the machine with the most GPUs and memory."""
    largest = max(list_machines(settings), key=lambda machine: (machine.gpus, machine.memory))
    return compute_cell_capacity(settings, largest.gpus if settings.device == "cuda" else 0, largest.memory)


_CHUNK_BYTES = 32 * 2**20
"""Bytes per object of Ray's object store."""
_INLINE_BYTES = 2**16
"""A smaller part travels in the message itself."""


class SentFolder(NamedTuple):
    """A folder, or a folder with one file."""

    parts: list[Any]
    """The parts of an archive, by reference to the object store unless they are small."""
    sha256: str
    """Hash of the whole archive."""
    file: str
    """Name of the file; empty for a folder."""


def send_folder(folder: Path, scratch: Path, *, max_bytes: int = 2**60, clock_shift: float = 0.0) -> SentFolder:
    """Put a folder or file into the object store (`pack_archive`). `scratch` is a folder for temporary files. Raises
    `BadFile`, `OSError`, `RayError`."""
    ray, parts, digest = import_ray(), list[Any](), hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=scratch) as archive:
        pack_archive(folder, Path(archive.name), max_bytes=max_bytes, clock_shift=clock_shift)
        while part := archive.read(_CHUNK_BYTES):
            digest.update(part)
            parts.append(part if len(part) < _INLINE_BYTES else ray.put(part))
    return SentFolder(parts, digest.hexdigest(), "" if folder.is_dir() else folder.name)


def receive_folder(sent: SentFolder, folder: Path, scratch: Path, *, max_bytes: int = 2**62) -> None:
    """Replace a folder by what was sent. Raises `BadFile`, also if it was damaged on the way, `OSError`, `RayError`."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=scratch) as archive:
        for reference in sent.parts:
            part: bytes = reference if isinstance(reference, bytes) else import_ray().get(reference)
            digest.update(part)
            archive.write(part)
        archive.flush()
        if digest.hexdigest() != sent.sha256:
            raise BadFile("the archive was damaged on the way")
        remove_tree(folder)
        unpack_archive(Path(archive.name), folder, max_bytes=max_bytes)


NEWS_SECONDS = 1.0
"""Interval between messages to the head, which also are signs of life, in seconds."""


# --- messages: values, and references to bytes in Ray's object store --------------------------------------------------


@dataclass(frozen=True)
class RemoteWork:
    """A script or a command to run in its folder."""

    code: KernelScript | CommandJob
    sent: SentFolder
    """The folder."""
    now: float
    """Time of the folder's file system on the head."""
    contents: Mapping[str, SentFolder]
    """Path on the head -> file or folder that many cells read."""


class WorkEnded(NamedTuple):
    """The code has ended; the folder is what it left, empty if that cannot be sent."""

    result: Any
    """`KernelExecution` or `CommandOutcome`."""
    sent: SentFolder


News = CellStarted | WorkEnded | str
"""A string is output."""


# --- the actor --------------------------------------------------------------------------------------------------------


class ReportedCell(RunningCell):
    """The connection between running code and the head, which knows which cell it is."""

    def __init__(self) -> None:
        self.news = list[News]()
        super().__init__(show=self.news.append)

    def mark_started(self) -> None:
        self.news.append(CellStarted(self.cell))


@dataclass
class Slot:
    """A place for one cell at a time, with its kernel."""

    folder: Path
    host: KernelHost
    task: asyncio.Task[WorkEnded] | None = None


class MachineActor:
    """Runs work on its machine, in slots that the head numbers. A slot keeps its kernel until it is released."""

    def __init__(self) -> None:
        self._slots, self._released = dict[int, Slot](), set[int]()
        self._received = dict[Path, asyncio.Task[None]]()

    async def start(self, settings: SandboxSettings, slots: int, secret: tuple[Path, ...]) -> None:
        """Prepare the machine: `slots` cells share its memory, and code never sees the paths in `secret`. Raises
        `SandboxError`, `OSError`."""
        self._settings = settings
        await asyncio.to_thread(inspect_interpreter, settings.python)  # once, not in each slot: it starts a process
        home = (settings.store or default_store_root()).with_name("actors") / socket.gethostname()
        home.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(home)
        self._scratch = ScratchFolder(home)
        self._folder = folder = self._scratch.root
        (folder / "cache").mkdir()
        labels, gpus = folder / "labels", open_machine_gpus(settings)  # there are no labels
        own: dict[str, Any] = {"labels": labels, "cache": folder / "cache", "gpus": gpus, "secret": secret}
        self._executor = LocalExecutor(slots, folder / "views", settings=settings, **own)

    async def run(self, number: int, work: RemoteWork) -> AsyncGenerator[list[News]]:
        """Run work in a slot and yield its news at least every `NEWS_SECONDS`; the last is `WorkEnded`."""
        if number in self._released:  # Ray may swap two calls
            return
        if (slot := self._slots.get(number)) is None:
            folder = self._folder / f"slot-{number}"
            folder.mkdir()
            slot = self._slots[number] = Slot(folder, KernelHost(self._executor, folder / "kernel"))
        running = ReportedCell()
        task = slot.task = asyncio.create_task(self._run_work(slot, work, running))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=NEWS_SECONDS)
                yield [running.news.pop(0) for _ in tuple(running.news)]
            yield [task.result()]
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def release(self, number: int) -> None:
        """Kill the code in a slot and its kernel; the slot runs nothing any more. Idempotent."""
        self._released.add(number)
        if (slot := self._slots.pop(number, None)) is not None:
            if slot.task is not None:
                slot.task.cancel()
                await asyncio.wait({slot.task})
            await slot.host.close()
            await asyncio.to_thread(remove_tree, slot.folder, ignore_errors=True)

    async def close(self) -> None:
        """Kill all code and delete the actor's folder."""
        await asyncio.gather(*map(self.release, tuple(self._slots)))
        await asyncio.to_thread(self._scratch.remove)

    # --- the work -----------------------------------------------------------------------------------------------------

    async def _run_work(self, slot: Slot, work: RemoteWork, running: RunningCell) -> WorkEnded:
        code, folder = work.code, slot.folder / "work" / work.code.folder.name
        paths = {path: await self._provide(sent) for path, sent in work.contents.items()}
        shift = work.now - await asyncio.to_thread(read_file_time, slot.folder)
        await asyncio.to_thread(receive_folder, work.sent, folder, slot.folder)
        if isinstance(code, KernelScript):
            views = {name: str(paths[path]) for name, path in code.views.items()}
            models = {name: str(paths[path]) for name, path in code.pretrained.items()}
            packages = paths.get(str(code.packages))
            script = replace(code, folder=folder, views=views, pretrained=models, packages=packages)
            result = await slot.host.execute(script, running)
        else:
            packages = paths.get(str(code.environment.packages))
            job = replace(code, folder=folder, environment=replace(code.environment, packages=packages))
            result = await self._executor.run_repository_command(job, running)

        def send() -> WorkEnded:
            try:
                make_harmless(folder)
                if isinstance(code, KernelScript):
                    remove_path(folder, "inputs")
                most = int(self._settings.disk_gb * 1e9)
                return WorkEnded(result, send_folder(folder, slot.folder, max_bytes=most, clock_shift=shift))
            except BadFile as error:
                (empty := slot.folder / "empty").mkdir(exist_ok=True)
                failure = result.failure or failure_from_error(error)
                return WorkEnded(replace(result, failure=failure), send_folder(empty, slot.folder))
            finally:
                remove_tree(slot.folder / "work", ignore_errors=True)  # the head may use the slot again at once

        return await asyncio.to_thread(send)

    async def _provide(self, sent: SentFolder) -> Path:
        """Return the file or folder on this machine, after receiving it if it is missing."""
        place = self._folder / "contents" / sent.sha256
        if place not in self._received:
            receiving = asyncio.to_thread(receive_folder, sent, place, self._folder)
            self._received[place] = asyncio.create_task(receiving)
        await asyncio.shield(self._received[place])
        return place / sent.file
