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

from labwright.record.run_folder import hash_file
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.sandbox.cluster.archives import CHUNK_BYTES, MAX_INLINE_BYTES, pack_archive, unpack_archive
from labwright.sandbox.cluster.messages import (
    ContentKind,
    PollRequest,
    PollResponse,
    RemoteTaskSpec,
    TaskResult,
    build_task_spec,
)
from labwright.sandbox.cluster.ray_cluster import CALL_TIMEOUT_SECONDS, RayCluster, RemoteWorker
from labwright.sandbox.content_store import ContentStore
from labwright.sandbox.errors import ExecutorError, WorkerLost
from labwright.sandbox.execution import KernelExecution, KernelScript
from labwright.sandbox.file_clock import read_file_time
from labwright.sandbox.job import Job
from labwright.sandbox.job_runner import JobRunner
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.monitor import JobMonitor
from labwright.sandbox.output import MAX_KEPT_CHARS, LiveOutput, Transcript
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.safe_io import BadFile, make_harmless, remove_path

MAX_LOST_WORKERS = 3
"""Places that one cell may lose before it counts as what ended them."""
POLL_SECONDS = 1.0
"""Seconds for which a place is left to itself, where it has no news."""
_UNLIMITED_BYTES = 2**60


@dataclass
class FileTransfer:
    """Brings folders to places and back."""

    cluster: RayCluster
    store: ContentStore
    scratch: Path
    packages: Callable[[], Path | None]
    """What was installed for the run."""
    max_bytes: int
    """Bytes that one order may leave."""
    _keys: dict[tuple[Path, int, int], str] = field(default_factory=dict[tuple[Path, int, int], str])

    async def add_to_store(self, path: Path, kind: ContentKind) -> str:
        """The key of a file or folder, which is in the store of this machine then. Raises `ExecutorError`."""
        status = await asyncio.to_thread(path.stat)
        known = path, status.st_mtime_ns, status.st_size
        if known not in self._keys or self.store.find(self._keys[known]) is None:
            self._keys[known] = await asyncio.to_thread(self.store.add, path, kind, path.name)
        return self._keys[known]

    async def provide_contents(self, worker: RemoteWorker, contents: Mapping[str, tuple[ContentKind, str]]) -> None:
        """Have what these keys name in the store of a place's machine: brought once. Raises `ExecutorError`."""
        for key, (kind, name) in contents.items():
            async with self.cluster.get_transfer_lock(worker.node, key):
                if not json.loads(await worker.call("lacking", json.dumps([key]).encode())):
                    continue
                content = self.store.find(key)
                if content is None:
                    raise ExecutorError(f"{kind} {name!r} is gone from the store {self.store.root}")
                about = {"key": key, "kind": kind, "name": name, "folder": content.is_dir()}
                async with self.temporary_archive() as parcel:
                    await asyncio.to_thread(pack_archive, content, parcel, max_bytes=_UNLIMITED_BYTES)
                    await self.send_archive(worker, parcel)
                await worker.call("stock", json.dumps(about).encode(), timeout=600.0)

    @asynccontextmanager
    async def temporary_archive(self) -> AsyncGenerator[Path]:
        """A place for a parcel, which is gone afterwards."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            yield folder / "parcel"
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def send_archive(self, worker: RemoteWorker, archive: Path) -> None:
        """Bring a parcel to a place."""
        with open(archive, "rb") as file:
            first = True
            while (part := await asyncio.to_thread(file.read, CHUNK_BYTES)) or first:
                await worker.call("load", part, first)
                first = False

    async def fetch_result(self, worker: RemoteWorker, done: TaskResult, first_part: bytes, folder: Path) -> None:
        """Have in a folder what an order left, of which some came, once its bytes are what they were there.

        Raises `ExecutorError`.
        """
        async with self.temporary_archive() as parcel:
            with open(parcel, "wb") as file:
                file.write(first_part)
                while file.tell() < min(done.size, 2 * self.max_bytes):
                    part = await worker.call("fetch", file.tell())
                    await asyncio.to_thread(file.write, part)
                    if not part:
                        break
            if await asyncio.to_thread(hash_file, parcel) != done.sha256:
                raise WorkerLost("what it left did not arrive as it was sent")
            await asyncio.to_thread(self._replace_folder, folder, parcel)

    def _replace_folder(self, folder: Path, parcel: Path) -> None:
        """Put what came back in the place of what was sent, but for what the code was given. Raises `PlaceLost`."""
        make_harmless(folder)
        for path in folder.iterdir():
            if path.name != "inputs":
                remove_path(folder, path.name)
        try:
            unpack_archive(parcel, folder, max_bytes=self.max_bytes)
        except BadFile as error:
            raise WorkerLost(f"what it left cannot be taken: {error}") from error


@dataclass(frozen=True)
class TaskListener:
    """Who is told while an order is carried out."""

    name: str
    """Of the order."""
    on_start: Callable[[], None] = lambda: None
    live_output: LiveOutput | None = None
    monitor: JobMonitor | None = None

    async def handle_news(self, news: PollResponse, has_started: bool) -> str:
        """Why the code is to be ended; empty: it is not."""
        if news.has_started and not has_started:
            self.on_start()
        if self.live_output is not None and news.output:
            self.live_output.add(news.output)
        reasons = (
            [await asyncio.to_thread(self.monitor.judge_progress, one) for one in news.progress] if self.monitor else []
        )
        return next(filter(None, reasons), "")


async def run_remote_task(
    file_transfer: FileTransfer,
    worker: RemoteWorker,
    spec: RemoteTaskSpec,
    archive: Path,
    folder: Path,
    listener: TaskListener,
) -> TaskResult:
    """What came of an order, whose folder is what it left then. Raises `PlaceLost`, `ClusterDown`, `ExecutorError`."""
    spec, small = spec.model_copy(update={"now": await asyncio.to_thread(read_file_time, folder)}), b""
    if archive.stat().st_size <= MAX_INLINE_BYTES:
        small = await asyncio.to_thread(archive.read_bytes)
    else:
        await file_transfer.send_archive(worker, archive)
    await worker.call("begin", spec.encoded, small)
    reason, begun = "", False
    while True:
        told = await worker.call(
            "step",
            PollRequest(seconds=POLL_SECONDS, reason=reason).encoded,
            timeout=CALL_TIMEOUT_SECONDS + POLL_SECONDS,
        )
        said, _, came = told.partition(b"\n")
        news = PollResponse.decode(said)
        if news.error:
            raise ExecutorError(news.error)
        reason = await listener.handle_news(news, begun) or reason
        begun = begun or news.has_started
        if news.result is not None:
            await file_transfer.fetch_result(worker, news.result, came, folder)
            await worker.call("clear")
            return news.result


@dataclass
class RemoteHost:
    """A `Place` on another machine, which is found when it is needed."""

    file_transfer: FileTransfer
    folder: Path
    _visible_datasets: tuple[str, ...] = ()
    _worker: RemoteWorker | None = None

    async def prepare(self, arm: str, source: Mapping[str, str], datasets: tuple[str, ...], gpus: int | None) -> None:
        self._visible_datasets = datasets
        self.folder.mkdir(parents=True, exist_ok=True)

    async def execute(
        self, script: KernelScript, *, on_start: Callable[[], None], monitor: JobMonitor | None = None
    ) -> KernelExecution:
        courier = self.file_transfer
        keys = {name: await courier.add_to_store(Path(path), "view") for name, path in script.views.items()}
        models = {
            name: await courier.add_to_store(Path(path), "pretrained") for name, path in script.pretrained.items()
        }
        packages = (
            "" if (installed := courier.packages()) is None else await courier.add_to_store(installed, "packages")
        )
        order = build_task_spec(
            script,
            now=0.0,
            visible_datasets=self._visible_datasets,
            views=keys,
            pretrained=models,
            packages=packages,
            watched=monitor is not None,
        )
        wanted: dict[str, tuple[ContentKind, str]] = {key: ("view", name) for name, key in keys.items()}
        wanted |= {key: ("pretrained", name) for name, key in models.items()}
        wanted |= {packages: ("packages", "packages")} if packages else {}
        live = script.live or LiveOutput(script.job.live_output, MAX_KEPT_CHARS // 2)
        try:
            done = await self.run_task(
                order, script.folder, wanted, TaskListener(script.job.name, on_start, live, monitor)
            )
        finally:
            if script.live is None:
                live.close()
        return done.as_execution

    async def run_task(
        self,
        spec: RemoteTaskSpec,
        folder: Path,
        contents: Mapping[str, tuple[ContentKind, str]],
        listener: TaskListener,
        follow: tuple[Path, ...] = (),
    ) -> TaskResult:
        """What came of an order, in as many places as it takes. Raises `ClusterDown`, `ExecutorError`."""
        lost: list[str] = []
        async with self.file_transfer.temporary_archive() as parcel:
            await asyncio.to_thread(pack_archive, folder, parcel, max_bytes=_UNLIMITED_BYTES, follow=follow)
            while len(lost) < MAX_LOST_WORKERS:
                try:
                    hand = await self._get_worker(spec.needs)
                    await self.file_transfer.provide_contents(hand, contents)
                    return await run_remote_task(self.file_transfer, hand, spec, parcel, folder, listener)
                except WorkerLost as error:
                    lost.append(str(error))
                    await self._end_worker()
                except BaseException:
                    await self._end_worker()
                    raise
        return TaskResult.from_execution(
            KernelExecution(
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
        hand, self._worker = self._worker, None
        if hand is not None:
            self.file_transfer.cluster.release_worker(hand)

    async def _get_worker(self, needs: ResourceNeeds) -> RemoteWorker:
        needs = needs.model_copy(update={"hours": None})
        if self._worker is not None and self._worker.needs != needs:
            await self._end_worker()
        if self._worker is None:
            self._worker = await self.file_transfer.cluster.acquire_worker(needs)
        return self._worker

    async def _end_worker(self) -> None:
        """End the place: what runs there is not wanted any more."""
        hand, self._worker = self._worker, None
        if hand is not None:
            await self.file_transfer.cluster.run_in_background(hand.end())


@dataclass
class RemoteRunner(JobRunner):
    """Runs experiments and commands on the cluster; figures are drawn here, and scorers run here."""

    file_transfer: FileTransfer = field(kw_only=True)

    @property
    def slot_gb(self) -> float:
        share = self.config.settings.memory_gb
        return (
            share
            if share is not None
            else min(0.9 * one.memory / max(1, one.slots) / 1e9 for one in self.file_transfer.cluster.machines)
        )

    def take_waiting_kernel(self, job: Job) -> Kernel | None:
        return None if job.mode == "experiment" else super().take_waiting_kernel(job)

    async def execute(
        self, script: KernelScript, waiting_kernel: Kernel | None = None, monitor: JobMonitor | None = None
    ) -> KernelExecution:
        if script.job.mode != "experiment":
            return await super().execute(script, waiting_kernel, monitor)
        place = RemoteHost(self.file_transfer, script.folder)
        try:
            return await place.execute(script, on_start=lambda: None, monitor=monitor)
        finally:
            await place.close()

    async def run_repository_command(
        self,
        job: CommandJob,
        needs: ResourceNeeds = ResourceNeeds(),  # noqa: B008  frozen
        *,
        alone: bool = False,
        on_start: Callable[[], None] = lambda: None,
    ) -> CommandOutcome:
        place = RemoteHost(self.file_transfer, job.folder)
        wanted: dict[str, tuple[ContentKind, str]] = {}
        if job.environment.packages is not None:
            wanted[await self.file_transfer.add_to_store(job.environment.packages, "packages")] = ("packages", job.name)
        order = RemoteTaskSpec(
            name=job.name, now=0.0, needs=needs, alone=alone, command=job, packages=next(iter(wanted), "")
        )
        try:
            done = await place.run_task(
                order, job.folder, wanted, TaskListener(job.name, on_start), follow=job.readable
            )
        finally:
            await place.close()
        if done.command_outcome is None:
            return CommandOutcome(done.seconds, done.failure, "", "", "")
        return replace(done.command_outcome, failure=done.failure)
