"""From events to the state: `apply` for one, `fold` for all.

`apply` is total (any event after any prefix is accepted) and pure in its inputs, so that reading a log twice, or a
prefix of it, always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections.abc import Iterable

from record.events import Event
from record.events.papers import (
    Assessed,
    Conceived,
    ContextRead,
    Drafted,
    FiguresMade,
    FiguresSeen,
    IdeaEvent,
    Ideating,
    LibraryChecked,
    LookedUp,
    PaperEvent,
    Released,
    Rewriting,
    WorksChosen,
    WorksFound,
)
from record.events.running import Branched, CallEvent, Resumed, RunEvent
from record.events.searching import NodeEvent, SearchEvent
from record.fold.process import apply_call, apply_process
from record.fold.search import apply_node, apply_search
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


def apply_paper(state: RunState, event: PaperEvent) -> None:
    """Fold an event of the paper into the state, in place."""
    match event:
        case FiguresMade():
            state.figures = event
        case FiguresSeen():
            state.figures_seen[event.round] = event
        case LibraryChecked():
            state.library = event
        case WorksFound():
            state.works_found.append(event)
        case WorksChosen():
            state.works_chosen.append(event)
        case Drafted():
            state.drafts.append(event)
        case Released():
            state.released = event
        case Assessed():
            state.assessed = event
        case Rewriting():
            _rewriting(state, event)


def _rewriting(state: RunState, event: Rewriting) -> None:
    state.version = event.version
    state.template = event.template or state.template
    state.drafts, state.released, state.assessed, state.ended = [], None, None, None
    state.figures_seen = {}
    state.overrides |= event.settings
    state.models = tuple(dict.fromkeys((*state.models, *(m for m in [event.model] if m))))


def apply_idea(state: RunState, event: IdeaEvent) -> None:
    """Fold an event of reading or ideation into the state, in place."""
    match event:
        case ContextRead():
            state.context = event
        case Ideating():
            state.ideating = event
        case LookedUp():
            state.looked_up[event.k, event.n] = event
        case Conceived():
            state.conceived[event.k] = event
