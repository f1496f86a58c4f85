"""Alerts by a command: real processes, and failures that stop nothing."""

from __future__ import annotations

import json
import sys
import time
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


def test_a_command_is_told_what_happened_and_only_what_is_asked_for(tmp_path: Path) -> None:
    names = "OCCASION TEXT RUN TITLE".split()
    script = (
        "import json, os, sys, time\n"
        f"said = {{name: os.environ['SCIENTIST_ALERT_' + name] for name in {names}}}\n"
        "open(sys.argv[1] + '/' + said['OCCASION'], 'w').write(json.dumps(said))"
    )
    command = (sys.executable, "-c", script, str(tmp_path))
    alerts = Alerts(AlertSettings(command=command, on=("pause", "failure")), tmp_path / "run")
    alerts(ProviderOutage(reason="the quota is used up", until=1e9), RunState())
    alerts(ProcessEnded(exit_code=0, reason=""), RunState())
    alerts.send("failure", "it broke", RunState())
    alerts.close()
    told = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert told.keys() == {"pause", "failure"} and told["failure"]["TEXT"] == "it broke"
    assert "the quota is used up" in told["pause"]["TEXT"] and told["pause"]["RUN"] == str(tmp_path / "run")


def test_a_command_is_told_in_its_environment(tmp_path: Path) -> None:
    script = "import os, sys; open(sys.argv[1], 'w').write(os.environ['SCIENTIST_ALERT_OCCASION'])"
    alerts = Alerts(AlertSettings(command=(sys.executable, "-c", script, str(tmp_path / "told"))), tmp_path)
    alerts(LimitReached(reason="the time limit"), RunState())
    alerts.close()
    assert (tmp_path / "told").read_text() == "budget"


@pytest.mark.parametrize(
    "settings",
    [
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
