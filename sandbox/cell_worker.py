"""Measures cells in kernels of this machine: a worker has one kernel at a time, which sees one large dataset at most.

A kernel works in a folder of its own below the job's. A cell's folder lies there while the cell runs, is taken out of
the kernel's reach with its end, and only then read: no cell finds what another left.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from record.nouns.cells import Cell
from record.nouns.nodes import Failure
from record.source import visible_files
from sandbox.assembly import assemble
from sandbox.cells import Ran, Schedule
from sandbox.crew import Crew, Hold, Worker
from sandbox.errors import ExecutorError
from sandbox.execution import Execution, Script
from sandbox.gpu_leases import Lease
from sandbox.isolation.limits import oom_kills
from sandbox.isolation.mounts import StartOptions
from sandbox.job import CellOutcome, Job, Outcome, Result
from sandbox.kernels import Kernel
from sandbox.monitor import Monitor, Usage
from sandbox.output import OUTPUT_CHARS, LiveOutput
from sandbox.pool import MATPLOTLIBRC, names_of
from sandbox.repository.cells import CommandWorker, Repository
from sandbox.running import Runner, source_of
from sandbox.untrusted import BadFile, remove
from sandbox.workspace import CELLS, KERNELS, copy_arm, copy_view, mounted


async def measure_cells(
    job: Job, runner: Runner, hold: Hold, repository: Repository | None = None, *,
    give_way: Callable[[], bool] = lambda: False,
) -> Outcome:
    """What came of a job of cells, in kernels or as commands of a repository. Raises `ExecutorError`, `TooLate`."""
    folder = job.folder.absolute()
    job = replace(job, folder=folder)
    await asyncio.to_thread(_clear, folder)
    live = LiveOutput(job.live, OUTPUT_CHARS // 2)
    numbers = iter(range(1, 10**9))

    def worker(alone: bool) -> Worker:
        if repository is None:
            return CellWorker(runner, job, live, next(numbers), alone=alone)
        return CommandWorker(repository, runner, job, live, next(numbers), alone=alone)

    try:
        crew = Crew(job, runner.slots, hold, worker, memory_gb=runner.slot_gb, give_way=give_way)
        schedule = await crew.measure()
        shutil.rmtree(folder / KERNELS, ignore_errors=True)
        outcome = await asyncio.to_thread(assemble, job, schedule, runner.collector)
        if repository is not None:
            (folder / "arrays").mkdir(exist_ok=True)  # commands save none, and figures look for them
        return outcome
    finally:
        live.close()
        shutil.rmtree(folder / KERNELS, ignore_errors=True)


def _clear(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (KERNELS, CELLS):
            remove(folder, name)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot prepare {folder}: {error}") from error


@dataclass
class CellWorker:
    """Measures one cell after the other, in one kernel as long as it lives and need not see another dataset."""

    runner: Runner
    job: Job
    live: LiveOutput
    number: int
    alone: bool
    dataset: str = ""
    _sees: tuple[str, ...] = ()
    """The dataset that the kernel sees outside of the cells' folders, if any."""
    _kernel: Kernel | None = None
    _gpus: int | None = None
    """How many its kernel has; None: as many as any experiment."""
    _lease: Lease = field(default_factory=Lease)
    _usage: Usage = field(default_factory=Usage)
    _started: bool = False
    _ended: int = 0
    """Cells that ended in this kernel."""
    _begins: Callable[[], None] = lambda: None

    async def measure(self, cell: Cell, limit: float, schedule: Schedule) -> Ran:
        """Measure a cell in so many seconds. Raises `ExecutorError`."""
        sees = await asyncio.to_thread(mounted, cell.dataset, self.runner.views)
        gpus = schedule.needs(cell).gpus
        if (sees, gpus) != (self._sees, self._gpus):
            await self.close()
        self.dataset, self._sees, self._gpus = cell.dataset, sees, gpus
        script = await self._prepared(cell, limit, schedule)
        monitor = Monitor(self.job.watch, script.folder) if self.job.watch is not None else None
        self.live.add(f"\n--- {cell} ---\n")
        kills = oom_kills()
        first = not self._ended
        self._begins = lambda: schedule.begun(cell)
        try:
            execution = await self.runner.execute_cell(script, source_of(script), self, monitor)
        except BaseException:
            await self.close()
            raise
        execution = _of_system(execution, kills)
        self._ended += 1
        if execution.over or (script.scorers and self.runner.gpus.devices):  # a scorer needs a GPU too
            await self.close()
        script = replace(script, folder=await asyncio.to_thread(self._taken_out, script.folder))
        outcome = await self.runner.finished(script, "", execution, monitor)
        await asyncio.to_thread(_lighten, script.folder)
        return Ran(_of_cell(cell, outcome, execution), script.folder, kernel_died=execution.over, first=first)

    async def opened(self, script: Script) -> tuple[Kernel, Lease, Usage]:
        """The kernel, started where it is not yet. Raises `ExecutorError`."""
        if self._kernel is None or not self._started:
            self._lease = await self.runner.leased(self._gpus)
            if self._kernel is None:
                self._kernel = await self._start(script)
            self._started = True
        self._kernel.forget_start()
        self._begins()
        self._usage = Usage(processes=self._usage.processes)
        return self._kernel, self._lease, self._usage

    async def close(self) -> None:
        """End the kernel. Idempotent."""
        kernel, lease, self._lease = self._kernel, self._lease, Lease()
        self._kernel, self._started, self._ended = None, False, 0
        if kernel is not None:
            kernel.kill()
        if lease.devices:
            self.runner.gpus.release(lease, self._usage.processes)
        self._usage = Usage()

    @property
    def _folder(self) -> Path:
        return self.job.folder / KERNELS / str(self.number)

    async def _prepared(self, cell: Cell, limit: float, schedule: Schedule) -> Script:
        """The folder of a cell in that of the kernel, which is one that waited, if there is a fit one."""
        job, reads = self.job, schedule.reads
        source = visible_files(job.source, cell.arm, arms=job.arms or tuple(one.arm for one in job.cells), reads=reads)
        if self._kernel is None and not self.runner.gpus.devices:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            self._kernel = self.runner.pool.take(
                self._folder, source=source, datasets=self._sees, exactly=True)
            self._started = self._kernel is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        earlier = self._earlier(cell, schedule)
        script = await self.runner.prepared(replace(
            job, name=f"{job.name} {cell.name}", folder=self._folder / CELLS / cell.name, source=source,
            seed=cell.seed, timeout=limit, datasets=(cell.dataset,), earlier=earlier, alone=self.alone, cells=(),
            key=job.keys.get(cell, ""), needs={cell.arm: schedule.needs(cell)}))
        if not self._sees:
            script = await asyncio.to_thread(copy_view, script, cell.dataset)
        other = schedule.read_by(cell)
        if other is not None:
            await asyncio.to_thread(copy_arm, schedule.folders[other], script.folder, other.arm,
                                    limit=self.runner.config.settings.artifact_bytes)
        return replace(script, cell=cell, live=self.live,
                       arms={} if other is None else {other.arm: other.place})

    def _earlier(self, cell: Cell, schedule: Schedule) -> Path | None:
        """Where checkpoints of this cell may lie: with its execution before this, or of an earlier attempt.

        What may ask subjects begins anew: answers are replayed, by how often a question came up.
        """
        if self.job.subjects:
            return None
        if (known := schedule.places.get(cell) or self.job.cut.get(cell)) is not None:
            return known
        return self.job.earlier / CELLS / cell.name if self.job.earlier is not None else None

    async def _start(self, script: Script) -> Kernel:
        """A new kernel with what the program imports imported ahead, if that can be done without a word."""
        pool, kernel = self.runner.pool, None
        if not pool.why_off:
            try:
                kernel = await self._new(script, await pool.modules(script.job.source))
            except ExecutorError as error:
                pool.why_off = str(error)
        if kernel is not None and names_of(script.job.source) & (kernel.loaded | {MATPLOTLIBRC}):
            kernel.kill()
            kernel = None
        return kernel or await self._new(script, ("lab",))

    async def _new(self, script: Script, modules: tuple[str, ...]) -> Kernel:
        """A kernel that has started. Raises `ExecutorError`."""
        kernel = Kernel(self._folder, config=self.runner.config,
                        options=StartOptions(script.paths, self._lease.devices, modules=modules))
        try:
            await kernel.start()
        except BaseException:
            kernel.kill()
            raise
        return kernel

    def _taken_out(self, folder: Path) -> Path:
        """Move a cell's folder out of the kernel's, and remove what else lies there."""
        target = self.job.folder / CELLS / folder.name
        with suppress(FileNotFoundError):
            shutil.rmtree(target)
        target.parent.mkdir(exist_ok=True)
        os.rename(folder, target)
        for name in os.listdir(self._folder):
            remove(self._folder, name)
        return target


def _lighten(folder: Path) -> None:
    """Remove what a cell was given and can be had elsewhere: what it read of others may be large."""
    for name in ("inputs", "figures"):
        with suppress(OSError, BadFile):
            remove(folder, name)


def _of_cell(cell: Cell, outcome: Outcome, execution: Execution) -> CellOutcome:
    result = {one.name: getattr(outcome, one.name) for one in fields(Result)}
    return CellOutcome(**result, cell=cell, training=None if outcome.resumed else execution.training)


def _of_system(execution: Execution, kills: int) -> Execution:
    """The execution, its death by SIGKILL as one of memory where the system killed one of ours for that meanwhile."""
    failure = execution.failure
    if failure is None or failure.kind != "died" or "SIGKILL" not in failure.message or oom_kills() <= kills:
        return execution
    return replace(execution, failure=Failure(kind="memory", traceback=failure.traceback, message=(
        "the system killed it, since memory ran out: use smaller batches or models, or fewer workers")))
