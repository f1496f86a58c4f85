"""What is shown while a run goes on."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from labwright.inspector.live_view import LiveView, PlainView, choose_view, format_live, showing_progress
from labwright.record.events.run_events import CommandReceived, GateReached, ProviderRecovered, RunResumed
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from tests.inspector.sample_run import BEGAN, EventStory, make_ended, make_eventful, make_sample


def console(width: int = 100, height: int = 30, **options: object) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, legacy_windows=False, **options)  # pyrefly: ignore


def text_of(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def replay(view: LiveView | PlainView, story: EventStory) -> None:
    state = RunState()
    for event, at in story.events:
        apply_event(state, event, at)
        view(event, state)


def test_a_pipe_gets_plain_lines() -> None:
    shown = console(width=20)
    view = choose_view(shown)
    assert isinstance(view, PlainView)
    with view:
        replay(view, make_ended())
    lines = text_of(shown).splitlines()
    assert lines[0].split()[:2] == ["0.0s", "started:"]
    assert any("n0003 debug ok, log_loss 0.3" in line for line in lines)
    assert any("n0005 figures rejected: no axis label" in line for line in lines)
    assert lines[-1].split()[1:6] == ["ended", "with", "exit", "code", "0:"]
    assert not set("\x1b\r\x00") & set(text_of(shown))


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_colour_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert isinstance(choose_view(console(force_terminal=True)), PlainView)


def test_a_command_that_waits_for_models_says_so_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, pipe = console(force_terminal=True), console()
    for stream in (terminal, pipe):
        with showing_progress("judging p.md", stream) as listener:
            for event, _ in make_sample().events:
                listener(event, RunState())
    assert re.search(r"judging p\.md: [1-9]\d* model calls answered, 0\.\ds", text_of(terminal))
    assert text_of(pipe) == ""


def test_a_terminal_gets_a_live_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = console(force_terminal=True)
    view = choose_view(shown)
    assert isinstance(view, LiveView)
    with view:
        replay(view, make_sample())
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text_of(shown))
    assert "4/8 nodes" in text and "6 calls, $0.00 + 6 unpriced" in text
    assert "\x1b]0;" not in text_of(shown) and "\x1b[2J" not in text_of(shown)


@pytest.mark.parametrize("height", [4, 8, 12, 24])
def test_a_live_view_never_outgrows_the_terminal(height: int) -> None:
    story = make_sample()
    for _ in range(40):
        story.finish_good(story.add_node("tuning", "tune", "n0005"), 0.5)
    running = story.add_node("tuning", "tune", "n0005")
    lines = format_live(story.state, ("a", "b", "c"), height)
    assert len(lines) <= height
    if height >= 8:
        assert f"▸ {running} tune" in lines[-4].plain, "the latest node, which is running, is shown"


def test_a_live_view_before_the_first_event_draws() -> None:
    assert format_live(RunState(), (), 20)


def test_what_an_earlier_stage_still_has_to_do_is_shown_with_the_one_that_is_searched() -> None:
    lines = [line.plain for line in format_live(make_eventful().state, (), 24)]
    assert any("pending: 1 replicate running, its report" in line for line in lines)
    assert any(line.startswith("tuning  2/3 nodes") for line in lines)


def test_a_gate_is_shown_with_what_comes_next_and_its_cost_and_the_clock_stands() -> None:
    story, state = make_sample(), RunState()
    story.add(
        RunResumed(settings={"gates": "lock"}),
        GateReached(gate="lock", comes_next="the plan is locked", cost="about 9 calls to the end"),
    )
    for event, at in story.events:
        apply_event(state, event, at)
    lines = [line.plain for line in format_live(state, (), 30)]
    told = next(line for line in lines if "at the gate" in line)
    assert told.startswith("paused: at the gate lock, next: the plan is locked; cost: about 9 calls to the end")
    before = state.active_seconds
    apply_event(state, ProviderRecovered(seconds=1.0), BEGAN + 5000)
    assert state.active_seconds == before, "no time is counted while it waits"
    apply_event(state, CommandReceived(verb="approve", target="lock", by="Ada"), BEGAN + 6000)
    apply_event(state, ProviderRecovered(seconds=1.0), BEGAN + 6002)
    assert state.active_seconds == before + 2.0 and not state.is_paused
