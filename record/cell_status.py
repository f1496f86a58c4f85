"""Status of each cell that nodes must run, and the cells' compute time, derived from the log for display.

A program that runs all conditions at once has no cells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from labwright.record.events.search_events import CellsRequired
from labwright.record.internal_errors import Memo
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import Cell, CellRun, Node

CellStatusKind = Literal["waiting", "measured", "taken over", "failed", "left out"]


class CellStatus(NamedTuple):
    """A cell that a node must run, and its status so far."""

    cell: Cell
    key: str
    outcome: CellStatusKind
    run: CellRun | None = None
    """The execution that measured it or failed; None if there is none."""
    node: str = ""
    """The node that measured it, if the result was reused."""
    why: str = ""
    """Reason why it failed or was left out."""

    @property
    def seconds(self) -> float:
        """Compute time of its execution, even if another node ran it."""
        return self.run.seconds if self.run is not None else 0.0

    def find_value(self, metric: str) -> float | None:
        """Return its value of a metric on validation data; None if it was not measured."""
        values = self.run.measurements if self.run is not None and self.run.failure is None else ()
        return next((one.value for one in values if (one.name, one.split) == (metric, "validation")), None)

    @property
    def has_diverged(self) -> bool:
        return self.run is not None and self.run.failure is not None and self.run.failure.kind == "diverged"


class CellCounts(FrozenModel):
    """Cell counts of a node. `failed` includes diverged cells; `waiting` counts cells that have not run yet."""

    owed: int
    measured: int
    taken_over: int
    failed: int
    left_out: int
    waiting: int
    seconds_left: float | None = None
    """Estimated compute time of the waiting cells; None: no cell is waiting, or no cell was measured."""

    @property
    def done_count(self) -> int:
        return self.measured + self.taken_over

    def __str__(self) -> str:
        rest = ((self.failed, "failed"), (self.left_out, "left out"))
        return f"cells {self.done_count} of {self.owed}" + "".join(f", {n} {word}" for n, word in rest if n)


class CellTotals(CellCounts):
    """Cell counts of all nodes of a run, including cells reused from the run from which it branched."""

    diverged: int
    executions: int = Field(description="executions of cells, including failed and repeated ones")
    seconds: float = Field(description="compute time of all executions")
    seconds_saved: float = Field(description="compute time saved by reusing results")
    repeated: int = Field(description="executions of a cell that repeat an earlier measurement under the same key")
    differing: tuple[tuple[str, str], ...] = ()
    """Executions with one key that measured different values."""


def compute_node_cells(state: RunState, node: str) -> tuple[CellStatus, ...]:
    """Return the status of each cell that a node must run, in order; empty for a program without cells."""
    if node not in state.required_cells:
        return ()
    owed, known = state.required_cells[node], state.nodes[node]
    taken = (state.cells.get(name) for name in owed.taken.values())
    return _STATUS_MEMO.get_or_compute(
        node, (known, owed, state.cells.list_node_runs(node), *taken), lambda: _compute_statuses(state, known, owed)
    )


_STATUS_MEMO = Memo[tuple[CellStatus, ...]]()


def compute_all_cells(state: RunState) -> dict[str, tuple[CellStatus, ...]]:
    """Return this for every node with cells, in the order in which their cells were recorded."""
    return {name: compute_node_cells(state, name) for name in state.required_cells}


def _compute_statuses(state: RunState, node: Node, owed: CellsRequired) -> tuple[CellStatus, ...]:
    """Status from the node's own last execution, otherwise from the reused one, otherwise from the cell list of the
    last attempt.
    """
    own = {run.key: run for run in state.cells.list_node_runs(node.id)}
    lines = cache(lambda: {line.cell: line for line in reversed(node.attempts[-1].cells)} if node.attempts else {})
    earlier = {line.id for attempt in node.attempts[:-1] for line in attempt.cells}

    def status(cell: Cell, key: str) -> CellStatus:
        run, line = own.get(key), None
        if run is None or run.id in earlier:  # the last attempt's list is only read if needed
            line = lines().get(cell)
        if run is not None and (line is None or line.outcome != "left out"):
            if run.failure is None:
                return CellStatus(cell, key, "measured", run)
            return CellStatus(cell, key, "failed", run, why=f"{run.failure.kind}: {run.failure.message}")
        if taken := owed.taken.get(key):
            by, run = state.cells.get(taken, ("", None))
            return CellStatus(cell, key, "taken over", run, node=by)
        if line is not None:
            return CellStatus(cell, key, line.outcome, node=line.node, why=line.why)
        if node.is_finished:
            return CellStatus(cell, key, "left out", why="its node ended before it was run")
        return CellStatus(cell, key, "waiting")

    return tuple(status(cell, key) for cell, key in zip(owed.cells, owed.keys, strict=False))


# --- in numbers -----------------------------------------------------------------------------------------------------


def count_cells(cells: Iterable[CellStatus]) -> CellCounts | None:
    """Return the cell counts of one node; None if it has no cells."""
    every = tuple(cells)
    return CellCounts(**_count_outcomes(every), seconds_left=estimate_seconds_left(every)) if every else None


def compute_cell_totals(state: RunState, cells: Mapping[str, tuple[CellStatus, ...]]) -> CellTotals | None:
    """Return the counts of all cells of a run, as `compute_all_cells` returns them; None if no node has cells."""
    every = tuple(one for those in cells.values() for one in those)
    if not every:
        return None
    left = [seconds for those in cells.values() if (seconds := estimate_seconds_left(those)) is not None]
    repeated, differing = _find_repeated_executions(state)
    return CellTotals(
        **_count_outcomes(every),
        diverged=sum(one.has_diverged for one in every),
        executions=len(state.cells),
        seconds=round(sum(run.seconds for _, run in state.cells.values()), 3),
        seconds_saved=round(sum(one.seconds for one in every if one.outcome == "taken over"), 3),
        seconds_left=sum(left) if left else None,
        repeated=repeated,
        differing=differing,
    )


def _count_outcomes(cells: tuple[CellStatus, ...]) -> dict[str, int]:
    found = Counter(one.outcome for one in cells)
    return {"owed": len(cells), **{name.replace(" ", "_"): found[name] for name in get_args(CellStatusKind)}}


def estimate_seconds_left(cells: Iterable[CellStatus]) -> float | None:
    """Estimate the compute seconds of a node's waiting cells: the mean of measured cells with the same arm and
    dataset, otherwise of all measured cells; None if no cell is waiting or no cell was measured.
    """
    every, waiting = tuple(cells), list[Cell]()
    if all(one.outcome != "waiting" for one in every):  # the usual case
        return None
    by_kind: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for one in every:
        if one.outcome in ("measured", "taken over") and one.run is not None:
            by_kind[one.cell.dataset, one.cell.arm].append(one.run.seconds)
        elif one.outcome == "waiting":
            waiting.append(one.cell)
    if not by_kind:
        return None
    usual = fmean(seconds for kind in by_kind.values() for seconds in kind)
    return round(sum(fmean(by_kind.get((cell.dataset, cell.arm), [usual])) for cell in waiting), 3)


def _find_repeated_executions(state: RunState) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Count the repeated executions of a key, and list those whose values differ from the first."""
    measured = (
        [run for _, run in state.cells.list_key_runs(key) if run.failure is None] for key in state.cells.repeated
    )
    again = [(runs[0], run) for runs in measured for run in runs[1:]]
    return len(again), tuple((a.id, b.id) for a, b in again if a.measurements != b.measurements)


# Planned and spent compute time by phase, in slot-seconds: seconds times the slots in use.


class PhaseHours(FrozenModel):
    """The compute time of one phase of a run."""

    phase: str
    planned: float | None
    """As set aside last; None before anything was measured."""
    spent: float


def build_hours_table(state: RunState) -> tuple[PhaseHours, ...]:
    """Return the phases of a run in order of their priority for its time; exploration gets the rest.

    While the paper is being written, the slots are idle, but all of them count as in use.
    """
    slots = int(state.read_setting("search.num_workers") or 1)
    spent = {"confirmation": 0.0, "exploration": 0.0}
    lock = state.search.current_lock
    for node in state.nodes.values():
        phase = "confirmation" if lock is not None and lock.is_confirming(node) else "exploration"
        spent[phase] += sum(attempt.seconds for attempt in node.attempts)
    writing = 0.0 if state.search.scored_at is None else (state.active_seconds - state.search.scored_at) * slots
    hours, probes = state.search.hours, sum(one.seconds for one in state.search.probes)
    rest = None if hours is None else hours.total - hours.confirmation - hours.scoring - hours.write_up
    rows = (
        ("confirmation", None if hours is None else hours.confirmation, spent["confirmation"]),
        ("test scoring", None if hours is None else hours.scoring, probes),
        ("paper", None if hours is None else hours.write_up, writing),
        ("exploration", rest, spent["exploration"]),
    )
    return tuple(PhaseHours(phase=phase, planned=planned, spent=used) for phase, planned, used in rows)
