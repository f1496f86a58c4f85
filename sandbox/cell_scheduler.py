"""Which cell of a job is measured next, how many workers pay, and what is left out. Knows nothing of kernels.

Pilots come first; they tell how long the cells of their arm and dataset take. Then the longest expected comes first
while time is ample; where it is not, the most important, up to the first that does not fit into what is left of the
job's seconds: what takes longer than expected costs what matters least. A worker stays with one dataset while there is
anything of it. Another worker joins where what waits takes each of those at work longer than a kernel takes to start;
so a small study stays in one kernel.

The limit of a cell is set aside when it begins, so that all cells together compute no longer than the job may, however
many run at once. While nothing is known of a cell, its limit is an equal part of what is left.

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
"""What another kernel costs, about."""
TIME_LIMIT_FACTOR, MIN_TIME_LIMIT_SECONDS = 10.0, 60.0
"""A cell may take so many times what is expected of it, and so many seconds in any case."""
AMPLE_TIME_FACTOR = 1.5
"""Time is ample where so many times what is expected is left; a cell's limit is so much at least, if it can be."""
MAX_UNKNOWN_AT_ONCE = 2
"""Cells of unknown duration that run at once, at most, for each arm and dataset of which nothing is known: more of them
would leave each a smaller limit."""
MAX_KERNEL_DEATHS = 3
"""Kernels that die in a row, each in its first cell, after which no further one is started. Those of second tries
do not count: such a cell has its own way of ending a kernel."""
ALL_PILOTS_RAISED = "every pilot failed by an exception of the code"
"""Why nothing more of a job is begun whose code cannot work."""
NON_CODE_FAILURES: tuple[ErrorClass, ...] = ("timeout", "memory", "died", "diverged", "budget")
"""Failures of a cell that say nothing against the code of the others."""

ArmDataset = tuple[str, str]
"""Arm and dataset."""


@dataclass(frozen=True)
class CellResult:
    """What an execution of a cell came to, and how its kernel fared."""

    outcome: CellOutcome
    folder: Path
    kernel_died: bool = False
    is_first_cell: bool = False
    """Whether its kernel had ended no cell before."""


@dataclass
class CellSchedule:
    """The cells of one job: waiting, running and ended. `clock` is in seconds."""

    job: Job
    reads: Mapping[str, str]
    """Arm -> arm whose artifacts its cells read."""
    clock: Callable[[], float]
    waiting: list[Cell] = field(default_factory=list[Cell])
    waiting_alone: list[Cell] = field(default_factory=list[Cell])
    """To be measured alone: those that need more memory than a slot has, and those that met their limit of it, to be
    tried once more."""
    memory_gb: float = math.inf
    """Of a slot."""
    slots: int = 1
    """Cells that run at once, at most."""
    running: dict[Cell, float] = field(default_factory=dict[Cell, float])
    """When each of them began."""
    outcomes: dict[Cell, CellOutcome] = field(default_factory=dict[Cell, CellOutcome])
    """Of those that ended, the last execution."""
    measured_folders: dict[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Of those that were measured, or were ready."""
    result_folders: dict[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Of all that ended."""
    left_out: dict[Cell, str] = field(default_factory=dict[Cell, str])
    spent_seconds: float = 0.0
    _reserved_seconds: dict[Cell, float] = field(default_factory=dict[Cell, float])
    """Seconds that are set aside for those that run."""
    _known_seconds: dict[ArmDataset, dict[Cell, float]] = field(default_factory=dict[ArmDataset, dict[Cell, float]])
    """Seconds that cells are known to take: expected, or of those that were measured or met their time limit."""
    _longest_known: dict[ArmDataset, float] = field(default_factory=dict[ArmDataset, float])
    _retried: set[Cell] = field(default_factory=set[Cell])
    """Whose kernel died under them, which need not be their doing: they are measured once more, in another one."""
    _death_count: int = 0
    _stop_reason: str = ""
    """Why nothing more is begun."""

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
        last = {_get_group(cell): cell for cell in self.job.cells}
        self._pilots = [
            cell
            for cell in self.job.pilots or last.values()
            if (cell in self.waiting or cell in self.outcomes) and _get_group(cell) not in known
        ]
        self._check_pilots()

    # --- what is next -----------------------------------------------------------------------------------------------

    def take_next(self, dataset: str = "", arm: str = "", *, alone: bool = False) -> tuple[Cell, float] | None:
        """The next cell, for a kernel that sees this dataset and serves this arm (empty: any), and the seconds that it
        may take; None: nothing now. With `alone`, one of those that are measured so.
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
        """Tells for how many seconds a cell may run if it begins now; 0: what runs has to end first."""
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
        """Whether another worker pays, beside so many that work or are about to."""
        if self._stop_reason or (left := self.compute_seconds_left()) <= 0:
            return False
        cells = self._list_startable(left)
        return bool(cells) and sum(map(self.expected_seconds, cells)) > start_seconds * workers

    def has_work(self, *, alone: bool = False) -> bool:
        """Whether a worker that comes now would find something to do; `alone`: of what is measured so."""
        left = self.compute_seconds_left()
        return (
            left > 0
            and not self._stop_reason
            and bool(self._list_startable_alone() if alone else self._list_startable(left))
        )

    def get_needs(self, cell: Cell) -> ResourceNeeds:
        """What a cell needs of the machine."""
        return self.job.needs.get(cell.arm, ResourceNeeds())

    def _list_startable_alone(self) -> list[Cell]:
        limit = self._build_limit_function(alone=True)
        return [cell for cell in self.waiting_alone if self._can_start(cell) and limit(cell) > 0]

    def compute_seconds_left(self) -> float:
        """Seconds of computing that are neither spent nor taken up by what runs."""
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
        """Seconds that a cell will take, as far as can be told: by others of its arm and dataset, else the longest."""
        if (told := self.job.expected_seconds.get(cell)) is not None:
            return told
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
        """Seconds of the longest cell that is known of a group; of its pilot only while there is no other. 0: none."""
        if group not in self._longest_known:
            times = self._known_seconds.get(group, {})
            self._longest_known[group] = max(
                (seconds for cell, seconds in times.items() if cell not in self._pilots),
                default=max(times.values(), default=0.0),
            )
        return self._longest_known[group]

    def _list_startable(self, left: float) -> list[Cell]:
        """What can begin, in the order in which it should."""
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
        """What fits into the time left, in the order of importance up to the first that does not."""
        fitting: list[Cell] = []
        for cell in self.waiting:
            if (left := left - self.expected_seconds(cell)) < 0:
                break
            fitting.append(cell)
        return fitting

    def _can_start(self, cell: Cell) -> bool:
        return (other := self.find_source_cell(cell)) is None or other in self.measured_folders

    def find_source_cell(self, cell: Cell) -> Cell | None:
        """The cell whose artifacts a cell reads: of the same place but for the arm, whatever its trial."""
        if (arm := self.reads.get(cell.arm)) is None:
            return None
        other = cell.model_copy(update={"arm": arm})
        return next(
            (one for one in self.job.cells if (one.place_name, one.seed) == (other.place_name, other.seed)), other
        )

    # --- what became of it ------------------------------------------------------------------------------------------

    def mark_started(self, cell: Cell) -> None:
        """The code of a cell begins only now: its kernel had to start."""
        self.running[cell] = self.clock()

    def mark_dropped(self, cell: Cell) -> None:
        """A cell that was begun did not end: the executor failed, or the job was cancelled."""
        self.running.pop(cell, None)

    def mark_ended(self, cell: Cell, result: CellResult, folder: Path, *, alone: bool) -> None:
        """An execution of a cell ended; what it left lies in `folder` now."""
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
            self._stop_reason = f"the job was ended as hopeless with {cell}"
        elif failure.kind == "budget":
            self._stop_reason = failure.message
        died = (
            result.kernel_died and result.is_first_cell and not again and failure is not None and failure.kind == "died"
        )
        self._death_count = self._death_count + 1 if died else 0 if not result.kernel_died else self._death_count
        if self._death_count == MAX_KERNEL_DEATHS:
            self._stop_reason = f"{MAX_KERNEL_DEATHS} kernels in a row died before a cell of theirs had ended"
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
        """Nothing more is begun: say why of all that waits."""
        for cell in (*self.waiting, *self.waiting_alone):
            if cell in self.outcomes:  # of which a second try is not to be had
                continue
            other = self.find_source_cell(cell)
            self.left_out[cell] = self._stop_reason or (
                f"it reads {other}, which was not measured"
                if other is not None and other not in self.measured_folders
                else f"about {self.expected_seconds(cell):.0f} s are expected, and of the {self.job.timeout:g} "
                f"s of the job "
                f"{max(0.0, self.compute_seconds_left()):.0f} s are left"
                if self.compute_seconds_left() > 0
                else f"the {self.job.timeout:g} s of the job are spent"
            )
        self.waiting, self.waiting_alone = [], []

    def build_lines(self) -> tuple[CellOutcomeLine, ...]:
        """What became of each cell of the job, in its order."""
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
        why = self.left_out.get(cell, "it was not begun")
        if self._death_count == MAX_KERNEL_DEATHS and why == self._stop_reason:
            return CellOutcomeLine(cell=cell, outcome="failed", why=f"died: {why}")
        return CellOutcomeLine(cell=cell, outcome="left out", why=why)

    def find_failure(self) -> Failure | None:
        """The failure of the whole job: of its pilots where these ended it, as others then began or not by chance."""
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
    """The failure of a whole, by what became of its cells and (by id) their failures.

    None where every arm was measured somewhere and no code of a cell failed. Of a replicate, whose code worked with
    another seed, an arm that diverged is a result, too.
    """
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
