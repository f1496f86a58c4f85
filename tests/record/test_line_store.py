"""The append-only store: torn and damaged lines, second writers, reading while it is written, other formats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from labwright.record import line_store
from labwright.record.event_log import EventLog, EventLogTail, is_run, read_state
from labwright.record.events.run_events import CommandReceived
from labwright.record.line_store import (
    EVENTS_FILE,
    LineStore,
    RecordError,
    RecordVersionError,
    format_row,
    read_kind,
    read_stored_rows,
)


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


def test_every_line_is_json_and_the_first_states_format_and_kind(path: Path) -> None:
    first, *rows = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    assert first["format"] == line_store.FORMAT_VERSION and first["kind"] == read_kind(path) == "answers"
    assert [(row["at"], row["event"]["n"]) for row in rows] == [(0.0, 0), (1.0, 1), (2.0, 2)]
    assert [(row.at, json.loads(row.body)["n"]) for row in read_stored_rows(path)] == [(0.0, 0), (1.0, 1), (2.0, 2)]


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


@pytest.mark.parametrize(("start", "end"), [(30, 70), (0, 130), (0, 10), (100, 131)])
def test_a_last_line_with_a_hole_is_removed(path: Path, start: int, end: int) -> None:
    lines, torn = path.read_bytes().splitlines(keepends=True), bytearray(format_row(3.0, '{"text":"' + "x" * 80 + '"}'))
    torn[start:end] = bytes(len(torn[start:end]))
    path.write_bytes(b"".join(lines) + torn)
    assert len(bodies(path)) == 3
    with closing(open_store(path)) as store:
        store.append(3.0, "{}")
    assert len(bodies(path)) == 4 and path.read_bytes().startswith(b"".join(lines))


@pytest.mark.parametrize("number", [2, 3])
def test_a_damaged_line_in_the_middle_is_named_with_its_file(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"n":', b'"m":')
    path.write_bytes(b"".join(lines))
    for read in (bodies, open_store):
        with pytest.raises(RecordError, match=rf"rows.jsonl: line {number} is damaged: restore the file"):
            read(path)


def test_a_header_among_the_rows_is_damage(path: Path) -> None:
    first, *rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((first, first, *rows)))
    with pytest.raises(RecordError, match=r"rows.jsonl: line 2 is damaged"):
        bodies(path)


def test_a_damaged_header_is_named(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"kind":"answers"', b'"kind":"nothing"'))
    with pytest.raises(RecordError, match=r"rows.jsonl: line 1 is damaged"):
        bodies(path)


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


def test_the_kind_of_a_record_is_not_confused(tmp_path: Path) -> None:
    EventLog(tmp_path / EVENTS_FILE, kind="ideation").close()
    assert not is_run(tmp_path)
    with pytest.raises(RecordError, match=r"is the record of another kind \(ideation\)"):
        EventLog(tmp_path / EVENTS_FILE)


def test_a_kind_of_an_earlier_version_is_named_in_one_line(tmp_path: Path) -> None:
    rest = f'"format":{line_store.FORMAT_VERSION},"kind":"ablation"}}'.encode()
    (tmp_path / EVENTS_FILE).write_bytes(b'{"crc":"%08x",%b\n' % (zlib.crc32(rest), rest))
    with pytest.raises(
        RecordError, match="recorded by an earlier version of scientist, as kind 'ablation': open it with"
    ):
        read_state(tmp_path)


# --- reading while it is written --------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from labwright.record.event_log import EventLog
from labwright.record.events.run_events import CommandReceived
log = EventLog(Path(sys.argv[1]))
for k in range(int(sys.argv[2])):
    log.append(CommandReceived(verb="note", text=str(k) + "x" * (k * 37 % 9000)))
"""
READER = """
import sys
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
    reads += bool(new)
assert seen == [str(k) for k in range(len(seen))]
print(reads)
"""


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


def test_a_reader_never_sees_a_part_of_a_line(tmp_path: Path) -> None:
    with closing(EventLog(tmp_path / "whole" / EVENTS_FILE)) as log:
        for k in range(20):
            note(log, f"{k}")
    whole, rng = (tmp_path / "whole" / EVENTS_FILE).read_bytes(), Random(1)
    path, tail, seen = tmp_path / "run" / EVENTS_FILE, EventLogTail(tmp_path / "run"), list[str]()
    path.parent.mkdir()
    cuts = sorted(rng.sample(range(whole.index(b"\n") + 1, len(whole)), 200))
    for cut in [*cuts, len(whole)]:
        with path.open("ab") as file:
            file.write(whole[file.tell() : cut])
        seen += [event.text for event, _ in tail.read() if isinstance(event, CommandReceived)]
        assert seen == [f"{k}" for k in range(len(seen))]
    assert len(seen) == 20


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


def test_lines_without_a_header_are_of_another_version(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).write_text('{"at":1.0,"event":{"type":"started","format":4}}\n')
    with pytest.raises(RecordVersionError, match="format before 5, this one reads 5"):
        read_state(tmp_path)
