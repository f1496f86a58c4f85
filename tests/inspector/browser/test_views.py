"""The views beside the tree, in a real browser: chart, table, cells, head."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from labwright.record.event_log import EventLog
from labwright.record.events.search_events import AttemptExecuted, NodeJudged
from labwright.record.lock import acquire_lock
from labwright.record.schema.nodes import Attempt
from tests.inspector.browser.chromium import Viewer, running_viewer
from tests.inspector.browser.conftest import TIMEOUT_MILLISECONDS, Look
from tests.inspector.browser.test_page import EVIL, OVERFLOWS, SEEN
from tests.inspector.cell_run import make_cell_run
from tests.inspector.sample_run import EventStory, make_ended, make_sample
from tests.inspector.tuning_run import make_tuning_run
from tests.inspector.web_server import record_story
from tests.stages.test_whole_run import small_settings

pytestmark = pytest.mark.slow
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Viewer]:
    """Runs that differ: with curves and code, tuned, by cells, hostile, with one node, with none, damaged."""
    top = tmp_path_factory.mktemp("runs")
    whole = record_story(top / "whole", _curved())
    (whole / "paper").mkdir()
    Image.new("RGB", (595, 842), "white").save(whole / "paper" / "paper.pdf")
    for node, start in (("n0003", 1.0), ("n0005", 0.8)):
        attempt, source = whole / "nodes" / node / "attempt1", whole / "nodes" / node / "source"
        attempt.mkdir(parents=True)
        source.mkdir(parents=True)
        (source / "experiment.py").write_text(f"rate = {start}\nrun()\n")
        (attempt / "measurements.jsonl").write_text(
            "".join(
                json.dumps(
                    {
                        "name": "loss",
                        "dataset": "digits",
                        "split": "train",
                        "condition": arm,
                        "step": step,
                        "value": start / (step + 1),
                    }
                )
                + "\n"
                for arm in ("plain", "smooth")
                for step in range(5)
            )
        )
    record_story(top / "tuned", make_tuning_run())
    record_story(top / "celled", make_cell_run())
    hostile, one = EventStory(), EventStory()
    for story, words in ((hostile, EVIL), (one, "a first try")):
        story.add_start()
        story.finish_good(story.add_node("preliminary", "draft", varies=words), 0.4)
    record_story(top / "hostile", hostile)
    record_story(top / "one", one)
    record_story(top / "begun", EventStory())
    (top / "damaged").mkdir()
    (top / "damaged" / "events.jsonl").write_bytes(b"no log" * 100)
    with running_viewer(top) as found:
        yield found


def _curved() -> EventStory:
    story = make_ended()
    story.events = [
        (
            event
            if not isinstance(event, AttemptExecuted)
            else event.model_copy(update={"attempt": event.attempt.model_copy(update={"curves_sha256": "0"})}),
            at,
        )
        for event, at in story.events
    ]
    return story


def _at(viewer: Viewer, path: str) -> str:
    return f"{viewer.host}{path}{'&' if '?' in path else '?'}{viewer.address.partition('?')[2]}"


def test_the_chart_opens_a_node(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_at(viewer, "/runs/whole/chart"))
    page.wait_for_selector("#chart .bestline")
    assert page.locator("#chart .dot").count() == 6 and page.locator("#chart path.baseline").count() == 2
    page.locator("#chart a.tonode:has([data-node=n0003])").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel [data-panel=n0003]")


def test_the_table_is_searched_sorted_filtered_and_saved(viewer: Viewer, open_page: Look, tmp_path: Path) -> None:
    page = open_page(_at(viewer, "/runs/whole/table"))
    assert page.locator("tr[data-node]").count() == 6
    page.keyboard.press("/")
    page.keyboard.type("shapes differ")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('tr[data-node]').length === 1")
    page.locator("input[type=search]").fill("")
    page.locator("button", has_text="Apply").click()
    page.wait_for_function("() => document.querySelectorAll('tr[data-node]').length === 6")
    page.locator("th a", has_text="log loss").click()
    page.wait_for_selector("th[aria-sort=ascending] >> text=log loss")
    assert page.locator("tr[data-node] a.tonode").first.inner_text() == "n0005"
    page.locator("th a", has_text="log loss").click()
    page.wait_for_selector("th[aria-sort=descending] >> text=log loss")
    page.locator("select[name=stage]").select_option("preliminary")
    page.locator("button", has_text="Apply").click()
    page.wait_for_function("() => document.querySelectorAll('tr[data-node]').length === 4")
    assert page.locator("th[aria-sort=descending]").count() == 1, "the order stays"
    with page.expect_download() as saved:
        page.locator("a", has_text="CSV").click()
    saved.value.save_as(tmp_path / "nodes.csv")
    rows = list(csv.DictReader((tmp_path / "nodes.csv").read_text().splitlines()))
    assert [row["node"] for row in rows] == ["n0002", "n0004", "n0003", "n0001"] and rows[0]["log loss"] == "0.4"
    page.locator("tr[data-node=n0003] a.tonode").click()
    page.wait_for_selector("#panel [data-panel=n0003]")


def test_a_curve_says_its_value_under_the_pointer(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_at(viewer, "/runs/whole/nodes/n0005"))
    assert page.locator("svg.plot polyline").count() == 2
    page.locator("svg.plot").scroll_into_view_if_needed()
    box = page.locator("svg.plot").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.6)
    page.wait_for_function("() => / at /.test(document.querySelector('.read').textContent)")


def test_the_grid_of_cells(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_at(viewer, "/runs/celled/cells"))
    assert page.locator("tr[data-node]").count() == 3
    row = page.locator("tr[data-node=n0002]")
    assert row.locator(".o-failed").count() == 2 and row.locator(".o-taken-over").count() == 1
    page.locator("tr[data-node=n0003] a.tonode").click()
    page.wait_for_selector("#panel [data-panel=n0003]")


def test_the_head_says_what_the_run_came_to_and_the_tuning_has_its_curves(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_at(viewer, "/runs/tuned"))
    assert page.locator("#verdicts table .whisker .zero").count() == 1
    page.locator(".tabs a", has_text="Reports").click()
    assert "plain - smooth\t+" in page.locator("#headline table").inner_text(), "a lower loss is better"
    assert not page.locator("#live").is_visible(), "nothing works on it"
    page.locator("#tuned > summary").click()
    assert page.locator("#tuned svg.plot polyline").count() == 2
    assert page.locator("details.report[open]").count() == 0
    page.goto(f"{viewer.host}/runs/tuned/nodes/n0005")
    assert page.locator("td .less >> text=baseline").count() >= 1 and page.locator("td .gold").count() >= 1


def test_a_run_that_goes_on_says_what_is_left_and_what_its_slots_do(tmp_path: Path, open_page: Look) -> None:
    story = make_sample()
    started, at = story.events[0]
    settings = small_settings().model_dump(mode="json")
    story.events[0] = started.model_copy(update={"settings": settings}), at
    run = record_story(tmp_path / "calm", story)
    with acquire_lock(run), running_viewer(tmp_path) as viewer:
        page = open_page(f"{viewer.host}/runs/calm?{viewer.address.partition('?')[2]}")
        page.wait_for_selector("#live >> text=live")
        page.wait_for_selector("#now >> text=left of")
        assert page.locator("#now .slots li").count() >= 1 and page.locator("#now >> text=forecast").count() == 1
        page.goto(f"{viewer.host}/runs/calm/chart")
        page.wait_for_selector("#chart .dot", state="attached")
        with closing(EventLog(run / "events.jsonl")) as log:
            log.append(AttemptExecuted(node="n0006", attempt=Attempt(number=1, seconds=1.0)))
            log.append(NodeJudged(node="n0006", status="buggy"))
        page.wait_for_selector("#chart [data-node=n0006] .open", state="attached", timeout=TIMEOUT_MILLISECONDS)
        page.close()


@pytest.mark.parametrize("path", ["/runs/nothing", "/nowhere", "/runs/whole/nodes/n9999"])
def test_what_is_not_there_is_a_page_that_leads_back(viewer: Viewer, open_page: Look, path: str) -> None:
    page = open_page(_at(viewer, "/"))
    answer = page.request.get(f"{viewer.host}{path}", headers={"accept": "text/html"})
    assert answer.status in (400, 404) and "To the list of runs" in answer.text()
    assert page.request.get(f"{viewer.host}{path}").headers["content-type"].startswith("text/plain")


def test_a_damaged_run_says_so_on_its_page(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_at(viewer, "/runs/damaged"))
    page.wait_for_selector("[role=alert] >> text=cannot read the record")
    assert page.locator("#verdicts, #best").count() == 0, "nothing empty is shown in its place"
    page.goto(f"{viewer.host}/")
    assert page.locator("#run-damaged .pill").inner_text() == "damaged"
    for view in ("chart", "table", "cells"):
        page.goto(f"{viewer.host}/runs/damaged/{view}")
        assert page.locator(".empty").count() == 1, view


@pytest.mark.parametrize("run", ["whole", "one", "hostile", "begun", "celled"])
def test_every_view_is_safe_and_scrolls_down_only_on_a_phone(viewer: Viewer, open_page: Look, run: str) -> None:
    page = open_page(_at(viewer, "/"), viewport=PHONE, has_touch=True)
    for view in ("", "/reports", "/tree", "/chart", "/table", "/cells", "/cost", "/events"):
        page.goto(f"{viewer.host}/runs/{run}{view}")
        assert page.evaluate(OVERFLOWS) <= 0, view
        assert page.evaluate("() => [window.owned, document.querySelector('img[src=x], svg[onload]')]") == [None, None]
    if run == "hostile":
        page.goto(f"{viewer.host}/runs/hostile/table")
        assert SEEN[:60] in page.locator("td.what").first.inner_text()
        assert page.locator(".scroll[data-wide]").count() == 1, "it says that it scrolls"


def test_views_are_there_without_scripts(viewer: Viewer, open_page: Look) -> None:
    page = open_page(_at(viewer, "/runs/whole/table?q=shapes&sort=metric&down=1"), java_script_enabled=False)
    assert page.locator("tr[data-node]").count() == 1
    page.goto(f"{viewer.host}/runs/whole/nodes/n0005")
    assert page.locator("pre.diff .add").count() == 1
    page.goto(f"{viewer.host}/runs/whole")
    page.locator(".tabs a", has_text="Chart").click()
    page.wait_for_selector(".bestline")
