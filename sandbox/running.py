"""One job after the other on this machine: its folder, its kernel, and what came of it; frozen scorers too.

How many run at the same time is the business of `sandbox.executor`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.record.descriptors import remove_tree
from labwright.record.nouns.data import Measurement, Needs, Scorer
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.citing import attribute
from labwright.sandbox.collecting import Collector, ran
from labwright.sandbox.errors import ExecutorError, GpuError, SubmissionRefused
from labwright.sandbox.execution import Execution, Script, execute
from labwright.sandbox.gpu_leases import GpuLeases, Lease
from labwright.sandbox.isolation.limits import Limits, limits_of
from labwright.sandbox.isolation.mounts import KernelConfig, StartOptions
from labwright.sandbox.job import Job, Outcome, TooLate
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.lending import check_returned
from labwright.sandbox.monitor import Meter, Monitor, Usage
from labwright.sandbox.output import Transcript
from labwright.sandbox.pool import Pool
from labwright.sandbox.repository.command import CommandJob, CommandOutcome, run_command
from labwright.sandbox.results import failure_of
from labwright.sandbox.scorer_tasks import ENTRY, Task, lay_out, read_scores, tasks_of
from labwright.sandbox.scorers import read_frozen
from labwright.sandbox.scoring import read_submitted
from labwright.sandbox.subjects import Session, Subjects, serving
from labwright.sandbox.untrusted import BadFile, OpenFolder, disarm
from labwright.sandbox.workspace import prepare_workspace

_USUAL = Needs()


@dataclass
class Runner:
    """Runs code in kernels. `slots` share the machine's memory."""

    slots: int
    config: KernelConfig
    views: Path
    scorers: Path | None
    """What `sandbox.scorers.freeze` wrote."""
    collector: Collector
    pretrained: Mapping[str, str]
    gpus: GpuLeases
    meter: Meter
    pool: Pool
    subjects: Subjects | None = None

    @property
    def slot_gb(self) -> float:
        """Memory of one experiment that is not alone, 10^9 bytes."""
        return limits_of(self.config.settings, slots=self.slots).memory / 1e9

    async def run(self, job: Job) -> Outcome:
        """Run a script that does all at once. Raises `ExecutorError`, `TooLate`."""
        if job.late():
            raise TooLate(job.name)
        job.begins()
        ready = self.waiting(job)
        try:
            script = await self.prepared(job)
            source = script.text
            held = OpenFolder(script.folder)
            monitor = Monitor(job.watch, script.folder) if job.watch is not None else None
            execution = await self.execute(script, ready, monitor)
            execution = await asyncio.to_thread(check_returned, held, script.folder, execution)
        finally:
            if ready is not None:
                ready.kill()
        return await self.finished(script, source, execution, monitor)

    def waiting(self, job: Job) -> Kernel | None:
        """A kernel that waits and is fit for the job, which works in its folder from now on."""
        if self.gpus.devices and job.mode == "experiment":  # figures are drawn without a GPU
            return None
        return self.pool.take(job.folder.absolute(), source=job.source, datasets=job.datasets)

    async def prepared(self, job: Job) -> Script:
        """The job's folder, made ready. Raises `ExecutorError`."""
        script = await asyncio.to_thread(prepare_workspace, job, self.views, self.config.settings)
        scorers = await asyncio.to_thread(read_frozen, self.scorers)
        self.config.cache.mkdir(parents=True, exist_ok=True)
        return replace(
            script,
            pretrained=dict(self.pretrained),
            scorers=tuple(name for name in script.views if name in scorers and scorers[name][0].takes == "artifact"),
        )

    async def finished(self, script: Script, source: str, execution: Execution, monitor: Monitor | None) -> Outcome:
        """What came of code once none of it is alive any more; its folder holds plain files then. Raises
        `ExecutorError`."""
        try:
            outcome = await self._read(script, source, execution, monitor)
        except Exception as error:  # noqa: BLE001  a worker's edge: what code left may be anything
            outcome = replace(ran(script, execution), failure=execution.failure or failure_of(error))
        with suppress(BadFile):
            await asyncio.to_thread(disarm, script.folder, plain=True)
        return outcome

    async def _read(self, script: Script, source: str, execution: Execution, monitor: Monitor | None) -> Outcome:
        if monitor is not None and not _hopeless(execution.failure):
            reason = await monitor.last(execution.seconds)
            if reason is not None:
                execution = replace(execution, failure=Failure(kind="hopeless", message=reason))
        if execution.asked is not None:
            execution = await asyncio.to_thread(self._attributed, script, execution, execution.asked)
        scorers = await asyncio.to_thread(read_frozen, self.scorers)
        if script.job.mode == "experiment" and execution.failure is None and scorers:
            execution = await self._evaluated(script, execution, scorers)
        return await asyncio.to_thread(self.collector.outcome, script, source, execution)

    async def execute(self, script: Script, ready: Kernel | None = None, monitor: Monitor | None = None) -> Execution:
        """Run a script in a kernel of its own, or in one that is ready; the kernel is gone then."""
        lease = Lease() if script.job.mode == "plot" else await self.leased(script.job.most_needed().gpus)
        kernel = ready or self.kernel(script, lease)
        usage = Usage()
        try:
            if ready is None:
                await kernel.start()
            self.pool.refill()
            return await self.within(kernel, lease, script, monitor=monitor, usage=usage)
        finally:
            kernel.kill()
            self.gpus.release(lease, usage.processes)

    async def leased(self, count: int | None = None) -> Lease:
        """GPUs for one kernel, by default as many as any experiment has. Raises `ExecutorError` where none
        can be had.
        """
        try:
            return await self.gpus.acquire(count)
        except GpuError as error:
            raise ExecutorError(str(error)) from error

    def kernel(self, script: Script, lease: Lease) -> Kernel:
        """A kernel for that script, not yet started."""
        return Kernel(script.folder, config=self.config, options=StartOptions(script.paths, lease.devices))

    async def within(
        self, kernel: Kernel, lease: Lease, script: Script, *, monitor: Monitor | None, usage: Usage
    ) -> Execution:
        """Run a script in a kernel that was started, which lives on where the script is a cell."""
        job = script.job
        limits = self.limits(job.most_needed().memory_gb, alone=job.alone)
        asked = Session(self.subjects, job.key, job.subjects) if self.subjects is not None and job.subjects else None
        async with AsyncExitStack() as around:
            await around.enter_async_context(self.meter.follow(kernel.pid, lease, usage))
            if asked is not None:
                await around.enter_async_context(serving(asked, kernel.questions))
            began = time.monotonic()
            try:
                execution = await execute(kernel, script, limits=limits, timeout=script.job.timeout, monitor=monitor)
            except Exception as error:  # noqa: BLE001  a kernel says what its code makes it say
                execution = Execution(time.monotonic() - began, failure_of(error), Transcript(1000))
        if asked is not None and asked.fatal is not None:
            raise asked.fatal
        host = max(usage.host, usage.now + execution.peak_alone if execution.peak_alone else 0)
        return replace(execution, peak_host_bytes=host or None, peak_gpu_bytes=usage.gpu, asked=asked)

    def limits(self, memory_gb: float | None, *, alone: bool) -> Limits:
        """Of one experiment that declared to need so much; `alone` on the machine, it has all that is there."""
        limits = limits_of(self.config.settings, slots=1 if alone else self.slots)
        if memory_gb is None:
            return limits
        return replace(limits, memory=max(int(memory_gb * 1e9), limits.memory if alone else 0))

    async def command(
        self, job: CommandJob, needs: Needs = _USUAL, *, alone: bool = False, begins: Callable[[], None] = lambda: None
    ) -> CommandOutcome:
        """Run a command of a repository to its end, told when it begins. Raises `ExecutorError`."""
        lease, usage = await self.leased(needs.gpus), Usage()
        begins()
        try:
            return await run_command(
                job,
                config=self.config,
                meter=self.meter,
                lease=lease,
                usage=usage,
                limits=self.limits(needs.memory_gb, alone=alone),
            )
        finally:
            self.gpus.release(lease, usage.processes)

    def _attributed(self, script: Script, execution: Execution, asked: Session) -> Execution:
        """The execution once what it hands in was read off the answers that it cites."""
        if asked.spent:
            return replace(execution, failure=Failure(kind="budget", message=asked.spent))
        try:
            told = attribute(script.folder, self.collector.labels, self.views, asked)
            execution.transcript.add("stderr", "".join(f"{line}\n" for line in told))
        except SubmissionRefused as error:
            execution = replace(execution, failure=execution.failure or failure_of(error))
        return execution

    # --- frozen scorers, in kernels of their own ----------------------------------------------------------------------

    async def _evaluated(
        self, script: Script, execution: Execution, scorers: Mapping[str, tuple[Scorer, str]]
    ) -> Execution:
        """The execution with what frozen scorers give on validation; with a failure where they give nothing."""
        try:
            tasks = await asyncio.to_thread(
                lambda: tasks_of(read_submitted(script.folder, self.collector.grade), "validation", scorers)
            )
            values = await self.scores(tasks, script.folder / "submissions", script.job.seed)
            return replace(execution, evaluated=values)
        except SubmissionRefused as error:
            return replace(execution, failure=failure_of(error))

    async def scores(self, tasks: Iterable[Task], place: Path, seed: int) -> tuple[Measurement, ...]:
        """What the tasks come to, in order. Raises `SubmissionRefused`, `ExecutorError`."""
        return tuple([value for task in tasks for value in await self._scored(task, place, seed)])

    async def _scored(self, task: Task, place: Path, seed: int) -> tuple[Measurement, ...]:
        settings, around = self.config.settings, scoring_folder(self.config)
        around.mkdir(parents=True, exist_ok=True)
        target = Path(tempfile.mkdtemp(dir=around))
        job = Job(
            name=f"scorer of {task.scorer.dataset}",
            folder=target,
            source={},
            entry=ENTRY,
            mode="score",
            seed=seed,
            timeout=settings.scorer_timeout,
        )
        try:
            script = await asyncio.to_thread(
                lay_out, task, job, place, views=self.views, labels=self.collector.labels, limit=settings.artifact_bytes
            )
            execution = await self.execute(script)
            if execution.failure is not None:
                raise SubmissionRefused(f"the scorer of {task.scorer.dataset!r} failed: {execution.failure.message}")
            return await asyncio.to_thread(read_scores, task, target, seed=seed)
        finally:
            remove_tree(target, ignore_errors=True)


def scoring_folder(config: KernelConfig) -> Path:
    """Where scorers work."""
    return config.cache.parent / "scoring"


def _hopeless(failure: Failure | None) -> bool:
    return failure is not None and failure.kind == "hopeless"
