"""Run jobs on this machine: prepare the folder, run the kernel, collect the outcome; frozen scorers run in the same
way.

`sandbox.executor` limits how many run at the same time.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.record.schema.data_plan import FrozenScorer, Measurement, ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import BadFile, OpenFolder, make_harmless, remove_tree
from labwright.sandbox.errors import ExecutorError, GpuError, SubmissionRefused
from labwright.sandbox.execution import KernelExecution, KernelScript, execute
from labwright.sandbox.failures import find_lost_folder
from labwright.sandbox.gpu_leases import GpuLease, GpuLeases
from labwright.sandbox.isolation.limits import ResourceLimits, compute_limits
from labwright.sandbox.isolation.mounts import KernelConfig, KernelStartOptions
from labwright.sandbox.job import Job, JobOutcome, TooLate
from labwright.sandbox.kernel_pool import KernelPool
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.llm_attribution import attribute_answers
from labwright.sandbox.llm_gateway import LlmGateway, LlmSession, serve_session
from labwright.sandbox.monitor import JobMonitor, MemoryMeter, PeakUsage
from labwright.sandbox.output import Transcript
from labwright.sandbox.repository.command import CommandJob, CommandOutcome, run_command
from labwright.sandbox.result_collector import ResultCollector, outcome_from_execution
from labwright.sandbox.results import failure_from_error
from labwright.sandbox.scorer_tasks import (
    SCORER_ENTRY,
    ScorerTask,
    build_scorer_tasks,
    prepare_scorer_folder,
    read_scores,
)
from labwright.sandbox.scorers import read_frozen_scorers
from labwright.sandbox.scoring import read_submitted
from labwright.sandbox.workspace import prepare_workspace

_DEFAULT_NEEDS = ResourceNeeds()


@dataclass
class JobRunner:
    """Runs code in kernels. `slots` share the machine's memory."""

    slots: int
    config: KernelConfig
    views: Path
    scorers: Path | None
    """Folder written by `sandbox.scorers.freeze_scorer`."""
    collector: ResultCollector
    pretrained: Mapping[str, str]
    gpus: GpuLeases
    meter: MemoryMeter
    pool: KernelPool
    subjects: LlmGateway | None = None

    @property
    def slot_gb(self) -> float:
        """Memory limit of an experiment that shares the machine, in 10^9 bytes."""
        return compute_limits(self.config.settings, slots=self.slots).memory_bytes / 1e9

    async def run(self, job: Job) -> JobOutcome:
        """Run a plain script. Raises `ExecutorError`, `TooLate`."""
        if job.is_too_late():
            raise TooLate(job.name)
        job.on_start()
        ready = self.take_waiting_kernel(job)
        try:
            script = await self.prepare_script(job)
            source = script.entry_text
            job_folder = OpenFolder(script.folder)
            monitor = JobMonitor(job.watch, script.folder) if job.watch is not None else None
            execution = await self.execute(script, ready, monitor)
            lost = await asyncio.to_thread(find_lost_folder, job_folder, script.folder)
            execution = replace(execution, failure=execution.failure or lost)
        finally:
            if ready is not None:
                ready.kill()
        return await self.collect_outcome(script, source, execution, monitor)

    def take_waiting_kernel(self, job: Job) -> Kernel | None:
        """Take a suitable waiting kernel, if there is one; it then works in the job's folder."""
        if self.gpus.devices and job.mode == "experiment":  # figures are drawn without a GPU
            return None
        return self.pool.take(job.folder.absolute(), source=job.source, datasets=job.datasets)

    async def prepare_script(self, job: Job) -> KernelScript:
        """Prepare the job's folder. Raises `ExecutorError`."""
        script = await asyncio.to_thread(prepare_workspace, job, self.views, self.config.settings)
        scorers = await asyncio.to_thread(read_frozen_scorers, self.scorers)
        self.config.cache.mkdir(parents=True, exist_ok=True)
        return replace(
            script,
            pretrained=dict(self.pretrained),
            scorers=tuple(name for name in script.views if name in scorers and scorers[name][0].takes == "artifact"),
        )

    async def collect_outcome(
        self, script: KernelScript, source: str, execution: KernelExecution, monitor: JobMonitor | None
    ) -> JobOutcome:
        """Return the outcome after all processes of the code have exited; only plain files and folders remain in its
        folder.

        Raises `ExecutorError`.
        """
        try:
            outcome = await self._read_outcome(script, source, execution, monitor)
        except Exception as error:  # noqa: BLE001  last resort, since code may write any kind of file
            outcome = replace(
                outcome_from_execution(script, execution), failure=execution.failure or failure_from_error(error)
            )
        with suppress(BadFile):
            await asyncio.to_thread(make_harmless, script.folder, only_plain=True)
        return outcome

    async def _read_outcome(
        self, script: KernelScript, source: str, execution: KernelExecution, monitor: JobMonitor | None
    ) -> JobOutcome:
        if monitor is not None and not _is_hopeless(execution.failure):
            reason = await monitor.check_after_end(execution.seconds)
            if reason is not None:
                execution = replace(execution, failure=Failure(kind="hopeless", message=reason))
        if execution.llm_session is not None:
            execution = await asyncio.to_thread(self._attribute_answers, script, execution, execution.llm_session)
        scorers = await asyncio.to_thread(read_frozen_scorers, self.scorers)
        if script.job.mode == "experiment" and execution.failure is None and scorers:
            execution = await self._add_scorer_values(script, execution, scorers)
        return await asyncio.to_thread(self.collector.collect, script, source, execution)

    async def execute(
        self, script: KernelScript, waiting_kernel: Kernel | None = None, monitor: JobMonitor | None = None
    ) -> KernelExecution:
        """Run a script in a new kernel, or in a waiting one; the kernel is killed afterwards."""
        lease = GpuLease() if script.job.mode == "plot" else await self.lease_gpus(script.job.compute_max_needs().gpus)
        kernel = waiting_kernel or self.create_kernel(script, lease)
        usage = PeakUsage()
        try:
            if waiting_kernel is None:
                await kernel.start()
            self.pool.refill()
            return await self.run_in_kernel(kernel, lease, script, monitor=monitor, usage=usage)
        finally:
            kernel.kill()
            self.gpus.release(lease, usage.processes)

    async def lease_gpus(self, count: int | None = None) -> GpuLease:
        """Lease GPUs for one kernel, by default `sandbox.gpus_per_node`. Raises `ExecutorError` if none is
        available.
        """
        try:
            return await self.gpus.acquire(count)
        except GpuError as error:
            raise ExecutorError(str(error)) from error

    def create_kernel(self, script: KernelScript, lease: GpuLease) -> Kernel:
        """Create a kernel for the script without starting it."""
        return Kernel(
            script.folder, config=self.config, options=KernelStartOptions(script.readable_paths, lease.devices)
        )

    async def run_in_kernel(
        self, kernel: Kernel, lease: GpuLease, script: KernelScript, *, monitor: JobMonitor | None, usage: PeakUsage
    ) -> KernelExecution:
        """Run a script in a started kernel, which stays alive if the script is a cell."""
        job = script.job
        limits = self.compute_limits(job.compute_max_needs().memory_gb, alone=job.alone)
        session = (
            LlmSession(self.subjects, job.key, job.subjects) if self.subjects is not None and job.subjects else None
        )
        async with AsyncExitStack() as around:
            await around.enter_async_context(self.meter.measure_peaks(kernel.pid, lease, usage))
            if session is not None:
                await around.enter_async_context(serve_session(session, kernel.llm_socket))
            began = time.monotonic()
            try:
                execution = await execute(kernel, script, limits=limits, timeout=script.job.timeout, monitor=monitor)
            except Exception as error:  # noqa: BLE001  a kernel's messages are controlled by the code in it
                execution = KernelExecution(time.monotonic() - began, failure_from_error(error), Transcript(1000))
        if session is not None and session.fatal_error is not None:
            raise session.fatal_error
        host = max(
            usage.peak_host_bytes,
            usage.current_host_bytes + execution.peak_process_bytes if execution.peak_process_bytes else 0,
        )
        return replace(
            execution, peak_host_bytes=host or None, peak_gpu_bytes=usage.peak_gpu_bytes, llm_session=session
        )

    def compute_limits(self, memory_gb: float | None, *, alone: bool) -> ResourceLimits:
        """Return the limits of an experiment with this declared memory; with `alone`, it may use the whole machine."""
        limits = compute_limits(self.config.settings, slots=1 if alone else self.slots)
        if memory_gb is None:
            return limits
        return replace(limits, memory_bytes=max(int(memory_gb * 1e9), limits.memory_bytes if alone else 0))

    async def run_repository_command(
        self,
        job: CommandJob,
        needs: ResourceNeeds = _DEFAULT_NEEDS,
        *,
        alone: bool = False,
        on_start: Callable[[], None] = lambda: None,
    ) -> CommandOutcome:
        """Run a repository command to its end; `on_start` is called when it starts. Raises `ExecutorError`."""
        lease, usage = await self.lease_gpus(needs.gpus), PeakUsage()
        on_start()
        try:
            return await run_command(
                job,
                config=self.config,
                meter=self.meter,
                lease=lease,
                usage=usage,
                limits=self.compute_limits(needs.memory_gb, alone=alone),
            )
        finally:
            self.gpus.release(lease, usage.processes)

    def _attribute_answers(
        self, script: KernelScript, execution: KernelExecution, session: LlmSession
    ) -> KernelExecution:
        """Return the execution with predictions derived from the answers that its submissions cite."""
        if session.budget_message:
            return replace(execution, failure=Failure(kind="budget", message=session.budget_message))
        try:
            notes = attribute_answers(script.folder, self.collector.labels, self.views, session)
            execution.transcript.add("stderr", "".join(f"{line}\n" for line in notes))
        except SubmissionRefused as error:
            execution = replace(execution, failure=execution.failure or failure_from_error(error))
        return execution

    # --- frozen scorers, in separate kernels --------------------------------------------------------------------------

    async def _add_scorer_values(
        self, script: KernelScript, execution: KernelExecution, scorers: Mapping[str, tuple[FrozenScorer, str]]
    ) -> KernelExecution:
        """Return the execution with the validation values of frozen scorers, or with a failure if they return none."""
        try:
            tasks = await asyncio.to_thread(
                lambda: build_scorer_tasks(read_submitted(script.folder, self.collector.grade), "validation", scorers)
            )
            values = await self.run_scorers(tasks, script.folder / "submissions", script.job.seed)
            return replace(execution, scorer_values=values)
        except SubmissionRefused as error:
            return replace(execution, failure=failure_from_error(error))

    async def run_scorers(self, tasks: Iterable[ScorerTask], folder: Path, seed: int) -> tuple[Measurement, ...]:
        """Return the values of the scorer tasks, in order. Raises `SubmissionRefused`, `ExecutorError`."""
        return tuple([value for task in tasks for value in await self._run_scorer(task, folder, seed)])

    async def _run_scorer(self, task: ScorerTask, place: Path, seed: int) -> tuple[Measurement, ...]:
        settings, around = self.config.settings, get_scoring_folder(self.config)
        around.mkdir(parents=True, exist_ok=True)
        target = Path(tempfile.mkdtemp(dir=around))
        job = Job(
            name=f"scorer of {task.scorer.dataset}",
            folder=target,
            source={},
            entry=SCORER_ENTRY,
            mode="score",
            seed=seed,
            timeout=settings.scorer_timeout,
        )
        try:
            script = await asyncio.to_thread(
                prepare_scorer_folder,
                task,
                job,
                place,
                views=self.views,
                labels=self.collector.labels,
                limit=settings.artifact_bytes,
            )
            execution = await self.execute(script)
            if execution.failure is not None:
                raise SubmissionRefused(f"the scorer of {task.scorer.dataset!r} failed: {execution.failure.message}")
            return await asyncio.to_thread(read_scores, task, target, seed=seed)
        finally:
            remove_tree(target, ignore_errors=True)


def get_scoring_folder(config: KernelConfig) -> Path:
    """Return the folder in which scorers run."""
    return config.cache.parent / "scoring"


def _is_hopeless(failure: Failure | None) -> bool:
    return failure is not None and failure.kind == "hopeless"
