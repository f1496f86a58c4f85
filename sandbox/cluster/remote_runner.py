"""Run scripts and commands on other machines: send their folder and fetch the output folder.

Guarantees: experiments are prepared and scored on the head node, where labels and record are stored; output is copied
and verified by sha256 before the worker deletes it. If a worker is lost, its cell restarts on another one, up to
`MAX_LOST_WORKERS` times. Limits: the checkpoints of a cell are lost with its worker.
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
from labwright.record.untrusted_files import BadFile, make_harmless, remove_path
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

MAX_LOST_WORKERS = 3
"""Maximum number of workers lost by one cell; then the cell counts as the cause."""
POLL_SECONDS = 1.0
"""Seconds that a poll waits for news."""
_UNLIMITED_BYTES = 2**60


@dataclass
class FileTransfer:
    """Sends folders to workers and fetches them back."""

    cluster: RayCluster
    store: ContentStore
    scratch: Path
    packages: Callable[[], Path | None]
    """Returns the folder of packages installed for the run."""
    max_bytes: int
    """Limit of the output of one task, in bytes."""
    _keys: dict[tuple[Path, int, int], str] = field(default_factory=dict[tuple[Path, int, int], str])

    async def add_to_store(self, path: Path, kind: ContentKind) -> str:
        """Add a file or folder to the local store and return its key. Raises `ExecutorError`."""
        status = await asyncio.to_thread(path.stat)
        known = path, status.st_mtime_ns, status.st_size
        if known not in self._keys or self.store.find(self._keys[known]) is None:
            self._keys[known] = await asyncio.to_thread(self.store.add, path, kind, path.name)
        return self._keys[known]

    async def provide_contents(self, worker: RemoteWorker, contents: Mapping[str, tuple[ContentKind, str]]) -> None:
        """Send the contents that are not yet in the worker's store. Raises `ExecutorError`."""
        for key, (kind, name) in contents.items():
            async with self.cluster.get_transfer_lock(worker.node, key):
                if not json.loads(await worker.call("list_missing", json.dumps([key]).encode())):
                    continue
                content = self.store.find(key)
                if content is None:
                    raise ExecutorError(f"{kind} {name!r} is missing from the store {self.store.root}")
                about = {"key": key, "kind": kind, "name": name, "folder": content.is_dir()}
                async with self.temporary_archive() as archive:
                    await asyncio.to_thread(pack_archive, content, archive, max_bytes=_UNLIMITED_BYTES)
                    await self.send_archive(worker, archive)
                await worker.call("add_to_store", json.dumps(about).encode(), timeout=600.0)

    @asynccontextmanager
    async def temporary_archive(self) -> AsyncGenerator[Path]:
        """Yield a path for an archive; it is deleted afterwards."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            yield folder / "archive"
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def send_archive(self, worker: RemoteWorker, archive: Path) -> None:
        """Send an archive to a worker."""
        with open(archive, "rb") as file:
            first = True
            while (part := await asyncio.to_thread(file.read, CHUNK_BYTES)) or first:
                await worker.call("receive_part", part, first)
                first = False

    async def fetch_result(self, worker: RemoteWorker, done: TaskResult, first_part: bytes, folder: Path) -> None:
        """Fetch the output of a task into a folder once its sha256 is verified; `first_part` has already arrived.

        Raises `ExecutorError`.
        """
        async with self.temporary_archive() as archive:
            with open(archive, "wb") as file:
                file.write(first_part)
                while file.tell() < min(done.size, 2 * self.max_bytes):
                    part = await worker.call("read_part", file.tell())
                    await asyncio.to_thread(file.write, part)
                    if not part:
                        break
            if await asyncio.to_thread(hash_file, archive) != done.sha256:
                raise WorkerLost("the output was damaged during transfer")
            await asyncio.to_thread(self._replace_folder, folder, archive)

    def _replace_folder(self, folder: Path, archive: Path) -> None:
        """Replace the folder's contents, except its inputs, with the output. Raises `WorkerLost`."""
        make_harmless(folder)
        for path in folder.iterdir():
            if path.name != "inputs":
                remove_path(folder, path.name)
        try:
            unpack_archive(archive, folder, max_bytes=self.max_bytes)
        except BadFile as error:
            raise WorkerLost(f"the output cannot be unpacked: {error}") from error


@dataclass(frozen=True)
class TaskListener:
    """Callbacks for the news of a running task."""

    name: str
    """Name of the task."""
    on_start: Callable[[], None] = lambda: None
    live_output: LiveOutput | None = None
    monitor: JobMonitor | None = None

    async def handle_news(self, news: PollResponse, has_started: bool) -> str:
        """Pass on the news; return why the code must be stopped, or an empty string."""
        if news.has_started and not has_started:
            self.on_start()
        if self.live_output is not None and news.output:
            self.live_output.add(news.output)
        reasons = (
            [await asyncio.to_thread(self.monitor.judge_progress, progress) for progress in news.progress]
            if self.monitor
            else []
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
    """Run a task on a worker and replace `folder` with its output. Raises `WorkerLost`, `ClusterDown`,
    `ExecutorError`."""
    spec, inline = spec.model_copy(update={"now": await asyncio.to_thread(read_file_time, folder)}), b""
    if archive.stat().st_size <= MAX_INLINE_BYTES:
        inline = await asyncio.to_thread(archive.read_bytes)
    else:
        await file_transfer.send_archive(worker, archive)
    await worker.call("start_task", spec.encoded, inline)
    reason, has_started = "", False
    while True:
        answer = await worker.call(
            "poll",
            PollRequest(seconds=POLL_SECONDS, reason=reason).encoded,
            timeout=CALL_TIMEOUT_SECONDS + POLL_SECONDS,
        )
        header, _, first_part = answer.partition(b"\n")
        news = PollResponse.decode(header)
        if news.error:
            raise ExecutorError(news.error)
        reason = await listener.handle_news(news, has_started) or reason
        has_started = has_started or news.has_started
        if news.result is not None:
            await file_transfer.fetch_result(worker, news.result, first_part, folder)
            await worker.call("clear_task")
            return news.result


@dataclass
class RemoteHost:
    """A `ScriptHost` on another machine; the worker is acquired on first use."""

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
        transfer = self.file_transfer
        keys = {name: await transfer.add_to_store(Path(path), "view") for name, path in script.views.items()}
        models = {
            name: await transfer.add_to_store(Path(path), "pretrained") for name, path in script.pretrained.items()
        }
        packages = (
            "" if (installed := transfer.packages()) is None else await transfer.add_to_store(installed, "packages")
        )
        spec = build_task_spec(
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
                spec, script.folder, wanted, TaskListener(script.job.name, on_start, live, monitor)
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
        """Run a task, restarting it on another worker if one is lost. Raises `ClusterDown`, `ExecutorError`."""
        lost: list[str] = []
        async with self.file_transfer.temporary_archive() as archive:
            await asyncio.to_thread(pack_archive, folder, archive, max_bytes=_UNLIMITED_BYTES, follow=follow)
            while len(lost) < MAX_LOST_WORKERS:
                try:
                    worker = await self._get_worker(spec.needs)
                    await self.file_transfer.provide_contents(worker, contents)
                    return await run_remote_task(self.file_transfer, worker, spec, archive, folder, listener)
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
                    kind="died", message=f"{len(lost)} cluster workers were lost while it ran; the last: {lost[-1]}"
                ),
                Transcript(2),
            ),
            size=0,
            sha256="",
        )

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self.file_transfer.cluster.release_worker(worker)

    async def _get_worker(self, needs: ResourceNeeds) -> RemoteWorker:
        needs = needs.model_copy(update={"hours": None})
        if self._worker is not None and self._worker.needs != needs:
            await self._end_worker()
        if self._worker is None:
            self._worker = await self.file_transfer.cluster.acquire_worker(needs)
        return self._worker

    async def _end_worker(self) -> None:
        """Stop the worker and the code that it runs."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await self.file_transfer.cluster.run_in_background(worker.end())


@dataclass
class RemoteRunner(JobRunner):
    """Runs experiments and commands on the cluster; plots and scorers run on the head node."""

    file_transfer: FileTransfer = field(kw_only=True)

    @property
    def slot_gb(self) -> float:
        share = self.config.settings.memory_gb
        return (
            share
            if share is not None
            else min(0.9 * m.memory / max(1, m.slots) / 1e9 for m in self.file_transfer.cluster.machines)
        )

    def take_waiting_kernel(self, job: Job) -> Kernel | None:
        return None if job.mode == "experiment" else super().take_waiting_kernel(job)

    async def execute(
        self, script: KernelScript, waiting_kernel: Kernel | None = None, monitor: JobMonitor | None = None
    ) -> KernelExecution:
        if script.job.mode != "experiment":
            return await super().execute(script, waiting_kernel, monitor)
        host = RemoteHost(self.file_transfer, script.folder)
        try:
            return await host.execute(script, on_start=lambda: None, monitor=monitor)
        finally:
            await host.close()

    async def run_repository_command(
        self,
        job: CommandJob,
        needs: ResourceNeeds = ResourceNeeds(),  # noqa: B008  frozen
        *,
        alone: bool = False,
        on_start: Callable[[], None] = lambda: None,
    ) -> CommandOutcome:
        host = RemoteHost(self.file_transfer, job.folder)
        contents: dict[str, tuple[ContentKind, str]] = {}
        if job.environment.packages is not None:
            contents[await self.file_transfer.add_to_store(job.environment.packages, "packages")] = (
                "packages",
                job.name,
            )
        order = RemoteTaskSpec(
            name=job.name, now=0.0, needs=needs, alone=alone, command=job, packages=next(iter(contents), "")
        )
        try:
            done = await host.run_task(
                order, job.folder, contents, TaskListener(job.name, on_start), follow=job.readable
            )
        finally:
            await host.close()
        if done.command_outcome is None:
            return CommandOutcome(done.seconds, done.failure, "", "", "")
        return replace(done.command_outcome, failure=done.failure)
