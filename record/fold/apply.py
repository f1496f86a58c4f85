"""From events to the state: `apply` for one, `fold` for all.

`apply` is total (any event after any prefix is accepted) and pure in its inputs, so that reading a log twice, or a
prefix of it, always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections.abc import Iterable

from record.events.calls import CallEvent
from record.events.event import Event
from record.events.nodes import NodeEvent
from record.events.papers import PaperEvent, Rewriting
from record.events.running import Branched, Resumed, RunEvent
from record.events.searching import SearchEvent
from record.fold.calls import apply_call
from record.fold.nodes import apply_node
from record.fold.papers import apply_idea, apply_paper
from record.fold.process import apply_process
from record.fold.search import apply_search
from record.fold.state import RunState


def apply(state: RunState, event: Event, at: float = 0.0) -> None:
    """Fold one event into the state, in place."""
    state.events += 1
    if state.events > 1 and state.held is None and not isinstance(event, Resumed | Rewriting | Branched):
        state.active_seconds += max(0.0, at - state.last_at)
    state.last_at = at
    if isinstance(event, CallEvent):  # the most frequent first: a resume folds thousands of events
        apply_call(state, event)
    elif isinstance(event, NodeEvent):
        apply_node(state, event, at)
    elif isinstance(event, SearchEvent):
        apply_search(state, event, at)
    elif isinstance(event, RunEvent):
        apply_process(state, event, at)
    elif isinstance(event, PaperEvent):
        apply_paper(state, event)
    else:
        apply_idea(state, event)


def fold(events: Iterable[tuple[Event, float]]) -> RunState:
    """The state after all given events, each with its time."""
    state = RunState()
    for event, at in events:
        apply(state, event, at)
    return state
