"""Cells and trials in words: what a node owes and tries, what became of each, what all of them take."""

from __future__ import annotations

from labwright.inspector.safe_text import format_duration, shorten, to_plain
from labwright.record.cell_status import CellCounts, CellTotals
from labwright.record.events.search_events import CellExecuted, CellsRequired
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.cell import Cell
from labwright.record.tuning_parity import ArmTuningReport, TuningReport


def format_remaining(cells: CellCounts) -> str:
    """What the waiting cells are likely to compute, as `, about 4m12s of computing left`; empty where nothing says."""
    return f", about {format_duration(cells.seconds_left)} of computing left" if cells.seconds_left is not None else ""


def format_cells(cells: CellTotals) -> str:
    """All cells of a run in one line."""
    parts = [
        (cells.measured, "measured"),
        (cells.taken_over, "taken over"),
        (cells.failed, "failed"),
        (cells.left_out, "left out"),
        (cells.waiting, "waiting"),
    ]
    shown = ", ".join(f"{number} {what}" for number, what in parts if number)
    saved = f", {format_duration(cells.seconds_saved)} saved" if cells.seconds_saved else ""
    differing = "".join(f"; {a} and {b} have one key and measured different values" for a, b in cells.differing[:1])
    return (
        f"{shown} (of {cells.owed}); {format_duration(cells.seconds)} of "
        f"computing{saved}{format_remaining(cells)}{differing}"
    )


def format_cell(cell: Cell) -> str:
    """A cell in words that are safe for a terminal, with its seed."""
    return f"{shorten(str(cell), 100)}, seed {cell.seed}"


def format_required_cells(event: CellsRequired, state: RunState) -> str:
    """What a node owes, and from where cells are taken over: `n0007 owes 12 cells, 4 taken over from n0003`."""
    nodes = [state.cells[run][0] if run in state.cells else "a node that is not there" for run in event.taken.values()]
    by_node = ", ".join(f"{nodes.count(node)} taken over from {node}" for node in dict.fromkeys(nodes))
    number = len(event.cells)
    return f"{event.node} owes {number} cell{'s' * (number != 1)}{f', {by_node}' if by_node else ''}"


def format_execution(event: CellExecuted, state: RunState) -> str:
    """One execution of a cell, and what came of it: the primary metric, where it was measured."""
    run, plan = event.run, state.data_plan
    head = f"{event.node} ran {format_cell(run.cell)} in {format_duration(run.seconds)}"
    if run.failure is not None:
        return f"{head}: {run.failure.kind}: {shorten(run.failure.message, 100)}"
    values = [one for one in run.measurements if plan is not None and one.name == plan.primary_metric.name]
    shown = ", ".join(f"{to_plain(one.name)} {one.value:.4g}" for one in values)
    return f"{head}: {shown or f'{len(run.measurements)} measurements'}"


def format_trials(account: TuningReport, node: str) -> str:
    """The trials of a node in one line, with the best of them: `smooth: 4 trials, best 0.93`."""
    own = [one for one in account.trials if one.node == node]
    if not own:
        return "the best settings again, with another seed"
    values = [one.values[account.dataset] for one in own if account.dataset in one.values]
    best = f", best {(max if account.metric.higher_is_better else min)(values):.4g}" if values else ""
    failed = sum(one.outcome == "failed" for one in own)
    share = f" at {own[0].share:g}" if own and own[0].share < 1 else ""
    return (
        f"{', '.join(dict.fromkeys(to_plain(one.arm) for one in own))}: {len(own)} trial{'s' * (len(own) != 1)}{share}"
        f"{best}{f', {failed} failed' if failed else ''}"
    )


def format_tuning(account: TuningReport) -> str:
    """What each arm was given of its budget, and the best that it came to, in one line."""
    return (
        f"{'; '.join(_format_arm(account, one) for one in account.arms)} ({to_plain(account.metric.name)}, "
        f"{account.dataset})"
    )


def _format_arm(account: TuningReport, one: ArmTuningReport) -> str:
    tuning, effort = account.tuning, one.effort
    given = (
        f"{format_duration(effort.seconds)} of {format_duration(tuning.budget)}"
        if tuning.currency == "seconds"
        else f"{effort.trials} trials + {effort.versions} version{'s' * (effort.versions != 1)} of its code (budget "
        f"{tuning.budget:g})"
    )
    notes = "" if one.chosen is None else ", stale" * one.chosen.stale + ", not converged" * one.chosen.gaining
    return f"{to_plain(one.arm)} {given}{f', best {one.best:.4g}' if one.best is not None else ''}{notes}"
