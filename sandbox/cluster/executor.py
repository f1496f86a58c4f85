"""Measure jobs on a Ray cluster; the labels and the record stay on the head.

The head schedules, prepares, scores and commits cells as on a single machine; only their code runs elsewhere
(`cluster.actor`). Ray reserves the processors and GPUs of a cell's worker (a placement group), and its object store has
the files. Guarantees: Ray retries and restarts nothing; a cell whose machine is lost starts again on another one, and
only results that arrived whole, verified by their sha256, are committed. Limits: the checkpoints of a cell are lost
with its machine; user scorers run on the processor of the head.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import BadFile, remove_path
from labwright.sandbox import monitor
from labwright.sandbox.cell_runner import CellHost, CellRunner
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.cluster.actor import Content, MachineActor, News, RemoteWork, WorkEnded
from labwright.sandbox.cluster.machines import (
    MachineFacts,
    compute_max_cell_capacity,
    format_error,
    import_ray,
    is_head_reachable,
    list_machines,
    pin_to_node,
)
from labwright.sandbox.cluster.sent_folders import receive_folder, send_folder
from labwright.sandbox.errors import ClusterDown, ExecutorError, WorkerLost
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.file_clock import read_file_time
from labwright.sandbox.gpu_leases import GpuLeases
from labwright.sandbox.gpus import describe_devices
from labwright.sandbox.job import CellProgress, CellStarted, Job
from labwright.sandbox.monitor import ProgressReader
from labwright.sandbox.output import Transcript
from labwright.sandbox.packages.package_store import PackageOverlay
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.results import KernelExecution
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import KernelScript

MAX_LOST_MACHINES = 3
"""Number of machines lost under one cell at which the cell counts as the cause."""
SILENCE_SECONDS = 60.0
"""Time without a sign of life after which a machine counts as lost, in seconds."""
END_SECONDS = 10.0
"""Time that an actor has to end by itself before it is killed, in seconds."""


@dataclass(eq=False)
class Claim:
    """Reserved resources for one cell at a time: a slot of the actor of a machine."""

    needs: ResourceNeeds
    group: Any
    node: str
    actor: Any
    slot: int


@dataclass
class RemoteRunner(CellRunner):
    """Runs experiments and commands on the machines of the cluster, with one actor each once they are used. Plots,
    scorers, and cells that query language models run on the head."""

    machines: tuple[MachineFacts, ...] = field(kw_only=True)
    get_packages: Callable[[], PackageOverlay | None] = field(kw_only=True)

    def __post_init__(self) -> None:
        self._actors = dict[str, asyncio.Task[Any]]()
        """Node -> its started actor."""
        self._contents = dict[Path, asyncio.Task[Content]]()
        self._claims, self._slots = set[Claim](), count()
        self.archives = self.config.cache.parent / "archives"
        """Folder for temporary files."""
        self.archives.mkdir(parents=True, exist_ok=True)

    @property
    def slot_gb(self) -> float:
        share = self.config.settings.memory_gb
        return share or min(0.9 * one.memory / max(1, one.slots) / 1e9 for one in self.machines)

    def open_host(self, job: Job, folder: Path) -> CellHost:
        return RemoteHost(self) if job.kind == "experiment" and not job.subjects else super().open_host(job, folder)

    async def run_repository_command(
        self,
        job: CommandJob,
        needs: ResourceNeeds = ResourceNeeds(),  # noqa: B008  frozen
        *,
        alone: bool = False,
        on_start: Callable[[], None] = lambda: None,
    ) -> CommandOutcome:
        host, packages = RemoteHost(self), job.environment.packages
        work = await self.send(job, [packages] if packages else [], needs=needs, alone=alone)
        try:
            return await host.run(work, job.folder, lambda news: on_start() if isinstance(news, CellStarted) else None)
        except WorkerLost as error:
            return CommandOutcome(0.0, Failure(kind="died", message=str(error)), "", "", "")
        finally:
            await host.close()

    # --- actors and what they need --------------------------------------------------------------------------------

    async def claim(self, needs: ResourceNeeds) -> Claim:
        """Reserve resources, waiting as long as this run uses others and then for `sandbox.gpu_wait` seconds.

        Raises `WorkerLost`, `ExecutorError`.
        """
        util, began, bundle = import_ray().util, time.monotonic(), build_bundle(self.config.settings, needs)
        group = util.placement_group([bundle])
        try:
            while not await asyncio.to_thread(group.wait, 1):
                await self._check_head()
                began = time.monotonic() if self._claims else began
                if time.monotonic() - began > (limit := self.config.settings.gpu_wait):
                    raise ClusterDown(
                        f"no machine of the Ray cluster had room for {bundle} within {limit:g} s (sandbox.gpu_wait): "
                        "free some resources and resume the run"
                    )
            node: str = util.placement_group_table(group)["bundles_to_node_id"][0]
            if node not in self._actors:
                self._actors[node] = asyncio.create_task(self._start_actor(node))
            actor = await asyncio.shield(self._actors[node])
        except BaseException:
            util.remove_placement_group(group)
            raise
        self._claims.add(claim := Claim(needs, group, node, actor, next(self._slots)))
        return claim

    async def release(self, claim: Claim, *, lost: bool = False) -> None:
        """End what runs in a slot, then free its resources. If its machine is lost or does not end it in time, kill the
        actor; the next cell there starts another."""
        ended = claim.actor.release.remote(claim.slot)
        try:
            if lost:
                self._kill_actor(claim)
            await self.wait_for(ended, END_SECONDS)
        except ExecutorError:
            self._kill_actor(claim)
        finally:
            self._claims.discard(claim)
            import_ray().util.remove_placement_group(claim.group)

    def _kill_actor(self, claim: Claim) -> None:
        task = self._actors.get(claim.node)
        if task is not None and task.done() and task.result() is claim.actor:
            del self._actors[claim.node]
        import_ray().kill(claim.actor)

    async def wait_for(self, ref: Any, seconds: float) -> Any:
        """Wait for an answer of an actor. Raises `WorkerLost`, `ClusterDown`, `ExecutorError`."""
        failed = import_ray().exceptions
        try:
            async with asyncio.timeout(seconds):  # `wait_for` loses a cancellation that comes with an answer
                return await ref
        except failed.RayTaskError as error:
            raise ExecutorError(format_error(error)) from None
        except (failed.RayError, TimeoutError) as error:
            await self._check_head()
            raise WorkerLost(format_error(error) or f"no sign of life for {seconds:g} s") from None

    async def send(self, script: KernelScript | CommandJob, paths: Collection[Path], **rest: Any) -> RemoteWork:
        """Return work with its folder, and the files and folders that it reads, in the object store; each of the latter
        is put there once. Raises `OSError`."""

        async def send_content(path: Path) -> Content:
            return Content(path.name, path.is_dir(), await asyncio.to_thread(send_folder, path, self.archives))

        for path in paths:
            if path not in self._contents:
                self._contents[path] = asyncio.create_task(send_content(path))
        contents = {path: await asyncio.shield(self._contents[path]) for path in paths}
        follow = script.readable if isinstance(script, CommandJob) else ()
        sent = await asyncio.to_thread(send_folder, script.folder, self.archives, follow=follow)
        now = await asyncio.to_thread(read_file_time, script.folder)
        return RemoteWork(script, sent, now, contents=contents, **rest)

    async def close(self) -> None:
        """End all actors, and with them all code. Idempotent."""
        if tasks := {*self._actors.values(), *self._contents.values()}:
            await asyncio.wait(tasks)
        for task in self._actors.values():
            if task.exception() is None:
                with suppress(ExecutorError):
                    await self.wait_for(task.result().close.remote(), END_SECONDS)
                import_ray().kill(task.result())
        self._actors.clear()

    async def _start_actor(self, node: str) -> Any:
        facts = next((one for one in self.machines if one.node == node), None)
        options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": pin_to_node(node)}
        actor = import_ray().remote(MachineActor).options(**options).remote()
        terms = self.config.settings, facts.slots if facts else 1, self.config.secret, monitor.WATCH_SECONDS
        try:
            await self.wait_for(actor.start.remote(*terms), SILENCE_SECONDS)
        except ExecutorError as error:
            import_ray().kill(actor)
            self._actors.pop(node, None)
            where = facts.address if facts else node
            raise type(error)(f"machine {where} of the Ray cluster cannot run cells: {error}") from None
        return actor

    async def _check_head(self) -> None:
        """Raise `ClusterDown` if the head of the cluster does not answer."""
        if not await asyncio.to_thread(is_head_reachable, self.config.settings.ray):
            raise ClusterDown(f"the Ray cluster at {self.config.settings.ray} is gone: restart it and resume the run")


def build_bundle(settings: SandboxSettings, needs: ResourceNeeds) -> dict[str, float]:
    """Return the resources that Ray reserves for one cell."""
    bundle = {"CPU": float(settings.threads)}
    if settings.device == "cuda" and (gpus := settings.gpus_per_node if needs.gpus is None else needs.gpus):
        bundle["GPU"] = 1 / settings.slots_per_gpu if gpus == 1 else gpus
    return bundle | ({"memory": needs.memory_gb * 1e9} if needs.memory_gb else {})


@dataclass
class RemoteHost:
    """A `CellHost` on another machine; resources are claimed on demand."""

    runner: RemoteRunner
    _claim: Claim | None = None

    async def execute(
        self, script: KernelScript, running: RunningCell | None = None, reader: ProgressReader | None = None
    ) -> KernelExecution:
        overlay = self.runner.get_packages()
        paths = [Path(path) for path in (*script.views.values(), *script.pretrained.values())]
        paths += [overlay.folder] if overlay is not None and overlay.folder is not None else []
        work = await self.runner.send(
            replace(script, job=replace(script.job, cells={}, inputs={}, artifacts={}, live_output=None), live=None),
            paths,
            needs=script.task.needs.model_copy(update={"hours": None, "gpus": script.gpus}),
            alone=script.alone,
            watched=reader is not None,
            packages=overlay,
        )

        def handle(news: News) -> None:
            match news:
                case str() if script.live is not None:
                    script.live.add(news)
                case CellStarted() if running is not None:
                    running.mark_started(time.monotonic())
                case CellProgress() if running is not None:
                    running.report(news.progress)
                case _:
                    pass

        try:
            return await self.run(work, script.folder, handle, running)
        except WorkerLost as error:
            return KernelExecution(0.0, Failure(kind="died", message=str(error)), Transcript(2))

    async def run(
        self, work: RemoteWork, folder: Path, handle: Callable[[News], None], running: RunningCell | None = None
    ) -> Any:
        """Run work on a machine, replace `folder` with what it left, and return its result. Raises `WorkerLost` after
        the loss of too many machines, `ExecutorError`."""
        for lost in count(1):
            try:
                return await self._run_once(work, folder, handle, running)
            except WorkerLost as error:
                await self.close(lost=True)
                if lost == MAX_LOST_MACHINES:
                    raise WorkerLost(f"{lost} machines were lost while it ran; the last: {error}") from None
            except BaseException:
                await self.close()
                raise

    async def close(self, *, lost: bool = False) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            await self.runner.release(claim, lost=lost)

    async def _run_once(
        self, work: RemoteWork, folder: Path, handle: Callable[[News], None], running: RunningCell | None
    ) -> Any:
        runner = self.runner
        if self._claim is not None and self._claim.needs != work.needs:
            await self.close()
        self._claim = self._claim or await runner.claim(work.needs)
        events = self._claim.actor.run.options(num_returns="streaming").remote(self._claim.slot, work)
        if running is not None and running.stop_reason is not None:
            running.stop_reason.add_done_callback(self._stop)
        while True:
            for news in await runner.wait_for(await runner.wait_for(anext(events), SILENCE_SECONDS), SILENCE_SECONDS):
                if isinstance(news, WorkEnded):
                    await asyncio.to_thread(self._receive, news, folder)
                    return news.result
                handle(news)

    def _receive(self, ended: WorkEnded, folder: Path) -> None:
        """Replace the folder's contents. Raises `WorkerLost`."""
        for path in folder.iterdir():
            remove_path(folder, path.name)
        most = int(2 * self.runner.config.settings.disk_gb * 1e9)
        try:
            if ended.sent is not None:
                receive_folder(ended.sent, folder, self.runner.archives, max_bytes=most)
        except (BadFile, import_ray().exceptions.RayError) as error:
            raise WorkerLost(f"its files did not arrive: {format_error(error)}") from error

    def _stop(self, reason: asyncio.Future[str]) -> None:
        if self._claim is not None and not reason.cancelled():
            self._claim.actor.stop.remote(self._claim.slot, reason.result())


class RayExecutor(LocalExecutor):
    """An `Executor` over a cluster. Raises `ClusterError` if the cluster is unusable, and the errors of
    `LocalExecutor`."""

    def __init__(self, slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> None:
        machines = list_machines(settings)
        slots, rest["gpus"] = min(slots, sum(one.slots for one in machines)), GpuLeases(None, (), settings)
        super().__init__(slots, views, settings=settings, **rest)
        parts = {one.name: getattr(self.runner, one.name) for one in fields(CellRunner)}
        self.machines = machines
        self.runner = RemoteRunner(**parts, machines=machines, get_packages=lambda: self.packages)

    @property
    def device(self) -> str:
        settings, devices = self.config.settings, [one for machine in self.machines for one in machine.devices]
        return describe_devices(devices, each=settings.gpus_per_node, shared_by=settings.slots_per_gpu)

    @property
    def cell_capacity(self) -> ResourceNeeds:
        return compute_max_cell_capacity(self.config.settings)

    @property
    def environment_fingerprint(self) -> str:
        """The fingerprint shared by all machines, or the list of fingerprints if they differ."""
        packages = self.packages
        installed = {"installed": packages.installed.sha256} if packages is not None and packages.folder else {}
        found = {
            json.dumps(json.loads(machine.environment_fingerprint) | installed, sort_keys=True)
            for machine in self.machines
        }
        return found.pop() if len(found) == 1 else json.dumps(sorted(found))

    async def close(self) -> None:
        await super().close()
        await self.runner.close()
