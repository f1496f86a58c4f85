"""What lies in `control/`, what can have no effect, and what a command makes of the state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labwright.record.control_files import (
    MAX_COMMAND_FILE_BYTES,
    MAX_COMMAND_TEXT_LENGTH,
    PendingCommands,
    find_refusal,
    read_pending_commands,
)
from labwright.record.events import Event
from labwright.record.events.run_events import CommandIgnored, CommandReceived, RunResumed
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema.nodes import StageName
from labwright.search.stage_snapshot import nodes_before_marks
from tests.inspector.sample_run import EventStory, make_sample


def state_of(*more: Event, story: EventStory | None = None) -> RunState:
    """Of a story in the middle of its search (n0001 to n0004 or so), and of what came after."""
    events = [*(story or make_sample()).events, *((one, 0.0) for one in more)]
    return fold_events(events)


def open_folder(tmp_path: Path) -> Path:
    RunFolder(tmp_path).create_folders()
    return RunFolder(tmp_path).control


def put(folder: Path, name: str, text: str | bytes) -> None:
    write_file(folder / name, text)


def whys(found: PendingCommands) -> list[str]:
    return [command for _, command in found.commands if isinstance(command, str)]


# --- what lies there --------------------------------------------------------------------------------------------------


def test_nothing_but_plain_small_files_is_opened(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    secret = tmp_path / "secret.json"
    secret.write_text(CommandReceived(verb="stop").model_dump_json())
    (folder / "1.json").symlink_to(secret)
    os.mkfifo(folder / "2.json")
    (folder / "3.json").mkdir()
    put(folder, "4.txt", CommandReceived(verb="stop").model_dump_json())
    put(folder, ".5.json", CommandReceived(verb="stop").model_dump_json())
    put(folder, "6.json", CommandReceived(verb="note", text="x" * MAX_COMMAND_FILE_BYTES).model_dump_json())
    put(folder, "7.json", CommandReceived(verb="note", text="kept", by="b" * 500).model_dump_json())
    found = read_pending_commands(tmp_path)
    assert found.ignored_entries == ("1.json", "2.json", "3.json", "4.txt") and "too large" in whys(found)[0]
    [note] = [one for _, one in found.commands if isinstance(one, CommandReceived)]
    assert (note.text, note.file, len(note.by)) == ("kept", "7.json", 64)


@pytest.mark.parametrize(
    "text",
    [b"", b"[" * 9000, b'{"verb": "explode"}', b'{"verb": "note", "text": "\\ud800"}', b'{"verb": "note", "extra": 1}'],
)
def test_rubbish_is_told_in_one_line(tmp_path: Path, text: bytes) -> None:
    put(open_folder(tmp_path), "1.json", text)
    [said] = whys(read_pending_commands(tmp_path))
    assert said.startswith("1.json is not a command") and "\n" not in said


# --- what has no effect -----------------------------------------------------------------------------------------------


def good_of(state: RunState) -> str:
    return next(node.id for node in state.nodes.values() if node.status == "good")


def test_what_can_have_an_effect_is_not_refused() -> None:
    story = make_sample()
    running = story.add_node("tuning", "tune")
    state = state_of(story=story)
    here = state.list_stage_nodes("tuning")[0].id
    for command in (
        CommandReceived(verb="stop"),
        CommandReceived(verb="pause"),
        CommandReceived(verb="kill", target=running, text="r"),
        CommandReceived(verb="mark", target=good_of(state), text="r"),
        CommandReceived(verb="note", text="r"),
        CommandReceived(verb="mark", mark="closed", target=here, text="r"),
        CommandReceived(verb="note", target="agenda", text="x" * MAX_COMMAND_TEXT_LENGTH),
    ):
        assert find_refusal(state, command, is_running=True) is None, command
    held = state_of(CommandReceived(verb="pause"), story=story)
    assert find_refusal(held, CommandReceived(verb="resume"), is_running=True) is None


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (CommandReceived(verb="resume"), "not paused"),
        (CommandReceived(verb="kill", target="n0001", text=""), "no reason given"),
        (CommandReceived(verb="kill", target="n9999", text="r"), "no node 'n9999': the run has n0001 to"),
        (CommandReceived(verb="kill", target="n0001", text="r"), "is finished"),
        (
            CommandReceived(verb="mark", target="n0001", text="x" * (MAX_COMMAND_TEXT_LENGTH + 1)),
            "shorten it to at most",
        ),
        (CommandReceived(verb="note", text=" "), "the note is empty"),
        (CommandReceived(verb="note", target="paper", text="r"), "no stage 'paper': use preliminary, "),
        (CommandReceived(verb="note", target="preliminary", text="r"), "the search of preliminary has ended"),
    ],
)
def test_what_has_no_effect_is_refused_in_one_line(command: CommandReceived, why: str) -> None:
    said = find_refusal(state_of(), command, is_running=True)
    assert said is not None and why in said and "\n" not in said


def test_asking_for_the_same_twice_is_refused() -> None:
    story = make_sample()
    running = story.add_node("tuning", "tune")
    good = good_of(state_of(story=story))
    for command in (
        CommandReceived(verb="stop"),
        CommandReceived(verb="pause"),
        CommandReceived(verb="kill", target=running, text="r"),
        CommandReceived(verb="mark", target=good, text="r"),
    ):
        assert "already" in str(find_refusal(state_of(command, story=story), command, is_running=True)), command


def test_a_node_that_was_carried_forward_is_not_closed() -> None:
    state = state_of()
    best = state.search.stages["preliminary"].best
    assert best is not None
    said = find_refusal(state, CommandReceived(verb="mark", mark="closed", target=best, text="r"), is_running=True)
    assert "preliminary selected" in str(said)


# --- what it makes of the state ---------------------------------------------------------------------------------------


def test_no_time_passes_while_a_person_holds_the_run() -> None:
    story = make_sample()
    state = fold_events(story.events)
    before, at = state.active_seconds, state.last_event_at
    more: list[tuple[Event, float]] = [
        (CommandReceived(verb="pause", text="look"), at + 10.0),
        (CommandIgnored(number=1, messages=("x",)), at + 500.0),
        (CommandReceived(verb="resume"), at + 1000.0),
        (CommandReceived(verb="note", text="t"), at + 1003.0),
    ]
    assert round(fold_events([*story.events, *more]).active_seconds - before, 3) == 13.0
    held = fold_events([*story.events, *more[:2]])
    assert held.is_paused and held.paused_by == more[0][0] and held.ignored_command_count == 1
    again = fold_events(
        [*story.events, *more[:2], (RunResumed(), at + 9000.0), (CommandReceived(verb="stop"), at + 9002.0)]
    )
    assert not again.is_paused and round(again.active_seconds - before, 3) == 12.0


def test_notes_are_seen_by_later_decisions_of_their_stage_alone() -> None:
    stage: StageName = "tuning"
    state = state_of()
    k = state.last_decision
    state = state_of(
        CommandReceived(verb="note", text="now"), CommandReceived(verb="note", target="agenda", text="later")
    )
    assert state.search.stage == stage
    assert state.list_notes(k, stage) == () and state.list_notes(k + 1, stage) == ("now",)
    assert state.list_notes(k + 1, "agenda") == ("later",) and state.list_notes(k + 1, "ablation") == ()


def test_what_was_ablated_from_a_suspect_node_is_suspect_with_it() -> None:
    story = make_sample()
    best = story.state.search.stages["preliminary"].best
    child = story.add_node("ablation", "ablate", best)
    mended, other = story.add_node("ablation", "debug", child), story.add_node("ablation", "ablate", "n0002")
    state = state_of(CommandReceived(verb="mark", target=best or "", text="leaks"), story=story)
    reason = f"marked by a person: as {best}, which it rests on: leaks"
    assert state.nodes[child].suspect == state.nodes[mended].suspect == (reason,)
    assert not state.nodes[other].suspect and not nodes_before_marks(state, 0)[mended].suspect
