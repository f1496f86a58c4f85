"""Workers that measure the cells of a job in parallel, each holding a slot, until nothing more can start."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from labwright.record.python_syntax import collect_reads
from labwright.record.schema.cell import Cell
from labwright.record.source_tree import ENTRY_FILE
from labwright.sandbox import cell_scheduler
from labwright.sandbox.cell_scheduler import CellResult, CellSchedule
from labwright.sandbox.job import Job, TooLate


class CellMeasurer(Protocol):
    """Measures cells one after the other."""

    dataset: str
    """Dataset that its kernel sees; empty if it sees none."""
    arm: str
    """Arm that its kernel serves; empty if it serves all arms."""

    async def measure(self, cell: Cell, limit: float, schedule: CellSchedule) -> CellResult:
        """Measure a cell within `limit` seconds. Raises `ExecutorError`."""
        ...

    async def close(self) -> None: ...


class SlotHolder(Protocol):
    """Does some work while holding a slot or, with `alone`, all slots."""

    def __call__(
        self, work: Callable[[], Coroutine[Any, Any, None]], *, alone: bool = False
    ) -> Coroutine[Any, Any, None]: ...


@dataclass
class WorkerPool:
    """The workers of one job, at most `slots`."""

    job: Job
    slots: int
    hold_slot: SlotHolder
    open_worker: Callable[[bool], CellMeasurer]
    """Creates a worker; the argument says whether it has the machine to itself."""
    memory_gb: float = math.inf
    """Memory of a slot: cells that need more run alone."""
    start_seconds: float | None = None
    """Cost of starting another worker; by default `sandbox.cell_scheduler.KERNEL_START_SECONDS`."""
    give_way: Callable[[], bool] = lambda: False
    """Whether a worker should release its slot between two cells and queue for one again."""
    _has_started: bool = False
    _active_workers: int = 0
    """Number of workers that have a slot."""
    _report_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def measure(self) -> CellSchedule:
        """Measure all cells that can be measured. Raises `TooLate`, `ExecutorError`."""
        # the entry may run the main program
        declared_reads = (collect_reads(self.job.source.get(name, "")) for name in (self.job.entry, ENTRY_FILE))
        schedule = CellSchedule(
            self.job,
            next(filter(None, declared_reads), dict[str, str]()),
            time.monotonic,
            memory_gb=self.memory_gb,
            slots=1 if self.job.alone else self.slots,
        )
        if schedule.waiting:
            await self._run_until_idle(schedule, alone=self.job.alone)
        while schedule.has_work(alone=True):
            before = len(schedule.waiting_alone)
            await self._run_until_idle(schedule, alone=True, apart=True)
            if len(schedule.waiting_alone) == before:
                break
            await self._run_until_idle(schedule, alone=self.job.alone)
        schedule.finish()
        return schedule

    async def _run_until_idle(self, schedule: CellSchedule, *, alone: bool, apart: bool = False) -> None:
        """Run workers until none can start another cell."""
        cost = cell_scheduler.KERNEL_START_SECONDS if self.start_seconds is None else self.start_seconds
        tasks = {self._start_worker(schedule, alone=alone, apart=apart)}
        try:
            while tasks:
                done, tasks = await asyncio.wait(tasks, timeout=cost / 4, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if not self._active_workers and not schedule.has_work(alone=apart):
                    break  # workers that still wait for a slot would have no work
                while (
                    tasks
                    and not alone
                    and len(tasks) < self.slots
                    and schedule.needs_more_workers(len(tasks), cost)
                    and schedule.running
                ):
                    tasks.add(self._start_worker(schedule, alone=False, apart=False))
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _start_worker(self, schedule: CellSchedule, *, alone: bool, apart: bool) -> asyncio.Task[None]:
        async def work_in_slots() -> None:
            gave_way = True

            async def work() -> None:
                nonlocal gave_way
                gave_way = await self._run_worker(schedule, alone=alone, apart=apart)

            while gave_way:
                await self.hold_slot(work, alone=alone)

        return asyncio.create_task(work_in_slots(), name=f"worker of {self.job.name}")

    async def _run_worker(self, schedule: CellSchedule, *, alone: bool, apart: bool) -> bool:
        """Measure cells until nothing can start (return False) or the slot is given up (return True)."""
        if not self._has_started:
            if self.job.is_too_late():
                raise TooLate(self.job.name)
            self._has_started = True
            self.job.on_start()
        worker = self.open_worker(alone)
        self._active_workers += 1
        try:
            while (started := schedule.take_next(worker.dataset, worker.arm, alone=apart)) is not None:
                cell, limit = started
                try:
                    result = await worker.measure(cell, limit, schedule)
                    async with self._report_lock:
                        folder = await self.job.on_cell_ended(cell, result.outcome, result.folder)
                finally:
                    schedule.mark_dropped(cell)
                schedule.mark_ended(cell, result, folder, alone=alone)
                if schedule.waiting and self.give_way():
                    return True
            return False
        finally:
            self._active_workers -= 1
            with suppress(asyncio.CancelledError):
                await worker.close()
