"""Compare the cells that a node's attempt reports with the recorded executions.

Reads only the log; `agent.audit` checks the files of cells.
"""

from __future__ import annotations

from collections.abc import Iterator

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.cell import CellOutcomeLine
from labwright.record.schema.nodes import Attempt, CellRun, Node


def find_disagreements(state: RunState) -> Iterator[tuple[str, str]]:
    """Yield each disagreement as node and message."""
    for name, owed in state.required_cells.items():
        if len(owed.keys) != len(owed.cells) or len(set(owed.keys)) != len(owed.keys):
            yield name, f"it requires {len(owed.cells)} cells but has {len(set(owed.keys))} different keys"
        keys = dict(zip(owed.cells, owed.keys, strict=False))
        for key, run in owed.taken.items():
            yield from ((name, why) for why in _check_reused_cell(state, name, key, run))
        node = state.nodes[name]
        if not node.attempts or not (attempt := node.attempts[-1]).cells:
            continue
        if absent := set(owed.cells).symmetric_difference(line.cell for line in attempt.cells):
            yield name, f"its attempt and its required cells differ in {', '.join(sorted(map(str, absent)))}"
        for line in attempt.cells:
            yield from (
                (name, f"{line.cell}: {why}") for why in _check_cell_line(state, node, line, keys.get(line.cell))
            )
        yield from ((name, why) for why in _check_values(state, attempt, trial=node.is_trial))


def _check_reused_cell(state: RunState, name: str, key: str, run: str) -> Iterator[str]:
    """Yield the faults of a reused cell."""
    if key not in state.required_cells[name].keys:
        yield f"it reuses {run} for a cell that it does not require"
    if run not in state.cells:
        yield f"it reuses {run}, which is not in the record"
        return
    node, found = state.cells[run]
    if found.key != key:
        yield f"it reuses {run} of {node}, which was measured under another key"
    if found.failure is not None:
        yield f"it reuses {run} of {node}, which failed"


def _check_cell_line(state: RunState, node: Node, line: CellOutcomeLine, key: str | None) -> Iterator[str]:
    """Compare a cell reported by an attempt with the execution that it names."""
    if line.outcome == "left out":
        return
    by, run = state.cells.get(line.id, ("", None))
    if run is None:
        yield f"it is reported as {line.outcome} by {line.id or 'no execution'}, which is not in the record"
        return
    if (run.cell, run.key) != (line.cell, key):
        yield f"{line.id} is of another cell or has another key"
    if (run.failure is not None) != (line.outcome == "failed"):
        yield f"reported as {line.outcome}, but {line.id} {'failed' if run.failure is not None else 'measured it'}"
    expected = line.node if line.outcome == "taken over" else node.id
    if by != expected:
        yield f"{line.id} was executed for {by}, not for {expected or 'a named node'}"


def _check_values(state: RunState, attempt: Attempt, *, trial: bool) -> Iterator[str]:
    """Yield differences between the values and arrays of an attempt and those measured by its cells. Values of trials
    are stored only in cells."""
    runs = [
        state.cells[line.id][1]
        for line in attempt.cells
        if line.outcome in ("measured", "taken over") and line.id in state.cells
    ]
    made = {str(value) for run in runs for value in run.measurements}
    several = {
        metric.name
        for metric in (state.search.data_plan.metrics if state.search.data_plan else ())
        if metric.is_comparative
    }
    has = {str(value) for value in attempt.measurements if value.name not in several or str(value) in made}
    lost = made - has if attempt.failure is None and not trial else set[str]()
    for what, values in (("that no cell measured", has - made), ("missing that its cells measured", lost)):
        if values:
            yield f"its attempt has {len(values)} values {what}, such as {min(values)}"
    yield from (
        f"the array {name} of its attempt differs from that of {run.id}"
        for run in runs
        for name in _find_differing_arrays(run, attempt)
    )


def _find_differing_arrays(run: CellRun, attempt: Attempt) -> Iterator[str]:
    for name, digest in run.arrays.items():
        if name in attempt.arrays and attempt.arrays[name] != digest:
            yield name
