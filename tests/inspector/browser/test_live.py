"""A person opens a run that goes on and takes the wheel: of a log that grows, and (in `make bench`) of a real run."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.control_files import read_pending_commands
from labwright.record.event_log import EventLog, read_events, read_state
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import DecisionMade, NodeJudged
from labwright.record.lock import acquire_lock
from tests.inspector.browser.chromium import running_module, running_viewer
from tests.inspector.browser.conftest import TIMEOUT_MILLISECONDS, Look
from tests.inspector.sample_run import make_sample
from tests.inspector.web_server import record_story

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

STATES = """() => {
  window.states = {};
  const note = (one) => { if (one.id?.startsWith("g-"))
    (window.states[one.id] ??= new Set()).add([...one.classList].find((name) => name.startsWith("s-"))); };
  for (const one of document.querySelectorAll("g.node")) note(one);
  new MutationObserver((changes) => { for (const change of changes) change.addedNodes.forEach(note); })
    .observe(document.querySelector("#tree"), { childList: true, subtree: true });
}"""
"""Notes every state that a node of the tree is seen in; gone with a reload."""
CHANGED = "() => Object.values(window.states).some((one) => one.size > 1 && (one.has('s-good') || one.has('s-buggy')))"
LONGEST = 240
"""Seconds that the run gets."""


def test_an_open_page_follows_its_run_and_its_buttons_steer_it(tmp_path: Path, open_page: Look) -> None:
    run = record_story(tmp_path / "calm", make_sample())
    with acquire_lock(run), running_viewer(tmp_path) as viewer:
        page = open_page(viewer.address)
        page.locator("tr.run a").click()
        page.wait_for_selector("#now .slots")
        page.goto(f"{viewer.host}/runs/calm/tree")
        page.evaluate(STATES)
        with closing(EventLog(run / "events.jsonl")) as log:
            log.append(NodeJudged(node="n0006", status="pruned"))
        page.wait_for_selector("#g-n0006.s-pruned", state="attached")
        assert page.evaluate("() => [...window.states['g-n0006']]") == ["s-running", "s-pruned"], "it was reloaded"
        page.locator(".tabs a", has_text="Overview").click()
        _ask(page, "pause", "I want to look <b>first</b>")
        page.wait_for_selector("text=Sent: pause")
        [(_, command)] = read_pending_commands(run).commands
        assert isinstance(command, CommandReceived) and command.text == "I want to look <b>first</b>" and command.by
        page.close()


@pytest.mark.bench
@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "to its end"])
def test_a_run_is_watched_paused_and_gone_on_with(tmp_path: Path, open_page: Look, stopped: bool) -> None:
    run = tmp_path / "live"
    with (
        running_viewer(tmp_path) as viewer,
        running_module("tests.inspector.browser.live_run", str(tmp_path), "live") as process,
    ):
        page = open_page(viewer.address)
        page.locator("tr.run a").click()  # it comes into the list by itself
        page.locator(".tabs a", has_text="Tree").click()
        page.wait_for_selector("g.node", state="attached")
        page.evaluate(STATES)
        page.wait_for_function(CHANGED)

        # A finished node: its figure, and its code beside that of its parent.
        page.locator("g.k-debug.s-good > a.tonode").last.click()
        figure = page.locator("#panel figure img").first
        figure.scroll_into_view_if_needed()
        page.wait_for_function("() => document.querySelector('#panel figure img')?.naturalWidth > 0")
        page.locator("#panel details[id^=source-] > summary").first.click()
        assert "np.zeros" in page.locator("#panel pre.diff .removed").first.inner_text()
        page.keyboard.press("Escape")

        watched, drawn = page.evaluate(  # at once: the run goes on meanwhile
            "() => [Object.keys(window.states).length, document.querySelectorAll('g.node').length]"
        )
        assert watched == drawn, "reloaded"
        page.locator(".tabs a", has_text="Overview").click()

        # Paused: what is asked is recorded, and no decision is made until it goes on.
        _ask(page, "pause", "I want to look <b>first</b>")
        page.wait_for_selector("p.paused >> text=I want to look <b>first</b>")
        time.sleep(2.0)
        _ask(page, "resume", "seen")
        page.wait_for_selector("p.paused", state="detached")
        if stopped:
            _ask(page, "stop", "enough")
        page.wait_for_selector(f"#state.{'c-interrupted' if stopped else 'c-done'}", timeout=1000 * LONGEST)
        assert process.wait(TIMEOUT_MILLISECONDS / 1000) == (130 if stopped else 0)
        _was_held(run)
        if not stopped:
            _paper_is_read(page, run)
        page.close()  # before its server is gone: later pages of the paper may still be on their way


def _ask(page: Page, verb: str, reason: str) -> None:
    page.locator(f"#act-{verb}-run > summary").click()
    page.locator(f"#text-{verb}-run").fill(reason)
    page.locator(f"#act-{verb}-run button.go").click()


def _was_held(run: Path) -> None:
    events = [event for event, _ in read_events(run / "events.jsonl")]
    at = {event.verb: number for number, event in enumerate(events) if isinstance(event, CommandReceived)}
    held = events[at["pause"] : at["resume"]]
    assert not [event for event in held if isinstance(event, DecisionMade)]
    asked = events[at["pause"]]
    assert isinstance(asked, CommandReceived) and asked.text == "I want to look <b>first</b>" and asked.by
    assert any(isinstance(event, DecisionMade) for event in events[at["resume"] :])
    assert any(isinstance(event, NodeJudged) for event in events)


def _paper_is_read(page: Page, run: Path) -> None:
    """A number leads to the nodes that it was measured by; judge and checks stand beside."""
    page.locator(".tabs a", has_text="Checks").click()
    assert page.locator("#checks .checks > li").count() >= 2
    page.locator(".tabs a", has_text="Paper").click()
    assert page.locator("#judgement .scores > li").count() >= 5
    mark = page.locator("svg a.m-key").last
    mark.scroll_into_view_if_needed()
    mark.click()
    node = page.locator("#panel .candidate a.tonode").first
    name = node.inner_text()
    assert name in {one for claim in compute_paper_claims(read_state(run)) for one in claim.nodes}
    node.click()
    page.wait_for_selector(f"#panel [data-panel='{name}']", timeout=TIMEOUT_MILLISECONDS)
