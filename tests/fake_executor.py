"""An executor that runs no code, and GPUs that do not exist; both behave as scripted.

It is used for benchmarks of the search and for tests, also of GPU settings on a machine without a GPU.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from labwright.record.schema.data_plan import Measurement, ResourceNeeds
from labwright.record.schema.nodes import Cell
from labwright.sandbox.cell_scheduler import KERNEL_START_SECONDS, CellOrder, CellStream, RunningCell
from labwright.sandbox.gpus import GpuDevice, Nvml, Slots
from labwright.sandbox.job import CellEnded, CellResult, ExecutorError, GpuError, Job, JobOutcome
from labwright.sandbox.output import failure_from_timeout
from labwright.sandbox.workspace import CELLS_FOLDER

FakeCellRun = Callable[[Job, Cell], tuple[float, CellResult]]
"""Returns the seconds that a cell takes, and its result."""


def refuse_cells(job: Job, cell: Cell) -> tuple[float, CellResult]:
    """Default `FakeCellRun`. Raises `ExecutorError`."""
    raise ExecutorError(f"no outcome is scripted for {cell}: pass cell= to FakeExecutor")


def refuse_scripts(job: Job) -> tuple[float, JobOutcome]:
    """Default script. Raises `ExecutorError`."""
    raise ExecutorError(f"no outcome is scripted for {job.name}: pass a script to FakeExecutor")


class FakeExecutor:
    """An `Executor` with scripted outcomes: `script(job)` returns a delay in seconds and the outcome of a plain script,
    `cell(job, cell)` those of a cell.

    Cells are scheduled as on a real machine; a cell that takes longer than its limit times out. `start_seconds` is the
    assumed cost of another worker (without an actual wait), `memory_gb` the memory of a slot.

    Slots, waiting and cancellation are real. Files only appear if the functions write them to `job.folder`, which is
    that of the cell. `started` lists the scripts by job, and the cells as `<job> <cell.name>`, in starting order;
    `max_at_once` is the largest number of slots in use at a time, and `workers` the same per job, by name.
    """

    def __init__(
        self,
        script: Callable[[Job], tuple[float, JobOutcome]] = refuse_scripts,
        *,
        slots: int = 1,
        cell: FakeCellRun = refuse_cells,
        start_seconds: float = KERNEL_START_SECONDS,
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
        self._slots = Slots(slots, shared)
        self._held_slots = 0

    def measure(self, job: Job) -> CellStream:
        return CellStream(
            job,
            self.slots,
            self.hold_slot,
            lambda: FakeCellWorker(self, job),
            memory_gb=self._memory_gb,
            start_seconds=self._start_seconds,
            give_way=self._slots.should_give_way,
        )

    def add_pretrained(self, pretrained: Mapping[str, Path]) -> None:
        """Does nothing; see `LocalExecutor.add_pretrained`."""

    async def run_cell(self, job: Job, order: CellOrder) -> CellEnded:
        """Return the scripted result of a cell. Raises `ExecutorError`."""
        cell, folder = order.cell, job.folder / CELLS_FOLDER / order.cell.name
        folder.mkdir(parents=True, exist_ok=True)
        job = replace(job, folder=folder, source=order.source)
        self.started.append(job.name if cell.is_script else f"{job.name} {cell.name}")
        if cell.is_script:
            delay, outcome = self._script(job)
            result = CellResult(cell=cell, figures=outcome.figures, **outcome.copy_results())
        else:
            delay, result = self._cell(job, cell)
            result = result.model_copy(update={"seconds": result.seconds or delay})
        taken = min(delay, order.limit)
        if taken > 0:
            await asyncio.sleep(taken)
        if delay > order.limit:
            failure = failure_from_timeout(order.limit, stopped=True, traceback=(), folder=job.folder)
            result = CellResult(cell=cell, seconds=order.limit, failure=failure)
        return CellEnded(result, folder)

    @asynccontextmanager
    async def hold_slot(self, *, alone: bool = False) -> AsyncGenerator[None]:
        async with self._slots.hold(alone=alone):
            self._held_slots += 1
            self.max_at_once = max(self.max_at_once, self._held_slots)
            try:
                yield
            finally:
                self._held_slots -= 1

    async def evaluate(self, folder: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        """Return nothing, since there are no scorers."""
        return ()

    async def close(self) -> None:
        """Do nothing, since it holds nothing."""


class FakeCellWorker:
    """Returns scripted results; switches datasets at no cost."""

    def __init__(self, executor: FakeExecutor, job: Job) -> None:
        self.dataset = ""
        self.arm = ""
        self._executor, self._job = executor, job
        at_work = self._executor.active_workers
        at_work[job.name] = at_work.get(job.name, 0) + 1
        self._executor.workers[job.name] = max(self._executor.workers.get(job.name, 0), at_work[job.name])

    async def run_cell(self, order: CellOrder, running: RunningCell) -> CellEnded:
        self.dataset = order.cell.dataset
        return await self._executor.run_cell(self._job, order)

    async def close(self) -> None:
        self._executor.active_workers[self._job.name] -= 1


class FakeNvml(Nvml):
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
