"""Runs on network filesystems: events.jsonl in place of a database, and a lock with signs of life."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from labwright.record.event_log import EventLog, open_log
from labwright.record.events.run_events import CommandReceived
from labwright.record.jsonl_log import is_on_network
from labwright.record.lock import RunLockedError, acquire_lock, find_owner
from labwright.record.log_reader import RecordError, is_run, read_state

MOUNTS = """/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
x /lustre lustre rw 0 0
y /mnt/odd fuse.something rw 0 0
"""


def note(log: EventLog, text: str) -> None:
    log.append(CommandReceived(verb="note", text=text))


def notes(run: Path) -> list[str]:
    return [one.command.text for one in read_state(run).notes]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_filesystems_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    found = {
        place: is_on_network(Path(place))
        for place in ("/tmp", "/home/ada/runs", "/lustre/runs", "/mnt/odd/runs", "/homestead")
    }
    assert found == {
        "/tmp": False,
        "/home/ada/runs": True,
        "/lustre/runs": True,
        "/mnt/odd/runs": True,
        "/homestead": False,
    }


def test_the_folder_holds_the_events_and_no_database(run: Path) -> None:
    with closing(open_log(run, network=True)) as log:
        note(log, "one")
    assert [path.name for path in run.iterdir()] == ["events.jsonl"] and is_run(run) and notes(run) == ["one"]
    with closing(open_log(run)) as log:
        assert [one.command.text for one in log.state.notes] == ["one"]
        note(log, "two")
        note(log, "three")
    assert notes(run) == ["one", "two", "three"]


def test_what_a_kill_left_of_a_line_is_cut_off(run: Path) -> None:
    with closing(open_log(run, network=True)) as log:
        note(log, "one")
    lines = run / "events.jsonl"
    lines.write_bytes(lines.read_bytes() + b'{"at":1.0,"event":{"type":"comm')
    assert notes(run) == ["one"]
    with closing(open_log(run)) as log:
        note(log, "two")
    assert notes(run) == ["one", "two"] and len(lines.read_text().splitlines()) == 2


def test_a_run_that_was_moved_to_a_network_goes_on_there(run: Path) -> None:
    with closing(open_log(run, network=False)) as log:
        note(log, "one")
    with closing(open_log(run, network=True)) as log:
        note(log, "two")
    assert notes(run) == ["one", "two"] and not (run / "run.db").exists()


def test_a_damaged_line_is_named(run: Path) -> None:
    (run / "events.jsonl").write_text("{}\n")
    with pytest.raises(RecordError, match=r"events.jsonl: line 1 is damaged"):
        read_state(run)


def test_a_holder_on_another_host_counts_while_it_gives_signs_of_life(run: Path) -> None:
    (run / "events.jsonl").touch()
    (run / "lock").write_text(json.dumps({"host": "elsewhere", "pid": 7}))
    with pytest.raises(RunLockedError, match="process 7 on elsewhere"), acquire_lock(run, network=True):
        pass
    assert find_owner(run) == "process 7 on elsewhere"
    long_ago = time.time() - 1000
    os.utime(run / "lock", (long_ago, long_ago))
    assert find_owner(run) is None
    with acquire_lock(run, network=True):
        assert "elsewhere" not in (run / "lock").read_text()


def test_signs_of_life_are_given(run: Path) -> None:
    with acquire_lock(run, network=True, heartbeat_seconds=0.02):
        os.utime(run / "lock", (0, 0))
        end = time.monotonic() + 5
        while (run / "lock").stat().st_mtime < 1 and time.monotonic() < end:
            time.sleep(0.01)
        assert (run / "lock").stat().st_mtime > 1
    assert find_owner(run) is None
