"""Fold events into the state: `apply_event` for one event, `fold_events` for all.

`apply_event` accepts any event after any prefix and depends only on its inputs, so reading a log or a prefix of it
always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

from labwright.record.events import Event, paper_events, repository_events, run_events, search_events
from labwright.record.reducers.node_reducer import apply_node_event
from labwright.record.reducers.run_reducer import apply_run_event
from labwright.record.reducers.run_state import RunState
from labwright.record.reducers.search_reducer import apply_search_event

Reducer = Callable[[RunState, Any, float], None]


def _list_reducers() -> dict[type, tuple[Reducer, ...]]:
    """Return the reducers of each type of event; the union to which it belongs names its slice of the state."""
    slices: tuple[tuple[Any, Reducer], ...] = (
        (run_events.CallEvent, lambda state, event, _: state.calls.apply(event)),
        (search_events.NodeEvent, apply_node_event),
        (search_events.SearchEvent, apply_search_event),
        (run_events.RunEvent, apply_run_event),
        (paper_events.PaperEvent, lambda state, event, _: state.paper.apply(event)),
        (paper_events.IdeationEvent, lambda state, event, _: state.ideation.apply(event)),
        (repository_events.RepositoryEvent, lambda state, event, _: state.repository.apply(event)),
        (repository_events.AblationEvent, lambda state, event, _: state.ablation.apply(event)),
        (repository_events.QuestionEvent, lambda state, event, _: state.question.apply(event)),
    )
    found: dict[type, tuple[Reducer, ...]] = {kind: (reduce,) for events, reduce in slices for kind in get_args(events)}
    found[paper_events.RewriteStarted] += (apply_run_event,)
    return found


_REDUCERS = _list_reducers()


def apply_event(state: RunState, event: Event, at: float = 0.0) -> None:
    """Fold one event into the state, in place."""
    state.event_count += 1
    if (
        state.event_count > 1
        and not state.is_paused
        and not isinstance(event, run_events.RunResumed | paper_events.RewriteStarted | run_events.RunBranched)
    ):
        moved = event.seconds if isinstance(event, run_events.ClockMoved) else 0.0
        state.active_seconds += max(0.0, at - state.last_event_at - moved)
    state.last_event_at = at
    for reduce in _REDUCERS[type(event)]:
        reduce(state, event, at)


def fold_events(events: Iterable[tuple[Event, float]]) -> RunState:
    """Return the state after all given events, each with its time."""
    state = RunState()
    for event, at in events:
        apply_event(state, event, at)
    return state
