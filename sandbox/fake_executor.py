"""An executor that runs no code, and GPUs that do not exist; both behave as scripted.

It is used for benchmarks of the search, for tests, and to try GPU settings on a machine without a GPU.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import Measurement, ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.sandbox.cell_scheduler import CellResult, CellSchedule
from labwright.sandbox.errors import ExecutorError, GpuError
from labwright.sandbox.failures import failure_from_timeout
from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.job import CellOutcome, ExecutionProgress, Job, JobOutcome, ProgressWatch, TooLate
from labwright.sandbox.slots import Slots
from labwright.sandbox.worker_pool import WorkerPool
from labwright.sandbox.workspace import CELLS_FOLDER

FakeCellRun = Callable[[Job, Cell], tuple[float, CellOutcome]]
"""Returns the seconds that a cell takes, and its outcome."""


def refuse_cells(job: Job, cell: Cell) -> tuple[float, CellOutcome]:
    """Default `FakeCellRun`. Raises `ExecutorError`."""
    raise ExecutorError(f"no outcome is scripted for {cell}: pass cell= to FakeExecutor")


def refuse_scripts(job: Job) -> tuple[float, JobOutcome]:
    """Default script. Raises `ExecutorError`."""
    raise ExecutorError(f"no outcome is scripted for {job.name}: pass a script to FakeExecutor")


class FakeExecutor:
    """An `Executor` with scripted outcomes: `script(job)` returns a delay in seconds and the outcome.

    For a job of cells, `cell(job, cell)` returns them for each cell. Cells are scheduled as on a real machine; a cell
    that takes longer than its limit times out. `start_seconds` is the assumed cost of another worker (without an actual
    wait), `memory_gb` the memory of a slot.

    Slots, waiting, watching and cancellation are real. Files only appear if the functions write them to `job.folder`. A
    job stopped by its watch has no measurements. `started` lists the jobs, and the cells as `<job> <cell.name>`, in
    starting order; `max_at_once` is the largest number of slots in use at a time, and `workers` the same per job of
    cells, by name.
    """

    def __init__(
        self,
        script: Callable[[Job], tuple[float, JobOutcome]] = refuse_scripts,
        *,
        slots: int = 1,
        watch_seconds: float = 5.0,
        cell: FakeCellRun = refuse_cells,
        start_seconds: float | None = None,
        memory_gb: float = math.inf,
        shared: Path | None = None,
    ) -> None:
        self.slots, self._memory_gb = slots, memory_gb
        self.device = "cpu"
        self.environment_fingerprint = "scripted"
        self.cell_capacity = ResourceNeeds(gpus=0, memory_gb=16.0, hours=24.0)
        self.started: list[str] = []
        self.max_at_once = 0
        self.workers: dict[str, int] = {}
        self.active_workers: dict[str, int] = {}
        """Current workers of each job of cells, by name."""
        self._script = script
        self._cell = cell
        self._start_seconds = start_seconds
        self._watch_seconds = watch_seconds
        self._slots = Slots(slots, shared)
        self._closed = asyncio.Event()
        self._held_slots = 0

    async def run(self, job: Job) -> JobOutcome:
        if job.cells:
            crew = WorkerPool(
                job,
                self.slots,
                self._run_in_slot,
                lambda _: FakeCellWorker(self, job),
                memory_gb=self._memory_gb,
                start_seconds=self._start_seconds,
                give_way=self._slots.should_give_way,
            )
            return _merge_outcomes(await crew.measure())
        async with self._slots.hold(alone=job.alone):
            if job.is_too_late():
                raise TooLate(job.name)
            job.on_start()
            if self._closed.is_set():
                raise ExecutorError("the executor was closed")
            self._held_slots += 1
            self.max_at_once = max(self.max_at_once, self._held_slots)
            self.started.append(job.name)
            try:
                delay, outcome = self._script(job)
                if job.watch is not None:
                    return await self._run_watched(delay, outcome, job.watch)
                await self._pause(delay)
                return outcome
            finally:
                self._held_slots -= 1

    def add_pretrained(self, pretrained: Mapping[str, Path]) -> None:
        """Does nothing; see `LocalExecutor.add_pretrained`."""

    async def measure_cell(self, job: Job, cell: Cell, limit: float) -> CellOutcome:
        """Return the scripted outcome of a cell. Raises `ExecutorError`."""
        self.started.append(f"{job.name} {cell.name}")
        delay, outcome = self._cell(job, cell)
        await self._pause(min(delay, limit))
        if delay > limit:
            failure = failure_from_timeout(limit, stopped=True, traceback=(), folder=job.folder)
            return CellOutcome(limit, failure, cell=cell)
        return replace(outcome, seconds=outcome.seconds or delay)

    async def _run_in_slot(self, work: Callable[[], Coroutine[Any, Any, None]], *, alone: bool = False) -> None:
        async with self._slots.hold(alone=alone):
            if self._closed.is_set():
                raise ExecutorError("the executor was closed")
            self._held_slots += 1
            self.max_at_once = max(self.max_at_once, self._held_slots)
            try:
                await work()
            finally:
                self._held_slots -= 1

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        """Return nothing, since there are no scorers."""
        if self._closed.is_set():
            raise ExecutorError("the executor was closed")
        return ()

    async def close(self) -> None:
        """Cancel waiting jobs. Idempotent."""
        self._closed.set()

    async def _run_watched(self, delay: float, outcome: JobOutcome, watch: ProgressWatch) -> JobOutcome:
        seconds, ended = 0.0, False
        while not ended:
            await self._pause(min(self._watch_seconds, delay - seconds))
            seconds = min(seconds + self._watch_seconds, delay)
            ended = seconds == delay
            reason = watch(ExecutionProgress(seconds, quiet_seconds=0.0 if ended else seconds, ended=ended))
            if reason is not None:
                return JobOutcome(seconds=seconds, failure=Failure(kind="hopeless", message=reason))
        return outcome

    async def _pause(self, delay: float) -> None:
        if delay <= 0:
            return
        try:
            await asyncio.wait_for(self._closed.wait(), timeout=delay)
        except TimeoutError:
            return
        raise ExecutorError("the executor was closed while the job ran")


class FakeCellWorker:
    """Returns scripted outcomes; switches datasets at no cost."""

    def __init__(self, executor: FakeExecutor, job: Job) -> None:
        self.dataset = ""
        self.arm = ""
        self._executor, self._job = executor, job
        at_work = self._executor.active_workers
        at_work[job.name] = at_work.get(job.name, 0) + 1
        self._executor.workers[job.name] = max(self._executor.workers.get(job.name, 0), at_work[job.name])

    async def measure(self, cell: Cell, limit: float, schedule: CellSchedule) -> CellResult:
        self.dataset = cell.dataset
        folder = self._job.folder / CELLS_FOLDER / cell.name
        folder.mkdir(parents=True, exist_ok=True)
        return CellResult(await self._executor.measure_cell(self._job, cell, limit), folder)

    async def close(self) -> None:
        self._executor.active_workers[self._job.name] -= 1


def _merge_outcomes(schedule: CellSchedule) -> JobOutcome:
    """Merge the outcomes of a job's cells; cells measured before contribute nothing."""
    measured = [
        schedule.outcomes[cell]
        for cell in schedule.job.cells
        if cell in schedule.outcomes and cell in schedule.measured_folders
    ]
    return JobOutcome(
        seconds=schedule.spent_seconds,
        failure=schedule.find_failure(),
        cells=schedule.build_lines(),
        measurements=tuple(value for one in measured for value in one.measurements),
        self_reported=tuple(value for one in measured for value in one.self_reported),
        arrays={name: sha256 for one in measured for name, sha256 in one.arrays.items()},
        artifacts={name: sha256 for one in measured for name, sha256 in one.artifacts.items()},
        sealed={name: sha256 for one in measured for name, sha256 in one.sealed.items()},
    )


class FakeNvml:
    """An `Nvml` with given devices: `used_bytes[uuid]` maps process ids to the bytes they use."""

    def __init__(self, devices: Iterable[GpuDevice]) -> None:
        self._devices = tuple(devices)
        self.used_bytes: dict[str, dict[int, int]] = {device.uuid: {} for device in self._devices}

    def list_devices(self) -> tuple[GpuDevice, ...]:
        return self._devices

    def free_bytes(self, uuid: str) -> int:
        return self._find_device(uuid).memory_bytes - sum(self.used_bytes[uuid].values())

    def list_processes(self, uuid: str) -> dict[int, int]:
        return dict(self.used_bytes[self._find_device(uuid).uuid])

    def _find_device(self, uuid: str) -> GpuDevice:
        for device in self._devices:
            if device.uuid == uuid:
                return device
        raise GpuError(f"there is no GPU {uuid!r}")


def make_gpus(count: int, *, memory: int = 80 * 10**9) -> tuple[GpuDevice, ...]:
    """Return `count` equal devices with numbered UUIDs. `memory` is in bytes per device."""
    return tuple(
        GpuDevice(f"GPU-{n:08x}-0000-0000-0000-000000000000", "scripted", index=n, minor=n, memory_bytes=memory)
        for n in range(count)
    )
