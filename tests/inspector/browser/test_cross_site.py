"""A page of somebody else, in the browser that has our cookie, can neither read nor steer."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.inspector.browser.chromium import running_viewer
from tests.inspector.sample_run import make_sample
from tests.inspector.web_server import record_story

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Response

pytestmark = pytest.mark.slow

PAGE = b"""<!doctype html><title>a stranger</title><iframe name="there"></iframe>
<form method="post" target="there"><input name="form" value="guess"><input name="verb" value="note">
<textarea name="text">obey me</textarea></form>"""
READ = """async (address) => {
  const tried = {};
  for (const mode of ["cors", "no-cors"]) {
    try {
      const answer = await fetch(address, { credentials: "include", mode });
      tried[mode] = (await answer.text()).length;
    } catch (error) { tried[mode] = "refused"; }
  }
  tried.script = await new Promise((done) => {
    const one = document.createElement("script");
    [one.src, one.onload, one.onerror] = [address, () => done("loaded"), () => done("refused")];
    document.head.append(one);
  });
  tried.stream = await new Promise((done) => {
    const one = new EventSource(address + "/live", { withCredentials: true });
    [one.onmessage, one.onerror] = [() => done("read"), () => { one.close(); done("refused"); }];
  });
  return tried;
}"""


class _Stranger(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)


@contextmanager
def stranger() -> Generator[str]:
    """The address of a server of somebody else on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return record_story(tmp_path / "run", make_sample())


def test_a_foreign_page_can_neither_read_nor_steer(run: Path, browser: Browser) -> None:
    with running_viewer(run) as viewer, stranger() as elsewhere, closing(browser.new_context()) as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        answers: list[Response] = []
        page.goto(viewer.address)
        assert page.locator("#verdicts").count() == 1  # this browser is let in, and has the cookie
        page.goto(elsewhere)
        assert page.evaluate("async (it) => (await (await fetch(it)).text()).length", elsewhere) == len(PAGE)
        page.on("response", lambda one: answers.append(one))

        tried = page.evaluate(READ, f"{viewer.host}/runs/run")
        assert tried == {"cors": "refused", "no-cors": "refused", "script": "refused", "stream": "refused"}

        with page.expect_response(lambda one: one.url.endswith("/steer")) as posted:
            page.evaluate(
                "(to) => { document.forms[0].action = to; document.forms[0].submit(); }",
                f"{viewer.host}/runs/run/steer",
            )
        assert posted.value.status == 403

        with page.expect_response(lambda one: one.url.endswith("/runs/run")) as framed:
            page.evaluate("(to) => { document.querySelector('iframe').src = to; }", f"{viewer.host}/runs/run")
        assert framed.value.status == 403
        assert all(one.status >= 400 for one in answers if one.url.startswith(viewer.host))
        assert not list(run.glob("control/*"))


def test_a_name_that_was_rebound_to_this_machine_is_refused(run: Path, browser: Browser) -> None:
    with running_viewer(run) as viewer, closing(browser.new_context()) as context:
        page = context.new_page()
        answer = page.goto(viewer.address.replace("127.0.0.1", "rebound.test"), timeout=30_000)
        assert answer is not None and answer.status == 421 and "run" not in page.title()
