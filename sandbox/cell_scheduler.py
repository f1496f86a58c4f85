"""Decide which cell of a job is measured next, how many workers to use, and which cells are left out.

Pilots come first; they show how long cells of their arm and dataset take. After that, while time is ample, the cell
with the longest expected time comes first. When time is short, cells are taken in order of importance, up to the first
that does not fit into the job's remaining seconds, so an overrun costs the least important cells. A worker stays with
one dataset while it has waiting cells. Another worker is added if the waiting cells would occupy each busy worker
for longer than a kernel takes to start, so a small study stays in one kernel.

The time limit of a cell is reserved when it starts, so all cells together never exceed the compute time of the job, no
matter how many run in parallel. While nothing is known about a cell's duration, its limit is an equal share of the time
left.

Source: Graham (1969), Bounds on multiprocessing timing anomalies: longest processing time first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labwright.record.schema.cell import Cell, CellOutcomeLine
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import ErrorClass, Failure
from labwright.sandbox.job import CellOutcome, Job

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
NON_CODE_FAILURES: tuple[ErrorClass, ...] = ("timeout", "memory", "died", "diverged", "budget")
"""Failures of a cell that do not count against the code of other cells."""

ArmDataset = tuple[str, str]
"""Arm and dataset."""


@dataclass(frozen=True)
class CellResult:
    """Result of one execution of a cell, and what happened to its kernel."""

    outcome: CellOutcome
    folder: Path
    kernel_died: bool = False
    is_first_cell: bool = False
    """Whether no other cell had finished in this kernel before."""


@dataclass
class CellSchedule:
    """The waiting, running and finished cells of one job. `clock` returns seconds."""

    job: Job
    reads: Mapping[str, str]
    """Arm -> arm whose artifacts its cells read."""
    clock: Callable[[], float]
    waiting: list[Cell] = field(default_factory=list[Cell])
    waiting_alone: list[Cell] = field(default_factory=list[Cell])
    """Cells that must run alone: those that need more memory than a slot has, and retries of those that reached
    their memory limit.
    """
    memory_gb: float = math.inf
    """Memory of one slot, in 10^9 bytes."""
    slots: int = 1
    """Maximum number of cells that run in parallel."""
    running: dict[Cell, float] = field(default_factory=dict[Cell, float])
    """Start time of each running cell."""
    outcomes: dict[Cell, CellOutcome] = field(default_factory=dict[Cell, CellOutcome])
    """Outcome of the last execution of each finished cell."""
    measured_folders: dict[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Folders of cells that were measured, now or before."""
    result_folders: dict[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Folders of all finished cells."""
    left_out: dict[Cell, str] = field(default_factory=dict[Cell, str])
    spent_seconds: float = 0.0
    _reserved_seconds: dict[Cell, float] = field(default_factory=dict[Cell, float])
    """Seconds reserved for running cells."""
    _known_seconds: dict[ArmDataset, dict[Cell, float]] = field(default_factory=dict[ArmDataset, dict[Cell, float]])
    """Known durations in seconds: expected ones, and those of cells that were measured or reached their time limit."""
    _longest_known: dict[ArmDataset, float] = field(default_factory=dict[ArmDataset, float])
    _retried: set[Cell] = field(default_factory=set[Cell])
    """Cells whose kernel died while running them; since the cause may lie elsewhere, they are run once more in another
    kernel.
    """
    _death_count: int = 0
    _stop_reason: str = ""
    """The reason why no further cells are started; empty while cells are started."""

    def __post_init__(self) -> None:
        self.measured_folders |= {
            cell: self.job.measured_folders[cell] for cell in self.job.cells if cell in self.job.measured_folders
        }
        self.result_folders |= self.measured_folders
        self.outcomes |= {
            cell: self.job.failed_outcomes[cell] for cell in self.job.cells if cell in self.job.failed_outcomes
        }
        waiting = [cell for cell in self.job.cells if cell not in self.measured_folders and cell not in self.outcomes]
        self.waiting_alone = [cell for cell in waiting if (self.get_needs(cell).memory_gb or 0.0) > self.memory_gb]
        self.waiting = [cell for cell in waiting if cell not in self.waiting_alone]
        for cell, seconds in self.job.expected_seconds.items():
            self._known_seconds.setdefault(_get_group(cell), {})[cell] = seconds
        known = {*self._known_seconds}
        last = {_get_group(cell): cell for cell in self.job.cells if not cell.setting_of}
        self._pilots = [
            cell
            for cell in self.job.pilots or last.values()
            if (cell in self.waiting or cell in self.outcomes) and _get_group(cell) not in known
        ]
        self._check_pilots()

    # --- choosing the next cell -------------------------------------------------------------------------------------

    def take_next(self, dataset: str = "", arm: str = "", *, alone: bool = False) -> tuple[Cell, float] | None:
        """Return the next cell and its time limit in seconds, or None if nothing can start now.

        Prefers cells of the kernel's dataset and arm (empty: any). With `alone`, chooses from the cells that run alone.
        """
        left = self.compute_seconds_left()
        if left <= 0 or self._stop_reason:
            return None
        cells = self._list_startable_alone() if alone else self._list_startable(left)
        if not cells:
            return None
        cell = min(cells, key=lambda one: (one.dataset != dataset, arm not in ("", one.arm)))
        limit = self._build_limit_function(alone=alone)(cell)
        (self.waiting_alone if alone else self.waiting).remove(cell)
        self._reserved_seconds[cell] = limit
        self.mark_started(cell)
        return cell, limit

    def _build_limit_function(self, *, alone: bool = False) -> Callable[[Cell], float]:
        """Return a function that gives a cell's time limit in seconds if it starts now; 0 if it must wait for running
        cells."""
        now = self.clock()
        room = (
            self.job.timeout
            - self.spent_seconds
            - sum(max(now - began, self._reserved_seconds[one]) for one, began in self.running.items())
        )
        unknown = {_get_group(one) for one in (*self.waiting, *self.running) if not self._has_known_time(one)}
        most_at_once = 1 if alone else min(self.slots, len(self.waiting) + len(self.running))

        def limit(cell: Cell) -> float:
            known, expected = self._has_known_time(cell), self.expected_seconds(cell)
            at_once = most_at_once if known else min(most_at_once, MAX_UNKNOWN_AT_ONCE * len(unknown))
            parts = max(1, at_once) - len(self.running)
            if parts < 1 or (self.running and room < expected):
                return 0.0
            most = math.inf
            if (hours := self.get_needs(cell).hours) is not None:
                most = hours * 3600
            elif self.job.may_skip_cells and known:
                most = max(MIN_TIME_LIMIT_SECONDS, TIME_LIMIT_FACTOR * expected)
            return max(0.0, min(room, most, max(room / parts, AMPLE_TIME_FACTOR * expected)))

        return limit

    def _has_known_time(self, cell: Cell) -> bool:
        return cell in self.job.expected_seconds or self.longest_known_seconds(_get_group(cell)) > 0

    def needs_more_workers(self, workers: int, start_seconds: float) -> bool:
        """Whether adding a worker to `workers` running or starting ones is worthwhile."""
        if self._stop_reason or (left := self.compute_seconds_left()) <= 0:
            return False
        cells = self._list_startable(left)
        return bool(cells) and sum(map(self.expected_seconds, cells)) > start_seconds * workers

    def has_work(self, *, alone: bool = False) -> bool:
        """Whether there is work for a new worker; with `alone`, only cells that run alone count."""
        left = self.compute_seconds_left()
        return (
            left > 0
            and not self._stop_reason
            and bool(self._list_startable_alone() if alone else self._list_startable(left))
        )

    def get_needs(self, cell: Cell) -> ResourceNeeds:
        """Return the resources that a cell needs."""
        return self.job.needs.get(cell.arm, ResourceNeeds())

    def _list_startable_alone(self) -> list[Cell]:
        limit = self._build_limit_function(alone=True)
        return [cell for cell in self.waiting_alone if self._can_start(cell) and limit(cell) > 0]

    def compute_seconds_left(self) -> float:
        """Return the job's compute seconds that are not spent or taken by running cells."""
        now = self.clock()
        return (
            self.job.timeout
            - self.spent_seconds
            - sum(
                max(now - began, self.expected_seconds(cell) if self.longest_known_seconds(_get_group(cell)) else 0.0)
                for cell, began in self.running.items()
            )
        )

    def expected_seconds(self, cell: Cell) -> float:
        """Return a cell's expected seconds: from its own history, otherwise from its arm and dataset, otherwise the
        longest known.
        """
        if (expected := self.job.expected_seconds.get(cell)) is not None:
            return expected
        if known := self.longest_known_seconds(_get_group(cell)):
            return known
        now = self.clock()
        return max(
            (
                *(max(times.values()) for times in self._known_seconds.values()),
                *(now - began for began in self.running.values()),
            ),
            default=0.0,
        )

    def longest_known_seconds(self, group: ArmDataset) -> float:
        """Return the longest known duration in a group; pilots count only if no other cell is known; 0 if none is."""
        if group not in self._longest_known:
            times = self._known_seconds.get(group, {})
            self._longest_known[group] = max(
                (seconds for cell, seconds in times.items() if cell not in self._pilots),
                default=max(times.values(), default=0.0),
            )
        return self._longest_known[group]

    def _list_startable(self, left: float) -> list[Cell]:
        """Return the cells that can start now, in order."""
        limit = self._build_limit_function()
        runnable = [cell for cell in self.waiting if self._can_start(cell) and limit(cell) > 0]
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
        return (other := self.find_source_cell(cell)) is None or other in self.measured_folders

    def find_source_cell(self, cell: Cell) -> Cell | None:
        """Return the cell whose artifacts a cell reads: the same condition with the other arm, in any trial."""
        if (arm := self.reads.get(cell.arm)) is None:
            return None
        other = cell.model_copy(update={"arm": arm, "setting_of": "", "setting_trial": 0})
        return next(
            (one for one in self.job.cells if (one.place_name, one.seed) == (other.place_name, other.seed)), other
        )

    # --- recording results --------------------------------------------------------------------------------------------

    def mark_started(self, cell: Cell) -> None:
        """Record that the code of a cell starts now, after its kernel has started."""
        self.running[cell] = self.clock()

    def mark_dropped(self, cell: Cell) -> None:
        """Record that a started cell did not finish because the executor failed or the job was cancelled."""
        self.running.pop(cell, None)

    def mark_ended(self, cell: Cell, result: CellResult, folder: Path, *, alone: bool) -> None:
        """Record that an execution of a cell ended; its files are now in `folder`."""
        self.running.pop(cell, None)
        failure, again = result.outcome.failure, cell in self._retried
        self.spent_seconds += result.outcome.seconds
        self.outcomes[cell], self.result_folders[cell] = result.outcome, folder
        if failure is None or failure.kind == "timeout":
            self._known_seconds.setdefault(_get_group(cell), {})[cell] = result.outcome.seconds
            self._longest_known.pop(_get_group(cell), None)
        if failure is None:
            self.measured_folders[cell] = folder
        elif failure.kind == "memory" and not alone:
            self.waiting_alone.append(cell)
        elif failure.kind == "died" and result.kernel_died and not again:
            self._retried.add(cell)
            self.waiting.append(cell)
        elif failure.kind == "hopeless":
            self._stop_reason = f"the job was stopped early because {cell} was hopeless"
        elif failure.kind == "budget":
            self._stop_reason = failure.message
        died = (
            result.kernel_died and result.is_first_cell and not again and failure is not None and failure.kind == "died"
        )
        self._death_count = self._death_count + 1 if died else 0 if not result.kernel_died else self._death_count
        if self._death_count == MAX_KERNEL_DEATHS:
            self._stop_reason = f"{MAX_KERNEL_DEATHS} kernels in a row died before finishing a cell"
        self._check_pilots()

    def _check_pilots(self) -> None:
        tried = [self.outcomes.get(pilot) for pilot in self._pilots]
        if (
            tried
            and all(
                one is not None and one.failure is not None and one.failure.kind not in NON_CODE_FAILURES
                for one in tried
            )
            and not self.measured_folders
        ):
            self._stop_reason = ALL_PILOTS_RAISED

    def finish(self) -> None:
        """Stop starting cells and record the reason for each waiting cell."""
        for cell in (*self.waiting, *self.waiting_alone):
            if cell in self.outcomes:  # its retry cannot be run
                continue
            other = self.find_source_cell(cell)
            self.left_out[cell] = self._stop_reason or (
                f"it reads {other}, which was not measured"
                if other is not None and other not in self.measured_folders
                else f"about {self.expected_seconds(cell):.0f} s are expected, but of the job's {self.job.timeout:g} s "
                f"only {max(0.0, self.compute_seconds_left()):.0f} s are left"
                if self.compute_seconds_left() > 0
                else f"the job's {self.job.timeout:g} s are used up"
            )
        self.waiting, self.waiting_alone = [], []

    def build_lines(self) -> tuple[CellOutcomeLine, ...]:
        """Return the outcome of each cell of the job, in order."""
        return tuple(map(self._build_line, self.job.cells))

    def _build_line(self, cell: Cell) -> CellOutcomeLine:
        ran = self.outcomes.get(cell)
        if cell in self.measured_folders:
            seconds = ran.seconds if ran is not None else self.job.expected_seconds.get(cell, 0.0)
            return CellOutcomeLine(cell=cell, outcome="measured", seconds=seconds)
        if ran is not None and ran.failure is not None:
            return CellOutcomeLine(
                cell=cell,
                outcome="failed",
                seconds=ran.seconds,
                diverged=ran.failure.kind == "diverged",
                why=f"{ran.failure.kind}: {ran.failure.message}",
            )
        why = self.left_out.get(cell, "it was not started")
        if self._death_count == MAX_KERNEL_DEATHS and why == self._stop_reason:
            return CellOutcomeLine(cell=cell, outcome="failed", why=f"died: {why}")
        return CellOutcomeLine(cell=cell, outcome="left out", why=why)

    def find_failure(self) -> Failure | None:
        """Return the failure of the whole job; if the pilots stopped it, only their failures count, since other cells
        may not have started."""
        lines = [line.model_copy(update={"id": line.cell.name}) for line in self.build_lines()]
        return summarize_failures(
            lines,
            {
                cell.name: one.failure
                for cell, one in self.outcomes.items()
                if one.failure is not None and (self._stop_reason != ALL_PILOTS_RAISED or cell in self._pilots)
            },
        )


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
    missing = {line.cell.arm for line in lines} - {
        line.cell.arm for line in lines if line.outcome in ("measured", "taken over") or (replicate and line.diverged)
    }
    if not faults and not missing:
        return None
    for line in faults or [line for line in failed if line.cell.arm in missing and line.id in failures]:
        failure = failures[line.id]
        return failure.model_copy(
            update={
                "message": (f"{len(failed)} of {len(lines)} cells failed; the first, {line.cell}: {failure.message}")
            }
        )
    first = next(line for line in lines if line.cell.arm in missing)
    return Failure(
        kind="died" if first.outcome == "failed" else "timeout",
        message=f"no cell of {', '.join(sorted(missing))} was measured: {first.why}",
    )


def _get_group(cell: Cell) -> ArmDataset:
    return cell.arm, cell.dataset
