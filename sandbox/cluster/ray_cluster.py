"""The cluster as Ray knows it: who is in it, and processes in it that we call. Ray is imported here alone.

Kept: nothing is retried or built again by Ray (`max_retries`, `max_restarts` are 0); every call has a limit; a machine
or process that goes away is a `PlaceLost`, a head that goes away a `ClusterDown`. Not kept: where the Ray process of
this very machine dies, Ray may end ours with it; the record is then as a kill leaves it. Ray wraps its own messages and
exceptions in pickle: all who have the cluster's token can run code in it, and on this machine.

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
"""Seconds that any call may take beyond what it was asked to wait."""
_CONNECT_TIMEOUT_SECONDS = 3.0
"""Seconds for a connection to the cluster's head."""
END_TIMEOUT_SECONDS = 10.0
"""Seconds for a place to end what it runs by itself; then it is killed."""
_WATCH_INTERVAL_SECONDS = 2.0
"""Seconds between two looks at whether the head is there."""
_MAX_MISSED_CHECKS = 3
"""Looks in a row after which a head that does not answer is gone."""
_MAX_IDLE_SECONDS = 10.0
"""Seconds for which a place without work is kept."""


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
            f"no Ray cluster answers at {address} ({error.strerror or error}): start it as "
            "docs/hardware.md says, or run without --ray"
        ) from None
    if ray.is_initialized():  # of a run before this one in the same process
        ray.shutdown()
    try:
        with _silence_ray():
            ray.init(address=address, namespace="scientist", log_to_driver=False, logging_level=logging.ERROR)
    except (RuntimeError, ConnectionError, ValueError, OSError, ray.exceptions.RayError) as error:
        told = " ".join(str(error).split())
        raise ClusterError(
            f"the Ray cluster at {address} cannot be joined: {told[:300]}; this machine must be in it "
            "(ray start --address), with the same Python, Ray and token"
        ) from None


@contextmanager
def _silence_ray() -> Generator[None]:
    """While inside, what Ray's C++ says on stderr is not shown: what comes of it is said in one line."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def disconnect() -> None:
    """Leave the cluster. Idempotent."""
    _import_ray().shutdown()


def _import_ray() -> Any:
    """The library, which only runs on a cluster load. What it prints of processes that died is said by us instead."""
    import ray
    import ray._private.worker as worker

    worker.print_to_stdstream = lambda *_, **__: None  # pyright: ignore  no option of Ray's turns these off
    return ray


def survey_machines(terms: WorkerTerms) -> tuple[MachineFacts, ...]:
    """What each machine of the cluster that has processors to lend says of itself. Raises `ClusterError`."""
    from labwright.sandbox.cluster.worker_actor import describe_machine

    ray = _import_ray()
    there: list[dict[str, Any]] = ray.nodes()
    nodes = [one for one in there if one["Alive"] and one["Resources"].get("CPU", 0)]
    asking, on = ray.remote(num_cpus=0, max_retries=0)(describe_machine), ray.util.scheduling_strategies
    asked = [
        asking.options(scheduling_strategy=on.NodeAffinitySchedulingStrategy(one["NodeID"], soft=False)).remote(
            terms.encoded
        )
        for one in nodes
    ]
    return tuple(_build_facts(node, ref, terms.settings) for node, ref in zip(nodes, asked, strict=True))


def _build_facts(node: dict[str, Any], ref: Any, settings: SandboxSettings) -> MachineFacts:
    ray = _import_ray()
    try:
        told = MachineFacts.decode(ray.get(ref, timeout=2 * CALL_TIMEOUT_SECONDS))
    except (ray.exceptions.RayError, ValueError) as error:
        cause = " ".join(str(getattr(error, "cause", None) or error).split())
        raise ClusterError(
            f"machine {node['NodeManagerAddress']} of the cluster cannot run our code: {cause[-300:]}; "
            "install scientist there, in the version that is here"
        ) from None
    held = node["Resources"]
    cpus, gpus = float(held.get("CPU", 0)), float(held.get("GPU", 0))
    places = cpus // settings.threads
    if settings.device == "cuda":
        places = min(places, gpus * settings.slots_per_gpu // settings.gpus_per_node)
    return told.model_copy(
        update={
            "node": node["NodeID"],
            "address": node["NodeManagerAddress"],
            "cpus": cpus,
            "gpus": gpus,
            "slots": int(places),
        }
    )


def is_private(address: str) -> bool:
    """Whether nobody outside can reach it; names are taken to be of a private network."""
    with suppress(ValueError):
        return not ipaddress.ip_address(address).is_global
    return True


@dataclass(eq=False)
class RemoteWorker:
    """A place: a process on a machine of the cluster, which is called in its main thread."""

    node: str
    needs: ResourceNeeds
    actor: Any
    cluster: RayCluster
    free_since: float = 0.0

    async def call(self, method: str, *arguments: bytes | int | bool, timeout: float = CALL_TIMEOUT_SECONDS) -> bytes:
        """What a method of `Node` answers. Raises `PlaceLost`, `ClusterDown`, `ExecutorError`."""
        return await self.cluster.wait_for_answer(getattr(self.actor, method).remote(*arguments), timeout)

    async def end(self) -> None:
        """End it, gently where it still answers."""
        with suppress(ExecutorError):
            await self.call("close", timeout=END_TIMEOUT_SECONDS)
        with suppress(Exception):  # where it is gone, so be it
            if _import_ray().is_initialized():  # else Ray would start a cluster of its own
                await asyncio.wait_for(asyncio.to_thread(_import_ray().kill, self.actor), _CONNECT_TIMEOUT_SECONDS)
        self.cluster.workers.discard(self)


@dataclass(eq=False)
class RayCluster:
    """The machines that were joined, and our places in them."""

    address: str
    machines: tuple[MachineFacts, ...]
    terms: WorkerTerms
    workers: set[RemoteWorker] = field(default_factory=set[RemoteWorker])
    """All that there are."""
    _idle: list[RemoteWorker] = field(default_factory=list[RemoteWorker])
    _down: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _watching: asyncio.Task[None] | None = None
    _locks: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def slots(self) -> int:
        """Experiments that fit at a time."""
        return sum(one.slots for one in self.machines)

    def get_transfer_lock(self, node: str, key: str) -> asyncio.Lock:
        """Held by whoever brings something to a machine."""
        return self._locks[node, key]

    async def acquire_worker(self, needs: ResourceNeeds) -> RemoteWorker:
        """A place with these means; waits for one. Raises `ExecutorError`, `ClusterDown`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="watch of the cluster")
        while self._idle:
            hand = self._idle.pop()
            if hand.needs == needs and await self._is_alive(hand):
                return hand
            await self.run_in_background(hand.end())
        return await self._start_worker(needs)

    async def _is_alive(self, hand: RemoteWorker) -> bool:
        """Whether a place that was idle is still there."""
        try:
            await hand.call("hello", timeout=END_TIMEOUT_SECONDS)
        except WorkerLost:
            return False
        except BaseException:
            self.run_in_background(hand.end())
            raise
        return True

    def release_worker(self, worker: RemoteWorker) -> None:
        """Take a place back, for the next who wants one like it. Does not wait: who gives may be cancelled."""
        self.run_in_background(self._rest_worker(worker))

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Do something to its end, whatever becomes of who wants it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(task)

    async def _rest_worker(self, hand: RemoteWorker) -> None:
        """A place without work: one with GPUs is ended, so that others can have them."""
        if self._build_resources(hand.needs)["num_gpus"] or self._down.is_set():
            await hand.end()
            return
        try:
            await hand.call("rest", timeout=END_TIMEOUT_SECONDS)
        except ExecutorError:
            await hand.end()
            return
        hand.free_since = time.monotonic()
        self._idle.append(hand)

    async def close(self) -> None:
        """End all our places. Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
            self._watching = None
        self._idle.clear()
        await asyncio.gather(*(hand.end() for hand in list(self.workers)))
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def wait_for_answer(self, ref: Any, timeout: float) -> bytes:
        """What a call comes to. Raises `PlaceLost`, `ClusterDown`, `ExecutorError`."""
        failed = _import_ray().exceptions
        waiting, down = asyncio.ensure_future(_await_ref(ref)), asyncio.ensure_future(self._down.wait())
        try:
            await asyncio.wait({waiting, down}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if self._down.is_set():
                raise ClusterDown(f"the Ray cluster at {self.address} is gone: start it again, and resume the run")
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
        hand = RemoteWorker("", needs, actor, self)
        self.workers.add(hand)
        try:
            await self._wait_until_started(hand)
        except BaseException:
            self.run_in_background(hand.end())
            raise
        return hand

    async def _wait_until_started(self, hand: RemoteWorker) -> None:
        """Wait until a place has room and is there: as long as others of ours are at work, and then for so long."""
        wait, began = self.terms.settings.gpu_wait, time.monotonic()
        greeting = hand.actor.hello.remote()
        while True:
            try:
                hand.node = (await self.wait_for_answer(greeting, CALL_TIMEOUT_SECONDS)).decode()
                return
            except WorkerLost as error:
                if not str(error).startswith("no answer"):
                    raise
                if len(self.workers) > 1:
                    began = time.monotonic()
                if time.monotonic() - began > wait:
                    raise ClusterDown(
                        f"no machine of the Ray cluster at {self.address} had room for {wait:.0f} s "
                        "(sandbox.gpu_wait): free some, and resume the run"
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
        """Look after the head and places without work."""
        away = 0
        while not self._down.is_set():
            await asyncio.sleep(_WATCH_INTERVAL_SECONDS)
            away = 0 if await _is_reachable(self.address) else away + 1
            if away >= _MAX_MISSED_CHECKS:
                self._down.set()
            for hand in [one for one in self._idle if time.monotonic() - one.free_since > _MAX_IDLE_SECONDS]:
                self._idle.remove(hand)
                await hand.end()


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
    """The first line of what Ray says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
