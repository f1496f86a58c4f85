"""A run pauses while its disk is nearly full, says so, and goes on when there is room again."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent import run_process
from labwright.agent.run_process import CommandHandler
from labwright.inspector.status import format_pause
from labwright.record.event_log import EventLog
from labwright.record.events.run_events import CommandReceived
from labwright.record.run_folder import RunFolder
from labwright.search.scheduler import RunControl
from tests.inspector.sample_run import make_sample
from tests.inspector.test_logs import written

pytestmark = pytest.mark.slow


def commanded(log: EventLog) -> list[CommandReceived]:
    return [one.command for one in log.state.user_commands]


def test_it_pauses_once_and_goes_on_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(written(tmp_path / "calm", make_sample()) / "events.jsonl")
    minding = CommandHandler(RunFolder(tmp_path / "calm"), log, RunControl(), lambda: None)
    free = [3.0]

    def free_gb(_: Path) -> float:
        return free[0]

    monkeypatch.setattr(run_process, "read_free_gb", free_gb)
    looked: list[tuple[float, bool]] = []

    def look(gigabytes: float) -> None:
        free[0] = gigabytes
        minding.pause_on_full_disk(2.0)
        looked.append((gigabytes, log.state.is_paused))

    monkeypatch.setattr(minding.signals, "pause", lambda: None)
    monkeypatch.setattr(minding.signals, "resume", lambda: None)
    for gigabytes in (3.0, 1.9, 1.8, 2.1, 2.2, 0.5):
        look(gigabytes)
    assert looked == [(3.0, False), (1.9, True), (1.8, True), (2.1, True), (2.2, False), (0.5, True)]
    assert [one.verb for one in commanded(log)] == ["pause", "resume", "pause"]
    assert log.state.paused_by is not None
    assert format_pause(log.state, 0.0).startswith(
        "by the program (only 0.50 GB are free on the run's disk, but min_free_gb is 2: it resumes automatically once "
        "2.2 GB are free)"
    )
    log.append(CommandReceived(verb="resume", by="ada"))
    log.append(CommandReceived(verb="pause", by="ada", text="lunch"))
    look(0.1)
    look(9.0)
    assert commanded(log)[-1].by == "ada", "what a person paused is not for the program to resume"
    log.close()
