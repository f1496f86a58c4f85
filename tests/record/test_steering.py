"""What lies in `control/`, what can have no effect, and what a command makes of the state."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Literal

import pytest

from labwright.record import control
from labwright.record.control import AT_ONCE, BYTES, LONGEST, Look, look, refused, send
from labwright.record.events import Event
from labwright.record.events.running import Commanded, Resumed, Unheeded
from labwright.record.events.searching import Judged
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, write_file
from labwright.record.nouns.nodes import Failure, StageName
from labwright.search.tree import unmarked
from tests.inspector.story import Story, ended, told


def state_of(*more: Event, story: Story | None = None) -> RunState:
    """Of a story in the middle of its search (n0001 to n0004 or so), and of what came after."""
    events = [*(story or told()).events, *((one, 0.0) for one in more)]
    return fold(events)


def open_folder(tmp_path: Path) -> Path:
    RunFolder(tmp_path).create()
    return RunFolder(tmp_path).control


def put(folder: Path, name: str, text: str | bytes) -> None:
    write_file(folder / name, text)


def whys(found: Look) -> list[str]:
    return [command for _, command in found.commands if isinstance(command, str)]


# --- what lies there --------------------------------------------------------------------------------------------------


def test_nothing_but_plain_small_files_is_opened(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    secret = tmp_path / "secret.json"
    secret.write_text(Commanded(verb="stop").model_dump_json())
    (folder / "1.json").symlink_to(secret)
    os.mkfifo(folder / "2.json")
    (folder / "3.json").mkdir()
    put(folder, "4.txt", Commanded(verb="stop").model_dump_json())
    put(folder, ".5.json", Commanded(verb="stop").model_dump_json())
    put(folder, "6.json", Commanded(verb="note", text="x" * BYTES).model_dump_json())
    put(folder, "7.json", Commanded(verb="note", text="kept", by="b" * 500).model_dump_json())
    began = time.monotonic()
    found = look(tmp_path)
    assert time.monotonic() - began < 1.0, "a pipe is not waited for"
    assert found.strange == ("1.json", "2.json", "3.json", "4.txt") and "too large" in whys(found)[0]
    [note] = [one for _, one in found.commands if isinstance(one, Commanded)]
    assert (note.text, note.file, len(note.by)) == ("kept", "7.json", 64)


def test_a_file_that_turns_into_a_link_or_a_pipe_before_it_is_opened_is_not_read(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    (folder / "1.json").symlink_to(write_at(tmp_path / "secret", Commanded(verb="stop").model_dump_json()))
    os.mkfifo(folder / "2.json")
    for name in ("1.json", "2.json"):
        assert isinstance(control._read(folder / name), str)  # pyright: ignore[reportPrivateUsage]


def write_at(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[" * 9000,
        b"\xff\xfe",
        b'{"verb": "explode"}',
        b'{"verb": "note", "text": "\\ud800"}',
        b"null",
        b'{"verb": "note", "text": 3}',
        b'{"verb": "note", "extra": 1}',
    ],
)
def test_rubbish_is_told_in_one_line(tmp_path: Path, text: bytes) -> None:
    put(open_folder(tmp_path), "1.json", text)
    [said] = whys(look(tmp_path))
    assert said.startswith("1.json is not a command") and "\n" not in said


@pytest.mark.slow
def test_many_files_are_taken_in_bounded_portions(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    for k in range(10_050):
        (folder / f"{k:06d}.json").touch()
    began = time.monotonic()
    assert len(look(tmp_path).commands) == AT_ONCE and time.monotonic() - began < 2.0
    assert look(tmp_path / "elsewhere") == Look()


def test_a_file_whose_name_is_not_in_utf8_is_told_and_left_alone(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    put(folder, "caf\udce9.json", Commanded(verb="stop").model_dump_json())
    assert look(tmp_path) == Look(strange=("caf?.json",))


def test_a_note_may_hold_what_utf8_cannot(tmp_path: Path) -> None:
    open_folder(tmp_path)
    send(tmp_path, Commanded(verb="note", text="caf\udce9"))
    [note] = [one for _, one in look(tmp_path).commands if isinstance(one, Commanded)]
    assert note.text == "caf?"


def test_a_forged_file_name_does_not_count(tmp_path: Path) -> None:
    send(tmp_path, Commanded(verb="note", text="t", file="another"))
    [(path, command)] = look(tmp_path).commands
    assert isinstance(command, Commanded) and command.file == path.name
    assert json.loads(path.read_text())["file"] == "another"


def test_who_asks_is_bounded_and_may_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(control.getpass, "getuser", lambda: "u" * 500)
    assert control.user() == "u" * 64
    monkeypatch.setattr(control.getpass, "getuser", nobody)
    assert control.user() == ""


# --- what has no effect -----------------------------------------------------------------------------------------------


def good_of(state: RunState) -> str:
    return next(node.id for node in state.nodes.values() if node.status == "good")


def test_what_can_have_an_effect_is_not_refused() -> None:
    story = told()
    running = story.expand("tuning", "tune")
    state = state_of(story=story)
    here = state.stage_nodes("tuning")[0].id
    for command in (
        Commanded(verb="stop"),
        Commanded(verb="pause"),
        Commanded(verb="kill", target=running, text="r"),
        Commanded(verb="mark", target=good_of(state), text="r"),
        Commanded(verb="note", text="r"),
        Commanded(verb="mark", mark="closed", target=here, text="r"),
        Commanded(verb="note", target="agenda", text="x" * LONGEST),
    ):
        assert refused(state, command, working=True) is None, command
    held = state_of(Commanded(verb="pause"), story=story)
    assert refused(held, Commanded(verb="resume"), working=True) is None


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (Commanded(verb="resume"), "not paused"),
        (Commanded(verb="kill", target="n0001", text=""), "say why"),
        (Commanded(verb="kill", target="n0001", text="  \n"), "say why"),
        (Commanded(verb="kill", target="n9999", text="r"), "no node 'n9999': the run has n0001 to"),
        (Commanded(verb="kill", target="n0001", text="r"), "is finished"),
        (Commanded(verb="mark", target="../x", text="r"), "no node"),
        (Commanded(verb="mark", target="n0001", text="x" * (LONGEST + 1)), "too many"),
        (Commanded(verb="note", text=" "), "the note is empty"),
        (Commanded(verb="note", target="paper", text="r"), "no stage 'paper': name preliminary, "),
        (Commanded(verb="note", target="preliminary", text="r"), "the search of preliminary is over"),
    ],
)
def test_what_has_no_effect_is_refused_in_one_line(command: Commanded, why: str) -> None:
    said = refused(state_of(), command, working=True)
    assert said is not None and why in said and "\n" not in said


@pytest.mark.parametrize("mark", ["suspect", "closed"])
def test_a_node_without_a_verdict_is_not_marked(mark: Literal["suspect", "closed"]) -> None:
    story = told()
    killed = story.expand("tuning", "tune")
    story.tell(Judged(node=killed, status="cancelled", failure=Failure(kind="killed", message="ended by a person: r")))
    said = refused(state_of(story=story), Commanded(verb="mark", mark=mark, target=killed, text="r"), working=True)
    assert said is not None and said.startswith(f"{killed} was ended before it had a verdict")


def test_asking_for_the_same_twice_is_refused() -> None:
    story = told()
    running = story.expand("tuning", "tune")
    good = good_of(state_of(story=story))
    for command in (
        Commanded(verb="stop"),
        Commanded(verb="pause"),
        Commanded(verb="kill", target=running, text="r"),
        Commanded(verb="mark", target=good, text="r"),
    ):
        assert "already" in str(refused(state_of(command, story=story), command, working=True)), command


@pytest.mark.parametrize("verb", ["stop", "pause", "resume", "kill"])
def test_without_a_process_only_notes_and_marks_are_kept(verb: str) -> None:
    state = state_of()
    command = Commanded.model_validate({"verb": verb, "target": "n0001", "text": "r"})
    assert "no process works on the run" in str(refused(state, command, working=False))
    assert refused(state, Commanded(verb="note", text="r"), working=False) is None
    assert refused(state, Commanded(verb="mark", target=good_of(state), text="r"), working=False) is None


def test_a_node_that_was_carried_forward_is_not_closed() -> None:
    state = state_of()
    best = state.stages["preliminary"].best
    assert best is not None
    said = refused(state, Commanded(verb="mark", mark="closed", target=best, text="r"), working=True)
    assert "preliminary settled on" in str(said)


def test_an_ended_run_and_one_that_did_not_begin_are_not_steered() -> None:
    for verb in ("stop", "pause", "note"):
        command = Commanded.model_validate({"verb": verb, "text": "r"})
        assert "over" in str(refused(state_of(story=ended()), command, working=True))
        assert "not begun" in str(refused(RunState(), command, working=True))


# --- what it makes of the state ---------------------------------------------------------------------------------------


def test_no_time_passes_while_a_person_holds_the_run() -> None:
    story = told()
    state = fold(story.events)
    before, at = state.active_seconds, state.last_at
    more: list[tuple[Event, float]] = [
        (Commanded(verb="pause", text="look"), at + 10.0),
        (Unheeded(number=1, told=("x",)), at + 500.0),
        (Commanded(verb="resume"), at + 1000.0),
        (Commanded(verb="note", text="t"), at + 1003.0),
    ]
    assert round(fold([*story.events, *more]).active_seconds - before, 3) == 13.0
    held = fold([*story.events, *more[:2]])
    assert held.paused and held.held == more[0][0] and held.unheeded == 1
    again = fold([*story.events, *more[:2], (Resumed(), at + 9000.0), (Commanded(verb="stop"), at + 9002.0)])
    assert not again.paused and round(again.active_seconds - before, 3) == 12.0


def test_notes_are_seen_by_later_decisions_of_their_stage_alone() -> None:
    stage: StageName = "tuning"
    state = state_of()
    k = state.last_decision
    state = state_of(Commanded(verb="note", text="now"), Commanded(verb="note", target="agenda", text="later"))
    assert state.stage == stage
    assert state.notes_for(k, stage) == () and state.notes_for(k + 1, stage) == ("now",)
    assert state.notes_for(k + 1, "agenda") == ("later",) and state.notes_for(k + 1, "ablation") == ()


def test_a_mark_is_dated_and_says_that_a_person_made_it() -> None:
    good = good_of(state_of())
    state = state_of(
        Commanded(verb="mark", target=good, text="leaks"),
        Commanded(verb="mark", mark="closed", target="n0002", text="dull"),
    )
    assert state.nodes[good].suspect == ("marked by a person: leaks",) and state.nodes["n0002"].closed == "dull"
    k = state.last_decision
    assert [one.target for one in state.marked_since(k)] == [good, "n0002"] and state.marked_since(k + 1) == []


def test_any_command_folds_after_any_prefix() -> None:
    events = told().events
    for length in range(len(events)):
        for verb in ("stop", "pause", "resume", "note", "kill", "mark"):
            command = Commanded.model_validate({"verb": verb, "target": "n0404", "text": "r"})
            state = fold([*events[:length], (command, 0.0)])
            refused(state, command, working=True)


def test_what_was_ablated_from_a_suspect_node_is_suspect_with_it() -> None:
    story = told()
    best = story.state.stages["preliminary"].best
    child = story.expand("ablation", "ablate", best)
    mended, other = story.expand("ablation", "debug", child), story.expand("ablation", "ablate", "n0002")
    state = state_of(Commanded(verb="mark", target=best or "", text="leaks"), story=story)
    assert (
        state.nodes[child].suspect
        == state.nodes[mended].suspect
        == (f"marked by a person: as {best}, which it rests on: leaks",)
    )
    assert not state.nodes[other].suspect and not unmarked(state, 0)[mended].suspect
