"""Descriptions of cells and trials: required cells, outcomes, and compute time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from labwright.inspector.safe_text import format_duration, shorten, to_plain
from labwright.record.cell_status import CellCounts, CellTotals
from labwright.record.claims.setting_controls import ArmTuningReport, TuningReport
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, ProcessEnded, RunResumed
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    NodeJudged,
    NodeStepEntered,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import Cell
from labwright.record.table import format_quantity


def format_remaining(cells: CellCounts) -> str:
    """Format the estimated compute time of waiting cells as `, about 4m12s compute left`; empty if unknown."""
    return f", about {format_duration(cells.seconds_left)} compute left" if cells.seconds_left is not None else ""


def format_cells(cells: CellTotals) -> str:
    """Format all cells of a run in one line."""
    parts = [
        (cells.measured, "measured"),
        (cells.taken_over, "reused"),
        (cells.failed, "failed"),
        (cells.left_out, "left out"),
        (cells.waiting, "waiting"),
    ]
    shown = ", ".join(f"{number} {what}" for number, what in parts if number)
    saved = f", {format_duration(cells.seconds_saved)} saved by reuse" if cells.seconds_saved else ""
    differing = "".join(f"; {a} and {b} have the same key but different values" for a, b in cells.differing[:1])
    return (
        f"{shown} (of {cells.owed}); {format_duration(cells.seconds)} "
        f"compute{saved}{format_remaining(cells)}{differing}"
    )


def format_cell(cell: Cell) -> str:
    """Format a cell with its seed, safe for a terminal."""
    return f"{shorten(str(cell), 100)}, seed {cell.seed}"


def format_required_cells(event: CellsRequired, state: RunState) -> str:
    """Format the required cells of a node and the reused ones: `n0007: 12 cells to run, 4 reused from n0003`."""
    nodes = [state.cells[run][0] if run in state.cells else "a missing node" for run in event.taken.values()]
    by_node = ", ".join(f"{nodes.count(node)} reused from {node}" for node in dict.fromkeys(nodes))
    number = len(event.cells) - len(nodes)
    return f"{event.node}: {format_quantity(number, 'cell')} to run{f', {by_node}' if by_node else ''}"


def format_execution(event: CellExecuted, state: RunState) -> str:
    """Format one execution of a cell and its primary metric, if measured."""
    run, plan = event.run, state.search.data_plan
    head = f"{event.node} ran {format_cell(run.cell)} in {format_duration(run.seconds)}"
    if run.failure is not None:
        return f"{head}: {run.failure.kind}: {shorten(run.failure.message, 100)}"
    values = [one for one in run.measurements if plan is not None and one.name == plan.primary_metric.name]
    shown = ", ".join(f"{to_plain(one.name)} {one.value:.4g}" for one in values)
    return f"{head}: {shown or format_quantity(len(run.measurements), 'measurement')}"


def format_trials(account: TuningReport, node: str) -> str:
    """Format the trials of a node in one line with the best value: `smooth: 4 trials, best 0.93`."""
    own = [one for one in account.trials if one.node == node]
    if not own:
        return "best settings repeated with another seed"
    values = [one.values[account.dataset] for one in own if account.dataset in one.values]
    best = f", best {(max if account.metric.higher_is_better else min)(values):.4g}" if values else ""
    failed = sum(one.outcome == "failed" for one in own)
    share = f" at {own[0].share:g}" if own and own[0].share < 1 else ""
    return (
        f"{', '.join(dict.fromkeys(to_plain(one.arm) for one in own))}: {format_quantity(len(own), 'trial')}{share}"
        f"{best}{f', {failed} failed' if failed else ''}"
    )


def format_tuning(account: TuningReport) -> str:
    """Format the used tuning budget and the best value of each arm in one line."""
    return (
        f"{'; '.join(_format_arm(account, one) for one in account.arms)} ({to_plain(account.metric.name)}, "
        f"{account.dataset})"
    )


def _format_arm(account: TuningReport, one: ArmTuningReport) -> str:
    tuning, effort = account.tuning, one.effort
    given = (
        f"{format_duration(effort.seconds)} of {format_duration(tuning.budget)}"
        if tuning.currency == "seconds"
        else f"{format_quantity(effort.trials, 'trial')} + {format_quantity(effort.versions, 'version')} of code "
        f"(budget {tuning.budget:g})"
    )
    notes = "" if one.chosen is None else ", stale" * one.chosen.stale + ", not converged" * one.chosen.gaining
    return f"{to_plain(one.arm)} {given}{f', best {one.best:.4g}' if one.best is not None else ''}{notes}"


# Times of events in a run, in seconds of work, built from the events alongside the state. `RunState` has only the
# current state; charts over time and cost need its history.

Steps = list[tuple[float, float]]
"""(second, value from then on) pairs."""


class Moment(NamedTuple):
    """Seconds of work, and the cost of model calls up to that time."""

    seconds: float
    usd: float


class ExecutionSpan(NamedTuple):
    """One execution of a node's code, with begin, end and peak memory (0: not measured)."""

    node: str
    begin: float
    end: float
    host: int
    gpu: int


@dataclass
class Timeline:
    """Executions, costs and judging times of nodes."""

    judged: dict[str, Moment] = field(default_factory=dict[str, Moment])
    spans: list[ExecutionSpan] = field(default_factory=list[ExecutionSpan])
    usd: Steps = field(default_factory=lambda: [(0.0, 0.0)])
    tokens: Steps = field(default_factory=lambda: [(0.0, 0.0)])
    """Cumulative prompt and answer tokens of all model calls."""
    running: dict[str, float] = field(default_factory=dict[str, float])
    """Node -> second when its code started."""

    def add_event(self, event: Event, state: RunState) -> None:
        """Add an event right after it was applied to the state."""
        now = state.active_seconds
        if isinstance(event, CallAnswered):
            used = event.usage
            self.usd.append((now, self.usd[-1][1] + (used.usd or 0.0)))
            self.tokens.append((now, self.tokens[-1][1] + used.input_tokens + used.output_tokens))
        elif isinstance(event, NodeStepEntered) and event.step == "running":
            self.running[event.node] = now
        elif isinstance(event, AttemptExecuted):
            one = event.attempt  # recorded shortly after its slot was freed, so the code has already ended
            begin = max(0.0, self.running.pop(event.node, now - one.seconds))
            self.spans.append(
                ExecutionSpan(
                    event.node, begin, min(now, begin + one.seconds), one.peak_host_bytes or 0, one.peak_gpu_bytes or 0
                )
            )
        elif isinstance(event, NodeJudged):
            self.judged[event.node] = Moment(now, self.usd[-1][1])
            self.running.pop(event.node, None)
        elif isinstance(event, RunResumed | ProcessEnded):
            self.running.clear()

    def compute_usage(self, what: str = "slots") -> Steps:
        """Return the number of slots in use, or the bytes of `host` or `gpu` memory, as the sum of peaks."""
        changes: defaultdict[float, float] = defaultdict(float, {0.0: 0.0})
        for begin in self.running.values() if what == "slots" else ():
            changes[begin] += 1
        for span in self.spans:
            amount = 1 if what == "slots" else span.host if what == "host" else span.gpu
            changes[span.begin] += amount
            changes[span.end] -= amount
        times = sorted(changes)
        return [*zip(times, accumulate(changes[at] for at in times), strict=True)]


def compute_used_share(steps: Steps, until: float, most: float) -> float | None:
    """Return the mean of a value up to `until` as a share of its maximum; None if either is zero."""
    ends = [*(at for at, _ in steps[1:]), max(until, steps[-1][0])]
    area = sum(value * (end - at) for (at, value), end in zip(steps, ends, strict=True))
    return area / (until * most) if until > 0 and most > 0 else None
