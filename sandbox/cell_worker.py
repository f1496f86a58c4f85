"""Measures cells, each in a folder of its own: a worker has one place at a time in which they run (`sandbox.places`).

A place works in a folder of its own below the job's. A cell's folder lies there while the cell runs, is taken out of
the kernel's reach with its end, and only then read: no cell finds what another left.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

from labwright.record.descriptors import remove_tree
from labwright.record.nouns.cells import Cell
from labwright.record.source import visible_files
from labwright.sandbox.assembly import assemble
from labwright.sandbox.cells import Ran, Schedule
from labwright.sandbox.crew import Crew, Hold, Worker
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.execution import Execution, Script
from labwright.sandbox.job import CellOutcome, Job, Outcome, Result
from labwright.sandbox.monitor import Monitor
from labwright.sandbox.output import OUTPUT_CHARS, LiveOutput
from labwright.sandbox.places import Place
from labwright.sandbox.repository.cells import CommandWorker, Repository
from labwright.sandbox.running import Runner
from labwright.sandbox.untrusted import BadFile, remove
from labwright.sandbox.workspace import CELLS, KERNELS, copy_arm, mounted


async def measure_cells(
    job: Job,
    runner: Runner,
    hold: Hold,
    opens: Callable[[Path], Place],
    repository: Repository | None = None,
    *,
    give_way: Callable[[], bool] = lambda: False,
) -> Outcome:
    """What came of a job of cells, in places that `opens` opens for a folder, or as commands of a repository.

    Raises `ExecutorError`, `TooLate`.
    """
    folder = job.folder.absolute()
    job = replace(job, folder=folder)
    await asyncio.to_thread(_clear, folder)
    live = LiveOutput(job.live, OUTPUT_CHARS // 2)
    numbers = iter(range(1, 10**9))

    def worker(alone: bool) -> Worker:
        if repository is None:
            place = folder / KERNELS / str(next(numbers))
            return CellWorker(runner, job, live, place, opens(place), alone=alone)
        return CommandWorker(repository, runner, job, live, next(numbers), alone=alone)

    try:
        crew = Crew(job, runner.slots, hold, worker, memory_gb=runner.slot_gb, give_way=give_way)
        schedule = await crew.measure()
        remove_tree(folder / KERNELS, ignore_errors=True)
        outcome = await asyncio.to_thread(assemble, job, schedule, runner.collector)
        if repository is not None:
            (folder / "arrays").mkdir(exist_ok=True)  # commands save none, and figures look for them
        return outcome
    finally:
        live.close()
        remove_tree(folder / KERNELS, ignore_errors=True)


def _clear(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (KERNELS, CELLS):
            remove(folder, name)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot prepare {folder}: {error}") from error


@dataclass
class CellWorker:
    """Measures one cell after the other, in a place that lives on from cell to cell."""

    runner: Runner
    job: Job
    live: LiveOutput
    folder: Path
    """Where the place works."""
    place: Place
    alone: bool
    dataset: str = ""
    arm: str = ""

    async def measure(self, cell: Cell, limit: float, schedule: Schedule) -> Ran:
        """Measure a cell in so many seconds. Raises `ExecutorError`."""
        self.dataset = cell.dataset
        self.arm = "" if self.runner.config.isolation.between_cells else cell.arm
        script = await self._prepared(cell, limit, schedule)
        monitor = Monitor(self.job.watch, script.folder) if self.job.watch is not None else None
        self.live.add(f"\n--- {cell} ---\n")
        execution = await self.place.execute(script, begins=lambda: schedule.begun(cell), monitor=monitor)
        script = replace(script, folder=await asyncio.to_thread(self._taken_out, script.folder))
        outcome = await self.runner.finished(script, "", execution, monitor)
        await asyncio.to_thread(_lighten, script.folder)
        return Ran(_of_cell(cell, outcome, execution), script.folder, kernel_died=execution.over, first=execution.first)

    async def close(self) -> None:
        """End what runs. Idempotent."""
        await self.place.close()

    @property
    def _aside(self) -> Path:
        """Where cells' folders lie before and after they are in the place's: no code that runs in it gets there."""
        return self.folder.with_name(f"{self.folder.name}.{CELLS}")

    async def _prepared(self, cell: Cell, limit: float, schedule: Schedule) -> Script:
        """The folder of a cell in that of a place that is fit for it."""
        job, reads = self.job, schedule.reads
        source = visible_files(job.source, cell.arm, arms=job.arms or tuple(one.arm for one in job.cells), reads=reads)
        sees = await asyncio.to_thread(mounted, cell.dataset, self.runner.views)
        await self.place.ready(cell.arm, source, sees, schedule.needs(cell).gpus)
        script = await self.runner.prepared(
            replace(
                job,
                name=f"{job.name} {cell.name}",
                folder=self._aside / cell.name,
                source=source,
                seed=cell.seed,
                timeout=limit,
                datasets=(cell.dataset,),
                earlier=self._earlier(cell, schedule),
                alone=self.alone,
                cells=(),
                key=job.keys.get(cell, ""),
                needs={cell.arm: schedule.needs(cell)},
            )
        )
        other = schedule.read_by(cell)
        if other is not None:
            await asyncio.to_thread(
                copy_arm,
                schedule.folders[other],
                script.folder,
                other.arm,
                limit=self.runner.config.settings.artifact_bytes,
            )
        return replace(script, cell=cell, live=self.live, arms={} if other is None else {other.arm: other.place})

    def _earlier(self, cell: Cell, schedule: Schedule) -> Path | None:
        """Where checkpoints of this cell may lie: with its execution before this, or of an earlier attempt.

        What may ask subjects begins anew: answers are replayed, by how often a question came up.
        """
        if self.job.subjects:
            return None
        if (known := schedule.places.get(cell) or self.job.cut.get(cell)) is not None:
            return known
        return self.job.earlier / CELLS / cell.name if self.job.earlier is not None else None

    def _taken_out(self, folder: Path) -> Path:
        """Move a cell's folder to those of the job."""
        target = self.job.folder / CELLS / folder.name
        remove_tree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder, target)
        return target


def _lighten(folder: Path) -> None:
    """Remove what a cell was given and can be had elsewhere: what it read of others may be large."""
    for name in ("inputs", "figures"):
        with suppress(OSError, BadFile):
            remove(folder, name)


def _of_cell(cell: Cell, outcome: Outcome, execution: Execution) -> CellOutcome:
    result = {one.name: getattr(outcome, one.name) for one in fields(Result)}
    return CellOutcome(**result, cell=cell, training=None if outcome.resumed else execution.training)
