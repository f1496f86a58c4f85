"""`scientist logs`, and the output of code while it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.inspector.event_text import describe_event
from labwright.inspector.logs import AttemptOutput, LogEvent, PrintedLine, read_logs
from labwright.record.event_log import EventLog
from labwright.record.events.run_events import ProcessEnded
from labwright.record.events.search_events import AttemptExecuted, NodeJudged
from labwright.record.lock import acquire_lock
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.nodes import Attempt
from labwright.sandbox.output import LiveOutput
from tests.inspector.sample_run import EventStory, make_ended, make_sample

pytestmark = pytest.mark.slow

NASTY = "\x1b[2J\x1b]0;owned\x07\u202edrawkcab\x00"


def written(folder: Path, story: EventStory) -> Path:
    """A run folder that holds the story's events."""
    RunFolder(folder).create_folders()
    times = iter(at for _, at in story.events)
    log = EventLog(RunFolder(folder).events, clock=lambda: next(times))
    for event, _ in story.events:
        log.append(event)
    log.close()
    return folder


def test_events_in_words_with_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(written(tmp_path / "calm", make_ended()))
    assert main(["logs", folder]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0][:4] == "2023" and "started:" in lines[0] and "ended with exit code 0" in lines[-1]
    assert not set("\x1b\r\x00\u202e") & set(out)
    assert main(["logs", folder, "-n", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == lines[-2:]


def test_every_event_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = make_ended()
    assert main(["logs", str(written(tmp_path / "calm", story)), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["seq"] for one in found] == list(range(1, len(story.events) + 1))
    assert all(set(one) == {"seq", "at", "type", "node", "text"} for one in found)
    assert found[0]["at"] == "2023-11-14T22:13:20.000+00:00"


def test_a_node_with_its_small_steps_and_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path / "calm", make_ended())
    attempt = RunFolder(folder).get_attempt_path("n0001", 1)
    attempt.mkdir(parents=True)
    (attempt / "stdout.txt").write_text(f"epoch 1{NASTY}\n 10%\r 50%\r100%\nno end")
    assert main(["logs", str(folder), "--node", "n0001"]) == 0
    out = capsys.readouterr().out
    assert "  | epoch 1 drawkcab\n  | 100%\n  | no end\n" in out and " proposed: " in out and "answered as code" in out
    assert "n0002" not in out and not set("\x1b\r\x00\u202e") & set(out)


def test_a_node_that_is_not_there_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(written(tmp_path / "calm", make_sample())), "--node", "n99"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "no node 'n99'; it has n0001 to n0006" in line


def test_output_is_followed_until_nobody_works_on_the_run(tmp_path: Path) -> None:
    """The last node of the story runs: what its code prints is given by lines, the rest when the attempt is sealed."""
    folder = written(tmp_path / "calm", make_sample())
    place = RunFolder(folder)
    place.get_node_path("n0006").mkdir(parents=True)
    live = LiveOutput(place.get_live_output_path("n0006", 1), 1000)
    found: list[str] = []
    with acquire_lock(folder):
        live.add("first\nhal")
        lines = read_logs(folder, node="n0006", follow=True)
        for line in lines:
            found += [line.text] if isinstance(line, PrintedLine) else []
            if line is None and found == ["first"]:
                live.add("f\n")
            if line is None and found == ["first", "half"]:
                break
        seal(place, "first\nhalf\nlast")
        live.close()
        for line in lines:
            found += [line.text] if isinstance(line, PrintedLine) else []
            if isinstance(line, LogEvent) and line.type == "judged":
                break
    assert found == ["first", "half", "last"]
    assert [line for line in lines if line is not None] == [], "it ends, as nobody works on the run any more"


def seal(folder: RunFolder, text: str) -> None:
    attempt = folder.get_attempt_path("n0006", 1)
    attempt.mkdir()
    (attempt / "stdout.txt").write_text(text)
    log = EventLog(folder.events)
    log.append(AttemptExecuted(node="n0006", attempt=Attempt(number=1, seconds=1.0)))
    log.append(NodeJudged(node="n0006", status="good"))
    log.close()


def test_what_a_killed_process_left_of_output_is_taken_away(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for node in ("n0001", "n0002"):
        (folder.get_node_path(node) / ".attempt1.part").mkdir(parents=True)
        for number in (1, 2):
            LiveOutput(folder.get_live_output_path(node, number), 10).add("half")
    folder.delete_live_output("n0001")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("nodes/*/.*")}
    assert left == {
        "nodes/n0001/.attempt1.part",
        "nodes/n0002/.attempt1.part",
        "nodes/n0002/.attempt1.live",
        "nodes/n0002/.attempt2.live",
    }
    folder.delete_live_output()
    assert not list(tmp_path.glob("nodes/*/*.live")) and not list(tmp_path.glob("nodes/*/.*.live"))


def test_live_output_is_bounded_and_goes_away(tmp_path: Path) -> None:
    live = LiveOutput(tmp_path / "live", 10)
    live.add("0123456")
    live.add("789abc")
    live.add("more")
    assert (tmp_path / "live").read_text() == "0123456789"
    live.close()
    live.close()
    assert not (tmp_path / "live").exists()


def test_live_output_never_follows_a_link_and_never_fails(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "live").symlink_to(tmp_path / "precious")
    live = LiveOutput(tmp_path / "live", 10)
    live.add("new")
    assert (tmp_path / "precious").read_text() == "kept" and (tmp_path / "live").read_text() == "new"
    live.close()
    LiveOutput(tmp_path / "no" / "folder", 10).add("lost")
    LiveOutput(None, 10).add("lost")


def test_output_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    attempt = folder.get_attempt_path("n0001", 1)
    attempt.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret\n")
    (attempt / "stdout.txt").symlink_to(tmp_path / "secret")
    assert AttemptOutput(tmp_path, "n0001", 1).read_rest() == []
    (attempt / "stdout.txt").unlink()
    os.mkfifo(attempt / "stdout.txt")
    assert AttemptOutput(tmp_path, "n0001", 1).read_rest() == []


def test_a_run_without_a_reason_ends_without_one(tmp_path: Path) -> None:
    assert describe_event(ProcessEnded(exit_code=0, reason=""), RunState()) == "ended with exit code 0"
