"""A key reaches the provider, and nothing else: not the record, not a log, not an error."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from labwright.agent.cli import main
from labwright.models import transport
from labwright.models.offline.researcher import OfflineResearcher

pytestmark = pytest.mark.slow

KEY = "plantedkey4711deadbeefcafe"
IDEA = {"Name": "x", "Title": "X", "Experiments": ["one"]}


class Echo(BaseHTTPRequestHandler):
    """Refuses everything, and says the key back as some providers do."""

    status = 401
    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Authorization", "")
        type(self).seen.append(key)
        body = json.dumps({"error": {"message": f"Incorrect API key provided: {key}"}}).encode()
        self.send_response(type(self).status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.fixture
def server() -> Generator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}/v1"
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.mark.parametrize("status", [401, 400, 500])
def test_a_failing_run_leaves_its_key_nowhere(
    status: int,
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert OfflineResearcher is not None  # imported before the key is set: nothing keeps a copy of the environment
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(Echo, "status", status)
    monkeypatch.setattr(transport, "RETRY_WAIT_SECONDS", 0)
    Path("idea.json").write_text(json.dumps(IDEA))
    caplog.set_level(logging.DEBUG)
    code = main(
        [
            "run",
            "--idea",
            "idea.json",
            "--model",
            "openai-chat:m",
            "--base-url",
            server,
            "--name",
            "failing",
            "--budget-usd",
            "9",
            "--set",
            "models.retries=1",
            "--set",
            "models.outage_timeout=0",
            "--set",
            "models.output=tool",
        ]
    )
    assert code != 0 and any(KEY in key for key in Echo.seen), "the provider did get the key"
    told = capsys.readouterr()
    assert KEY not in told.out + told.err and KEY not in caplog.text
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
