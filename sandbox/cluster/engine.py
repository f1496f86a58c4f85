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

from labwright.record.nouns.data import Needs
from labwright.record.whole_numbers import parse_whole_number
from labwright.sandbox.cluster.messages import Facts, Terms
from labwright.sandbox.errors import ClusterDown, ClusterError, ExecutorError, PlaceLost
from labwright.sandbox.settings import SandboxSettings

INSTALL = "pip install 'labwright[ray]'"
ANSWERS = 60.0
"""Seconds that any call may take beyond what it was asked to wait."""
_REACHED = 3.0
"""Seconds for a connection to the cluster's head."""
ENDS = 10.0
"""Seconds for a place to end what it runs by itself; then it is killed."""
_LOOKS = 2.0
"""Seconds between two looks at whether the head is there."""
_AWAY = 3
"""Looks in a row after which a head that does not answer is gone."""
_IDLE = 10.0
"""Seconds for which a place without work is kept."""


def connect(address: str) -> None:
    """Join the cluster at HOST:PORT. Raises `ClusterError`."""
    host, _, port = address.rpartition(":")
    if not host or parse_whole_number(port) is None:
        raise ClusterError(f"--ray {address!r} is not HOST:PORT, as in --ray 10.0.0.1:6379")
    try:
        with _hushed():
            ray = _ray()
    except ImportError:
        raise ClusterError(f"--ray needs Ray, which is not installed: {INSTALL}") from None
    try:
        socket.create_connection((host, int(port)), timeout=_REACHED).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): start it as "
            "docs/machines.md says, or run without --ray"
        ) from None
    if ray.is_initialized():  # of a run before this one in the same process
        ray.shutdown()
    try:
        with _hushed():
            ray.init(address=address, namespace="scientist", log_to_driver=False, logging_level=logging.ERROR)
    except (RuntimeError, ConnectionError, ValueError, OSError, ray.exceptions.RayError) as error:
        told = " ".join(str(error).split())
        raise ClusterError(
            f"the Ray cluster at {address} cannot be joined: {told[:300]}; this machine must be in it "
            "(ray start --address), with the same Python, Ray and token"
        ) from None


@contextmanager
def _hushed() -> Generator[None]:
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


def forget() -> None:
    """Leave the cluster. Idempotent."""
    _ray().shutdown()


def _ray() -> Any:
    """The library, which only runs on a cluster load. What it prints of processes that died is said by us instead."""
    import ray
    import ray._private.worker as worker

    worker.print_to_stdstream = lambda *_, **__: None  # pyright: ignore  no option of Ray's turns these off
    return ray


def surveyed(terms: Terms) -> tuple[Facts, ...]:
    """What each machine of the cluster that has processors to lend says of itself. Raises `ClusterError`."""
    from labwright.sandbox.cluster.node import survey

    ray = _ray()
    there: list[dict[str, Any]] = ray.nodes()
    nodes = [one for one in there if one["Alive"] and one["Resources"].get("CPU", 0)]
    asking, on = ray.remote(num_cpus=0, max_retries=0)(survey), ray.util.scheduling_strategies
    asked = [
        asking.options(scheduling_strategy=on.NodeAffinitySchedulingStrategy(one["NodeID"], soft=False)).remote(
            terms.sent
        )
        for one in nodes
    ]
    return tuple(_facts(node, ref, terms.settings) for node, ref in zip(nodes, asked, strict=True))


def _facts(node: dict[str, Any], ref: Any, settings: SandboxSettings) -> Facts:
    ray = _ray()
    try:
        told = Facts.read(ray.get(ref, timeout=2 * ANSWERS))
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
            "places": int(places),
        }
    )


def is_private(address: str) -> bool:
    """Whether nobody outside can reach it; names are taken to be of a private network."""
    with suppress(ValueError):
        return not ipaddress.ip_address(address).is_global
    return True


@dataclass(eq=False)
class Hand:
    """A place: a process on a machine of the cluster, which is called in its main thread."""

    node: str
    needs: Needs
    actor: Any
    cluster: Cluster
    free_since: float = 0.0

    async def call(self, method: str, *given: bytes | int | bool, within: float = ANSWERS) -> bytes:
        """What a method of `Node` answers. Raises `PlaceLost`, `ClusterDown`, `ExecutorError`."""
        return await self.cluster.answer(getattr(self.actor, method).remote(*given), within)

    async def end(self) -> None:
        """End it, gently where it still answers."""
        with suppress(ExecutorError):
            await self.call("close", within=ENDS)
        with suppress(Exception):  # where it is gone, so be it
            if _ray().is_initialized():  # else Ray would start a cluster of its own
                await asyncio.wait_for(asyncio.to_thread(_ray().kill, self.actor), _REACHED)
        self.cluster.hands.discard(self)


@dataclass(eq=False)
class Cluster:
    """The machines that were joined, and our places in them."""

    address: str
    machines: tuple[Facts, ...]
    terms: Terms
    hands: set[Hand] = field(default_factory=set[Hand])
    """All that there are."""
    _idle: list[Hand] = field(default_factory=list[Hand])
    _down: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _watching: asyncio.Task[None] | None = None
    _locks: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def places(self) -> int:
        """Experiments that fit at a time."""
        return sum(one.places for one in self.machines)

    def alone(self, node: str, key: str) -> asyncio.Lock:
        """Held by whoever brings something to a machine."""
        return self._locks[node, key]

    async def take(self, needs: Needs) -> Hand:
        """A place with these means; waits for one. Raises `ExecutorError`, `ClusterDown`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="watch of the cluster")
        while self._idle:
            hand = self._idle.pop()
            if hand.needs == needs and await self._answers(hand):
                return hand
            await self.later(hand.end())
        return await self._made(needs)

    async def _answers(self, hand: Hand) -> bool:
        """Whether a place that was idle is still there."""
        try:
            await hand.call("hello", within=ENDS)
        except PlaceLost:
            return False
        except BaseException:
            self.later(hand.end())
            raise
        return True

    def give(self, hand: Hand) -> None:
        """Take a place back, for the next who wants one like it. Does not wait: who gives may be cancelled."""
        self.later(self._rested(hand))

    def later(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Do something to its end, whatever becomes of who wants it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(task)

    async def _rested(self, hand: Hand) -> None:
        """A place without work: one with GPUs is ended, so that others can have them."""
        if self._means(hand.needs)["num_gpus"] or self._down.is_set():
            await hand.end()
            return
        try:
            await hand.call("rest", within=ENDS)
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
        await asyncio.gather(*(hand.end() for hand in list(self.hands)))
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def answer(self, ref: Any, within: float) -> bytes:
        """What a call comes to. Raises `PlaceLost`, `ClusterDown`, `ExecutorError`."""
        failed = _ray().exceptions
        waiting, down = asyncio.ensure_future(_awaited(ref)), asyncio.ensure_future(self._down.wait())
        try:
            await asyncio.wait({waiting, down}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if self._down.is_set():
                raise ClusterDown(f"the Ray cluster at {self.address} is gone: start it again, and resume the run")
            raise PlaceLost(f"no answer for {within:.0f} s")
        except failed.RayTaskError as error:
            raise ExecutorError(" ".join(str(error.cause or error).split())[-300:]) from None
        except failed.RayError as error:
            raise PlaceLost(_reason(error)) from None
        finally:
            waiting.cancel()
            down.cancel()
            await asyncio.gather(waiting, down, return_exceptions=True)

    async def _made(self, needs: Needs) -> Hand:
        from labwright.sandbox.cluster.node import Node

        actor = (
            _ray()
            .remote(Node)
            .options(**self._means(needs), max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")
            .remote(self.terms.sent)
        )
        hand = Hand("", needs, actor, self)
        self.hands.add(hand)
        try:
            await self._greeted(hand)
        except BaseException:
            self.later(hand.end())
            raise
        return hand

    async def _greeted(self, hand: Hand) -> None:
        """Wait until a place has room and is there: as long as others of ours are at work, and then for so long."""
        wait, began = self.terms.settings.gpu_wait, time.monotonic()
        greeting = hand.actor.hello.remote()
        while True:
            try:
                hand.node = (await self.answer(greeting, ANSWERS)).decode()
                return
            except PlaceLost as error:
                if not str(error).startswith("no answer"):
                    raise
                if len(self.hands) > 1:
                    began = time.monotonic()
                if time.monotonic() - began > wait:
                    raise ClusterDown(
                        f"no machine of the Ray cluster at {self.address} had room for {wait:.0f} s "
                        "(sandbox.gpu_wait): free some, and resume the run"
                    ) from None

    def _means(self, needs: Needs) -> dict[str, Any]:
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
            await asyncio.sleep(_LOOKS)
            away = 0 if await _reached(self.address) else away + 1
            if away >= _AWAY:
                self._down.set()
            for hand in [one for one in self._idle if time.monotonic() - one.free_since > _IDLE]:
                self._idle.remove(hand)
                await hand.end()


async def _awaited(ref: Any) -> bytes:
    return await ref


async def _reached(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_REACHED):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _reason(error: Exception) -> str:
    """The first line of what Ray says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
