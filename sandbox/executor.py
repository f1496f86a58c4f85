"""Runs jobs on this machine, each in a kernel of its own, at most `slots` at a time."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from record.nouns.data import Grade, Measurement, Scorer
from record.nouns.nodes import Failure
from record.syntax import one_at_a_time
from record.unexpected import of_machine
from sandbox.errors import ExecutorError, GpuError, SubmissionRefused
from sandbox.execution import Execution, Script, execute
from sandbox.gpu_leases import GpuLeases, Lease, open_leases
from sandbox.gpus import cuda_visible_devices, describe_devices
from sandbox.isolation.limits import limits_of
from sandbox.isolation.mounts import KernelConfig, StartOptions
from sandbox.isolation.probe import isolation_of
from sandbox.isolation.scratch import sweep
from sandbox.job import CHECKPOINTS, Job, Outcome, Slots, TooLate
from sandbox.kernels import Kernel
from sandbox.monitor import Meter, Monitor, Usage
from sandbox.output import TAIL_CHARS, Transcript, notebook
from sandbox.pool import Pool
from sandbox.results import collect_figures, failure_of, hash_arrays, hash_artifacts, measure, missing_measurement
from sandbox.scorer_tasks import ENTRY, Task, lay_out, read_scores, tasks_of
from sandbox.scorers import read_frozen
from sandbox.scoring import read_sealed, read_submitted
from sandbox.settings import SandboxSettings
from sandbox.untrusted import BadFile, disarm, remove, write_whole
from sandbox.workspace import prepare_workspace

T = TypeVar("T")
CUT = ("memory", "timeout", "died")
"""Failures after which the checkpoints of an attempt are kept, for a second one of the same node."""


class LocalExecutor:
    """An `Executor` over local kernels.

    `views` and `labels` hold what `sandbox.datasets.materialise` wrote; `cache` is shared by the kernels. `pretrained`
    maps `OWNER/NAME@REVISION` to what `sandbox.pretrained.provide` wrote. Raises `ExecutorError`, and `GpuError` where
    the settings want a GPU and there is none, `IsolationError` where they want a sandbox that cannot be had; `gpus` are
    the leases to use instead of those of this machine. `secret` are files that isolated code never sees; `scorers`
    holds what `sandbox.scorers.freeze` wrote.
    """

    def __init__(
        self, slots: int, views: Path, *, labels: Path, settings: SandboxSettings, cache: Path,
        gpus: GpuLeases | None = None, pretrained: Mapping[str, Path] | None = None,
        secret: Iterable[Path] = (), scorers: Path | None = None,
    ) -> None:
        one_at_a_time()  # what code left is read in several threads
        self.slots = slots
        self._views = views
        self._labels = labels
        self._settings = settings
        sweep()
        self.isolation = isolation_of(settings)
        """How code runs here."""
        self._config = KernelConfig(settings, self.isolation, cache.absolute(),
                            secret=tuple(path.absolute() for path in (labels, *secret)))
        self._scorers = scorers
        self._tasks = self._config.cache.parent / "scoring"
        shutil.rmtree(self._tasks, ignore_errors=True)
        self._gpus = gpus or open_leases(settings, cuda_visible_devices())
        self._meter = Meter(self._gpus.nvml, alone=self._gpus.alone)
        self._pretrained = {name: str(path.absolute()) for name, path in (pretrained or {}).items()}
        self._gate = Slots(slots)
        self._pool = Pool(self._config, views=views, readable=map(Path, self._pretrained.values()))
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def device(self) -> str:
        """What `lab.device` stands for here, as prompts say it."""
        return describe_devices(self._gpus.devices, each=self._settings.gpus_per_node,
                                shared_by=self._settings.slots_per_gpu)

    @property
    def grade(self) -> Grade:
        """Of values that we compute from predictions: whether the labels were out of the code's reach."""
        return "scored" if self.isolation.on and self._settings.network == "off" else "computed"

    async def run(self, job: Job) -> Outcome:
        return await self._held(lambda: self._run(job), alone=job.alone)

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        tasks = await asyncio.to_thread(
            lambda: tasks_of(read_sealed(attempt, sealed), "test", read_frozen(self._scorers)) if sealed else [])
        return await self._held(lambda: self._scores(tasks, attempt / "sealed", seed)) if tasks else ()

    async def close(self) -> None:
        self._closed = True
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running))
        await self._pool.close()
        await self._gpus.close()

    async def _held(self, work: Callable[[], Coroutine[Any, Any, T]], *, alone: bool = False) -> T:
        """Do some work while holding a slot."""
        async with self._gate.hold(alone=alone):
            if self._closed:
                raise ExecutorError("the executor was closed")
            task = asyncio.create_task(work(), name="work in a kernel")
            self._running.add(task)
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task})
                raise
            finally:
                self._running.discard(task)
            if task.cancelled():
                raise ExecutorError("the executor was closed while the job ran")
            return task.result()

    async def _run(self, job: Job) -> Outcome:
        if job.late():
            raise TooLate(job.name)
        job.begins()
        ready: Kernel | None = None
        if not self._gpus.devices or job.mode != "experiment":  # figures are drawn without a GPU
            ready = self._pool.take(job.folder.absolute(), source=job.source, datasets=job.datasets)
        try:
            script = await asyncio.to_thread(prepare_workspace, job, self._views, self._settings)
            scorers = await asyncio.to_thread(read_frozen, self._scorers)
            script = replace(script, pretrained=self._pretrained, scorers=tuple(
                name for name in script.views if name in scorers and scorers[name][0].takes == "artifact"))
            self._config.cache.mkdir(parents=True, exist_ok=True)
            source = (script.folder / job.entry).read_text(encoding="utf-8", errors="replace")
            monitor = Monitor(job.watch, script.folder) if job.watch is not None else None
            execution = await self._execute(script, source, ready, monitor)
        finally:
            if ready is not None:
                ready.kill()
        try:
            if monitor is not None and not _hopeless(execution.failure):
                reason = await monitor.last(execution.seconds)
                if reason is not None:
                    execution = replace(execution, failure=Failure(kind="hopeless", message=reason))
            if job.mode == "experiment" and execution.failure is None and scorers:
                execution = await self._evaluated(script, execution, scorers)
            return await asyncio.to_thread(self._outcome, script, source, execution)
        except Exception as error:  # noqa: BLE001  a worker's edge: what code left may be anything
            return replace(self._ran(script, execution), failure=execution.failure or failure_of(error))

    async def _execute(
        self, script: Script, source: str, ready: Kernel | None = None, monitor: Monitor | None = None,
    ) -> Execution:
        job = script.job
        try:
            lease = Lease() if job.mode == "plot" else await self._gpus.acquire()
        except GpuError as error:
            raise ExecutorError(str(error)) from error
        usage = Usage()
        limits = limits_of(self._settings, slots=1 if job.alone else self.slots)
        kernel = ready or Kernel(script.folder, config=self._config, options=StartOptions(script.paths, lease.devices))
        try:
            if ready is None:
                await kernel.start()
            self._pool.refill()
            async with self._meter.follow(kernel.pid, lease, usage):
                began = time.monotonic()
                try:
                    execution = await execute(
                        kernel, script, source, limits=limits, timeout=job.timeout, monitor=monitor)
                except Exception as error:  # noqa: BLE001  a kernel says what its code makes it say
                    execution = Execution(time.monotonic() - began, failure_of(error), Transcript(1000))
            return replace(execution, peak_host_bytes=usage.host or None, peak_gpu_bytes=usage.gpu)
        finally:
            kernel.kill()
            self._gpus.release(lease, usage.processes)

    # --- frozen scorers, in kernels of their own ----------------------------------------------------------------------

    async def _evaluated(
        self, script: Script, execution: Execution, scorers: Mapping[str, tuple[Scorer, str]],
    ) -> Execution:
        """The execution with what frozen scorers give on validation; with a failure where they give nothing."""
        try:
            tasks = await asyncio.to_thread(
                lambda: tasks_of(read_submitted(script.folder, self.grade), "validation", scorers))
            values = await self._scores(tasks, script.folder / "submissions", script.job.seed)
            return replace(execution, evaluated=values)
        except SubmissionRefused as error:
            return replace(execution, failure=failure_of(error))

    async def _scores(self, tasks: Iterable[Task], place: Path, seed: int) -> tuple[Measurement, ...]:
        """Raises `SubmissionRefused`."""
        return tuple([value for task in tasks for value in await self._scored(task, place, seed)])

    async def _scored(self, task: Task, place: Path, seed: int) -> tuple[Measurement, ...]:
        self._tasks.mkdir(parents=True, exist_ok=True)
        target = Path(tempfile.mkdtemp(dir=self._tasks))
        job = Job(name=f"scorer of {task.scorer.dataset}", folder=target, source={}, entry=ENTRY, mode="score",
                  seed=seed, timeout=self._settings.scorer_timeout)
        try:
            script = await asyncio.to_thread(
                lay_out, task, job, place, views=self._views, labels=self._labels, limit=self._settings.artifact_bytes)
            execution = await self._execute(script, (target / ENTRY).read_text())
            if execution.failure is not None:
                raise SubmissionRefused(f"the scorer of {task.scorer.dataset!r} failed: {execution.failure.message}")
            return await asyncio.to_thread(read_scores, task, target, seed=seed)
        finally:
            shutil.rmtree(target, ignore_errors=True)

    # --- after the code, in a thread: nothing of the kernel is alive any more ----------------------------------------

    def _outcome(self, script: Script, source: str, execution: Execution) -> Outcome:
        job, folder = script.job, script.folder
        disarm(folder)
        disarm(self._config.cache)
        outcome = self._ran(script, execution)
        try:
            outcome = replace(outcome, arrays=hash_arrays(folder))
        except BadFile as error:
            outcome = replace(outcome, failure=outcome.failure or failure_of(error))
        if job.mode == "plot":
            figures, failure = collect_figures(folder)
            outcome = replace(outcome, figures=figures, failure=outcome.failure or failure)
        else:
            outcome = self._experiment(job, folder, outcome, execution)
        stem, log = ("node", "stdout.txt") if job.mode == "experiment" else ("plots", "plots.stdout.txt")
        try:
            write_whole(folder, f"{stem}.ipynb", notebook(source, execution.transcript, outcome.failure))
            write_whole(folder, log, execution.transcript.text())
        except OSError as error:
            if of_machine(error):
                raise ExecutorError(f"cannot write to {folder}: {error}") from error
            raise
        if outcome.failure is None or outcome.failure.kind not in CUT:
            remove(folder, CHECKPOINTS)
        return outcome

    def _ran(self, script: Script, execution: Execution) -> Outcome:
        """What is known of code without a look at what it left."""
        return Outcome(seconds=execution.seconds, failure=execution.failure, resumed=script.resumed,
                       peak_host_bytes=execution.peak_host_bytes, peak_gpu_bytes=execution.peak_gpu_bytes,
                       stdout_tail=execution.transcript.tail(TAIL_CHARS))

    def _experiment(self, job: Job, folder: Path, outcome: Outcome, execution: Execution) -> Outcome:
        try:
            outcome = replace(outcome, artifacts=hash_artifacts(folder, self._settings.artifact_bytes))
        except BadFile as error:
            outcome = replace(outcome, failure=outcome.failure or failure_of(error))
        try:
            measured = measure(folder, self._labels, seed=job.seed, grade=self.grade,
                               cut=_hopeless(execution.failure), evaluated=execution.evaluated)
        except SubmissionRefused as error:
            return replace(outcome, failure=outcome.failure or failure_of(error))
        return replace(outcome, failure=outcome.failure or missing_measurement(measured), measurements=measured.final,
                       said=measured.said, sealed=measured.sealed, curves_sha256=measured.curves_sha256)


def _hopeless(failure: Failure | None) -> bool:
    return failure is not None and failure.kind == "hopeless"
