"""Scripts and commands that run on other machines: their folder travels there, and what they left comes back.

Kept: everything that prepares and judges an experiment is done here, where labels and record are; what a place left is
copied, compared with its sha256 and only then given up there. A place that goes away leaves nothing behind here: its
cell begins again in another one, `LOSSES` times at most. Not kept: checkpoints of a cell whose place went away.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from labwright.record.folder import sha256
from labwright.record.nouns.data import Needs
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.cluster.engine import ANSWERS, Cluster, Hand
from labwright.sandbox.cluster.messages import Done, Kind, News, Order, Wish, order_of
from labwright.sandbox.cluster.parcels import CHUNK, SMALL, pack, unpack
from labwright.sandbox.errors import ExecutorError, PlaceLost
from labwright.sandbox.execution import Execution, Script
from labwright.sandbox.file_clock import time_at
from labwright.sandbox.job import Job
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.monitor import Monitor
from labwright.sandbox.output import OUTPUT_CHARS, LiveOutput, Transcript
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.running import Runner
from labwright.sandbox.store import Store
from labwright.sandbox.untrusted import BadFile, disarm, remove

LOSSES = 3
"""Places that one cell may lose before it counts as what ended them."""
STEP = 1.0
"""Seconds for which a place is left to itself, where it has no news."""
_UNLIMITED = 2**60


@dataclass
class Courier:
    """Brings folders to places and back."""

    cluster: Cluster
    store: Store
    scratch: Path
    packages: Callable[[], Path | None]
    """What was installed for the run."""
    most: int
    """Bytes that one order may leave."""
    _keys: dict[tuple[Path, int, int], str] = field(default_factory=dict[tuple[Path, int, int], str])

    async def key(self, path: Path, kind: Kind) -> str:
        """The key of a file or folder, which is in the store of this machine then. Raises `ExecutorError`."""
        status = await asyncio.to_thread(path.stat)
        known = path, status.st_mtime_ns, status.st_size
        if known not in self._keys or self.store.find(self._keys[known]) is None:
            self._keys[known] = await asyncio.to_thread(self.store.keep, path, kind, path.name)
        return self._keys[known]

    async def stock(self, hand: Hand, wanted: Mapping[str, tuple[Kind, str]]) -> None:
        """Have what these keys name in the store of a place's machine: brought once. Raises `ExecutorError`."""
        for key, (kind, name) in wanted.items():
            async with self.cluster.alone(hand.node, key):
                if not json.loads(await hand.call("lacking", json.dumps([key]).encode())):
                    continue
                content = self.store.find(key)
                if content is None:
                    raise ExecutorError(f"{kind} {name!r} is gone from the store {self.store.root}")
                about = {"key": key, "kind": kind, "name": name, "folder": content.is_dir()}
                async with self.parcel() as parcel:
                    await asyncio.to_thread(pack, content, parcel, most=_UNLIMITED)
                    await self.load(hand, parcel)
                await hand.call("stock", json.dumps(about).encode(), within=600.0)

    @asynccontextmanager
    async def parcel(self) -> AsyncGenerator[Path]:
        """A place for a parcel, which is gone afterwards."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            yield folder / "parcel"
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def load(self, hand: Hand, parcel: Path) -> None:
        """Bring a parcel to a place."""
        with open(parcel, "rb") as file:
            first = True
            while (part := await asyncio.to_thread(file.read, CHUNK)) or first:
                await hand.call("load", part, first)
                first = False

    async def fetch(self, hand: Hand, done: Done, came: bytes, folder: Path) -> None:
        """Have in a folder what an order left, of which some came, once its bytes are what they were there.

        Raises `ExecutorError`.
        """
        async with self.parcel() as parcel:
            with open(parcel, "wb") as file:
                file.write(came)
                while file.tell() < min(done.size, 2 * self.most):
                    part = await hand.call("fetch", file.tell())
                    await asyncio.to_thread(file.write, part)
                    if not part:
                        break
            if await asyncio.to_thread(sha256, parcel) != done.sha256:
                raise PlaceLost("what it left did not arrive as it was sent")
            await asyncio.to_thread(self._replace, folder, parcel)

    def _replace(self, folder: Path, parcel: Path) -> None:
        """Put what came back in the place of what was sent, but for what the code was given. Raises `PlaceLost`."""
        disarm(folder)
        for path in folder.iterdir():
            if path.name != "inputs":
                remove(folder, path.name)
        try:
            unpack(parcel, folder, most=self.most)
        except BadFile as error:
            raise PlaceLost(f"what it left cannot be taken: {error}") from error


@dataclass(frozen=True)
class Listener:
    """Who is told while an order is carried out."""

    name: str
    """Of the order."""
    begins: Callable[[], None] = lambda: None
    live: LiveOutput | None = None
    monitor: Monitor | None = None

    async def hear(self, news: News, begun: bool) -> str:
        """Why the code is to be ended; empty: it is not."""
        if news.begun and not begun:
            self.begins()
        if self.live is not None and news.shown:
            self.live.add(news.shown)
        reasons = [await asyncio.to_thread(self.monitor.judge, one) for one in news.glances] if self.monitor else []
        return next(filter(None, reasons), "")


async def carried_out(
    courier: Courier, hand: Hand, order: Order, parcel: Path, folder: Path, listener: Listener
) -> Done:
    """What came of an order, whose folder is what it left then. Raises `PlaceLost`, `ClusterDown`, `ExecutorError`."""
    order, small = order.model_copy(update={"now": await asyncio.to_thread(time_at, folder)}), b""
    if parcel.stat().st_size <= SMALL:
        small = await asyncio.to_thread(parcel.read_bytes)
    else:
        await courier.load(hand, parcel)
    await hand.call("begin", order.sent, small)
    reason, begun = "", False
    while True:
        told = await hand.call("step", Wish(seconds=STEP, reason=reason).sent, within=ANSWERS + STEP)
        said, _, came = told.partition(b"\n")
        news = News.read(said)
        if news.error:
            raise ExecutorError(news.error)
        reason = await listener.hear(news, begun) or reason
        begun = begun or news.begun
        if news.done is not None:
            await courier.fetch(hand, news.done, came, folder)
            await hand.call("clear")
            return news.done


@dataclass
class RemotePlace:
    """A `Place` on another machine, which is found when it is needed."""

    courier: Courier
    folder: Path
    _sees: tuple[str, ...] = ()
    _hand: Hand | None = None

    async def ready(self, arm: str, source: Mapping[str, str], sees: tuple[str, ...], gpus: int | None) -> None:
        self._sees = sees
        self.folder.mkdir(parents=True, exist_ok=True)

    async def execute(self, script: Script, *, begins: Callable[[], None], monitor: Monitor | None = None) -> Execution:
        courier = self.courier
        keys = {name: await courier.key(Path(path), "view") for name, path in script.views.items()}
        models = {name: await courier.key(Path(path), "pretrained") for name, path in script.pretrained.items()}
        packages = "" if (installed := courier.packages()) is None else await courier.key(installed, "packages")
        order = order_of(
            script,
            now=0.0,
            sees=self._sees,
            views=keys,
            pretrained=models,
            packages=packages,
            watched=monitor is not None,
        )
        wanted: dict[str, tuple[Kind, str]] = {key: ("view", name) for name, key in keys.items()}
        wanted |= {key: ("pretrained", name) for name, key in models.items()}
        wanted |= {packages: ("packages", "packages")} if packages else {}
        live = script.live or LiveOutput(script.job.live, OUTPUT_CHARS // 2)
        try:
            done = await self.carry_out(order, script.folder, wanted, Listener(script.job.name, begins, live, monitor))
        finally:
            if script.live is None:
                live.close()
        return done.execution

    async def carry_out(
        self,
        order: Order,
        folder: Path,
        wanted: Mapping[str, tuple[Kind, str]],
        listener: Listener,
        follow: tuple[Path, ...] = (),
    ) -> Done:
        """What came of an order, in as many places as it takes. Raises `ClusterDown`, `ExecutorError`."""
        lost: list[str] = []
        async with self.courier.parcel() as parcel:
            await asyncio.to_thread(pack, folder, parcel, most=_UNLIMITED, follow=follow)
            while len(lost) < LOSSES:
                try:
                    hand = await self._found(order.needs)
                    await self.courier.stock(hand, wanted)
                    return await carried_out(self.courier, hand, order, parcel, folder, listener)
                except PlaceLost as error:
                    lost.append(str(error))
                    await self._drop()
                except BaseException:
                    await self._drop()
                    raise
        return Done.of(
            Execution(
                0.0,
                Failure(
                    kind="died",
                    message=(f"{len(lost)} places on the cluster went away while it ran; the last: {lost[-1]}"),
                ),
                Transcript(2),
            ),
            size=0,
            sha256="",
        )

    async def close(self) -> None:
        hand, self._hand = self._hand, None
        if hand is not None:
            self.courier.cluster.give(hand)

    async def _found(self, needs: Needs) -> Hand:
        needs = needs.model_copy(update={"hours": None})
        if self._hand is not None and self._hand.needs != needs:
            await self._drop()
        if self._hand is None:
            self._hand = await self.courier.cluster.take(needs)
        return self._hand

    async def _drop(self) -> None:
        """End the place: what runs there is not wanted any more."""
        hand, self._hand = self._hand, None
        if hand is not None:
            await self.courier.cluster.later(hand.end())


@dataclass
class RemoteRunner(Runner):
    """Runs experiments and commands on the cluster; figures are drawn here, and scorers run here."""

    courier: Courier = field(kw_only=True)

    @property
    def slot_gb(self) -> float:
        share = self.config.settings.memory_gb
        return (
            share
            if share is not None
            else min(0.9 * one.memory / max(1, one.places) / 1e9 for one in self.courier.cluster.machines)
        )

    def waiting(self, job: Job) -> Kernel | None:
        return None if job.mode == "experiment" else super().waiting(job)

    async def execute(self, script: Script, ready: Kernel | None = None, monitor: Monitor | None = None) -> Execution:
        if script.job.mode != "experiment":
            return await super().execute(script, ready, monitor)
        place = RemotePlace(self.courier, script.folder)
        try:
            return await place.execute(script, begins=lambda: None, monitor=monitor)
        finally:
            await place.close()

    async def command(
        self,
        job: CommandJob,
        needs: Needs = Needs(),  # noqa: B008  frozen
        *,
        alone: bool = False,
        begins: Callable[[], None] = lambda: None,
    ) -> CommandOutcome:
        place = RemotePlace(self.courier, job.folder)
        wanted: dict[str, tuple[Kind, str]] = {}
        if job.ground.packages is not None:
            wanted[await self.courier.key(job.ground.packages, "packages")] = ("packages", job.name)
        order = Order(name=job.name, now=0.0, needs=needs, alone=alone, command=job, packages=next(iter(wanted), ""))
        try:
            done = await place.carry_out(order, job.folder, wanted, Listener(job.name, begins), follow=job.readable)
        finally:
            await place.close()
        if done.outcome is None:
            return CommandOutcome(done.seconds, done.failure, "", "", "")
        return replace(done.outcome, failure=done.failure)
