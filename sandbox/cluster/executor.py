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
from labwright.sandbox.cluster.actor import Content, MachineActor, MachineTerms, Question, RemoteWork, WorkEnded
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
from labwright.sandbox.output import MAX_KEPT_CHARS, LiveOutput, Transcript
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
_MAX_BYTES = 2**60


@dataclass(eq=False)
class Claim:
    """The resources of one cell at a time, and the actor of the machine that has them."""

    needs: ResourceNeeds
    group: Any
    node: str
    actor: Any


@dataclass
class Cluster:
    """The machines of the cluster, with one actor each once they are used, and the files that were sent to them."""

    settings: SandboxSettings
    machines: tuple[MachineFacts, ...]
    secret: tuple[Path, ...]
    scratch: Path
    """Folder for archives."""
    _actors: dict[str, asyncio.Task[Any]] = field(default_factory=dict[str, "asyncio.Task[Any]"])
    """Node -> its actor, started."""
    _claims: set[Claim] = field(default_factory=set[Claim])
    _contents: dict[tuple[Path, int, int], asyncio.Task[Content]] = field(
        default_factory=dict[tuple[Path, int, int], "asyncio.Task[Content]"]
    )
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    async def claim(self, needs: ResourceNeeds) -> Claim:
        """Reserve resources, waiting as long as this run uses others and then for `sandbox.gpu_wait` seconds.

        Raises `WorkerLost`, `ExecutorError`.
        """
        ray, began = import_ray(), time.monotonic()
        group = ray.util.placement_group([self.build_bundle(needs)])
        try:
            while not await asyncio.to_thread(group.wait, 1):
                await self._check_head()
                began = time.monotonic() if self._claims else began
                if time.monotonic() - began > self.settings.gpu_wait:
                    raise ClusterDown(
                        f"no machine of the Ray cluster had room for {self.build_bundle(needs)} for "
                        f"{self.settings.gpu_wait:.0f} s (sandbox.gpu_wait): free some resources and resume the run"
                    )
            table: dict[str, Any] = ray.util.placement_group_table(group)
            node: str = table["bundles_to_node_id"][0]
            if node not in self._actors:
                self._actors[node] = self.run_in_background(self._start_actor(node))
            claim = Claim(needs, group, node, await asyncio.shield(self._actors[node]))
        except BaseException as error:
            ray.util.remove_placement_group(group)
            if isinstance(error, WorkerLost):
                self.forget(node)  # pyright: ignore[reportPossiblyUnbound]
            raise
        self._claims.add(claim)
        return claim

    def build_bundle(self, needs: ResourceNeeds) -> dict[str, float]:
        """Return the resources that Ray reserves for one cell."""
        settings, bundle = self.settings, {"CPU": float(self.settings.threads)}
        if settings.device == "cuda" and (gpus := settings.gpus_per_node if needs.gpus is None else needs.gpus):
            bundle["GPU"] = 1 / settings.slots_per_gpu if gpus == 1 else gpus
        return bundle | ({"memory": needs.memory_gb * 1e9} if needs.memory_gb else {})

    def release(self, claim: Claim, slot: int) -> asyncio.Task[Any]:
        """End what runs in a slot, then free its resources."""

        async def end() -> None:
            with suppress(ExecutorError):
                await self.wait_for(claim.actor.release.remote(slot), END_SECONDS)
            self._claims.discard(claim)
            import_ray().util.remove_placement_group(claim.group)

        return self.run_in_background(end())

    def forget(self, node: str) -> None:
        """Kill the actor of a machine that was lost; the next cell there starts another."""
        task = self._actors.pop(node, None)
        if task is not None and task.done() and not task.cancelled() and task.exception() is None:
            import_ray().kill(task.result())

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

    async def provide_content(self, path: Path, kind: str) -> Content:
        """Return a file or folder for the machines; it is put into the object store once. Raises `OSError`."""
        status = path.stat()
        known = path, status.st_mtime_ns, status.st_size
        if known not in self._contents:
            self._contents[known] = self.run_in_background(self._pack_content(path, kind))
        return await asyncio.shield(self._contents[known])

    async def put_archive(self, path: Path, follow: tuple[Path, ...] = ()) -> list[Any]:
        """Put the archive of a file or folder into the object store; return the references to its parts."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.scratch) as file:
            await asyncio.to_thread(pack_archive, path, Path(file.name), max_bytes=_MAX_BYTES, follow=follow)
            parts: list[Any] = []
            while part := await asyncio.to_thread(file.read, CHUNK_BYTES):
                parts.append(await asyncio.to_thread(import_ray().put, part))
            return parts

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine to its end even if the caller is cancelled; `close` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End all actors, and with them all code. Idempotent."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        actors = [task.result() for task in self._actors.values() if task.exception() is None]
        for actor in actors:
            with suppress(ExecutorError):
                await self.wait_for(actor.close.remote(), END_SECONDS)
            import_ray().kill(actor)
        self._actors.clear()

    async def _pack_content(self, path: Path, kind: str) -> Content:
        key = await asyncio.to_thread(compute_key, path)
        return Content(key, kind, path.name, path.is_dir(), await self.put_archive(path))

    async def _start_actor(self, node: str) -> Any:
        slots = next((one.slots for one in self.machines if one.node == node), 1)
        terms = MachineTerms(self.settings, slots, self.secret, monitor.WATCH_SECONDS)
        actor_class = import_ray().remote(MachineActor)
        actor = actor_class.options(num_cpus=0, max_restarts=0, scheduling_strategy=pin_to_node(node)).remote(terms)
        try:
            await self.wait_for(actor.start.remote(), SILENCE_SECONDS)
        except ExecutorError as error:
            import_ray().kill(actor)
            address = next((one.address for one in self.machines if one.node == node), node)
            raise type(error)(f"machine {address} of the Ray cluster cannot run cells: {error}") from None
        return actor

    async def _check_head(self) -> None:
        """Raise `ClusterDown` if the head of the cluster does not answer."""
        if not await asyncio.to_thread(is_head_reachable, self.settings.ray):
            raise ClusterDown(f"the Ray cluster at {self.settings.ray} is gone: restart it and resume the run")


_slot_numbers = count()


@dataclass
class RemoteHost:
    """A `CellHost` on another machine; resources are claimed on demand."""

    runner: RemoteRunner
    folder: Path
    _order: tuple[tuple[str, ...], int | None] = ((), None)
    """Datasets and GPUs of the next cell."""
    _claim: Claim | None = None
    _slot: int = -1
    _ended_cells: int = 0

    async def prepare(self, cell: Cell, source: Mapping[str, str], datasets: tuple[str, ...], gpus: int | None) -> None:
        self._order = datasets, gpus

    async def execute(
        self, script: KernelScript, running: RunningCell | None = None, reader: ProgressReader | None = None
    ) -> KernelExecution:
        cluster, runner, overlay = self.runner.cluster, self.runner, self.runner.get_packages()
        kinds = dict.fromkeys(script.views.values(), "view") | dict.fromkeys(script.pretrained.values(), "pretrained")
        kinds |= {str(overlay.folder): "packages"} if overlay is not None and overlay.folder is not None else {}
        job = replace(script.job, cells={}, inputs={}, artifacts={}, live_output=None)
        work = RemoteWork(
            await cluster.put_archive(script.folder),
            await asyncio.to_thread(read_file_time, script.folder),
            script=replace(script, job=job, live=None),
            datasets=self._order[0],
            gpus=self._order[1],
            needs=script.task.needs,
            watched=reader is not None,
            packages=overlay,
            contents={Path(path): await cluster.provide_content(Path(path), kind) for path, kind in kinds.items()},
        )
        session = None
        if runner.subjects is not None and script.job.subjects:
            session = LlmSession(runner.subjects, script.task.key, script.job.subjects)
        live = script.live or LiveOutput(script.job.live_output, MAX_KEPT_CHARS // 2)
        try:
            ended = await self.run(work, script.folder, running, live, session)
        finally:
            if script.live is None:
                live.close()
        if isinstance(ended, str):
            failure = Failure(kind="died", message=ended)
            return KernelExecution(0.0, failure, Transcript(2), is_first_cell=self._ended_cells == 0)
        result = cast("KernelExecution", ended.result)
        if session is not None and ended.answers is not None:
            session.answer_counts, session.draw_counts, session.budget_message = ended.answers
        return replace(result, llm_session=session)

    async def run(
        self,
        work: RemoteWork,
        folder: Path,
        running: RunningCell | None,
        live: LiveOutput | None = None,
        session: LlmSession | None = None,
        on_start: Callable[[], None] = lambda: None,
    ) -> WorkEnded | str:
        """Run work on a machine and replace `folder` with what it left; after the loss of too many machines, return the
        reason. Raises `ExecutorError`, and errors of the session that end the run."""
        lost: list[str] = []
        while len(lost) < MAX_LOST_MACHINES:
            try:
                return await self._run_once(work, folder, running, live, session, on_start)
            except WorkerLost as error:
                lost.append(str(error))
                if self._claim is not None:
                    self.runner.cluster.forget(self._claim.node)
                await self.close()
            except BaseException:
                await self.close()
                raise
        return f"{len(lost)} machines of the cluster were lost while it ran; the last: {lost[-1]}"

    async def close(self) -> None:
        claim, self._claim, self._ended_cells = self._claim, None, 0
        if claim is not None:
            await asyncio.shield(self.runner.cluster.release(claim, self._slot))

    async def _run_once(
        self,
        work: RemoteWork,
        folder: Path,
        running: RunningCell | None,
        live: LiveOutput | None,
        session: LlmSession | None,
        on_start: Callable[[], None],
    ) -> WorkEnded:
        cluster, needs = self.runner.cluster, work.needs.model_copy(update={"hours": None, "gpus": work.gpus})
        if self._claim is not None and self._claim.needs != needs:
            await self.close()
        if self._claim is None:
            self._claim, self._slot = await cluster.claim(needs), next(_slot_numbers)
        actor, slot, ended = self._claim.actor, self._slot, None
        events = actor.run.options(num_returns="streaming").remote(slot, work)
        if running is not None and running.stop_reason is not None:
            running.stop_reason.add_done_callback(
                lambda reason: None if reason.cancelled() else actor.stop.remote(slot, reason.result())
            )
        cluster.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cluster.scratch) as archive:
            while True:
                try:
                    ref = await cluster.wait_for(anext(events), SILENCE_SECONDS)
                except StopAsyncIteration:
                    break
                match await cluster.wait_for(ref, SILENCE_SECONDS):
                    case bytes() as part:
                        await asyncio.to_thread(archive.write, part)
                    case WorkEnded() as ended:
                        pass
                    case list() as news:
                        for one in cast("list[Any]", news):
                            self._pass_on(one, running, live, session, on_start)
                    case _:
                        pass
            archive.flush()
            if session is not None and session.fatal_error is not None:
                raise session.fatal_error
            if ended is None or await asyncio.to_thread(hash_file, Path(archive.name)) != ended.sha256:
                raise WorkerLost("its files were damaged on the way")
            await asyncio.to_thread(self._replace_folder, folder, Path(archive.name), keep=work.script is not None)
        self._ended_cells += 1
        return ended

    def _pass_on(
        self,
        news: Any,
        running: RunningCell | None,
        live: LiveOutput | None,
        session: LlmSession | None,
        on_start: Callable[[], None],
    ) -> None:
        match news:
            case str() if live is not None:
                live.add(news)
            case CellStarted():
                on_start()
                if running is not None:
                    running.mark_started(time.monotonic())
            case CellProgress() if running is not None:
                running.report(news.progress)
            case Question() if session is not None:
                self.runner.cluster.run_in_background(self._answer(news, session))
            case _:
                pass

    async def _answer(self, asked: Question, session: LlmSession) -> None:
        """Ask a language model for the code; an error other than a refusal ends the run."""
        claim, answer = self._claim, cast("LLMExchange | Exception | None", None)
        try:
            answer = await session.subjects.ask(asked.key, asked.question, asked.ordinal)
        except (LLMBudgetSpent, LLMQuestionRefused) as refusal:
            answer = refusal
        except Exception as error:  # noqa: BLE001  raised once the code has ended
            session.fatal_error = error
            answer = ExecutorError("the run is ending; its answers are kept")
        if claim is not None:
            claim.actor.answer.remote(self._slot, asked.number, answer)

    def _replace_folder(self, folder: Path, archive: Path, *, keep: bool) -> None:
        """Replace the folder's contents, with `keep` except its inputs. Raises `WorkerLost`."""
        make_harmless(folder)
        for path in folder.iterdir():
            if path.name != "inputs" or not keep:
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
            command=job,
            gpus=needs.gpus,
            needs=needs,
            alone=alone,
            contents={packages: await self.cluster.provide_content(packages, "packages")} if packages else {},
        )
        try:
            ended = await host.run(work, job.folder, None, on_start=on_start)
        finally:
            await host.close()
        if isinstance(ended, str):
            return CommandOutcome(0.0, Failure(kind="died", message=ended), "", "", "")
        return cast("CommandOutcome", ended.result)


class RayExecutor(LocalExecutor):
    """An `Executor` over a cluster. Raises `ClusterError` if the cluster is unusable, and the errors of
    `LocalExecutor`."""

    def __init__(self, slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> None:
        machines = list_machines(settings)
        slots = min(slots, sum(machine.slots for machine in machines))
        super().__init__(slots, views, settings=settings, **rest | {"gpus": GpuLeases(None, (), settings)})
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
