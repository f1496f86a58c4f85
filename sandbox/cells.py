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

from labwright.record.nouns.cells import Cell, CellLine
from labwright.record.nouns.data import Needs
from labwright.record.nouns.nodes import ErrorClass, Failure
from labwright.sandbox.job import CellOutcome, Job

START_SECONDS = 2.0
"""What another kernel costs, about."""
TIMES, AT_LEAST = 10.0, 60.0
"""A cell may take so many times what is expected of it, and so many seconds in any case."""
AMPLE = 1.5
"""Time is ample where so many times what is expected is left; a cell's limit is so much at least, if it can be."""
PARTS = 2
"""Cells of unknown duration that run at once, at most, for each arm and dataset of which nothing is known: more of them
would leave each a smaller limit."""
DEATHS = 3
"""Kernels that die in a row, each in its first cell, after which no further one is started. Those of second tries
do not count: such a cell has its own way of ending a kernel."""
RAISED = "every pilot failed by an exception of the code"
"""Why nothing more of a job is begun whose code cannot work."""
BAD_LUCK: tuple[ErrorClass, ...] = ("timeout", "memory", "died", "diverged", "budget")
"""Failures of a cell that say nothing against the code of the others."""

Group = tuple[str, str]
"""Arm and dataset."""


@dataclass(frozen=True)
class Ran:
    """What an execution of a cell came to, and how its kernel fared."""

    outcome: CellOutcome
    folder: Path
    kernel_died: bool = False
    first: bool = False
    """Whether its kernel had ended no cell before."""


@dataclass
class Schedule:
    """The cells of one job: waiting, running and ended. `clock` is in seconds."""

    job: Job
    reads: Mapping[str, str]
    """Arm -> arm whose artifacts its cells read."""
    clock: Callable[[], float]
    waiting: list[Cell] = field(default_factory=list[Cell])
    apart: list[Cell] = field(default_factory=list[Cell])
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
    folders: dict[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Of those that were measured, or were ready."""
    places: dict[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Of all that ended."""
    left_out: dict[Cell, str] = field(default_factory=dict[Cell, str])
    spent: float = 0.0
    _limits: dict[Cell, float] = field(default_factory=dict[Cell, float])
    """Seconds that are set aside for those that run."""
    _times: dict[Group, dict[Cell, float]] = field(default_factory=dict[Group, dict[Cell, float]])
    """Seconds that cells are known to take: expected, or of those that were measured or met their time limit."""
    _known: dict[Group, float] = field(default_factory=dict[Group, float])
    _again: set[Cell] = field(default_factory=set[Cell])
    """Whose kernel died under them, which need not be their doing: they are measured once more, in another one."""
    _deaths: int = 0
    _over: str = ""
    """Why nothing more is begun."""

    def __post_init__(self) -> None:
        self.folders |= {cell: self.job.ready[cell] for cell in self.job.cells if cell in self.job.ready}
        self.places |= self.folders
        self.outcomes |= {cell: self.job.failed[cell] for cell in self.job.cells if cell in self.job.failed}
        waiting = [cell for cell in self.job.cells if cell not in self.folders and cell not in self.outcomes]
        self.apart = [cell for cell in waiting if (self.needs(cell).memory_gb or 0.0) > self.memory_gb]
        self.waiting = [cell for cell in waiting if cell not in self.apart]
        for cell, seconds in self.job.expected.items():
            self._times.setdefault(_group(cell), {})[cell] = seconds
        known = {*self._times}
        last = {_group(cell): cell for cell in self.job.cells}
        self._pilots = [
            cell
            for cell in self.job.pilots or last.values()
            if (cell in self.waiting or cell in self.outcomes) and _group(cell) not in known
        ]
        self._look_at_pilots()

    # --- what is next -----------------------------------------------------------------------------------------------

    def take(self, dataset: str = "", arm: str = "", *, alone: bool = False) -> tuple[Cell, float] | None:
        """The next cell, for a kernel that sees this dataset and serves this arm (empty: any), and the seconds that it
        may take; None: nothing now. With `alone`, one of those that are measured so.
        """
        left = self.left()
        if left <= 0 or self._over:
            return None
        cells = self._apart() if alone else self._available(left)
        if not cells:
            return None
        cell = min(cells, key=lambda one: (one.dataset != dataset, arm not in ("", one.arm)))
        limit = self._limits_now(alone=alone)(cell)
        (self.apart if alone else self.waiting).remove(cell)
        self._limits[cell] = limit
        self.begun(cell)
        return cell, limit

    def _limits_now(self, *, alone: bool = False) -> Callable[[Cell], float]:
        """Tells for how many seconds a cell may run if it begins now; 0: what runs has to end first."""
        now = self.clock()
        room = (
            self.job.timeout
            - self.spent
            - sum(max(now - began, self._limits[one]) for one, began in self.running.items())
        )
        unknown = {_group(one) for one in (*self.waiting, *self.running) if not self._is_known(one)}
        most_at_once = 1 if alone else min(self.slots, len(self.waiting) + len(self.running))

        def limit(cell: Cell) -> float:
            known, expected = self._is_known(cell), self.expected(cell)
            at_once = most_at_once if known else min(most_at_once, PARTS * len(unknown))
            parts = max(1, at_once) - len(self.running)
            if parts < 1 or (self.running and room < expected):
                return 0.0
            most = math.inf
            if (hours := self.needs(cell).hours) is not None:
                most = hours * 3600
            elif self.job.leave_out and known:
                most = max(AT_LEAST, TIMES * expected)
            return max(0.0, min(room, most, max(room / parts, AMPLE * expected)))

        return limit

    def _is_known(self, cell: Cell) -> bool:
        return cell in self.job.expected or self.known(_group(cell)) > 0

    def more(self, workers: int, start_seconds: float) -> bool:
        """Whether another worker pays, beside so many that work or are about to."""
        if self._over or (left := self.left()) <= 0:
            return False
        cells = self._available(left)
        return bool(cells) and sum(map(self.expected, cells)) > start_seconds * workers

    def anything(self, *, alone: bool = False) -> bool:
        """Whether a worker that comes now would find something to do; `alone`: of what is measured so."""
        left = self.left()
        return left > 0 and not self._over and bool(self._apart() if alone else self._available(left))

    def needs(self, cell: Cell) -> Needs:
        """What a cell needs of the machine."""
        return self.job.needs.get(cell.arm, Needs())

    def _apart(self) -> list[Cell]:
        limit = self._limits_now(alone=True)
        return [cell for cell in self.apart if self._may_begin(cell) and limit(cell) > 0]

    def left(self) -> float:
        """Seconds of computing that are neither spent nor taken up by what runs."""
        now = self.clock()
        return (
            self.job.timeout
            - self.spent
            - sum(
                max(now - began, self.expected(cell) if self.known(_group(cell)) else 0.0)
                for cell, began in self.running.items()
            )
        )

    def expected(self, cell: Cell) -> float:
        """Seconds that a cell will take, as far as can be told: by others of its arm and dataset, else the longest."""
        if (told := self.job.expected.get(cell)) is not None:
            return told
        if known := self.known(_group(cell)):
            return known
        now = self.clock()
        return max(
            (
                *(max(times.values()) for times in self._times.values()),
                *(now - began for began in self.running.values()),
            ),
            default=0.0,
        )

    def known(self, group: Group) -> float:
        """Seconds of the longest cell that is known of a group; of its pilot only while there is no other. 0: none."""
        if group not in self._known:
            times = self._times.get(group, {})
            self._known[group] = max(
                (seconds for cell, seconds in times.items() if cell not in self._pilots),
                default=max(times.values(), default=0.0),
            )
        return self._known[group]

    def _available(self, left: float) -> list[Cell]:
        """What can begin, in the order in which it should."""
        limit = self._limits_now()
        runnable = [cell for cell in self.waiting if self._may_begin(cell) and limit(cell) > 0]
        begins, first = set(runnable), set(self._pilots)
        pilots = [cell for cell in self._pilots if cell in begins]
        fitting = self._fitting(left)
        later = [] if self.job.leave_out else self.waiting[len(fitting) :]
        if len(self._fitting(left / AMPLE)) == len(self.waiting):
            fitting.sort(key=self.expected, reverse=True)
        return pilots + [cell for cell in fitting + later if cell in begins and cell not in first]

    def _fitting(self, left: float) -> list[Cell]:
        """What fits into the time left, in the order of importance up to the first that does not."""
        fitting: list[Cell] = []
        for cell in self.waiting:
            if (left := left - self.expected(cell)) < 0:
                break
            fitting.append(cell)
        return fitting

    def _may_begin(self, cell: Cell) -> bool:
        return (other := self.read_by(cell)) is None or other in self.folders

    def read_by(self, cell: Cell) -> Cell | None:
        """The cell whose artifacts a cell reads: of the same place but for the arm, whatever its trial."""
        if (arm := self.reads.get(cell.arm)) is None:
            return None
        other = cell.model_copy(update={"arm": arm})
        return next((one for one in self.job.cells if (one.place, one.seed) == (other.place, other.seed)), other)

    # --- what became of it ------------------------------------------------------------------------------------------

    def begun(self, cell: Cell) -> None:
        """The code of a cell begins only now: its kernel had to start."""
        self.running[cell] = self.clock()

    def dropped(self, cell: Cell) -> None:
        """A cell that was begun did not end: the executor failed, or the job was cancelled."""
        self.running.pop(cell, None)

    def ended(self, cell: Cell, ran: Ran, folder: Path, *, alone: bool) -> None:
        """An execution of a cell ended; what it left lies in `folder` now."""
        self.running.pop(cell, None)
        failure, again = ran.outcome.failure, cell in self._again
        self.spent += ran.outcome.seconds
        self.outcomes[cell], self.places[cell] = ran.outcome, folder
        if failure is None or failure.kind == "timeout":
            self._times.setdefault(_group(cell), {})[cell] = ran.outcome.seconds
            self._known.pop(_group(cell), None)
        if failure is None:
            self.folders[cell] = folder
        elif failure.kind == "memory" and not alone:
            self.apart.append(cell)
        elif failure.kind == "died" and ran.kernel_died and not again:
            self._again.add(cell)
            self.waiting.append(cell)
        elif failure.kind == "hopeless":
            self._over = f"the job was ended as hopeless with {cell}"
        elif failure.kind == "budget":
            self._over = failure.message
        died = ran.kernel_died and ran.first and not again and failure is not None and failure.kind == "died"
        self._deaths = self._deaths + 1 if died else 0 if not ran.kernel_died else self._deaths
        if self._deaths == DEATHS:
            self._over = f"{DEATHS} kernels in a row died before a cell of theirs had ended"
        self._look_at_pilots()

    def _look_at_pilots(self) -> None:
        tried = [self.outcomes.get(pilot) for pilot in self._pilots]
        if (
            tried
            and all(one is not None and one.failure is not None and one.failure.kind not in BAD_LUCK for one in tried)
            and not self.folders
        ):
            self._over = RAISED

    def finish(self) -> None:
        """Nothing more is begun: say why of all that waits."""
        for cell in (*self.waiting, *self.apart):
            if cell in self.outcomes:  # of which a second try is not to be had
                continue
            other = self.read_by(cell)
            self.left_out[cell] = self._over or (
                f"it reads {other}, which was not measured"
                if other is not None and other not in self.folders
                else f"about {self.expected(cell):.0f} s are expected, and of the {self.job.timeout:g} s of the job "
                f"{max(0.0, self.left()):.0f} s are left"
                if self.left() > 0
                else f"the {self.job.timeout:g} s of the job are spent"
            )
        self.waiting, self.apart = [], []

    def lines(self) -> tuple[CellLine, ...]:
        """What became of each cell of the job, in its order."""
        return tuple(map(self._line, self.job.cells))

    def _line(self, cell: Cell) -> CellLine:
        ran = self.outcomes.get(cell)
        if cell in self.folders:
            seconds = ran.seconds if ran is not None else self.job.expected.get(cell, 0.0)
            return CellLine(cell=cell, outcome="measured", seconds=seconds)
        if ran is not None and ran.failure is not None:
            return CellLine(
                cell=cell,
                outcome="failed",
                seconds=ran.seconds,
                diverged=ran.failure.kind == "diverged",
                why=f"{ran.failure.kind}: {ran.failure.message}",
            )
        why = self.left_out.get(cell, "it was not begun")
        if self._deaths == DEATHS and why == self._over:
            return CellLine(cell=cell, outcome="failed", why=f"died: {why}")
        return CellLine(cell=cell, outcome="left out", why=why)

    def failure(self) -> Failure | None:
        """The failure of the whole job: of its pilots where these ended it, as others then began or not by chance."""
        lines = [line.model_copy(update={"id": line.cell.name}) for line in self.lines()]
        return failure_of_cells(
            lines,
            {
                cell.name: one.failure
                for cell, one in self.outcomes.items()
                if one.failure is not None and (self._over != RAISED or cell in self._pilots)
            },
        )


def failure_of_cells(
    lines: Sequence[CellLine], failures: Mapping[str, Failure], *, replicate: bool = False
) -> Failure | None:
    """The failure of a whole, by what became of its cells and (by id) their failures.

    None where every arm was measured somewhere and no code of a cell failed. Of a replicate, whose code worked with
    another seed, an arm that diverged is a result, too.
    """
    failed = [line for line in lines if line.outcome == "failed"]
    faults = [line for line in failed if line.id in failures and failures[line.id].kind not in BAD_LUCK]
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


def _group(cell: Cell) -> Group:
    return cell.arm, cell.dataset
