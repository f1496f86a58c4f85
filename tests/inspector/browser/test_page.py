"""A finished run in the browser: search, keys, dark and light, a phone; and what models wrote stays text."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from PIL import Image

from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import AttemptExecuted, NodeJudged, NodePlotted, NodeProposed, PlotsReviewed
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Attempt, Failure
from labwright.record.schema.paper import Figure, FigureFacts, FigureReview
from tests.inspector.browser.chromium import Viewer, running_viewer
from tests.inspector.browser.conftest import Look
from tests.inspector.sample_run import EventStory, make_ended
from tests.inspector.web_server import record_story

pytestmark = pytest.mark.slow
EVIL = (
    '"></title></textarea></pre></style><img src="x" onerror="window.owned=1;alert(1)"><script>window.owned=1;'
    "alert(2)</script><svg onload=alert(3)>\x1b[31mred\x1b[0m\x1b]0;owned\x07 {{ 7*7 }} 'javascript:alert(4)'"
)
SEEN = EVIL.replace("\x1b[31m", "").replace("\x1b[0m", "").partition("\x1b")[0]
"""How it begins as text: control characters are dropped."""
FIGURE = "<img src=x onerror=alert(5)>.png"
OWNED = "() => [window.owned, document.querySelector('img[src=x], svg[onload], script:not([src])')]"
OVERFLOWS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
LUMINANCE = """() => { const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
                         return (0.21 * r + 0.72 * g + 0.07 * b) / 255; }"""


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Viewer]:
    """Two runs: one that ended, one full of hostile text in which a node still runs."""
    top = tmp_path_factory.mktemp("runs")
    record_story(top / "whole", make_ended())
    (top / "whole" / "paper").mkdir()
    Image.new("RGB", (595, 842), "white").save(top / "whole" / "paper" / "paper.pdf")
    _hostile(top / "hostile")
    with running_viewer(top) as found:
        yield found


def _hostile(run: Path) -> None:
    story = EventStory()
    story.add_start()
    node = story.add_node("preliminary", "draft", varies=EVIL)
    failure = Failure(kind="shape", message=EVIL, traceback=f"Traceback\n{EVIL}")
    value = Measurement(
        name="log_loss", value=0.5, condition=EVIL, dataset="digits", split="validation", seed=1, grade="logged"
    )
    story.add(
        NodeProposed(node=node, decision=1, title=EVIL, plan=EVIL, varies=EVIL, source_sha256="0"),
        AttemptExecuted(
            node=node,
            attempt=Attempt(
                number=1, seconds=1, failure=failure, measurements=(value,), curves_sha256="0", stdout_tail=EVIL
            ),
        ),
        NodePlotted(node=node, n=1, figures=(Figure(name=FIGURE, sha256="0", facts=FigureFacts()),)),
        PlotsReviewed(
            node=node, n=1, reviews=(FigureReview(name=FIGURE, readable=False, issues=(EVIL,), description=EVIL),)
        ),
        NodeJudged(node=node, status="buggy", failure=failure),
        CommandReceived(verb="note", target="preliminary", text=EVIL, by=EVIL[:60]),
    )
    story.add_node("preliminary", "debug", node)
    record_story(run, story)
    for path, text in {
        "source/experiment.py": f"x = 1  # {EVIL}\n",
        "attempt1/stdout.txt": EVIL,
        "attempt1/measurements.jsonl": json.dumps(value.model_dump() | {"step": 1, "name": EVIL}) + "\n",
    }.items():
        file = run / "nodes" / node / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    figures = run / "nodes" / node / "plots1" / "figures"
    figures.mkdir(parents=True)
    Image.new("RGB", (30, 20), "red").save(figures / FIGURE)


def _page(viewer: Viewer, run: str = "whole", view: str = "/tree") -> str:
    token = viewer.address.partition("?")[2]
    return f"{viewer.host}/runs/{run}{view}?{token}"


def test_search_finds_nodes_and_keys_walk_through_them(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_page(viewer))
    page.keyboard.press("j")
    page.wait_for_selector("#panel [data-panel=n0001]")
    page.keyboard.press("j")
    page.wait_for_selector("#panel [data-panel=n0002]")
    page.keyboard.press("k")
    page.wait_for_selector("#panel [data-panel=n0001]")
    assert page.url.endswith("#n0001")
    page.keyboard.press("Escape")
    page.wait_for_selector("#panel", state="hidden")
    page.keyboard.press("/")
    page.keyboard.type("LEARNING_RATE")
    page.wait_for_function("() => document.querySelectorAll('.rows > li:not(.out)').length === 1")
    assert page.locator("g.node:not(.out)").count() == 1
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('.rows > li.out')")
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#keys").is_hidden()


def test_dark_and_light_follow_the_system_and_the_button(viewer: Viewer, open_page: Look) -> None:
    dark = open_page(_page(viewer), color_scheme="dark")
    light = open_page(_page(viewer), color_scheme="light")
    assert dark.evaluate(LUMINANCE) < 0.2 and light.evaluate(LUMINANCE) > 0.8
    light.locator("#theme").click()
    assert light.evaluate(LUMINANCE) < 0.2
    light.reload()
    assert light.evaluate(LUMINANCE) < 0.2, "the choice is kept"


@pytest.mark.parametrize("width", [1440, 390])
def test_one_screen_says_how_a_run_stands(viewer: Viewer, open_page: Look, width: int) -> None:
    height = {1440: 900, 390: 844}[width]
    page = open_page(_page(viewer, view=""), viewport={"width": width, "height": height})
    for part in ("verdicts", "now", "hours", "money", "best"):
        box = page.locator(f"#{part}").bounding_box()
        assert box is not None and box["height"] > 20 and box["y"] + box["height"] <= height, part
    assert page.locator("g.node, table.nodes, #checks, #cost").count() == 0, "what is a click away"
    page.locator(".tabs a", has_text="Tree").click()
    assert page.locator(".tabs [aria-current=page]").inner_text() == "Tree" and page.locator("g.node").count() == 6


@pytest.mark.parametrize("run", [pytest.param("whole", marks=pytest.mark.bench), "hostile"])
def test_a_phone_scrolls_down_only(viewer: Viewer, open_page: Look, run: str) -> None:
    page = open_page(_page(viewer, run), viewport={"width": 360, "height": 740}, device_scale_factor=2, has_touch=True)
    assert page.evaluate(OVERFLOWS) <= 0
    page.locator("g.node > a.tonode").first.dispatch_event("click")
    page.wait_for_selector("#panel [data-panel]")
    assert page.evaluate(OVERFLOWS) <= 0
    box = page.locator("#panel").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360
    for address in ("", f"/runs/{run}/calls", f"/runs/{run}/nodes/n0001"):
        page.goto(viewer.host + (address or "/"))
        assert page.evaluate(OVERFLOWS) <= 0, address


def test_what_others_wrote_is_text_and_no_script_of_it_runs(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_page(viewer, "hostile"))
    page.locator("g.node > a.tonode").first.click()
    page.wait_for_selector("#panel [data-panel=n0001]")
    panel = page.locator("#panel").inner_text()
    assert panel.count(SEEN) >= 3 and "\x1b" not in panel and "{{ 7*7 }}" in panel
    picture = page.locator("#panel figure img").first
    picture.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#panel figure img').naturalWidth === 30")
    assert FIGURE in panel
    page.goto(f"{viewer.host}/runs/hostile/events")
    page.wait_for_selector("#asked >> text=window.owned")  # the note
    for path in ("", "/nodes/n0001", "/calls", "/trace?number=0.5", "/files/nodes/n0001/attempt1/stdout.txt"):
        page.goto(f"{viewer.host}/runs/hostile{path}")
        assert page.evaluate(OWNED) == [None, None], path


def test_a_page_without_scripts_can_be_read(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_page(viewer), java_script_enabled=False)
    page.locator("g.node > a.tonode").first.click()
    page.locator("[data-panel=n0001]").wait_for(state="visible")  # the address changes before the page is drawn
    assert page.url.endswith("/nodes/n0001")
