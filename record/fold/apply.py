"""From events to the state: `apply` for one, `fold` for all.

`apply` is total (any event after any prefix is accepted) and pure in its inputs, so that reading a log twice, or a
prefix of it, always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from labwright.record.events import Event, papers
from labwright.record.events import repository as of_code
from labwright.record.events.running import Branched, CallEvent, ClockMoved, Resumed, RunEvent
from labwright.record.events.searching import NodeEvent, SearchEvent
from labwright.record.fold.facts import StandingPaper
from labwright.record.fold.process import add_model, apply_call, apply_process
from labwright.record.fold.search import apply_node, apply_search
from labwright.record.fold.state import RunState


def apply(state: RunState, event: Event, at: float = 0.0) -> None:
    """Fold one event into the state, in place."""
    state.events += 1
    if state.events > 1 and state.held is None and not isinstance(event, Resumed | papers.Rewriting | Branched):
        moved = event.seconds if isinstance(event, ClockMoved) else 0.0
        state.active_seconds += max(0.0, at - state.last_at - moved)
    state.last_at = at
    if isinstance(event, CallEvent):  # the most frequent first: a resume folds thousands of events
        apply_call(state, event)
    elif isinstance(event, NodeEvent):
        apply_node(state, event, at)
    elif isinstance(event, SearchEvent):
        apply_search(state, event, at)
    elif isinstance(event, RunEvent):
        apply_process(state, event, at)
    elif isinstance(event, of_code.RepositoryEvent):
        _apply_code(state, event)
    else:
        _apply_paper(state, event)


def fold(events: Iterable[tuple[Event, float]]) -> RunState:
    """The state after all given events, each with its time."""
    state = RunState()
    for event, at in events:
        apply(state, event, at)
    return state


def _apply_paper(state: RunState, event: papers.PaperEvent | papers.IdeaEvent) -> None:
    match event:
        case papers.ContextRead():
            state.context = event
        case papers.PriorWorkRead():
            state.prior_work = event
        case papers.Ideating():
            state.ideating = event
        case papers.LookedUp():
            state.looked_up[event.k, event.n] = event
        case papers.Conceived():
            state.conceived[event.k] = event
        case papers.FiguresMade():
            state.figures = event
        case papers.FiguresSeen():
            state.figures_seen[event.round] = event
        case papers.Scoped():
            state.scoped[event.round] = event
        case papers.LibraryChecked():
            state.library = event
        case papers.WorksFound():
            state.works_found.append(event)
        case papers.WorksChosen():
            state.works_chosen.append(event)
        case papers.Drafted():
            state.drafts.append(event)
        case papers.Released():
            state.released = event
            if event.released or state.standing is None:
                state.standing = StandingPaper(state.version, event)
        case papers.Assessed():
            state.assessed = event
            if state.standing is not None and state.standing.released is state.released:
                state.standing = replace(state.standing, assessed=event)
        case papers.Rewriting():
            state.version, state.template = event.version, event.template or state.template
            state.drafts, state.figures_seen, state.scoped = [], {}, {}
            state.released = state.assessed = state.ended = None
            if state.standing is not None and not state.standing.released.released:
                state.standing = None
            state.overrides |= event.settings
            add_model(state, event.model)


def _apply_code(state: RunState, event: of_code.RepositoryEvent) -> None:
    code = state.code
    match event:
        case of_code.CodeTaken():
            code.taken = event
        case of_code.EnvironmentBuilt():
            code.environment = event
        case of_code.CommandFound():
            code.command = event
        case of_code.Repaired():
            code.repairs.append(event)
        case of_code.BaselineChecked():
            code.baseline = event
        case of_code.PartsFound():
            code.parts = event
        case of_code.Patched():
            code.patched[event.part, event.way] = event
        case of_code.CommandEnded():
            code.runs[event.run.key] = event
        case of_code.AblationsSettled():
            code.settled = event
        case of_code.QuestionDesigned():
            code.designed = event
        case of_code.QuestionRan():
            code.tries[event.number] = event.run
        case of_code.QuestionAnswered():
            code.answered = event
