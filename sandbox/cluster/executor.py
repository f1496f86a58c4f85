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
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

from labwright.record.llm_calls import LLMBudgetSpent, LLMQuestionRefused
from labwright.record.run_folder import hash_file
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.llm_exchanges import LLMExchange
from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import BadFile, make_harmless, remove_path
from labwright.sandbox import monitor
from labwright.sandbox.cell_runner import CellHost, CellRunner
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.cluster.actor import Content, MachineActor, Question, RemoteWork, WorkEnded
from labwright.sandbox.cluster.archives import CHUNK_BYTES, pack_archive, unpack_archive
from labwright.sandbox.cluster.machines import (
    MachineFacts,
    compute_max_cell_capacity,
    format_error,
    import_ray,
    is_head_reachable,
    list_machines,
    pin_to_node,
)
from labwright.sandbox.content_store import compute_key
from labwright.sandbox.errors import ClusterDown, ExecutorError, WorkerLost
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.file_clock import read_file_time
from labwright.sandbox.gpu_leases import GpuLeases
from labwright.sandbox.gpus import describe_devices
from labwright.sandbox.job import CellProgress, CellStarted, Job
from labwright.sandbox.llm_gateway import LlmSession
from labwright.sandbox.monitor import ProgressReader
from labwright.sandbox.output import LiveOutput, Transcript
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
class Cluster:
    """The machines of the cluster, with one actor each once they are used, and the files that were sent to them."""

    settings: SandboxSettings
    machines: tuple[MachineFacts, ...]
    secret: tuple[Path, ...]
    scratch: Path
    """Folder for archives."""

    def __post_init__(self) -> None:
        self._actors = dict[str, asyncio.Task[Any]]()
        """Node -> its started actor."""
        self._contents = dict[Path, asyncio.Task[Content]]()
        self._claims, self._slots, self._tasks = set[Claim](), count(), set[asyncio.Task[Any]]()

    async def claim(self, needs: ResourceNeeds) -> Claim:
        """Reserve resources, waiting as long as this run uses others and then for `sandbox.gpu_wait` seconds.

        Raises `WorkerLost`, `ExecutorError`.
        """
        util, began, bundle = import_ray().util, time.monotonic(), self.build_bundle(needs)
        group = util.placement_group([bundle])
        try:
            while not await asyncio.to_thread(group.wait, 1):
                await self._check_head()
                began = time.monotonic() if self._claims else began
                if time.monotonic() - began > (limit := self.settings.gpu_wait):
                    raise ClusterDown(
                        f"no machine of the Ray cluster had room for {bundle} within {limit:g} s (sandbox.gpu_wait): "
                        "free some resources and resume the run"
                    )
            node: str = util.placement_group_table(group)["bundles_to_node_id"][0]
            if node not in self._actors:
                self._actors[node] = self.run_in_background(self._start_actor(node))
            actor = await asyncio.shield(self._actors[node])
        except BaseException:
            util.remove_placement_group(group)
            raise
        self._claims.add(claim := Claim(needs, group, node, actor, next(self._slots)))
        return claim

    def build_bundle(self, needs: ResourceNeeds) -> dict[str, float]:
        """Return the resources that Ray reserves for one cell."""
        settings, bundle = self.settings, {"CPU": float(self.settings.threads)}
        if settings.device == "cuda" and (gpus := settings.gpus_per_node if needs.gpus is None else needs.gpus):
            bundle["GPU"] = 1 / settings.slots_per_gpu if gpus == 1 else gpus
        return bundle | ({"memory": needs.memory_gb * 1e9} if needs.memory_gb else {})

    async def release(self, claim: Claim) -> None:
        """End what runs in a slot, then free its resources."""
        with suppress(ExecutorError):
            await self.wait_for(claim.actor.release.remote(claim.slot), END_SECONDS)
        self._claims.discard(claim)
        import_ray().util.remove_placement_group(claim.group)

    def forget(self, claim: Claim) -> None:
        """Kill the actor of a lost machine; the next cell there starts another."""
        if (task := self._actors.get(claim.node)) is not None and task.done() and task.result() is claim.actor:
            del self._actors[claim.node]
        import_ray().kill(claim.actor)

    async def wait_for(self, ref: Any, seconds: float) -> Any:
        """Wait for an answer of an actor. Raises `WorkerLost`, `ClusterDown`, `ExecutorError`."""
        failed = import_ray().exceptions
        try:
            return await asyncio.wait_for(ref, seconds)
        except failed.RayTaskError as error:
            raise ExecutorError(format_error(error)) from None
        except (failed.RayError, TimeoutError) as error:
            await self._check_head()
            raise WorkerLost(format_error(error) or f"no sign of life for {seconds:g} s") from None

    async def provide_contents(self, kinds: Mapping[Path, str]) -> dict[Path, Content]:
        """Return files and folders for the machines; each is put into the object store once. Raises `OSError`."""

        async def pack(path: Path, kind: str) -> Content:
            key = await asyncio.to_thread(compute_key, path)
            return Content(key, kind, path.name, path.is_dir(), await self.put_archive(path))

        for path, kind in kinds.items():
            if path not in self._contents:
                self._contents[path] = self.run_in_background(pack(path, kind))
        return {path: await asyncio.shield(self._contents[path]) for path in kinds}

    async def put_archive(self, path: Path, follow: tuple[Path, ...] = ()) -> list[Any]:
        """Put the archive of a file or folder into the object store; return the references to its parts."""
        with self.open_archive() as file:
            await asyncio.to_thread(pack_archive, path, Path(file.name), max_bytes=2**60, follow=follow)
            parts: list[Any] = []
            while part := await asyncio.to_thread(file.read, CHUNK_BYTES):
                parts.append(await asyncio.to_thread(import_ray().put, part))
            return parts

    def open_archive(self) -> Any:
        """Create a temporary file for an archive."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        return tempfile.NamedTemporaryFile(dir=self.scratch)

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine to its end even if the caller is cancelled; `close` waits for it."""
        self._tasks.add(task := asyncio.create_task(work))
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End all actors, and with them all code. Idempotent."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        for task in self._actors.values():
            if task.exception() is None:
                with suppress(ExecutorError):
                    await self.wait_for(task.result().close.remote(), END_SECONDS)
                import_ray().kill(task.result())
        self._actors.clear()

    async def _start_actor(self, node: str) -> Any:
        facts = next((one for one in self.machines if one.node == node), None)
        options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": pin_to_node(node)}
        actor_class, slots = import_ray().remote(MachineActor), facts.slots if facts else 1
        actor = actor_class.options(**options).remote(self.settings, slots, self.secret, monitor.WATCH_SECONDS)
        try:
            await self.wait_for(actor.start.remote(), SILENCE_SECONDS)
        except ExecutorError as error:
            import_ray().kill(actor)
            self._actors.pop(node, None)
            where = facts.address if facts else node
            raise type(error)(f"machine {where} of the Ray cluster cannot run cells: {error}") from None
        return actor

    async def _check_head(self) -> None:
        """Raise `ClusterDown` if the head of the cluster does not answer."""
        if not await asyncio.to_thread(is_head_reachable, self.settings.ray):
            raise ClusterDown(f"the Ray cluster at {self.settings.ray} is gone: restart it and resume the run")


@dataclass
class Listener:
    """Receives the news of work on another machine."""

    running: RunningCell | None = None
    live: LiveOutput | None = None
    session: LlmSession | None = None
    on_start: Callable[[], None] = lambda: None

    async def handle(self, news: Any, claim: Claim) -> None:
        """Pass on one piece of news."""
        match news:
            case str() if self.live is not None:
                self.live.add(news)
            case CellStarted():
                self.on_start()
            case CellProgress() if self.running is not None:
                self.running.report(news.progress)
            case Question() if self.session is not None:
                claim.actor.pass_on.remote(claim.slot, "answer", news.number, await self._ask(news, self.session))
            case _:
                pass

    async def _ask(self, asked: Question, session: LlmSession) -> LLMExchange | Exception:
        """Ask a language model for the code; an error other than a refusal ends the run."""
        try:
            return await session.subjects.ask(asked.key, asked.question, asked.ordinal)
        except (LLMBudgetSpent, LLMQuestionRefused) as refusal:
            return refusal
        except Exception as error:  # noqa: BLE001  raised once the code has ended
            session.fatal_error = error
            return ExecutorError("the run is ending; its answers are kept")


@dataclass
class RemoteHost:
    """A `CellHost` on another machine; resources are claimed on demand."""

    runner: RemoteRunner
    folder: Path
    _order: tuple[tuple[str, ...], int | None] = ((), None)
    """Datasets and GPUs of the next cell."""
    _claim: Claim | None = None

    async def prepare(self, cell: Cell, source: Mapping[str, str], datasets: tuple[str, ...], gpus: int | None) -> None:
        self._order = datasets, gpus

    async def execute(
        self, script: KernelScript, running: RunningCell | None = None, reader: ProgressReader | None = None
    ) -> KernelExecution:
        cluster, subjects, overlay = self.runner.cluster, self.runner.subjects, self.runner.get_packages()
        kinds = {Path(path): "view" for path in script.views.values()}
        kinds |= {Path(path): "pretrained" for path in script.pretrained.values()}
        kinds |= {overlay.folder: "packages"} if overlay is not None and overlay.folder is not None else {}
        job, (datasets, gpus) = replace(script.job, cells={}, inputs={}, artifacts={}, live_output=None), self._order
        work = RemoteWork(
            await cluster.put_archive(script.folder),
            await asyncio.to_thread(read_file_time, script.folder),
            script.task.needs.model_copy(update={"hours": None, "gpus": gpus}),
            script=replace(script, job=job, live=None),
            datasets=datasets,
            watched=reader is not None,
            packages=overlay,
            contents=await cluster.provide_contents(kinds),
        )
        session = LlmSession(subjects, script.task.key, script.job.subjects) if subjects and job.subjects else None
        start: Callable[[], None] = lambda: running and running.mark_started(time.monotonic())  # noqa: E731  typed
        try:
            ended = await self.run(work, script.folder, Listener(running, script.live, session, start))
        except WorkerLost as error:
            return KernelExecution(0.0, Failure(kind="died", message=str(error)), Transcript(2))
        if session is not None and ended.answers is not None:
            session.answer_counts, session.draw_counts, session.budget_message = ended.answers
        return replace(cast("KernelExecution", ended.result), llm_session=session)

    async def run(self, work: RemoteWork, folder: Path, listener: Listener) -> WorkEnded:
        """Run work on a machine and replace `folder` with what it left. Raises `WorkerLost` after the loss of too many
        machines, `ExecutorError`, and errors of the session that end the run."""
        lost = 0
        while True:
            try:
                return await self._run_once(work, folder, listener)
            except WorkerLost as error:
                lost += 1
                if self._claim is not None:
                    self.runner.cluster.forget(self._claim)
                await self.close()
                if lost == MAX_LOST_MACHINES:
                    raise WorkerLost(f"{lost} machines were lost while it ran; the last: {error}") from None
            except BaseException:
                await self.close()
                if (session := listener.session) is not None and session.fatal_error is not None:
                    raise session.fatal_error from None
                raise

    async def close(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            await asyncio.shield(self.runner.cluster.run_in_background(self.runner.cluster.release(claim)))

    async def _run_once(self, work: RemoteWork, folder: Path, listener: Listener) -> WorkEnded:
        cluster, ended = self.runner.cluster, None
        if self._claim is not None and self._claim.needs != work.needs:
            await self.close()
        claim = self._claim = self._claim or await cluster.claim(work.needs)
        events = claim.actor.run.options(num_returns="streaming").remote(claim.slot, work)
        if listener.running is not None and listener.running.stop_reason is not None:
            listener.running.stop_reason.add_done_callback(
                lambda stop: None if stop.cancelled() else claim.actor.pass_on.remote(claim.slot, "stop", stop.result())
            )
        with cluster.open_archive() as archive:
            with suppress(StopAsyncIteration):
                while True:
                    ref = await cluster.wait_for(anext(events), SILENCE_SECONDS)
                    match await cluster.wait_for(ref, SILENCE_SECONDS):
                        case bytes() as part:
                            await asyncio.to_thread(archive.write, part)
                        case WorkEnded() as ended:
                            pass
                        case news:
                            for one in news:
                                cluster.run_in_background(listener.handle(one, claim))
            archive.flush()
            if ended is None or await asyncio.to_thread(hash_file, Path(archive.name)) != ended.sha256:
                raise WorkerLost("its files were damaged on the way")
            await asyncio.to_thread(self._replace_folder, folder, Path(archive.name), keeps_inputs=bool(work.script))
        return ended

    def _replace_folder(self, folder: Path, archive: Path, *, keeps_inputs: bool) -> None:
        """Replace the folder's contents, except its inputs. Raises `WorkerLost`."""
        make_harmless(folder)
        for path in folder.iterdir():
            if path.name != "inputs" or not keeps_inputs:
                remove_path(folder, path.name)
        try:
            unpack_archive(archive, folder, max_bytes=int(2 * self.runner.config.settings.disk_gb * 1e9))
        except BadFile as error:
            raise WorkerLost(f"its files cannot be unpacked: {error}") from error


@dataclass
class RemoteRunner(CellRunner):
    """Runs experiments and commands on the cluster; plots and scorers run on the head."""

    cluster: Cluster = field(kw_only=True)
    get_packages: Callable[[], PackageOverlay | None] = field(kw_only=True)

    @property
    def slot_gb(self) -> float:
        share = self.config.settings.memory_gb
        return share or min(0.9 * one.memory / max(1, one.slots) / 1e9 for one in self.cluster.machines)

    def open_host(self, job: Job, folder: Path) -> CellHost:
        return RemoteHost(self, folder) if job.kind == "experiment" else super().open_host(job, folder)

    async def run_repository_command(
        self,
        job: CommandJob,
        needs: ResourceNeeds = ResourceNeeds(),  # noqa: B008  frozen
        *,
        alone: bool = False,
        on_start: Callable[[], None] = lambda: None,
    ) -> CommandOutcome:
        host, packages = RemoteHost(self, job.folder), job.environment.packages
        work = RemoteWork(
            await self.cluster.put_archive(job.folder, follow=job.readable),
            await asyncio.to_thread(read_file_time, job.folder),
            needs,
            command=job,
            alone=alone,
            contents=await self.cluster.provide_contents({packages: "packages"} if packages else {}),
        )
        try:
            ended = await host.run(work, job.folder, Listener(on_start=on_start))
        except WorkerLost as error:
            return CommandOutcome(0.0, Failure(kind="died", message=str(error)), "", "", "")
        finally:
            await host.close()
        return cast("CommandOutcome", ended.result)


class RayExecutor(LocalExecutor):
    """An `Executor` over a cluster. Raises `ClusterError` if the cluster is unusable, and the errors of
    `LocalExecutor`."""

    def __init__(self, slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> None:
        machines = list_machines(settings)
        slots, rest["gpus"] = min(slots, sum(one.slots for one in machines)), GpuLeases(None, (), settings)
        super().__init__(slots, views, settings=settings, **rest)
        scratch = self.config.cache.parent / "archives"
        self.cluster = Cluster(settings, machines, self.config.secret, scratch)
        parts = {one.name: getattr(self.runner, one.name) for one in fields(CellRunner)}
        self.runner = RemoteRunner(**parts, cluster=self.cluster, get_packages=lambda: self.packages)

    @property
    def device(self) -> str:
        settings, devices = self.config.settings, [one for machine in self.cluster.machines for one in machine.devices]
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
            for machine in self.cluster.machines
        }
        return found.pop() if len(found) == 1 else json.dumps(sorted(found))

    async def close(self) -> None:
        await super().close()
        await self.cluster.close()
