"""A run that waits for its provider says so, and until when, wherever it is looked at."""

from __future__ import annotations

from datetime import datetime

from labwright.inspector.event_text import describe_event
from labwright.inspector.live_view import format_live
from labwright.inspector.render import format_status
from labwright.record.events.run_events import ProviderOutage, ProviderRecovered, RunResumed
from labwright.record.reducers.event_fold import apply_event, fold_events
from labwright.record.reducers.run_state import RunState
from tests.inspector.sample_run import BEGAN, EventStory, read_status

NOW = BEGAN + 1000
PAUSED = ProviderOutage(reason="m: a quota \x1b[2J is used up", until=NOW + 192)


def story(*more: ProviderOutage | ProviderRecovered | RunResumed) -> EventStory:
    found = EventStory()
    for event in more:
        found.events.append((event, NOW))
    return found


def test_status_and_the_live_view_say_until_when() -> None:
    events = story(PAUSED).events
    status = read_status("runs/calm", events, "process 1", now=NOW)
    until = datetime.fromtimestamp(PAUSED.until)
    assert "(in 3m12s): m: a quota is used up" in status.paused and f"{until:%H:%M}" in status.paused
    assert any("paused" in line.plain and "3m12s" in line.plain for line in format_status(status))
    shown = [line.plain for line in format_live(fold_events(events), (), 20)]
    assert any("(in 3m12s): m: a quota is used up" in line for line in shown)


def test_it_says_so_no_more_once_it_is_over_or_nobody_works() -> None:
    assert read_status("r", story(PAUSED).events, None, now=NOW).paused == ""
    for event in (ProviderRecovered(seconds=30.0), RunResumed()):
        assert read_status("r", story(PAUSED, event).events, "process 1", now=NOW).paused == ""


def test_both_are_told_in_one_line() -> None:
    state = RunState()
    apply_event(state, PAUSED, NOW)
    assert (describe_event(PAUSED, state) or "").startswith("paused until ")
    assert describe_event(ProviderRecovered(seconds=192.0), state) == "model available again after 3m12s"
    assert describe_event(RunResumed(reaped=2), state) == "resumed; stopped 2 processes left by a killed run"
