"""An executor that runs no code, and GPUs that do not exist: what they do is written down.

For benchmarks of the search, for tests, and to try settings of GPUs on a machine that has none.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import Measurement, Needs
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.cells import Ran, Schedule
from labwright.sandbox.crew import Crew
from labwright.sandbox.errors import ExecutorError, GpuError
from labwright.sandbox.failures import from_timeout
from labwright.sandbox.gpus import Device
from labwright.sandbox.job import CellOutcome, Job, Outcome, Progress, TooLate, Watch
from labwright.sandbox.slots import Slots
from labwright.sandbox.workspace import CELLS

CellScript = Callable[[Job, Cell], tuple[float, CellOutcome]]
"""Says how long a cell takes, and what it comes to."""


def no_cells(job: Job, cell: Cell) -> tuple[float, CellOutcome]:
    """A `CellScript` where there are none. Raises `ExecutorError`."""
    raise ExecutorError(f"nothing is written down of {cell}: give ScriptedExecutor cell=")


def no_scripts(job: Job) -> tuple[float, Outcome]:
    """A script where none is to be run. Raises `ExecutorError`."""
    raise ExecutorError(f"nothing is written down of {job.name}: give ScriptedExecutor a script")


class ScriptedExecutor:
    """An `Executor` whose outcomes are written down: `script(job)` gives a delay in seconds and the outcome.

    For a job of cells `cell(job, cell)` gives those of each. Cells are scheduled as on a machine; one that takes longer
    than its limit has timed out. `start_seconds` is what another worker costs in the reckoning (nobody waits for it),
    `memory_gb` what a slot has.
    Slots, waiting, watching and cancellation are real. Files appear only where the functions write them into
    `job.folder`. A job that its watch ends has measured nothing. `started` names the jobs, and cells as
    `<job> <cell.name>`, in the order in which they got a place; `most` says how many places were held at one time, and
    `workers` how many by a job of cells, by its name.
    """

    def __init__(
        self,
        script: Callable[[Job], tuple[float, Outcome]] = no_scripts,
        *,
        slots: int = 1,
        watch_seconds: float = 5.0,
        cell: CellScript = no_cells,
        start_seconds: float | None = None,
        memory_gb: float = math.inf,
        shared: Path | None = None,
    ) -> None:
        self.slots, self._memory_gb = slots, memory_gb
        self.device = "cpu"
        self.ground = "scripted"
        self.room = Needs(gpus=0, memory_gb=16.0, hours=24.0)
        self.started: list[str] = []
        self.most = 0
        self.workers: dict[str, int] = {}
        self.at_work: dict[str, int] = {}
        """Workers of a job of cells now, by its name."""
        self._script = script
        self._cell = cell
        self._start_seconds = start_seconds
        self._watch_seconds = watch_seconds
        self._gate = Slots(slots, shared)
        self._closed = asyncio.Event()
        self._holding = 0

    async def run(self, job: Job) -> Outcome:
        if job.cells:
            crew = Crew(
                job,
                self.slots,
                self._held,
                lambda _: _CellWorker(self, job),
                memory_gb=self._memory_gb,
                start_seconds=self._start_seconds,
                give_way=self._gate.give_way,
            )
            return _put_together(await crew.measure())
        async with self._gate.hold(alone=job.alone):
            if job.late():
                raise TooLate(job.name)
            job.begins()
            if self._closed.is_set():
                raise ExecutorError("the executor was closed")
            self._holding += 1
            self.most = max(self.most, self._holding)
            self.started.append(job.name)
            try:
                delay, outcome = self._script(job)
                if job.watch is not None:
                    return await self._watched(delay, outcome, job.watch)
                await self._pause(delay)
                return outcome
            finally:
                self._holding -= 1

    def equip(self, pretrained: Mapping[str, Path]) -> None:
        """As `LocalExecutor.equip`: nothing is read here."""

    async def measure(self, job: Job, cell: Cell, limit: float) -> CellOutcome:
        """A cell, as it is written down. Raises `ExecutorError`."""
        self.started.append(f"{job.name} {cell.name}")
        delay, outcome = self._cell(job, cell)
        await self._pause(min(delay, limit))
        if delay > limit:
            failure = from_timeout(limit, stopped=True, traceback=(), folder=job.folder)
            return CellOutcome(limit, failure, cell=cell)
        return replace(outcome, seconds=outcome.seconds or delay)

    async def _held(self, work: Callable[[], Coroutine[Any, Any, None]], *, alone: bool = False) -> None:
        async with self._gate.hold(alone=alone):
            if self._closed.is_set():
                raise ExecutorError("the executor was closed")
            self._holding += 1
            self.most = max(self.most, self._holding)
            try:
                await work()
            finally:
                self._holding -= 1

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        """Nothing: there are no scorers here."""
        if self._closed.is_set():
            raise ExecutorError("the executor was closed")
        return ()

    async def close(self) -> None:
        """End what still waits; idempotent."""
        self._closed.set()

    async def _watched(self, delay: float, outcome: Outcome, watch: Watch) -> Outcome:
        seconds, ended = 0.0, False
        while not ended:
            await self._pause(min(self._watch_seconds, delay - seconds))
            seconds = min(seconds + self._watch_seconds, delay)
            ended = seconds == delay
            reason = watch(Progress(seconds, quiet=0.0 if ended else seconds, ended=ended))
            if reason is not None:
                return Outcome(seconds=seconds, failure=Failure(kind="hopeless", message=reason))
        return outcome

    async def _pause(self, delay: float) -> None:
        if delay <= 0:
            return
        try:
            await asyncio.wait_for(self._closed.wait(), timeout=delay)
        except TimeoutError:
            return
        raise ExecutorError("the executor was closed while the job ran")


class _CellWorker:
    """Measures what is written down; switches datasets at no cost."""

    def __init__(self, executor: ScriptedExecutor, job: Job) -> None:
        self.dataset = ""
        self.arm = ""
        self._executor, self._job = executor, job
        at_work = self._executor.at_work
        at_work[job.name] = at_work.get(job.name, 0) + 1
        self._executor.workers[job.name] = max(self._executor.workers.get(job.name, 0), at_work[job.name])

    async def measure(self, cell: Cell, limit: float, schedule: Schedule) -> Ran:
        self.dataset = cell.dataset
        folder = self._job.folder / CELLS / cell.name
        folder.mkdir(parents=True, exist_ok=True)
        return Ran(await self._executor.measure(self._job, cell, limit), folder)

    async def close(self) -> None:
        self._executor.at_work[self._job.name] -= 1


def _put_together(schedule: Schedule) -> Outcome:
    """What the cells of a job come to together; of those that were ready nothing is known."""
    measured = [
        schedule.outcomes[cell] for cell in schedule.job.cells if cell in schedule.outcomes and cell in schedule.folders
    ]
    return Outcome(
        seconds=schedule.spent,
        failure=schedule.failure(),
        cells=schedule.lines(),
        measurements=tuple(value for one in measured for value in one.measurements),
        said=tuple(value for one in measured for value in one.said),
        arrays={name: sha256 for one in measured for name, sha256 in one.arrays.items()},
        artifacts={name: sha256 for one in measured for name, sha256 in one.artifacts.items()},
        sealed={name: sha256 for one in measured for name, sha256 in one.sealed.items()},
    )


class ScriptedNvml:
    """An `Nvml` of any devices: `holds[uuid]` maps process ids to the bytes that they hold there."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = tuple(devices)
        self.holds: dict[str, dict[int, int]] = {device.uuid: {} for device in self._devices}

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def free(self, uuid: str) -> int:
        return self._device(uuid).memory - sum(self.holds[uuid].values())

    def processes(self, uuid: str) -> dict[int, int]:
        return dict(self.holds[self._device(uuid).uuid])

    def _device(self, uuid: str) -> Device:
        for device in self._devices:
            if device.uuid == uuid:
                return device
        raise GpuError(f"there is no GPU {uuid!r}")


def gpus(count: int, *, memory: int = 80 * 10**9) -> tuple[Device, ...]:
    """Some equal devices with numbered UUIDs. `memory` is in bytes, of one."""
    return tuple(
        Device(f"GPU-{n:08x}-0000-0000-0000-000000000000", "scripted", index=n, minor=n, memory=memory)
        for n in range(count)
    )
