"""Alerts by webhook and command: real HTTP, real processes, and failures that stop nothing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.alerts import Alerts, AlertSettings, classify_event
from labwright.record.events.run_events import (
    CommandReceived,
    LimitReached,
    ProcessEnded,
    ProviderOutage,
    ProviderRecovered,
    RunResumed,
)
from labwright.record.reducers.run_state import RunState


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook's address, and what it was sent."""
    taken: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"])).decode()
            is_json = self.headers["content-type"] == "application/json"
            body = json.loads(text) if is_json else {"body": text, **self.headers}
            if self.path == "/slow":
                time.sleep(100.0)
            taken.append(body)
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", taken
    server.shutdown()
    server.server_close()


def test_events_have_their_occasions() -> None:
    found = {code: classify_event(ProcessEnded(exit_code=code, reason="")) for code in (0, 1, 3, 4, 130)}
    assert found == {0: "finish", 1: "failure", 3: "finish", 4: "finish", 130: "pause"}
    assert (
        classify_event(ProviderOutage(reason="down", until=1.0))
        == classify_event(ProviderRecovered(seconds=1.0))
        == "pause"
    )
    assert classify_event(LimitReached(reason="time")) == "budget"
    assert classify_event(LimitReached(reason="nodes", stage="tuning")) is None
    assert classify_event(CommandReceived(verb="pause")) == "pause" and classify_event(RunResumed()) is None


def test_a_webhook_is_sent_what_happened(hook: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    address, taken = hook
    alerts = Alerts(AlertSettings(webhook=address), tmp_path / "run")
    alerts(ProviderOutage(reason="the quota is used up", until=1e9), RunState())
    alerts(ProcessEnded(exit_code=0, reason=""), RunState())
    alerts.close()
    assert {one["occasion"] for one in taken} == {"pause", "finish"}
    assert all(one["run"] == str(tmp_path / "run") for one in taken)
    assert any("the quota is used up" in one["text"] for one in taken)


def test_a_message_reaches_a_topic_of_ntfy(hook: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    address, taken = hook
    alerts = Alerts(AlertSettings(ntfy=f"{address}/my-topic"), tmp_path / "run")
    alerts(ProcessEnded(exit_code=1, reason="the disk is full"), RunState())
    alerts.close()
    [message] = taken
    assert "the disk is full" in message["body"] and str(tmp_path / "run") in message["body"]
    assert (message["Title"], message["Priority"], message["Tags"]) == ("scientist: run", "high", "failure")


def test_a_webhook_may_come_from_the_environment(
    hook: tuple[str, list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_HOOK", hook[0])
    alerts = Alerts(AlertSettings(webhook="$MY_HOOK", on=("failure",)), tmp_path)
    alerts.send("failure", "it broke", RunState())
    alerts.send("finish", "not asked for", RunState())
    alerts.close()
    assert [one["text"] for one in hook[1]] == ["it broke"]


def test_a_command_is_told_in_its_environment(tmp_path: Path) -> None:
    script = "import os, sys; open(sys.argv[1], 'w').write(os.environ['SCIENTIST_ALERT_OCCASION'])"
    alerts = Alerts(AlertSettings(command=(sys.executable, "-c", script, str(tmp_path / "told"))), tmp_path)
    alerts(LimitReached(reason="the time limit"), RunState())
    alerts.close()
    assert (tmp_path / "told").read_text() == "budget"


@pytest.mark.parametrize(
    "settings",
    [
        {"webhook": "http://127.0.0.1:9/nobody"},
        {"webhook": "$NOT_SET"},
        {"command": ("/no/such/program",)},
        {"command": (sys.executable, "-c", "raise SystemExit(3)")},
        {"command": (sys.executable, "-c", "import time; time.sleep(100)")},
    ],
)
def test_what_cannot_be_delivered_stops_nothing_and_takes_bounded_time(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labwright.agent.alerts.TIMEOUT_SECONDS", 0.3)
    began = time.monotonic()
    alerts = Alerts(AlertSettings(**settings), tmp_path)
    alerts.send("finish", "done", RunState())
    alerts.close()
    assert time.monotonic() - began < 50
