"""Events of papers and of ideation, folded."""

from __future__ import annotations

from record.events.ideating import Conceived, ContextRead, IdeaEvent, Ideating, LookedUp
from record.events.papers import (
    Assessed,
    Drafted,
    FiguresMade,
    FiguresSeen,
    LibraryChecked,
    PaperEvent,
    Released,
    Rewriting,
    WorksChosen,
    WorksFound,
)
from record.fold.state import RunState


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
