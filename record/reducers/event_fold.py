"""Fold events into the state: `apply_event` for one event, `fold_events` for all.

`apply_event` accepts any event after any prefix and depends only on its inputs, so reading a log or a prefix of it
always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from labwright.record.events import Event, paper_events, repository_events
from labwright.record.events.run_events import CallEvent, ClockMoved, RunBranched, RunEvent, RunResumed
from labwright.record.events.search_events import NodeEvent, SearchEvent
from labwright.record.reducers.run_reducer import add_model, apply_call_event, apply_run_event
from labwright.record.reducers.run_state import RunState
from labwright.record.reducers.search_reducer import apply_node_event, apply_search_event
from labwright.record.reducers.state_fields import CurrentPaper


def apply_event(state: RunState, event: Event, at: float = 0.0) -> None:
    """Fold one event into the state, in place."""
    state.event_count += 1
    if (
        state.event_count > 1
        and state.paused_by is None
        and not isinstance(event, RunResumed | paper_events.RewriteStarted | RunBranched)
    ):
        moved = event.seconds if isinstance(event, ClockMoved) else 0.0
        state.active_seconds += max(0.0, at - state.last_event_at - moved)
    state.last_event_at = at
    if isinstance(event, CallEvent):  # the most frequent first: a resume folds thousands of events
        apply_call_event(state, event)
    elif isinstance(event, NodeEvent):
        apply_node_event(state, event, at)
    elif isinstance(event, SearchEvent):
        apply_search_event(state, event, at)
    elif isinstance(event, RunEvent):
        apply_run_event(state, event, at)
    elif isinstance(event, repository_events.RepositoryEvent):
        _apply_repository(state, event)
    else:
        _apply_paper(state, event)


def fold_events(events: Iterable[tuple[Event, float]]) -> RunState:
    """Return the state after all given events, each with its time."""
    state = RunState()
    for event, at in events:
        apply_event(state, event, at)
    return state


def _apply_paper(state: RunState, event: paper_events.PaperEvent | paper_events.IdeaEvent) -> None:
    match event:
        case paper_events.ContextRead():
            state.context = event
        case paper_events.PriorWorkRead():
            state.prior_work = event
        case paper_events.IdeationStarted():
            state.ideation = event
        case paper_events.LiteratureSearched():
            state.literature_searches[event.k, event.n] = event
        case paper_events.IdeaProposed():
            state.proposed_ideas[event.k] = event
        case paper_events.FiguresDrawn():
            state.figures = event
        case paper_events.FiguresReviewed():
            state.figure_reviews[event.round] = event
        case paper_events.ClaimsRead():
            state.claims_read[event.round] = event
            state.sentence_readings |= {one.sha256: one for one in event.readings}
            state.setup_readings |= {one.sha256: one for one in event.setup}
        case paper_events.LibraryChecked():
            state.library = event
        case paper_events.WorksFound():
            state.works_found.append(event)
        case paper_events.WorksChosen():
            state.works_chosen.append(event)
        case paper_events.DraftAssessed():
            state.drafts.append(event)
        case paper_events.PaperReleased():
            state.released = event
            if event.released or state.current_paper is None:
                state.current_paper = CurrentPaper(state.paper_version, event)
        case paper_events.PaperJudged():
            state.judged = event
            if state.current_paper is not None and state.current_paper.released is state.released:
                state.current_paper = replace(state.current_paper, judged=event)
        case paper_events.RewriteStarted():
            state.paper_version, state.template_sha256 = event.version, event.template or state.template_sha256
            state.drafts, state.figure_reviews, state.claims_read = [], {}, {}
            state.released = state.judged = state.process_end = None
            if state.current_paper is not None and not state.current_paper.released.released:
                state.current_paper = None
            state.overrides |= event.settings
            add_model(state, event.model)


def _apply_repository(state: RunState, event: repository_events.RepositoryEvent) -> None:
    code = state.repository_state
    match event:
        case repository_events.RepositoryImported():
            code.imported = event
        case repository_events.EnvironmentBuilt():
            code.environment = event
        case repository_events.CommandFound():
            code.command = event
        case repository_events.RepairTried():
            code.repairs.append(event)
        case repository_events.BaselineChecked():
            code.baseline = event
        case repository_events.PartsFound():
            code.parts = event
        case repository_events.MutationTried():
            code.tried_mutations[event.part, event.way] = event
        case repository_events.AblationsConcluded():
            code.ablation_results = event
        case repository_events.QuestionDesigned():
            code.question_design = event
        case repository_events.QuestionAnswered():
            code.question_answer = event
