"""Planned and spent compute time by phase, in slot-seconds: seconds times the slots in use."""

from __future__ import annotations

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.frozen_model import FrozenModel


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
        ("confirmation", hours and hours.confirmation, spent["confirmation"]),
        ("test scoring", hours and hours.scoring, probes),
        ("paper", hours and hours.write_up, writing),
        ("exploration", rest, spent["exploration"]),
    )
    return tuple(PhaseHours(phase=phase, planned=planned, spent=used) for phase, planned, used in rows)
