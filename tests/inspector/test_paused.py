"""A run that waits for its provider says so, and until when, wherever it is looked at."""

from __future__ import annotations

from datetime import datetime

from labwright.inspector.describe import describe
from labwright.inspector.live import frame_lines, frame_of
from labwright.inspector.render import status_lines
from labwright.inspector.status import status_of
from labwright.inspector.why import Outlook, why_of
from labwright.record.events.running import Paused, Recovered, Resumed
from labwright.record.fold.apply import apply, fold
from labwright.record.fold.state import RunState
from tests.inspector.story import BEGAN, Story

NOW = BEGAN + 1000
PAUSED = Paused(reason="m: a quota \x1b[2J is used up", until=NOW + 192)


def story(*more: Paused | Recovered | Resumed) -> Story:
    found = Story()
    for event in more:
        found.events.append((event, NOW))
    return found


def test_status_why_and_the_live_view_count_down() -> None:
    events = story(PAUSED).events
    status = status_of("runs/calm", events, "process 1", now=NOW)
    until = datetime.fromtimestamp(PAUSED.until)
    assert "(in 3m12s): m: a quota is used up" in status.paused and f"{until:%H:%M}" in status.paused
    assert any("paused" in line.plain and "3m12s" in line.plain for line in status_lines(status))
    assert why_of("r", events, "process 1", outlook=Outlook(), now=NOW).paused == status.paused
    frame = frame_of(fold(events))
    shown = [[line.plain for line in frame_lines(frame, 1.0, 20, now=now)] for now in (NOW, NOW + 60)]
    assert any("(in 3m12s): m: a quota is used up" in line for line in shown[0])
    assert any("(in 2m12s)" in line for line in shown[1])


def test_it_says_so_no_more_once_it_is_over_or_nobody_works() -> None:
    assert status_of("r", story(PAUSED).events, None, now=NOW).paused == ""
    for event in (Recovered(seconds=30.0), Resumed()):
        assert status_of("r", story(PAUSED, event).events, "process 1", now=NOW).paused == ""


def test_both_are_told_in_one_line() -> None:
    state = RunState()
    apply(state, PAUSED, NOW)
    assert (describe(PAUSED, state) or "").startswith("paused until ")
    assert describe(Recovered(seconds=192.0), state) == "the model answers again, after 3m12s"
    assert describe(Resumed(reaped=2), state) == "resumed; ended 2 processes that a killed one had left"
