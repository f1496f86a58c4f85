"""Connect to a Ray cluster, list its machines and call worker processes on them. Only this module imports Ray.

Guarantees: Ray retries and restarts nothing (`max_retries`, `max_restarts` are 0). Every call has a timeout. The loss
of a machine or process raises `WorkerLost`; the loss of the head node raises `ClusterDown`. Limits: if the Ray process
on this machine dies, Ray may end this process too, which is equivalent to a kill. Ray pickles its own messages and
exceptions, so anyone with the cluster's token can run code on the cluster and on this machine.

Sources: docs.ray.io, "Fault tolerance", "Ray token authentication".
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import time
from collections import defaultdict
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.whole_numbers import parse_whole_number
from labwright.sandbox.cluster.messages import MachineFacts, WorkerTerms
from labwright.sandbox.errors import ClusterDown, ClusterError, ExecutorError, WorkerLost
from labwright.sandbox.settings import SandboxSettings

INSTALL_ADVICE = "pip install 'labwright[ray]'"
CALL_TIMEOUT_SECONDS = 60.0
"""Timeout of a call in seconds, in addition to a requested waiting time."""
_CONNECT_TIMEOUT_SECONDS = 3.0
"""Timeout for connecting to the cluster's head, in seconds."""
END_TIMEOUT_SECONDS = 10.0
"""Seconds a worker has to stop by itself before it is killed."""
_WATCH_INTERVAL_SECONDS = 2.0
"""Seconds between two checks of the head."""
_MAX_MISSED_CHECKS = 3
"""Number of consecutive failed checks that make the head count as lost."""
_MAX_IDLE_SECONDS = 10.0
"""Seconds for which an idle worker is kept."""


def connect(address: str) -> None:
    """Join the cluster at HOST:PORT. Raises `ClusterError`."""
    host, _, port = address.rpartition(":")
    if not host or parse_whole_number(port) is None:
        raise ClusterError(f"--ray {address!r} is not HOST:PORT, as in --ray 10.0.0.1:6379")
    try:
        with _silence_ray():
            ray = _import_ray()
    except ImportError:
        raise ClusterError(f"--ray needs Ray, which is not installed: {INSTALL_ADVICE}") from None
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): start one "
            "(see docs/hardware.md), or run without --ray"
        ) from None
    if ray.is_initialized():  # by an earlier run in this process
        ray.shutdown()
    try:
        with _silence_ray():
            ray.init(address=address, namespace="scientist", log_to_driver=False, logging_level=logging.ERROR)
    except (RuntimeError, ConnectionError, ValueError, OSError, ray.exceptions.RayError) as error:
        message = " ".join(str(error).split())
        raise ClusterError(
            f"the Ray cluster at {address} cannot be joined: {message[:300]}; this machine must belong to it "
            "(ray start --address), with the same Python, Ray and token"
        ) from None


@contextmanager
def _silence_ray() -> Generator[None]:
    """Suppress the output of Ray's C++ code to stderr; the caller reports failures in one line."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    stderr_copy, null_device = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null_device, 2)
        yield
    finally:
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)
        os.close(null_device)


def disconnect() -> None:
    """Leave the cluster. Idempotent."""
    _import_ray().shutdown()


def _import_ray() -> Any:
    """Import Ray, which only cluster runs load, and silence its reports of dead processes."""
    import ray
    import ray._private.worker as worker

    worker.print_to_stdstream = lambda *_, **__: None  # pyright: ignore  Ray has no option for this
    return ray


def survey_machines(terms: WorkerTerms) -> tuple[MachineFacts, ...]:
    """Return the facts of each machine of the cluster that offers processors. Raises `ClusterError`."""
    from labwright.sandbox.cluster.worker_actor import describe_machine

    ray = _import_ray()
    known: list[dict[str, Any]] = ray.nodes()
    nodes = [node for node in known if node["Alive"] and node["Resources"].get("CPU", 0)]
    describe, strategies = ray.remote(num_cpus=0, max_retries=0)(describe_machine), ray.util.scheduling_strategies
    refs = [
        describe.options(
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(terms.encoded)
        for node in nodes
    ]
    return tuple(_build_facts(node, ref, terms.settings) for node, ref in zip(nodes, refs, strict=True))


def _build_facts(node: dict[str, Any], ref: Any, settings: SandboxSettings) -> MachineFacts:
    ray = _import_ray()
    try:
        facts = MachineFacts.decode(ray.get(ref, timeout=2 * CALL_TIMEOUT_SECONDS))
    except (ray.exceptions.RayError, ValueError) as error:
        cause = " ".join(str(getattr(error, "cause", None) or error).split())
        raise ClusterError(
            f"machine {node['NodeManagerAddress']} of the cluster cannot run scientist: {cause[-300:]}; "
            "install the same version of scientist there"
        ) from None
    resources = node["Resources"]
    cpus, gpus = float(resources.get("CPU", 0)), float(resources.get("GPU", 0))
    places = cpus // settings.threads
    if settings.device == "cuda":
        places = min(places, gpus * settings.slots_per_gpu // settings.gpus_per_node)
    return facts.model_copy(
        update={
            "node": node["NodeID"],
            "address": node["NodeManagerAddress"],
            "cpus": cpus,
            "gpus": gpus,
            "slots": int(places),
        }
    )


def is_private(address: str) -> bool:
    """Return whether an address is in a private network; host names are assumed to be private."""
    with suppress(ValueError):
        return not ipaddress.ip_address(address).is_global
    return True


@dataclass(eq=False)
class RemoteWorker:
    """A worker process on a machine of the cluster; calls run in its main thread."""

    node: str
    needs: ResourceNeeds
    actor: Any
    cluster: RayCluster
    free_since: float = 0.0

    async def call(self, method: str, *arguments: bytes | int | bool, timeout: float = CALL_TIMEOUT_SECONDS) -> bytes:
        """Call a method of `WorkerActor`. Raises `WorkerLost`, `ClusterDown`, `ExecutorError`."""
        return await self.cluster.wait_for_answer(getattr(self.actor, method).remote(*arguments), timeout)

    async def end(self) -> None:
        """Stop the worker, cleanly if it still answers."""
        with suppress(ExecutorError):
            await self.call("close", timeout=END_TIMEOUT_SECONDS)
        with suppress(Exception):  # it may be gone already
            if _import_ray().is_initialized():  # otherwise Ray would start a new cluster
                await asyncio.wait_for(asyncio.to_thread(_import_ray().kill, self.actor), _CONNECT_TIMEOUT_SECONDS)
        self.cluster.workers.discard(self)


@dataclass(eq=False)
class RayCluster:
    """The machines of the cluster and the workers started on them."""

    address: str
    machines: tuple[MachineFacts, ...]
    terms: WorkerTerms
    workers: set[RemoteWorker] = field(default_factory=set[RemoteWorker])
    """All workers, busy and idle."""
    _idle: list[RemoteWorker] = field(default_factory=list[RemoteWorker])
    _down: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _watching: asyncio.Task[None] | None = None
    _locks: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def slots(self) -> int:
        """Number of experiments that can run at once."""
        return sum(machine.slots for machine in self.machines)

    def get_transfer_lock(self, node: str, key: str) -> asyncio.Lock:
        """Return the lock that serializes transfers of one item to one machine."""
        return self._locks[node, key]

    async def acquire_worker(self, needs: ResourceNeeds) -> RemoteWorker:
        """Return a worker with these resources, waiting if necessary. Raises `ExecutorError`, `ClusterDown`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="cluster watch")
        while self._idle:
            worker = self._idle.pop()
            if worker.needs == needs and await self._is_alive(worker):
                return worker
            await self.run_in_background(worker.end())
        return await self._start_worker(needs)

    async def _is_alive(self, worker: RemoteWorker) -> bool:
        """Return whether an idle worker still answers."""
        try:
            await worker.call("ping", timeout=END_TIMEOUT_SECONDS)
        except WorkerLost:
            return False
        except BaseException:
            self.run_in_background(worker.end())
            raise
        return True

    def release_worker(self, worker: RemoteWorker) -> None:
        """Return a worker to the idle pool. This does not wait, since the caller may be cancelled."""
        self.run_in_background(self._rest_worker(worker))

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Run a coroutine to its end even if the caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(task)

    async def _rest_worker(self, worker: RemoteWorker) -> None:
        """Make a worker idle; one with GPUs is stopped to free them."""
        if self._build_resources(worker.needs)["num_gpus"] or self._down.is_set():
            await worker.end()
            return
        try:
            await worker.call("go_idle", timeout=END_TIMEOUT_SECONDS)
        except ExecutorError:
            await worker.end()
            return
        worker.free_since = time.monotonic()
        self._idle.append(worker)

    async def close(self) -> None:
        """Stop all workers. Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
            self._watching = None
        self._idle.clear()
        await asyncio.gather(*(worker.end() for worker in list(self.workers)))
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def wait_for_answer(self, ref: Any, timeout: float) -> bytes:
        """Wait for the answer to a call. Raises `WorkerLost`, `ClusterDown`, `ExecutorError`."""
        failed = _import_ray().exceptions
        waiting, down = asyncio.ensure_future(_await_ref(ref)), asyncio.ensure_future(self._down.wait())
        try:
            await asyncio.wait({waiting, down}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if self._down.is_set():
                raise ClusterDown(f"the Ray cluster at {self.address} is gone: restart it and resume the run")
            raise WorkerLost(f"no answer for {timeout:.0f} s")
        except failed.RayTaskError as error:
            raise ExecutorError(" ".join(str(error.cause or error).split())[-300:]) from None
        except failed.RayError as error:
            raise WorkerLost(_first_error_line(error)) from None
        finally:
            waiting.cancel()
            down.cancel()
            await asyncio.gather(waiting, down, return_exceptions=True)

    async def _start_worker(self, needs: ResourceNeeds) -> RemoteWorker:
        from labwright.sandbox.cluster.worker_actor import WorkerActor

        actor = (
            _import_ray()
            .remote(WorkerActor)
            .options(**self._build_resources(needs), max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")
            .remote(self.terms.encoded)
        )
        worker = RemoteWorker("", needs, actor, self)
        self.workers.add(worker)
        try:
            await self._wait_until_started(worker)
        except BaseException:
            self.run_in_background(worker.end())
            raise
        return worker

    async def _wait_until_started(self, worker: RemoteWorker) -> None:
        """Wait until a worker has started, as long as other workers are busy and then for up to `sandbox.gpu_wait`
        seconds.
        """
        wait, began = self.terms.settings.gpu_wait, time.monotonic()
        greeting = worker.actor.ping.remote()
        while True:
            try:
                worker.node = (await self.wait_for_answer(greeting, CALL_TIMEOUT_SECONDS)).decode()
                return
            except WorkerLost as error:
                if not str(error).startswith("no answer"):
                    raise
                if len(self.workers) > 1:
                    began = time.monotonic()
                if time.monotonic() - began > wait:
                    raise ClusterDown(
                        f"no machine of the Ray cluster at {self.address} had room for {wait:.0f} s "
                        "(sandbox.gpu_wait): free some resources and resume the run"
                    ) from None

    def _build_resources(self, needs: ResourceNeeds) -> dict[str, Any]:
        settings = self.terms.settings
        gpus: float = 0
        if settings.device == "cuda":
            gpus = settings.gpus_per_node if needs.gpus is None else needs.gpus
            gpus = 1 / settings.slots_per_gpu if gpus == 1 else gpus
        memory = {"memory": int(needs.memory_gb * 1e9)} if needs.memory_gb else {}
        return {"num_cpus": settings.threads, "num_gpus": gpus, **memory}

    async def _watch(self) -> None:
        """Detect the loss of the head and stop workers that stay idle."""
        missed = 0
        while not self._down.is_set():
            await asyncio.sleep(_WATCH_INTERVAL_SECONDS)
            missed = 0 if await _is_reachable(self.address) else missed + 1
            if missed >= _MAX_MISSED_CHECKS:
                self._down.set()
            for worker in [idle for idle in self._idle if time.monotonic() - idle.free_since > _MAX_IDLE_SECONDS]:
                self._idle.remove(worker)
                await worker.end()


async def _await_ref(ref: Any) -> bytes:
    return await ref


async def _is_reachable(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _first_error_line(error: Exception) -> str:
    """Return the first line of a Ray error."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
