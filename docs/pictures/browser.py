"""Pictures of the page in a real Chromium: what `scientist view` shows of a run, and of one that goes on."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

from tests.inspector.browser.chromium import Viewer, chromium, running_viewer

WIDE = {"width": 1280, "height": 880}
PHONE = {"width": 390, "height": 844}
COLOURS = 64
DECODED = """() => Promise.all([...document.images].filter(one => one.getBoundingClientRect().top < innerHeight &&
    one.getBoundingClientRect().bottom > 0).map(one => one.decode().catch(() => null)))"""
"""Pictures in sight are there."""
Shot = Callable[[Page], object]


class Camera:
    """Opens addresses of one viewer and keeps what is seen as `NAME.png` in a folder."""

    def __init__(self, browser: Browser, viewer: Viewer, folder: Path) -> None:
        self._browser, self._viewer, self._folder = browser, viewer, folder

    def take(self, name: str, path: str, before: Shot = lambda page: None, **options: Any) -> None:
        """What is seen at `path` once `before` was done."""
        with self._opened(path, options) as page:
            before(page)
            self._settle(page)
            keep(page.screenshot(), self._folder / f"{name}.png")

    @contextmanager
    def _opened(self, path: str, options: dict[str, Any]) -> Generator[Page]:
        context = self._browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
        try:
            page = context.new_page()
            page.goto(self._viewer.address)  # the token becomes a cookie
            page.goto(self._viewer.host + path)
            yield page
        finally:
            context.close()

    def _settle(self, page: Page) -> None:
        page.evaluate(DECODED)
        page.wait_for_timeout(300)


def keep(png: bytes, file: Path) -> None:
    """A picture with few colours, so that it is small."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE).save(file, optimize=True)


@contextmanager
def cameras(folder: Path) -> Generator[Callable[[Path], Any]]:
    """A browser; what it gives opens a viewer over a place."""
    with chromium() as browser:

        @contextmanager
        def over(place: Path) -> Generator[Camera]:
            with running_viewer(place) as viewer:
                yield Camera(browser, viewer, folder)

        yield over


# --- what is done before a picture is taken -------------------------------------------------------------------------


def show_node(node: str) -> Shot:
    """Its panel beside the tree."""

    def shot(page: Page) -> None:
        page.locator(f"#tree g.node[data-node={node}] > a.tonode").first.click()
        page.wait_for_selector(f"#panel [data-panel={node}]")
        page.evaluate("() => scrollTo(0, 0)")

    return shot


def show_part(selector: str) -> Shot:
    """A part of the page at its top."""
    return lambda page: page.evaluate("part => document.querySelector(part).scrollIntoView()", selector)


def open_part(selector: str) -> Shot:
    """A folded part of the page, opened, at its top."""

    def shot(page: Page) -> None:
        page.locator(f"{selector} > summary").click()
        show_part(selector)(page)

    return shot


def show_chart(page: Page) -> None:
    """The page from its head on, with its chart."""
    page.wait_for_selector("#chart .bestline")


def show_note(page: Page) -> None:
    """The prompt of a call that wrote code in the agenda: it has the note of a person."""
    page.locator("table.calls tr", has_text="agenda").locator("a.tonode").first.click()
    page.wait_for_selector("#panel pre >> text=smaller steps before")


def click(selector: str, then: str) -> Shot:
    """A click on the first of what a selector finds, and what is waited for."""

    def shot(page: Page) -> None:
        page.locator(selector).first.click()
        page.wait_for_selector(then)

    return shot


def show_number(page: Page) -> None:
    """A number of the results in the paper, clicked."""
    sheet = page.locator("#sheet-3")
    sheet.scroll_into_view_if_needed()
    page.evaluate("() => document.getElementById('sheet-3').scrollIntoView()")
    sheet.locator("a.m-key").nth(4).dispatch_event("click")
    page.wait_for_selector("#panel > *")
