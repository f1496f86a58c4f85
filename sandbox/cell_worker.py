"""Measure cells, each in its own folder. A worker runs its cells one at a time on one host (`sandbox.kernel_host`).

A host works in its own subfolder of the job's folder. A cell's folder is there while the cell runs; when the cell ends,
the folder is moved out of the kernel's reach and then read. Therefore no cell sees the files of another.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

from labwright.record.schema.cell import Cell
from labwright.record.source_tree import select_visible_files
from labwright.record.untrusted_files import BadFile, remove_path, remove_tree
from labwright.sandbox.cell_scheduler import CellResult, CellSchedule
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.execution import KernelExecution, KernelScript
from labwright.sandbox.job import CellOutcome, ExecutionResult, Job, JobOutcome
from labwright.sandbox.job_runner import JobRunner
from labwright.sandbox.kernel_host import ScriptHost
from labwright.sandbox.merge_cells import merge_cell_folders
from labwright.sandbox.monitor import JobMonitor
from labwright.sandbox.output import MAX_KEPT_CHARS, LiveOutput
from labwright.sandbox.repository.command_cells import CommandWorker, StudyRepository
from labwright.sandbox.worker_pool import CellMeasurer, SlotHolder, WorkerPool
from labwright.sandbox.workspace import CELLS_FOLDER, KERNELS_FOLDER, copy_arm_artifacts, list_mounted_datasets


async def measure_cells(
    job: Job,
    runner: JobRunner,
    hold_slot: SlotHolder,
    open_host: Callable[[Path], ScriptHost],
    repository: StudyRepository | None = None,
    *,
    give_way: Callable[[], bool] = lambda: False,
) -> JobOutcome:
    """Measure the cells of a job, in hosts that `open_host` opens for a folder, or as commands of a repository.

    Raises `ExecutorError`, `TooLate`.
    """
    folder = job.folder.absolute()
    job = replace(job, folder=folder)
    await asyncio.to_thread(_clear_job_folder, folder)
    live = LiveOutput(job.live_output, MAX_KEPT_CHARS // 2)
    numbers = iter(range(1, 10**9))

    def worker(alone: bool) -> CellMeasurer:
        if repository is None:
            place = folder / KERNELS_FOLDER / str(next(numbers))
            return CellWorker(runner, job, live, place, open_host(place), alone=alone)
        return CommandWorker(repository, runner, job, live, next(numbers), alone=alone)

    try:
        crew = WorkerPool(job, runner.slots, hold_slot, worker, memory_gb=runner.slot_gb, give_way=give_way)
        schedule = await crew.measure()
        remove_tree(folder / KERNELS_FOLDER, ignore_errors=True)
        outcome = await asyncio.to_thread(merge_cell_folders, job, schedule, runner.collector)
        if repository is not None:
            (folder / "arrays").mkdir(exist_ok=True)  # commands save no arrays, but the figures expect this folder
        return outcome
    finally:
        live.close()
        remove_tree(folder / KERNELS_FOLDER, ignore_errors=True)


def _clear_job_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (KERNELS_FOLDER, CELLS_FOLDER):
            remove_path(folder, name)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot prepare {folder}: {error}") from error


@dataclass
class CellWorker:
    """Measures cells one after another on a host that is reused from cell to cell."""

    runner: JobRunner
    job: Job
    live: LiveOutput
    folder: Path
    """Folder in which the host works."""
    host: ScriptHost
    alone: bool
    dataset: str = ""
    arm: str = ""

    async def measure(self, cell: Cell, limit: float, schedule: CellSchedule) -> CellResult:
        """Measure a cell within `limit` seconds. Raises `ExecutorError`."""
        self.dataset = cell.dataset
        self.arm = "" if self.runner.config.isolation.between_cells else cell.arm
        script = await self._prepare_script(cell, limit, schedule)
        monitor = JobMonitor(self.job.watch, script.folder) if self.job.watch is not None else None
        self.live.add(f"\n--- {cell} ---\n")
        execution = await self.host.execute(script, on_start=lambda: schedule.mark_started(cell), monitor=monitor)
        script = replace(script, folder=await asyncio.to_thread(self._move_to_job, script.folder))
        outcome = await self.runner.collect_outcome(script, "", execution, monitor)
        await asyncio.to_thread(_remove_inputs, script.folder)
        return CellResult(
            _to_cell_outcome(cell, outcome, execution),
            script.folder,
            kernel_died=execution.kernel_unusable,
            is_first_cell=execution.is_first_cell,
        )

    async def close(self) -> None:
        """Stop the running cell, if any. Idempotent."""
        await self.host.close()

    @property
    def _staging_folder(self) -> Path:
        """Holds the folders of cells before and after they run; code on the host cannot reach it."""
        return self.folder.with_name(f"{self.folder.name}.{CELLS_FOLDER}")

    async def _prepare_script(self, cell: Cell, limit: float, schedule: CellSchedule) -> KernelScript:
        """Prepare the host and the cell's folder."""
        job, reads = self.job, schedule.reads
        source = select_visible_files(
            job.source, cell.arm, arms=job.arms or tuple(one.arm for one in job.cells), reads=reads
        )
        sees = await asyncio.to_thread(list_mounted_datasets, cell.dataset, self.runner.views)
        await self.host.prepare(cell.arm, source, sees, schedule.get_needs(cell).gpus)
        script = await self.runner.prepare_script(
            replace(
                job,
                name=f"{job.name} {cell.name}",
                folder=self._staging_folder / cell.name,
                source=source,
                seed=cell.seed,
                timeout=limit,
                datasets=(cell.dataset,),
                earlier_folder=self._find_checkpoint_folder(cell, schedule),
                alone=self.alone,
                cells=(),
                key=job.keys.get(cell, ""),
                needs={cell.arm: schedule.get_needs(cell)},
            )
        )
        other = schedule.find_source_cell(cell)
        if other is not None:
            await asyncio.to_thread(
                copy_arm_artifacts,
                schedule.measured_folders[other],
                script.folder,
                other.arm,
                limit=self.runner.config.settings.artifact_bytes,
            )
        return replace(script, cell=cell, live=self.live, arms={} if other is None else {other.arm: other.place_name})

    def _find_checkpoint_folder(self, cell: Cell, schedule: CellSchedule) -> Path | None:
        """Return the folder with checkpoints of this cell, from its previous execution or an earlier attempt, if any.

        Code that may query subjects starts from scratch: recorded answers are replayed by occurrence of the question.
        """
        if self.job.subjects:
            return None
        if (known := schedule.result_folders.get(cell) or self.job.interrupted_folders.get(cell)) is not None:
            return known
        return self.job.earlier_folder / CELLS_FOLDER / cell.name if self.job.earlier_folder is not None else None

    def _move_to_job(self, folder: Path) -> Path:
        """Move a cell's folder into the job's folder."""
        target = self.job.folder / CELLS_FOLDER / folder.name
        remove_tree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder, target)
        return target


def _remove_inputs(folder: Path) -> None:
    """Remove a cell's inputs, which may be large and can be obtained elsewhere."""
    for name in ("inputs", "figures"):
        with suppress(OSError, BadFile):
            remove_path(folder, name)


def _to_cell_outcome(cell: Cell, outcome: JobOutcome, execution: KernelExecution) -> CellOutcome:
    result = {one.name: getattr(outcome, one.name) for one in fields(ExecutionResult)}
    return CellOutcome(**result, cell=cell, training=None if outcome.resumed else execution.training)
