"""Measure the cells of a job: which cell is next, how many workers there are, which cells are left out, and the stream
of results.

Pilots come first; they show how long cells of their arm and dataset take. After that, while time is ample, the cell
with the longest expected time comes first. When time is short, cells are taken in order of importance, up to the first
that does not fit into the job's remaining seconds, so an overrun costs the least important cells. A worker stays with
one dataset while it has waiting cells. Another worker is added if the waiting cells would occupy each busy worker
for longer than a kernel takes to start, so a small study stays in one kernel.

The time limit of a cell is reserved when it starts, so all cells together never exceed the compute time of the job, no
matter how many run in parallel. While nothing is known about a cell's duration, its limit is an equal share of the time
left: among the cells that run in parallel, and at least among the arms and datasets of unknown duration. A cell of
known duration may take more than 1.5 times that long only if it leaves the waiting cells their expected time. So code
that hangs does not use up the time of the others.

Cells go on while the consumer of the stream commits others. Only cells that read the artifacts of a cell, and a second
execution of it, wait until it is committed.

Source: Graham (1969), Bounds on multiprocessing timing anomalies: longest processing time first.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from labwright.record.python_syntax import collect_reads
from labwright.record.run_folder import ResultFolder
from labwright.record.schema.nodes import Cell, CellOutcomeLine, ErrorClass, ExecutionResult, Failure
from labwright.record.source_tree import ENTRY_FILE, select_visible_files
from labwright.sandbox.job import CellEnded, CellResult, CellStarted, CellTask, Event, Job, JobEnded, JobOutcome

KERNEL_START_SECONDS = 2.0
"""Approximate cost of starting another kernel, in seconds."""
TIME_LIMIT_FACTOR, MIN_TIME_LIMIT_SECONDS = 10.0, 60.0
"""Factor on its expected time that a cell may take, and the minimum in seconds."""
AMPLE_TIME_FACTOR = 1.5
"""Time is ample if at least this multiple of the expected time is left; where possible, a cell's limit is at least this
multiple.
"""
MAX_UNKNOWN_AT_ONCE = 2
"""Maximum number of cells of unknown duration that run in parallel, per arm and dataset with no known duration:
with more of them, each would get a smaller limit.
"""
MAX_KERNEL_DEATHS = 3
"""Maximum number of consecutive kernel deaths, each in the kernel's first cell; then no further kernel is started.
Retries do not count: such a cell kills kernels for a reason of its own.
"""
ALL_PILOTS_RAISED = "every pilot cell failed with an exception in the code"
"""Reason for leaving out the rest of a job whose code cannot work."""
MAX_SELF_REPORTED = 400
"""Maximum number of train and dev values in a record; the file has all of them."""
NON_CODE_FAILURES: tuple[ErrorClass, ...] = ("timeout", "memory", "died", "diverged", "budget")
"""Failures of a cell that do not count against the code of other cells."""

ArmDataset = tuple[str, str]
"""Arm and dataset."""


# --- workers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellOrder:
    """An order to run one cell. All fields are values, so it can travel to another machine; folders are only read."""

    cell: Cell
    task: CellTask
    limit: float
    """Wall clock seconds."""
    source: dict[str, str]
    """The files that the cell sees."""
    alone: bool = False
    """Whether the cell may use the whole machine."""
    read_cell: Cell | None = None
    """The cell whose artifacts it reads, if any, and the folder of that cell."""
    read_folder: Path | None = None
    checkpoints: Path | None = None
    """Folder of an earlier execution of the cell, with checkpoints."""


@dataclass(eq=False)
class RunningCell:
    """The connection between a worker and the schedule while a cell runs."""

    cell: Cell = field(default_factory=lambda: Cell(dataset="", arm=""))
    limit: float = 0.0
    """Seconds reserved for it."""
    began: float = 0.0
    show: Callable[[str], None] = lambda _: None
    """Shows output while the cell runs."""

    def mark_started(self) -> None:
        """Record that its code starts now, after its kernel has started."""
        self.began = time.monotonic()


class CellWorker(Protocol):
    """Runs cells one after the other."""

    dataset: str
    """Dataset that its kernel sees; empty if it sees none."""
    arm: str
    """Arm that its kernel serves; empty if it serves all arms."""

    async def run_cell(self, order: CellOrder, running: RunningCell) -> CellEnded:
        """Run a cell within its limit. Raises `ExecutorError`."""
        ...

    async def close(self) -> None:
        """Kill the code that is running, if any. Idempotent."""
        ...


SlotHolder = Callable[..., AbstractAsyncContextManager[None]]
"""Holds a slot or, with `alone=True`, all slots, while inside its context."""


@dataclass
class CellSchedule:
    """The waiting, running and finished cells of one job. `clock` returns seconds."""

    job: Job
    clock: Callable[[], float] = time.monotonic
    memory_gb: float = math.inf
    """Memory of one slot, in 10^9 bytes."""
    slots: int = 1
    """Maximum number of cells that run in parallel."""
    emit: Callable[[Event], None] = lambda _: None
    """Offers an event to the consumer."""
    running: dict[Cell, RunningCell] = field(default_factory=dict[Cell, RunningCell])
    results: dict[Cell, ExecutionResult] = field(default_factory=dict[Cell, ExecutionResult])
    """Result of the last execution of each finished cell, now or before."""
    folders: dict[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Folder of the last committed execution of each cell."""
    uncommitted: dict[Cell, bool] = field(default_factory=dict[Cell, bool])
    """Cells whose last execution the consumer has not committed yet, and whether each must run again."""
    executed: list[ExecutionResult] = field(default_factory=list[ExecutionResult])
    """All executions of this job."""
    left_out: dict[Cell, str] = field(default_factory=dict[Cell, str])
    _known_seconds: dict[ArmDataset, dict[Cell, float]] = field(default_factory=dict[ArmDataset, dict[Cell, float]])
    """Known durations in seconds: expected ones, and those of cells that were measured or reached their time limit."""
    _longest_known: dict[ArmDataset | None, float] = field(default_factory=dict[ArmDataset | None, float])
    """Computed from the known durations on demand; None: of all groups."""
    _retried: set[Cell] = field(default_factory=set[Cell])
    """Cells that are executed a second time: alone after reaching their memory limit, or in another kernel after their
    kernel died, since the cause may lie elsewhere."""
    _death_count: int = 0
    _stop_reason: str = ""
    """The reason why no further cells are started; empty while cells are started."""

    def __post_init__(self) -> None:
        self.cells = self.job.with_script_cell()
        # the entry may run the main program
        declared = (collect_reads(self.job.source.get(name, "")) for name in (self.job.entry, ENTRY_FILE))
        self.reads = next(filter(None, declared), dict[str, str]())
        """Arm -> arm whose artifacts its cells read."""
        for cell, task in self.cells.items():
            if task.known is not None:
                self.results[cell] = task.known
                if task.folder is not None:
                    self.folders[cell] = task.folder
            if task.expected_seconds is not None:
                self._known_seconds.setdefault(_get_group(cell), {})[cell] = task.expected_seconds
        waiting = [cell for cell in self.cells if cell not in self.results]
        self.waiting_alone = [cell for cell in waiting if self._exceeds_slot(cell)]
        """Cells that must run alone: those that need more memory than a slot has, and retries of those that reached
        their memory limit."""
        self.waiting = [cell for cell in waiting if cell not in self.waiting_alone]
        last = {_get_group(cell): cell for cell in self.cells if not cell.setting_of}
        failed = {cell for cell, one in self.results.items() if one.failure is not None}
        self._pilots = [
            cell
            for cell in last.values()
            if (cell in self.waiting or cell in failed) and _get_group(cell) not in self._known_seconds
        ]
        self._check_pilots()

    # --- choosing the next cell -------------------------------------------------------------------------------------

    def take_next(
        self, dataset: str = "", arm: str = "", *, apart: bool = False
    ) -> tuple[CellOrder, RunningCell] | None:
        """Return the next cell, or None if nothing can start now.

        Prefers cells of the kernel's dataset and arm (empty: any). With `apart`, chooses from the cells that run alone.
        """
        if not (cells := self._list_startable(apart=apart)):
            return None
        cell = min(cells, key=lambda one: (one.dataset != dataset, arm not in ("", one.arm)))
        limit = self._build_limit_function(alone=apart)(cell)
        (self.waiting_alone if apart else self.waiting).remove(cell)
        self.emit(CellStarted(cell))
        running = self.running[cell] = RunningCell(cell, limit, self.clock())
        job, task, other, source = self.job, self.cells[cell], self.find_source_cell(cell), self.job.source
        if not cell.is_script:
            arms = job.arms or tuple(one.arm for one in self.cells)
            source = select_visible_files(source, cell.arm, arms=arms, reads=self.reads)
        # recorded answers are replayed by occurrence of the question, so such code starts from scratch
        checkpoints = None if job.subjects else self.folders.get(cell, task.folder)
        read = None if other is None else self.folders[other]
        return CellOrder(cell, task, limit, source, apart or job.alone, other, read, checkpoints), running

    def _build_limit_function(self, *, alone: bool = False) -> Callable[[Cell], float]:
        """Return a function that gives a cell's time limit in seconds if it starts now; 0 if it must wait for running
        cells."""
        now = self.clock()
        taken = sum(max(now - one.began, one.limit) for one in self.running.values())
        room = self.job.timeout - self.spent_seconds - taken
        unknown = {_get_group(one) for one in (*self.waiting, *self.running) if not self._has_known_time(one)}
        most_at_once = 1 if alone else min(self.slots, len(self.waiting) + len(self.running))
        waiting = sum(map(self.expected_seconds, self.waiting))

        def limit(cell: Cell) -> float:
            known, expected = self._has_known_time(cell), self.expected_seconds(cell)
            at_once = most_at_once if known else min(most_at_once, MAX_UNKNOWN_AT_ONCE * len(unknown))
            parts = max(1, at_once, 0 if known else len(unknown)) - len(self.running)
            if parts < 1 or (self.running and room < expected):
                return 0.0
            most = math.inf
            if (hours := self.cells[cell].needs.hours) is not None:
                most = hours * 3600
            elif self.job.may_skip_cells and known:
                most = max(MIN_TIME_LIMIT_SECONDS, TIME_LIMIT_FACTOR * expected)
            free = room - (waiting - expected if self.job.may_skip_cells and known else 0.0)
            return max(0.0, min(room, most, max(free / parts, AMPLE_TIME_FACTOR * expected)))

        return limit

    def _has_known_time(self, cell: Cell) -> bool:
        return self.cells[cell].expected_seconds is not None or self.longest_known_seconds(_get_group(cell)) > 0

    def needs_more_workers(self, workers: int, start_seconds: float) -> bool:
        """Whether adding a worker to `workers` running or starting ones is worthwhile."""
        cells = self._list_startable()
        return bool(cells) and sum(map(self.expected_seconds, cells)) > start_seconds * workers

    def has_work(self, *, apart: bool) -> bool:
        """Whether there is work for a new worker; with `apart`, only cells that run alone count."""
        return bool(self._list_startable(apart=apart))

    def awaits_commit(self) -> bool:
        """Whether a commit may let a cell start: one that reads the committed cell, or its second execution."""
        waiting = (*self.waiting, *self.waiting_alone)
        return not self._stop_reason and any(
            again or any(self.find_source_cell(other) == cell for other in waiting)
            for cell, again in self.uncommitted.items()
        )

    @property
    def spent_seconds(self) -> float:
        """Compute seconds of all executions of this job."""
        return sum(one.seconds for one in self.executed)

    def compute_seconds_left(self) -> float:
        """Return the job's compute seconds that are not spent or taken by running cells."""
        left, now = self.job.timeout - self.spent_seconds, self.clock()
        for cell, one in self.running.items():
            known = self.longest_known_seconds(_get_group(cell)) > 0
            left -= max(now - one.began, self.expected_seconds(cell) if known else 0.0)
        return left

    def expected_seconds(self, cell: Cell) -> float:
        """Return a cell's expected seconds: from its own history, otherwise from its arm and dataset, otherwise the
        longest known.
        """
        if (expected := self.cells[cell].expected_seconds) is not None:
            return expected
        if known := self.longest_known_seconds(_get_group(cell)):
            return known
        if None not in self._longest_known:
            longest = (max(times.values()) for times in self._known_seconds.values())
            self._longest_known[None] = max(longest, default=0.0)
        began = min((one.began for one in self.running.values()), default=math.inf)
        return max(self._longest_known[None], self.clock() - began)

    def longest_known_seconds(self, group: ArmDataset) -> float:
        """Return the longest known duration in a group; pilots count only if no other cell is known; 0 if none is."""
        if group not in self._longest_known:
            times = self._known_seconds.get(group, {})
            others = (seconds for cell, seconds in times.items() if cell not in self._pilots)
            self._longest_known[group] = max(others, default=max(times.values(), default=0.0))
        return self._longest_known[group]

    def _list_startable(self, *, apart: bool = False) -> list[Cell]:
        """Return the cells that can start now, in order; with `apart`, those that run alone."""
        if self._stop_reason or (left := self.compute_seconds_left()) <= 0:
            return []
        waiting, limit = self.waiting_alone if apart else self.waiting, self._build_limit_function(alone=apart)
        runnable = [cell for cell in waiting if self._can_start(cell) and limit(cell) > 0]
        if apart:
            return runnable
        begins, first = set(runnable), set(self._pilots)
        pilots = [cell for cell in self._pilots if cell in begins]
        fitting = self._list_fitting(left)
        later = [] if self.job.may_skip_cells else self.waiting[len(fitting) :]
        if len(self._list_fitting(left / AMPLE_TIME_FACTOR)) == len(self.waiting):
            fitting.sort(key=self.expected_seconds, reverse=True)
        return pilots + [cell for cell in fitting + later if cell in begins and cell not in first]

    def _list_fitting(self, left: float) -> list[Cell]:
        """Return the cells that fit into the time left: in order of importance, up to the first that does not fit."""
        fitting: list[Cell] = []
        for cell in self.waiting:
            if (left := left - self.expected_seconds(cell)) < 0:
                break
            fitting.append(cell)
        return fitting

    def _can_start(self, cell: Cell) -> bool:
        return (other := self.find_source_cell(cell)) is None or (
            self.is_measured(other) and other in self.folders and other not in self.uncommitted
        )

    def is_measured(self, cell: Cell) -> bool:
        """Whether the last execution of a cell, now or before, did not fail."""
        return (result := self.results.get(cell)) is not None and result.failure is None

    def find_source_cell(self, cell: Cell) -> Cell | None:
        """Return the cell whose artifacts a cell reads: the same condition with the other arm, in any trial."""
        if (arm := self.reads.get(cell.arm)) is None:
            return None
        other = cell.model_copy(update={"arm": arm, "setting_of": "", "setting_trial": 0})
        return next((one for one in self.cells if (one.place_name, one.seed) == (other.place_name, other.seed)), other)

    # --- recording results --------------------------------------------------------------------------------------------

    def mark_ended(self, ran: CellEnded) -> None:
        """Record that an execution of a cell ended, and offer it to the consumer."""
        cell, failure, kind = ran.result.cell, ran.result.failure, ran.result.failure and ran.result.failure.kind
        del self.running[cell]
        self.executed.append(ran.result)
        self.results[cell], self.uncommitted[cell] = ran.result, self._must_run_again(ran)
        if kind in (None, "timeout"):
            self._known_seconds.setdefault(_get_group(cell), {})[cell] = ran.result.seconds
            self._longest_known.clear()
        if failure is not None and kind == "budget":
            self._stop_reason = failure.message
        elif kind == "hopeless":
            self._stop_reason = self._stop_reason or f"the job was stopped early because {cell} was hopeless"
        if not ran.kernel_died:
            self._death_count = 0
        elif ran.is_first_cell and kind == "died" and cell not in self._retried:
            self._death_count += 1
        if self._death_count == MAX_KERNEL_DEATHS:
            self._stop_reason = f"{MAX_KERNEL_DEATHS} kernels in a row died before finishing a cell"
        self._check_pilots()
        self.emit(ran)

    def mark_committed(self, ended: CellEnded) -> None:
        """Record that the consumer is done with the last execution of a cell."""
        cell = ended.result.cell
        self.results[cell], self.folders[cell] = ended.result, ended.folder
        if self.uncommitted.pop(cell):
            alone = ended.result.failure is not None and ended.result.failure.kind == "memory"
            self._retried.add(cell)
            (self.waiting_alone if alone else self.waiting).append(cell)

    def _must_run_again(self, ran: CellEnded) -> bool:
        """Whether a cell is executed a second time. A plain script is not: its caller decides with which limits."""
        cell, failure = ran.result.cell, ran.result.failure
        if failure is None or cell.is_script or cell in self._retried:
            return False
        if failure.kind == "memory":
            return not (self.job.alone or self._exceeds_slot(cell))
        return failure.kind == "died" and ran.kernel_died

    def _exceeds_slot(self, cell: Cell) -> bool:
        """Whether a cell needs more memory than a slot has."""
        return (self.cells[cell].needs.memory_gb or 0.0) > self.memory_gb

    def _check_pilots(self) -> None:
        tried = [one.failure if (one := self.results.get(pilot)) else None for pilot in self._pilots]
        raised = all(failure is not None and failure.kind not in NON_CODE_FAILURES for failure in tried)
        if tried and raised and not any(map(self.is_measured, self.results)):
            self._stop_reason = ALL_PILOTS_RAISED

    def finish(self) -> None:
        """Stop starting cells and record the reason for each waiting cell."""
        for cell in (*self.waiting, *self.waiting_alone):
            if cell in self.results:  # its retry cannot be run
                continue
            other, left = self.find_source_cell(cell), max(0.0, self.compute_seconds_left())
            if self._stop_reason or other is None or self.is_measured(other):
                why = f"about {self.expected_seconds(cell):.0f} s are expected, but {left:.0f} s of the job are left"
            else:
                why = f"it reads {other}, which was not measured"
            self.left_out[cell] = self._stop_reason or why
        self.waiting, self.waiting_alone = [], []

    def build_lines(self) -> tuple[CellOutcomeLine, ...]:
        """Return the outcome of each cell of the job, in order."""
        return tuple(map(self._build_line, self.cells))

    def _build_line(self, cell: Cell) -> CellOutcomeLine:
        ran, task = self.results.get(cell), self.cells[cell]
        if ran is None:
            why = self.left_out.get(cell, "it was not started")
            if self._death_count == MAX_KERNEL_DEATHS and why == self._stop_reason:
                return CellOutcomeLine(cell=cell, outcome="failed", why=f"died: {why}")
            return CellOutcomeLine(cell=cell, outcome="left out", why=why)
        if (failure := ran.failure) is None:
            seconds = ran.seconds if task.known is None or task.expected_seconds is None else task.expected_seconds
            return CellOutcomeLine(cell=cell, outcome="measured", seconds=seconds)
        diverged, why = failure.kind == "diverged", f"{failure.kind}: {failure.message}"
        return CellOutcomeLine(cell=cell, outcome="failed", seconds=ran.seconds, diverged=diverged, why=why)

    def find_failure(self) -> Failure | None:
        """Return the failure of the whole job; if the pilots stopped it, only their failures count, since other cells
        may not have started."""
        lines = [line.model_copy(update={"id": line.cell.name}) for line in self.build_lines()]
        counted = self._pilots if self._stop_reason == ALL_PILOTS_RAISED else self.results
        failures = {cell.name: one.failure for cell, one in self.results.items() if one.failure and cell in counted}
        return summarize_failures(lines, failures)

    def build_outcome(self) -> JobOutcome:
        """Return the outcome of the job, with the values of its measured cells in order. If a job has several trials of
        a condition, it has no values, because theirs have the same names."""
        if (ran := next((self.results.get(cell) for cell in self.cells if cell.is_script), None)) is not None:
            figures = ran.figures if isinstance(ran, CellResult) else ()
            return JobOutcome(**ran.copy_results(), figures=figures, folders=self._list_folders())
        several = len({cell.place_name for cell in self.cells}) < len(self.cells)
        measured = [] if several else [self.results[cell] for cell in self.cells if self.is_measured(cell)]
        ran = self.executed
        return JobOutcome(
            seconds=self.spent_seconds,
            failure=self.find_failure(),
            measurements=tuple(value for one in measured for value in one.measurements),
            self_reported=tuple(value for one in measured for value in one.self_reported)[-MAX_SELF_REPORTED:],
            arrays={name: sha256 for one in measured for name, sha256 in one.arrays.items()},
            sealed={name: sha256 for one in measured for name, sha256 in one.sealed.items() if name != "index.jsonl"},
            artifacts={name: sha256 for one in measured for name, sha256 in one.artifacts.items()},
            peak_host_bytes=max((one.peak_host_bytes or 0 for one in ran), default=0) or None,
            peak_gpu_bytes=max((one.peak_gpu_bytes or 0 for one in ran), default=0) or None,
            resumed=any(one.resumed for one in ran),
            asked=dict(sum((Counter(one.asked) for one in ran), start=Counter[str]())),
            cells=self.build_lines(),
            folders=self._list_folders(),
        )

    def _list_folders(self) -> dict[Cell, ResultFolder]:
        return {cell: ResultFolder(folder, self.results[cell]) for cell, folder in self.folders.items()}


def summarize_failures(
    lines: Sequence[CellOutcomeLine], failures: Mapping[str, Failure], *, replicate: bool = False
) -> Failure | None:
    """Return the overall failure, given the cells' outcomes and (by id) their failures.

    None if every arm was measured in some cell and no cell's code failed. For a replicate, the code worked with another
    seed, so an arm that diverged also counts as a result. Arms at the setting of another decide nothing: their failures
    do not count.
    """
    lines = [line for line in lines if not line.cell.setting_of]
    failed = [line for line in lines if line.outcome == "failed"]
    faults = [line for line in failed if line.id in failures and failures[line.id].kind not in NON_CODE_FAILURES]
    done = ("measured", "taken over")
    reached = {line.cell.arm for line in lines if line.outcome in done or (replicate and line.diverged)}
    missing = {line.cell.arm for line in lines} - reached
    if not faults and not missing:
        return None
    for line in faults or [line for line in failed if line.cell.arm in missing and line.id in failures]:
        failure = failures[line.id]
        message = f"{len(failed)} of {len(lines)} cells failed; the first, {line.cell}: {failure.message}"
        return failure.model_copy(update={"message": message})
    first = next(line for line in lines if line.cell.arm in missing)
    message = f"no cell of {', '.join(sorted(missing))} was measured: {first.why}"
    return Failure(kind="died" if first.outcome == "failed" else "timeout", message=message)


def _get_group(cell: Cell) -> ArmDataset:
    return cell.arm, cell.dataset


# --- the stream -------------------------------------------------------------------------------------------------------


@dataclass
class CellStream:
    """A `ResultStream`: the workers of one job, at most `slots`, and their events."""

    job: Job
    slots: int
    hold_slot: SlotHolder
    open_worker: Callable[[], CellWorker]
    memory_gb: float = math.inf
    """Memory of a slot: cells that need more run alone."""
    start_seconds: float = KERNEL_START_SECONDS
    """Cost of starting another worker."""
    give_way: Callable[[], bool] = lambda: False
    """Whether a worker should release its slot between two cells and queue for one again."""
    _active_workers: int = 0
    """Number of workers that have a slot."""
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._events = asyncio.Queue[Event | None]()
        self._committed, self._accepted = asyncio.Event(), asyncio.Event()
        self.schedule = CellSchedule(
            self.job,
            asyncio.get_running_loop().time,
            memory_gb=self.memory_gb,
            slots=1 if self.job.alone else self.slots,
            emit=self._events.put_nowait,
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name=f"cells of {self.job.name}")
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill all code of the job and forget what was not committed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def __aiter__(self) -> AsyncGenerator[Event]:
        while (event := await self._events.get()) is not None:
            yield event
            if isinstance(event, CellEnded):
                self.schedule.mark_committed(event)
                self._committed.set()
            elif isinstance(event, CellStarted):
                self._accepted.set()
        assert self._task is not None
        await self._task  # raises its error, if any

    async def run(self) -> None:
        """Measure all cells that can be measured. Raises `ExecutorError`."""
        schedule = self.schedule
        if schedule.waiting:
            await self._run_until_idle(apart=False)
        while schedule.has_work(apart=True):
            before = len(schedule.waiting_alone)
            await self._run_until_idle(apart=True)
            if len(schedule.waiting_alone) == before:
                break
            await self._run_until_idle(apart=False)
        while schedule.uncommitted:
            await self._wait_for_commit()
        schedule.finish()
        self._events.put_nowait(JobEnded(schedule.build_outcome()))

    async def _wait_for_commit(self) -> None:
        self._committed.clear()
        await self._committed.wait()

    async def _run_until_idle(self, *, apart: bool) -> None:
        """Run workers until none can start another cell; with `apart`, for the cells that run alone."""
        schedule, patience, cost = self.schedule, 0.0, self.start_seconds
        tasks = {self._start_worker(apart=apart)}
        try:
            while tasks:
                done, tasks = await asyncio.wait(tasks, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                patience = cost / 4
                for task in done:
                    task.result()
                if not self._active_workers and not schedule.has_work(apart=apart):
                    break  # workers that still wait for a slot would have no work
                may_add = bool(tasks) and not (apart or self.job.alone) and bool(schedule.running)
                while may_add and len(tasks) < self.slots and schedule.needs_more_workers(len(tasks), cost):
                    tasks.add(self._start_worker(apart=False))
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _start_worker(self, *, apart: bool) -> asyncio.Task[None]:
        async def work_in_slots() -> None:
            gave_way = True
            while gave_way:
                async with self.hold_slot(alone=apart or self.job.alone):
                    gave_way = await self._run_worker(apart=apart)

        return asyncio.create_task(work_in_slots(), name=f"worker of {self.job.name}")

    async def _run_worker(self, *, apart: bool) -> bool:
        """Measure cells until nothing can start (return False) or the slot is given up (return True)."""
        schedule, worker = self.schedule, self.open_worker()
        self._active_workers += 1
        try:
            while True:
                if (taken := schedule.take_next(worker.dataset, worker.arm, apart=apart)) is None:
                    if not schedule.awaits_commit():
                        return False
                    await self._wait_for_commit()
                    continue
                await self._accepted.wait()  # the consumer may find that it is too late for the first cell
                schedule.mark_ended(await worker.run_cell(*taken))
                if schedule.waiting and self.give_way():
                    return True
        finally:
            self._active_workers -= 1
            with suppress(asyncio.CancelledError):
                await worker.close()
