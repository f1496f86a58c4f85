"""The results of trials that the fold keeps are those that the record gives at any time."""

from __future__ import annotations

from labwright.record.event_log import read_events
from labwright.record.line_store import EVENTS_FILE
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.tuning_results import compute_node_results
from tests.recorded_run import recorded_run


def test_kept_results_are_those_of_the_record_after_every_event():
    state, kept = RunState(), 0
    for event, at in read_events(recorded_run() / EVENTS_FILE):
        apply_event(state, event, at)
        if len(state.search.trial_results) != kept:
            kept = len(state.search.trial_results)
            _check_results(state)
    _check_results(state)
    assert kept > 5
    finished = [name for name, node in state.nodes.items() if node.kind == "trial" and node.is_finished]
    assert finished and set(finished) & state.required_cells.keys() <= state.search.trial_results.keys()


def _check_results(state: RunState) -> None:
    for name, results in state.search.trial_results.items():
        assert results == compute_node_results(state, state.nodes[name]), name
