"""The append-only store: torn and damaged lines, second writers, reading while it is written, other formats."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from labwright.record.event_log import EventLog, EventLogTail, read_state
from labwright.record.events.run_events import CommandReceived
from labwright.record.line_store import EVENTS_FILE, LineStore, RecordError, read_stored_rows


def note(log: EventLog, text: str) -> None:
    log.append(CommandReceived(verb="note", text=text))


def notes(run: Path) -> list[str]:
    return [one.command.text for one in read_state(run).notes]


def bodies(path: Path) -> list[str]:
    return [row.body for row in read_stored_rows(path)]


def open_store(path: Path) -> LineStore:
    return LineStore(path, "answers", lambda row: None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three rows."""
    path = tmp_path / "rows.jsonl"
    with closing(open_store(path)) as store:
        for n in range(3):
            store.append(float(n), f'{{"n":{n},"text":"é\\u2028"}}')
    return path


def test_a_store_cut_at_any_byte_keeps_every_complete_line(path: Path) -> None:
    whole, ends, at = path.read_bytes(), list[int](), 0
    for line in path.read_bytes().splitlines(keepends=True):
        ends.append(at := at + len(line))
    for cut in range(ends[0], len(whole)):
        path.write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends) - 1
        assert len(bodies(path)) == kept
        with closing(open_store(path)) as store:
            store.append(9.0, "{}")
        assert len(bodies(path)) == kept + 1 and bodies(path)[-1] == "{}"


@pytest.mark.parametrize("number", [2, 3])
def test_a_damaged_line_in_the_middle_is_named_with_its_file(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"n":', b'"m":')
    path.write_bytes(b"".join(lines))
    for read in (bodies, open_store):
        with pytest.raises(RecordError, match=rf"rows.jsonl: line {number} is damaged: restore the file"):
            read(path)


def test_a_second_writer_is_noticed_before_it_can_damage_anything(path: Path) -> None:
    with closing(open_store(path)) as one, closing(open_store(path)) as other:
        other.append(3.0, '{"of":"other"}')
        with pytest.raises(RecordError, match="another process has written to it; stop that process"):
            one.append(4.0, '{"of":"one"}')
    assert bodies(path)[3:] == ['{"of":"other"}']


def test_a_failed_sync_leaves_no_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    with closing(open_store(path)) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(RecordError, match="cannot write to the record"):
                store.append(3.0, '{"lost":1}')
        store.append(3.0, '{"kept":1}')
    assert bodies(path)[3:] == ['{"kept":1}']


# --- reading while it is written --------------------------------------------------------------------------------------

WRITER = """
import sys, time
from pathlib import Path
from labwright.record.event_log import EventLog
from labwright.record.events.run_events import CommandReceived
path, count = Path(sys.argv[1]), int(sys.argv[2])
log, until = EventLog(path), time.monotonic() + 300
for k in range(count):
    while k == count // 2 and len(list(path.parent.glob("reader-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    log.append(CommandReceived(verb="note", text=str(k) + "x" * (k * 37 % 9000)))
"""
READER = """
import os, sys
from pathlib import Path
from labwright.record.event_log import EventLogTail, is_run
run, seen = Path(sys.argv[1]), []
while not is_run(run):
    pass
tail, reads = EventLogTail(run), 0
while len(seen) < int(sys.argv[2]):
    new = tail.read()
    assert not (tail.restarted and seen)
    seen += [event.text.rstrip("x") for event, _ in new]
    if new:
        reads += 1
        (run / f"reader-{os.getpid()}").touch()
assert seen == [str(k) for k in range(len(seen))]
print(reads)
"""


@pytest.mark.slow
def test_two_readers_follow_a_log_while_it_is_written(tmp_path: Path) -> None:
    count, path = "600", tmp_path / EVENTS_FILE
    readers = [
        subprocess.Popen([sys.executable, "-c", READER, str(tmp_path), count], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    subprocess.run([sys.executable, "-c", WRITER, str(path), count], check=True, timeout=600)
    for reader in readers:
        out, _ = reader.communicate(timeout=600)
        assert reader.returncode == 0 and int(out) > 1, "it read more than once"


def test_a_follower_starts_again_when_a_line_that_was_not_acknowledged_is_replaced(tmp_path: Path) -> None:
    path, tail = tmp_path / EVENTS_FILE, EventLogTail(tmp_path)
    with closing(EventLog(path)) as log:
        note(log, "one")
        assert len(tail.read()) == 1
        size = path.stat().st_size
        note(log, "two")
        assert len(tail.read()) == 1 and not tail.restarted
    os.truncate(path, size)  # its sync failed
    with closing(EventLog(path)) as log:
        note(log, "another")
    found = [event.text for event, _ in tail.read() if isinstance(event, CommandReceived)]
    assert tail.restarted and found == ["one", "another"] == notes(tmp_path)


# --- records of other versions ----------------------------------------------------------------------------------------
