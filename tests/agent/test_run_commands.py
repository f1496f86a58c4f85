"""Commands from the command line to a run, and the process that takes them; slow: a real run with real kernels."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.agent.run_process import MAX_PROBLEMS_LISTED, CommandHandler
from labwright.models.backend import ModelRequest, Reply
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import Program
from labwright.models.settings import ModelSettings
from labwright.record import control_files
from labwright.record.event_log import EventLog, read_events, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CommandIgnored, CommandReceived
from labwright.record.lock import acquire_lock
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema.nodes import Node
from labwright.search.scheduler import RunControl
from tests.inspector.sample_run import EventStory, make_sample
from tests.inspector.test_logs import written
from tests.programs import program_files
from tests.stages.small_study import IDEA, experiment_code, make_small_model
from tests.stages.test_whole_run import small_settings

pytestmark = pytest.mark.slow


def running(story: EventStory | None = None) -> tuple[EventStory, str]:
    """A story with a node that runs."""
    story = story or make_sample()
    return story, story.add_node("tuning", "tune")


# --- the process ------------------------------------------------------------------------------------------------------


class Died(BaseException):
    """Stands for a kill -9."""


def process(log: EventLog, *, left: frozenset[str] = frozenset()) -> tuple[CommandHandler, list[str]]:
    stopped: list[str] = []
    return CommandHandler(RunFolder(log.path.parent), log, RunControl(), lambda: stopped.append("stop"), left), stopped


def commanded(folder: Path) -> list[CommandReceived]:
    return [event for event, _ in read_events(folder / "events.jsonl") if isinstance(event, CommandReceived)]


def unheeded(folder: Path) -> list[CommandIgnored]:
    return [event for event, _ in read_events(folder / "events.jsonl") if isinstance(event, CommandIgnored)]


def test_a_command_is_recorded_with_its_file_obeyed_and_its_file_deleted(tmp_path: Path) -> None:
    folder = written(tmp_path / "calm", make_sample())
    log = EventLog(folder / "events.jsonl")
    steering, stopped = process(log)
    file = control_files.send_command(folder, CommandReceived(verb="stop", text="enough", by="ada"))
    steering.process_commands()
    assert stopped == ["stop"] and not file.exists()
    [one] = commanded(folder)
    assert (one.text, one.by, one.file) == ("enough", "ada", file.name)


@pytest.mark.parametrize("committed", [False, True])
def test_a_kill_between_commit_and_deletion_doubles_nothing(tmp_path: Path, committed: bool) -> None:
    def dies(event: Event, state: RunState) -> None:
        if isinstance(event, CommandReceived):
            raise Died

    folder = written(tmp_path / "calm", make_sample())
    file = control_files.send_command(folder, CommandReceived(verb="note", text="once"))
    if committed:
        log = EventLog(folder / "events.jsonl", listener=dies)
        with pytest.raises(Died):
            process(log)[0].process_commands()
        log.close()
        assert file.exists() and len(commanded(folder)) == 1
    for _ in range(2):
        log = EventLog(folder / "events.jsonl")
        process(log, left=control_files.list_pending_files(folder))[0].process_commands()
        log.close()
    assert len(commanded(folder)) == 1 and not file.exists() and not unheeded(folder)


def test_what_has_no_effect_is_told_in_bounded_events_and_never_twice(tmp_path: Path) -> None:
    folder = written(tmp_path / "calm", make_sample())
    place = RunFolder(folder).control
    for k in range(150):
        write_file(place / f"{k:04d}.json", "rubbish")
    write_file(place / "note.txt", "no")
    os.mkfifo(place / "pipe.json")
    control_files.send_command(folder, CommandReceived(verb="kill", target="n0404", text="r"))
    log = EventLog(folder / "events.jsonl")
    steering, _ = process(log)
    for _ in range(5):
        steering.process_commands()
    found = unheeded(folder)
    assert [one.number for one in found] == [102, 51] and all(len(one.messages) <= MAX_PROBLEMS_LISTED for one in found)
    assert sorted(path.name for path in place.iterdir()) == ["note.txt", "pipe.json"]
    assert read_state(folder).ignored_command_count == 153 and not commanded(folder)


def test_what_was_left_for_a_process_before_does_not_stop_or_hold_this_one(tmp_path: Path) -> None:
    story, node = running()
    folder = written(tmp_path / "calm", story)
    for command in (
        CommandReceived(verb="stop"),
        CommandReceived(verb="pause"),
        CommandReceived(verb="kill", target=node, text="r"),
        CommandReceived(verb="note", text="kept"),
        CommandReceived(verb="mark", target="n0002", text="kept"),
    ):
        control_files.send_command(folder, command)
    steering, stopped = process(EventLog(folder / "events.jsonl"), left=control_files.list_pending_files(folder))
    steering.process_commands()
    assert not stopped and [one.verb for one in commanded(folder)] == ["note", "mark"]
    assert [one.number for one in unheeded(folder)] == [3] and "no process is working" in unheeded(folder)[0].messages[
        0
    ]


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pause"], "no process is working"),
        (["kill", "n0001", "--reason", "r"], "no process is working"),
        (["mark", "n0404", "--reason", "r"], "there is no node 'n0404'"),
        (["mark", "n0001", "--reason", " "], "no reason given"),
        (["note", ""], "the note is empty"),
        (["note", "x", "--stage", "paper"], "there is no stage 'paper'"),
        (["kill", "n0001"], "--reason"),
        (["mark", "n0001", "--reason", "r", "--as", "odd"], "odd"),
        (["note", "x" * 1001], "has 1001 characters: shorten it"),
    ],
)
def test_what_has_no_effect_is_one_line_and_exit_2(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(tmp_path / "calm", make_sample())
    assert main([words[0], str(folder), *words[1:]]) == 2
    out = capsys.readouterr()
    assert said in out.err and len(out.err.splitlines()) == 1 and not out.out
    assert not list(RunFolder(folder).control.iterdir())


def test_notes_and_marks_are_kept_for_the_next_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path / "calm", make_sample())
    assert main(["note", str(folder), "try fewer rows"]) == 0
    assert main(["mark", str(folder), "n0002", "--reason", "leaks"]) == 0
    assert capsys.readouterr().out.count("saved for the next 'scientist resume") == 2
    steering, _ = process(EventLog(folder / "events.jsonl"), left=control_files.list_pending_files(folder))
    steering.process_commands()
    state = read_state(folder)
    assert [one.command.text for one in state.notes] == ["try fewer rows"] and state.nodes["n0002"].suspect


def test_status_tree_and_why_show_what_was_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story, node = running()
    story.add(
        CommandReceived(verb="note", text="try fewer rows", by="ada"),
        CommandReceived(verb="kill", target=node, text="slow"),
        CommandReceived(verb="mark", mark="closed", target="n0002", text="dull"),
        CommandReceived(verb="pause", text="lunch", by="ada"),
        CommandIgnored(number=7, messages=("stop: too late",)),
    )
    folder = written(tmp_path / "calm", story)
    with acquire_lock(folder):
        assert main(["status", str(folder)]) == 0
        out = capsys.readouterr().out
        for words in (
            "by ada (lunch)",
            "scientist resume",
            "try fewer rows",
            f"kill {node}: slow",
            "n0002 closed: dull",
            "command ignored: stop: too late; and 6 more",
        ):
            assert words in out, words
    assert main(["tree", str(folder)]) == 0
    assert "closed: dull" in capsys.readouterr().out


# --- a real run -------------------------------------------------------------------------------------------------------


def sleepy() -> ScriptedModel:
    """The small study; its first draft sleeps."""

    class Sleepy(ScriptedModel):
        async def answer(self, request: ModelRequest) -> Reply:
            reply = await small.answer(request)
            if not isinstance(reply.output, Program) or '"draft 0"' not in reply.output.model_dump_json():
                return reply
            code = experiment_code(mistake="import time; time.sleep(600)")
            return replace(reply, output=reply.output.model_copy(update={"files": program_files(code)}))

    small = make_small_model()
    return Sleepy(lambda _: Program(title="", plan="", varies="", files=program_files("pass\n")))


def _sleepy(_: ModelSettings) -> ScriptedModel:
    return sleepy()


def await_condition(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < 120, "the condition never held"
        time.sleep(0.05)


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[Path, list[int]]]:
    """A run that is worked on by another thread, and its exit code once there is one."""
    from labwright.agent import run

    monkeypatch.setattr(run, "open_backend", _sleepy)
    folder, codes = tmp_path / "slow", list[int]()
    settings = small_settings(
        search__num_workers=1,
        search__order="arrival",
        search__lookahead=0,
        search__grace=0.5,
        search__num_drafts=5,
        search__preliminary__nodes=5,
    )
    thread = threading.Thread(
        target=lambda: codes.append(
            run.start_study(IDEA, settings, runs=tmp_path, name="slow", listener=lambda event, state: None)
        )
    )
    thread.start()
    await_condition(lambda: (folder / "lock").exists())
    try:
        yield folder, codes
    finally:
        if thread.is_alive():
            control_files.send_command(folder, CommandReceived(verb="stop"))
        thread.join(120.0)
        assert not thread.is_alive()


def node(folder: Path, name: str) -> Node:
    return read_state(folder).nodes[name]


@pytest.mark.slow
def test_a_real_node_is_killed_the_run_held_and_let_go_on(
    at_work: tuple[Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, codes = at_work
    part = RunFolder(folder).get_attempt_path("n0002", 1).with_name(".attempt1.part")
    await_condition(lambda: any(part.rglob("experiment.py")))
    time.sleep(3.0)  # a fresh kernel has begun by then

    assert main(["kill", str(folder), "n0002", "--reason", "it sleeps"]) == 0
    await_condition(lambda: node(folder, "n0002").is_finished)
    ended = node(folder, "n0002")
    assert (ended.status, ended.attempts) == ("cancelled", ()) and ended.failure is not None
    assert ended.failure.kind == "killed" and not part.exists()
    draft = RunFolder(folder).get_attempt_path("n0003", 1).with_name(".attempt1.part")
    await_condition(lambda: any(draft.rglob("experiment.py")))

    assert main(["pause", str(folder), "--reason", "lunch"]) == 0
    await_condition(lambda: all(one.is_finished for one in read_state(folder).nodes.values()))
    held = read_state(folder)
    time.sleep(2.0)
    still = read_state(folder)
    assert still.last_decision == held.last_decision and still.active_seconds == held.active_seconds
    capsys.readouterr()
    assert main(["status", str(folder)]) == 0
    assert "(lunch)" in capsys.readouterr().out
    assert main(["resume", str(folder), "--workers", "3"]) == 2, "settings need a new process"
    assert main(["resume", str(folder)]) == 0
    await_condition(lambda: read_state(folder).last_decision > held.last_decision)
    assert main(["resume", str(folder)]) == 2, "it is not paused any more"

    assert main(["stop", str(folder), "--reason", "enough"]) == 0
    await_condition(lambda: bool(codes))
    assert codes == [130] and main(["kill", str(folder), "n0002", "--reason", "r"]) == 2
    last = read_state(folder).process_end
    assert last is not None and last.reason.startswith(f"stopped by {control_files.read_user_name()}: enough")
    assert not [one for one in read_state(folder).nodes.values() if one.parent == "n0002"]
