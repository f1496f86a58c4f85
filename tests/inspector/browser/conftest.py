"""One browser for all tests here; a page in it that is watched for whatever must not happen."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.inspector.browser.chromium import chromium, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request

Look = Callable[..., "Page"]
TIMEOUT_MILLISECONDS = 30_000
"""Milliseconds that an element gets to appear: machines that run tests are busy."""


@pytest.fixture(scope="package")
def browser() -> Generator[Browser]:
    """Package scope: playwright's loop must be gone before tests of coroutines elsewhere begin theirs."""
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed: pip install -e '.[dev]'")
    if find_chromium() is None:
        pytest.skip("there is no Chromium: sudo apt-get install chromium")
    with chromium() as found:
        yield found


@pytest.fixture
def open_page(browser: Browser) -> Generator[Look]:
    """Opens an address in a profile of its own. At the end nothing may have gone wrong in any page.

    Wrong is: a word on the console, an uncaught error, a dialog, a request to another host than the page's.
    """
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def opened(address: str, **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        page = context.new_page()
        watch_page(page, "/".join(address.split("/")[:3]), wrong)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def watch_page(page: Page, host: str, wrong: list[str]) -> None:
    def said(message: ConsoleMessage) -> None:
        wrong.append(f"console: {message.text} ({message.location.get('url')})")

    def asked(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def requested(request: Request) -> None:
        if not request.url.startswith(f"{host}/"):
            wrong.append(f"request: {request.url}")

    def failed(error: object) -> None:
        wrong.append(f"error: {error}")

    handlers: Mapping[str, Callable[[Any], None]] = {
        "console": said,
        "dialog": asked,
        "request": requested,
        "pageerror": failed,
    }
    for name, handler in handlers.items():
        page.on(name, handler)  # pyrefly: ignore - typed by name there
