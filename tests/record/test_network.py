"""Runs on network filesystems: the database beside, events.jsonl in the folder, a lock with signs of life."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from record.events.running import Commanded
from record.lock import RunLockedError, hold, holder
from record.log import EventLog, open_log
from record.network import on_network
from record.reading import RecordError, is_run, read_state

MOUNTS = """/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
x /lustre lustre rw 0 0
y /mnt/odd fuse.something rw 0 0
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return another(tmp_path, monkeypatch, "machine")


def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """The local disk of a machine, which is worked on from now on."""
    place = tmp_path / name
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def note(log: EventLog, text: str) -> None:
    log.append(Commanded(verb="note", text=text))


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
    found = {place: on_network(Path(place))
             for place in ("/tmp", "/home/ada/runs", "/lustre/runs", "/mnt/odd/runs", "/homestead")}
    assert found == {"/tmp": False, "/home/ada/runs": True, "/lustre/runs": True, "/mnt/odd/runs": True,
                     "/homestead": False}


def test_the_folder_holds_events_and_the_database_lies_on_the_machine(run: Path, machine: Path) -> None:
    with closing(open_log(run, network=True)) as log:
        note(log, "one")
    assert sorted(path.name for path in run.iterdir()) == ["events.jsonl", "run.id"]
    assert len(list(machine.glob("scientist-*/*/run.db"))) == 1
    assert is_run(run) and notes(run) == ["one"]


def test_another_machine_goes_on_and_the_first_one_takes_that_over(
    run: Path, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(open_log(run, network=True)) as log:
        note(log, "one")
    another(tmp_path, monkeypatch, "second")
    with closing(open_log(run)) as log:
        assert [one.command.text for one in log.state.notes] == ["one"]
        note(log, "two")
    monkeypatch.setattr("tempfile.tempdir", str(machine))
    with closing(open_log(run)) as log:
        assert [one.command.text for one in log.state.notes] == ["one", "two"]
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


def test_a_kill_between_the_two_logs_loses_nothing(run: Path) -> None:
    with closing(open_log(run, network=True)) as log:
        note(log, "one")
    with open(run / "events.jsonl", "a") as lines:  # the line is written first
        lines.write(json.dumps({"at": 9.0, "event": Commanded(verb="note", text="two").model_dump()}) + "\n")
    with closing(open_log(run)) as log:
        assert [one.command.text for one in log.state.notes] == ["one", "two"]


def test_a_database_that_went_another_way_is_made_anew(run: Path, machine: Path) -> None:
    with closing(open_log(run, network=True)) as log:
        note(log, "one")
    (database,) = machine.glob("scientist-*/*/run.db")
    with closing(EventLog(database)) as log:
        note(log, "never told")
    with closing(open_log(run)) as log:
        assert [one.command.text for one in log.state.notes] == ["one"]


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


def test_a_folder_of_somebody_else_is_not_trusted(run: Path, machine: Path) -> None:
    (machine / f"scientist-{os.getuid()}").mkdir(mode=0o777)
    (machine / f"scientist-{os.getuid()}").chmod(0o777)
    with pytest.raises(RecordError, match="must be a folder of yours alone"):
        open_log(run, network=True)


def test_a_holder_on_another_host_counts_while_it_gives_signs_of_life(run: Path) -> None:
    (run / "events.jsonl").touch()
    (run / "lock").write_text(json.dumps({"host": "elsewhere", "pid": 7}))
    with pytest.raises(RunLockedError, match="process 7 on elsewhere"), hold(run, network=True):
        pass
    assert holder(run) == "process 7 on elsewhere"
    long_ago = time.time() - 1000
    os.utime(run / "lock", (long_ago, long_ago))
    assert holder(run) is None
    with hold(run, network=True):
        assert "elsewhere" not in (run / "lock").read_text()


def test_signs_of_life_are_given(run: Path) -> None:
    with hold(run, network=True, beat=0.02):
        os.utime(run / "lock", (0, 0))
        end = time.monotonic() + 5
        while (run / "lock").stat().st_mtime < 1 and time.monotonic() < end:
            time.sleep(0.01)
        assert (run / "lock").stat().st_mtime > 1
    assert holder(run) is None
