"""Workers that measure the cells of a job side by side, each while it holds a slot, until nothing can be begun."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from labwright.record.nouns.cells import Cell
from labwright.record.source import ENTRY
from labwright.record.syntax import reads_of
from labwright.sandbox import cells
from labwright.sandbox.cells import Ran, Schedule
from labwright.sandbox.job import Job, TooLate


class Worker(Protocol):
    """Measures one cell after the other."""

    dataset: str
    """What its kernel sees; empty where it has none."""
    arm: str
    """Whose cells its kernel serves; empty where it serves those of all."""

    async def measure(self, cell: Cell, limit: float, schedule: Schedule) -> Ran:
        """Measure a cell in so many seconds. Raises `ExecutorError`."""
        ...

    async def close(self) -> None: ...


class Hold(Protocol):
    """Does some work while it holds a slot; with `alone`, all of them."""

    def __call__(
        self, work: Callable[[], Coroutine[Any, Any, None]], *, alone: bool = False
    ) -> Coroutine[Any, Any, None]: ...


@dataclass
class Crew:
    """The workers of one job. `slots` of them at most."""

    job: Job
    slots: int
    hold: Hold
    open: Callable[[bool], Worker]
    """Makes a worker; the flag says whether it is alone on the machine."""
    memory_gb: float = math.inf
    """Of a slot: cells that need more are measured alone."""
    start_seconds: float | None = None
    """What another worker costs; by default `sandbox.cells.START_SECONDS`."""
    give_way: Callable[[], bool] = lambda: False
    """Whether a worker is to give its slot to others between two cells, and wait for one again."""
    _begun: bool = False
    _at_work: int = 0
    """Workers that hold a slot."""
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def measure(self) -> Schedule:
        """Measure all that can be. Raises `TooLate`, `ExecutorError`."""
        said = (reads_of(self.job.source.get(name, "")) for name in (self.job.entry, ENTRY))  # an entry may run it
        schedule = Schedule(
            self.job,
            next(filter(None, said), dict[str, str]()),
            time.monotonic,
            memory_gb=self.memory_gb,
            slots=1 if self.job.alone else self.slots,
        )
        if schedule.waiting:
            await self._until_done(schedule, alone=self.job.alone)
        while schedule.anything(alone=True):
            before = len(schedule.apart)
            await self._until_done(schedule, alone=True, apart=True)
            if len(schedule.apart) == before:
                break
            await self._until_done(schedule, alone=self.job.alone)
        schedule.finish()
        return schedule

    async def _until_done(self, schedule: Schedule, *, alone: bool, apart: bool = False) -> None:
        """Have workers measure until none finds anything to begin."""
        cost = cells.START_SECONDS if self.start_seconds is None else self.start_seconds
        tasks = {self._join(schedule, alone=alone, apart=apart)}
        try:
            while tasks:
                done, tasks = await asyncio.wait(tasks, timeout=cost / 4, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if not self._at_work and not schedule.anything(alone=apart):
                    break  # who still waits for a slot would find nothing to do
                while (
                    tasks
                    and not alone
                    and len(tasks) < self.slots
                    and schedule.more(len(tasks), cost)
                    and schedule.running
                ):
                    tasks.add(self._join(schedule, alone=False, apart=False))
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _join(self, schedule: Schedule, *, alone: bool, apart: bool) -> asyncio.Task[None]:
        async def held() -> None:
            gave_way = True

            async def work() -> None:
                nonlocal gave_way
                gave_way = await self._work(schedule, alone=alone, apart=apart)

            while gave_way:
                await self.hold(work, alone=alone)

        return asyncio.create_task(held(), name=f"worker of {self.job.name}")

    async def _work(self, schedule: Schedule, *, alone: bool, apart: bool) -> bool:
        """Measure until there is nothing to begin, or, True, the slot is given to others."""
        if not self._begun:
            if self.job.late():
                raise TooLate(self.job.name)
            self._begun = True
            self.job.begins()
        worker = self.open(alone)
        self._at_work += 1
        try:
            while (found := schedule.take(worker.dataset, worker.arm, alone=apart)) is not None:
                cell, limit = found
                try:
                    ran = await worker.measure(cell, limit, schedule)
                    async with self._telling:
                        folder = await self.job.took(cell, ran.outcome, ran.folder)
                finally:
                    schedule.dropped(cell)
                schedule.ended(cell, ran, folder, alone=alone)
                if schedule.waiting and self.give_way():
                    return True
            return False
        finally:
            self._at_work -= 1
            with suppress(asyncio.CancelledError):
                await worker.close()
