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
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import BadFile
from labwright.sandbox.cell_runner import CellHost
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.cluster.actor import (
    MachineActor,
    RemoteWork,
    SentFolder,
    WorkEnded,
    compute_max_cell_capacity,
    format_error,
    import_ray,
    is_head_reachable,
    list_machines,
    pin_to_node,
    receive_folder,
    send_folder,
)
from labwright.sandbox.content_store import read_file_time
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.gpus import GpuLeases, describe_devices
from labwright.sandbox.isolation.processes import compute_limits
from labwright.sandbox.job import CellStarted, ClusterDown, ExecutorError, Job, WorkerLost
from labwright.sandbox.output import Transcript
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
    started: asyncio.Task[Any]
    slot: int

    @property
    def actor(self) -> Any:
        return self.started.result()


class RayExecutor(LocalExecutor):
    """An `Executor` over a cluster. It runs experiments and commands on the machines of the cluster, with one actor
    each once they are used. Plots, scorers, and cells that query language models run on the head.

    Raises `ClusterError` if the cluster is unusable, and the errors of `LocalExecutor`.
    """

    def __init__(self, slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> None:
        self.machines = list_machines(settings)
        slots, rest["gpus"] = min(slots, sum(one.slots for one in self.machines)), GpuLeases(None, (), settings)
        super().__init__(slots, views, settings=settings, **rest)
        self._actors = dict[str, asyncio.Task[Any]]()
        """Node -> its started actor."""
        self._contents = dict[Path, asyncio.Task[SentFolder]]()
        self._claims, self._slots = set[Claim](), count()
        self.archives = self.config.cache.parent / "archives"
        """Folder for temporary files."""
        self.archives.mkdir(parents=True, exist_ok=True)

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
        machines = [json.loads(one.environment_fingerprint) | installed for one in self.machines]
        first, *others = sorted({json.dumps(one, sort_keys=True) for one in machines})
        return json.dumps([first, *others]) if others else first

    @property
    def slot_gb(self) -> float:
        settings, machines = self.config.settings, [one for one in self.machines if one.slots]
        limits = [compute_limits(settings, slots=one.slots, machine_bytes=one.memory) for one in machines]
        return min(one.memory_bytes for one in limits) / 1e9

    def open_host(self, job: Job, folder: Path) -> CellHost:
        return RemoteHost(self) if job.kind == "experiment" and not job.subjects else super().open_host(job, folder)

    async def run_repository_command(self, job: CommandJob, running: RunningCell) -> CommandOutcome:
        host = RemoteHost(self)
        try:
            return await host.execute(job, running)
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
                    why = f"had room for {bundle} within {limit:g} s (sandbox.gpu_wait)"
                    raise ClusterDown(f"no machine of the Ray cluster {why}: free some resources and resume the run")
            node: str = util.placement_group_table(group)["bundles_to_node_id"][0]
            if node not in self._actors:
                self._actors[node] = asyncio.create_task(self._start_actor(node))
            await asyncio.shield(started := self._actors[node])
        except BaseException:
            util.remove_placement_group(group)
            raise
        self._claims.add(claim := Claim(needs, group, node, started, next(self._slots)))
        return claim

    async def release(self, claim: Claim, *, lost: bool = False) -> None:
        """End what runs in a slot, then free its resources. If its machine is lost or does not end it in time, the
        actor is killed; the next cell there starts another."""
        try:
            if lost:
                raise WorkerLost(claim.node)
            await self.wait_for(claim.actor.release.remote(claim.slot), END_SECONDS)
        except ExecutorError:
            if self._actors.get(claim.node) is claim.started:
                del self._actors[claim.node]
            import_ray().kill(claim.actor)
        finally:
            self._claims.discard(claim)
            import_ray().util.remove_placement_group(claim.group)

    async def wait_for(self, ref: Any, seconds: float | None = SILENCE_SECONDS) -> Any:
        """Wait for an answer of an actor, or for what it sent. Raises `WorkerLost`, `ClusterDown`, `ExecutorError`."""
        failed = import_ray().exceptions
        try:
            async with asyncio.timeout(seconds):  # `wait_for` loses a cancellation that comes with an answer
                return await ref
        except failed.RayTaskError as error:
            raise ExecutorError(format_error(error)) from None
        except (failed.RayError, TimeoutError, BadFile) as error:
            await self._check_head()
            raise WorkerLost(format_error(error) or f"no sign of life for {seconds} s") from None

    async def send(self, code: KernelScript | CommandJob) -> RemoteWork:
        """Return work with its folder, and the files and folders that it reads, in the object store; each of the latter
        is put there once. Raises `OSError`."""
        if isinstance(code, KernelScript):
            code = replace(code, job=replace(code.job, cells={}, inputs={}, artifacts={}, live_output=None))
            paths = (*code.views.values(), *code.pretrained.values(), code.packages)
        else:
            paths = (code.environment.packages,)
        contents = dict[str, SentFolder]()
        for path in map(Path, filter(None, paths)):
            if path not in self._contents:
                self._contents[path] = asyncio.create_task(asyncio.to_thread(send_folder, path, self.archives))
            contents[str(path)] = await asyncio.shield(self._contents[path])
        sent = await asyncio.to_thread(send_folder, code.folder, self.archives)
        return RemoteWork(code, sent, await asyncio.to_thread(read_file_time, code.folder), contents)

    async def close(self) -> None:
        """End all actors, and with them all code. Idempotent."""
        await super().close()
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
        terms = self.config.settings, facts.slots if facts else 1, self.config.secret
        try:
            await self.wait_for(actor.start.remote(*terms))
        except ExecutorError as error:
            import_ray().kill(actor)
            self._actors.pop(node, None)
            words = f"machine {facts.address if facts else node} of the Ray cluster cannot run cells: {error}"
            raise type(error)(words) from None
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

    runner: RayExecutor
    _claim: Claim | None = None

    async def execute(self, code: KernelScript | CommandJob, running: RunningCell) -> Any:
        """Run code on a machine, replace its folder with what it left, and return its result. After the loss of too
        many machines the code counts as the cause. Raises `ExecutorError`."""
        work = await self.runner.send(code)
        for lost in count(1):
            try:
                return await self._run_once(work, running)
            except WorkerLost as error:
                await self.close(lost=True)
                if lost == MAX_LOST_MACHINES:
                    failure = Failure(kind="died", message=f"{lost} machines were lost while it ran; the last: {error}")
                    if isinstance(code, KernelScript):
                        return KernelExecution(0.0, failure, Transcript(2))
                    return CommandOutcome(0.0, failure, "", "")
            except BaseException:
                await self.close()
                raise

    async def close(self, *, lost: bool = False) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            await self.runner.release(claim, lost=lost)

    async def _run_once(self, work: RemoteWork, running: RunningCell) -> Any:
        wait, needs = self.runner.wait_for, work.code.needs
        if self._claim is not None and self._claim.needs != needs:
            await self.close()
        claim = self._claim = self._claim or await self.runner.claim(needs)
        batches = claim.actor.run.options(num_returns="streaming").remote(claim.slot, work)
        while True:
            for news in await wait(await wait(anext(batches))):
                match news:
                    case WorkEnded(result, sent):
                        most = int(2 * self.runner.config.settings.disk_gb * 1e9)
                        folder, archives = work.code.folder, self.runner.archives
                        await wait(asyncio.to_thread(receive_folder, sent, folder, archives, max_bytes=most), None)
                        return result
                    case CellStarted():
                        running.mark_started()
                    case _:
                        running.show(news)
