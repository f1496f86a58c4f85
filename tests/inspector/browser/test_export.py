"""The file of `scientist export --html` as a colleague opens it: from disk, in a real browser, without a server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from labwright.agent.cli import main
from labwright.record.event_log import EventLog
from labwright.record.events.search_events import NodePlotted
from labwright.record.schema.paper import Figure, FigureFacts
from tests.inspector.browser.conftest import watch_page
from tests.inspector.test_web_paper import PAPER, SMOOTH, written
from tests.inspector.web_server import EVIL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A released run with hostile text, exported; a node of it has a figure."""
    top = tmp_path_factory.mktemp("export")
    run = written(top, evil=EVIL)
    (run / "paper" / "paper.tex").write_text(PAPER.replace("Results", f"Results {EVIL}"))
    source = run / "nodes" / "n0005" / "source"
    source.mkdir(parents=True)
    (source / "experiment.py").write_text(f"print({EVIL!r})\n")
    figures = run / "nodes" / "n0005" / "plots3" / "figures"
    figures.mkdir(parents=True)
    Image.new("RGB", (1400, 900), "red").save(figures / "loss.png")
    with closing(EventLog(run / "events.jsonl")) as log:
        log.append(NodePlotted(node="n0005", n=3, figures=(Figure(name="loss.png", sha256="0", facts=FigureFacts()),)))
    assert main(["export", str(run), "--html", str(top / "calm.html")]) == 0
    return top / "calm.html"


@pytest.fixture(params=[True, False], ids=["script", "no script"])
def page(request: pytest.FixtureRequest, browser: Browser, file: Path) -> Generator[Page]:
    """The file in a browser. At the end nothing may have been asked for, said on the console, or forbidden."""
    wrong: list[str] = []
    with closing(browser.new_context(java_script_enabled=request.param)) as context:
        context.set_default_timeout(30_000)
        found = context.new_page()
        watch_page(found, "file://", wrong)  # whoever forbids a thing says so on the console
        asked: list[str] = []
        found.on("request", lambda one: asked.append(one.url))
        found.goto(file.as_uri())
        yield found
        assert wrong == []
        assert {one for one in asked if not one.startswith("data:image/png")} == {file.as_uri()}


@pytest.mark.bench
def test_nodes_paper_and_numbers_open_by_clicks(page: Page) -> None:
    page.locator("#tree-stage-tuning g.node", has_text="n0005").first.click()
    panel = page.locator("#page-nodes-n0005")
    panel.locator("summary", has_text="experiment.py").click()
    assert panel.is_visible() and "print(" in panel.inner_text()
    figure = panel.locator("img").first
    box = figure.bounding_box()
    assert box is not None and box["width"] > 100 and page.locator(".leaf:visible").count() == 1
    assert figure.evaluate("one => one.naturalWidth") > 0

    page.goto(page.url.partition("#")[0])
    assert not panel.is_visible()
    page.locator('a[href="#page-paper"]').first.click()
    sheet = page.locator("#page-paper .sheet img").first
    assert sheet.is_visible() and sheet.evaluate("one => one.naturalWidth") > 500
    page.locator(f'#page-paper a.m-key:has(title:text("{SMOOTH}.mean"))').first.click()
    trace = page.locator(".leaf:visible")
    assert f"{SMOOTH}" in trace.inner_text() and "n0007" in trace.inner_text()
    trace.get_by_role("link", name="n0007").first.click()
    assert page.locator("#page-nodes-n0007").is_visible()
    page.locator(".leaf:visible .shut").click()
    assert page.locator(".leaf:visible").count() == 0


def test_the_chart_is_contained(page: Page) -> None:
    page.locator("nav a[href='#page-chart']").click()
    assert page.locator("#page-chart .bestline").first.is_visible()
    page.locator("#page-chart a[href='#page-nodes-n0005']").first.click()
    assert page.locator("#page-nodes-n0005").is_visible()


def test_text_of_others_stays_text(page: Page) -> None:
    page.locator("#tree-stage-tuning g.node", has_text="n0005").first.click()
    page.locator("#page-nodes-n0005 summary", has_text="experiment.py").click()
    assert "onerror=alert" in page.locator("#page-nodes-n0005").inner_text()
    assert page.locator("script, [onerror], [onload], img:not([src^='data:image/png;base64,'])").count() == 0
