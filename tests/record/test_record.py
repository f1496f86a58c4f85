"""The record: events in, state out; files whole or not at all; one writer."""

from __future__ import annotations

import ast
import asyncio
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from operator import attrgetter
from pathlib import Path

import pytest

from labwright.record.event_log import EventLog, MemoryLog, RecordError, read_events, read_state
from labwright.record.events import Event
from labwright.record.events.repository_events import PartsFound
from labwright.record.events.run_events import ClockMoved, CommandReceived, ProcessEnded, RunResumed
from labwright.record.events.search_events import CellsRequired, DecisionMade, NodeProposed
from labwright.record.line_store import EVENTS_FILE, RecordVersionError, write_rows
from labwright.record.lock import RunLockedError, acquire_lock, find_owner
from labwright.record.python_syntax import collect_constants
from labwright.record.reducers import event_fold
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import create_draft_folder, seal_folder
from labwright.record.schema import Scalar
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.idea import Idea
from labwright.record.schema.repository import PartWay
from tests.search.scripted_search import SearchWorld, make_settings, new_log, run_search


def test_a_log_read_back_gives_the_state_that_the_writer_had(tmp_path: Path) -> None:
    memory = new_log()
    asyncio.run(run_search(memory, SearchWorld(memory), make_settings()))
    log = EventLog(tmp_path / "events.jsonl", clock=lambda: 5.0)
    for event in memory.events:
        log.append(event)
    writer = log.state
    log.close()
    assert read_state(tmp_path) == writer
    with closing(EventLog(tmp_path / "events.jsonl")) as again:
        assert again.state == writer
    assert [e for e, _ in read_events(tmp_path / "events.jsonl")] == memory.events


def test_what_only_earlier_versions_recorded_is_dropped(tmp_path: Path) -> None:
    action = '{"do":"expand","stage":"preliminary","kind":"draft","seed":0,"repairs_children":false}'
    write_rows(tmp_path / EVENTS_FILE, "run", [(1.0, f'{{"type":"decided","k":1,"action":{action},"gone":[1]}}')])
    made = DecisionMade(k=1, action=ExpandTree(stage="preliminary", kind="draft", seed=0))
    assert read_events(tmp_path / EVENTS_FILE) == [(made, 1.0)]


def test_events_of_a_repository_are_read_in_their_earlier_form_or_refused_in_one_line(tmp_path: Path) -> None:
    log, whole = tmp_path / EVENTS_FILE, '{"what":"no steps","words":["--steps","0"],"edits":[]}'
    floors = ((f"[{whole}]", PartWay(what="no steps", words=("--steps", "0"))), ("[]", None))
    for number, (stored, read) in enumerate(floors):
        earlier = f'{{"type":"parts_found","parts":[],"rest":[],"floors":{stored},"budget":9,"why":""}}'
        write_rows(tmp_path / str(number), "run", [(1.0, earlier)])
        assert read_events(tmp_path / str(number)) == [(PartsFound(parts=(), whole=read, budget=9), 1.0)]
    repair = '{"reason":"r","edits":[],"argv":[],"env":{},"pins":[]}'
    write_rows(log, "run", [(1.0, f'{{"type":"repaired","failure":"","repair":{repair},"tree":"t","commit":""}}')])
    with pytest.raises(RecordVersionError, match=r"another version of scientist recorded a repair") as refused:
        read_events(log)
    assert str(refused.value).startswith(f"{tmp_path}: ")


def test_every_event_changes_the_state() -> None:
    source = ast.walk(ast.parse(inspect.getsource(event_fold)))
    cases = {ast.unparse(one.cls) for one in source if isinstance(one, ast.MatchClass)}
    every = [one for one in _list_subclasses(Event) if one.model_fields["type"].default]
    for event in every:
        latest, by, listed = event.kept
        if kept := latest or listed:
            found = attrgetter(kept)(RunState())
            assert isinstance(found, list) if listed else isinstance(found, dict) if by else found is None, event
            assert {name.partition(".")[0] for name in by.split()} <= {*event.model_fields}, event
        else:
            assert event.__name__ in cases or event in (ClockMoved, CellsRequired), f"{event} is ignored"


def _list_subclasses(above: type[Event]) -> list[type[Event]]:
    return [one for below in above.__subclasses__() for one in (below, *_list_subclasses(below))]


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_append_returned_for(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from labwright.record.event_log import EventLog; from labwright.record.events.run_events import "
        "CommandReceived\n"
        "log = EventLog(Path(sys.argv[1]))\n"
        "k = 0\n"
        "while True:\n"
        "    log.append(CommandReceived(verb='note', text=str(k))); print(k, flush=True); k += 1\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "events.jsonl")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    last = [child.stdout.readline() for _ in range(20)][-1]
    os.kill(child.pid, signal.SIGKILL)
    rest = child.stdout.read().split("\n")
    child.wait(10)
    child.stdout.close()
    said = int(next((line for line in reversed(rest) if line.strip().isdigit()), last))
    notes = [one.command.text for one in read_state(tmp_path).notes]
    assert notes[: said + 1] == [str(k) for k in range(said + 1)]


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is not the folder of a run"):
        read_state(tmp_path)
    (tmp_path / "events.jsonl").write_bytes(b"not a log, by far not one" * 40)
    with pytest.raises(RecordError, match="cannot read the record"):
        read_state(tmp_path)


def _hold(path: str, ready: str) -> None:
    with acquire_lock(Path(path)):
        Path(ready).touch()
        time.sleep(300)


@pytest.mark.slow
def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    child = multiprocessing.get_context("spawn").Process(target=_hold, args=(str(tmp_path), str(ready)))
    child.start()
    end = time.monotonic() + 120
    while not ready.exists() and time.monotonic() < end:
        time.sleep(0.02)
    with pytest.raises(RunLockedError, match=f"process {child.pid}"), acquire_lock(tmp_path):
        pass
    assert find_owner(tmp_path) is not None
    child.kill()
    child.join(10)
    child.close()
    with acquire_lock(tmp_path):
        pass
    assert find_owner(tmp_path) is None


def test_sealing_is_a_rename_and_leftovers_are_replaced(tmp_path: Path) -> None:
    final = tmp_path / "nodes" / "n0001" / "attempt1"
    draft = create_draft_folder(final)
    (draft / "a").write_text("half")
    draft = create_draft_folder(final)  # a killed process left the first
    (draft / "b").write_text("whole")
    seal_folder(draft, final)
    assert [path.name for path in final.iterdir()] == ["b"] and not draft.exists()
    again = create_draft_folder(final)
    (again / "c").write_text("after a kill between sealing and recording")
    seal_folder(again, final)
    assert [path.name for path in final.iterdir()] == ["c"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_measurement_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Measurement(name="a", value=value, condition="c", dataset="d", split="validation", seed=0, grade="logged")


def test_idea_fields_are_read_as_people_write_them() -> None:
    idea = Idea.model_validate(
        {
            "Name": "n",
            "Title": "t",
            "Experiments": [{"A": "do a", "B": "do b"}, "do c"],
            "Risk Factors and Limitations": "one risk",
            "Unknown": 3,
            "Anchors": [
                {"baseline": "ridge", " Dataset": "wine", "METRIC": "r2", "Value": 0.5, "Tolerance": 0.1, "Source": "s"}
            ],
        }
    )
    assert idea.experiments == ("A: do a; B: do b", "do c") and idea.risks == ("one risk",)
    assert [str(one) for one in idea.anchors] == ["ridge on wine: r2 0.5 within 0.1, source: s"]
    assert Idea.model_validate(idea.model_dump()) == idea
    assert Idea.model_validate_json(idea.model_dump_json(by_alias=True)) == idea


@pytest.mark.parametrize("value", ["1e999", "'\\ud800'", "0x" + "f" * 20_000, "-" * 3000 + "1", "'a\x00b'"])
def test_constants_that_nobody_could_read_again_are_left_out(value: str) -> None:
    assert "A" not in collect_constants(f"A = {value}\nB = 1\n")


# --- what cannot be read again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1 << 20_000], ids=["inf", "nan", "large"])
def test_an_event_that_could_not_be_read_again_is_not_written(tmp_path: Path, value: Scalar) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    odd = NodeProposed.model_construct(
        node="n0001", decision=1, title="t", plan="p", varies="", source_sha256="", setups={"A": value}, author=""
    )
    with pytest.raises(RecordError, match=r"^the event 'proposed' was not recorded, because it could not be read back"):
        log.append(odd)
    with pytest.raises(RecordError, match="could not be read back"):
        MemoryLog().append(odd)
    log.close()
    assert read_events(tmp_path / "events.jsonl") == []


def test_an_ended_run_is_taken_up_again() -> None:
    log = new_log()
    log.append(CommandReceived(verb="stop"))
    log.append(ProcessEnded(exit_code=130, reason="stopped"))
    assert log.state.stopping and log.state.process_end is not None
    log.append(RunResumed())
    assert not log.state.stopping and log.state.process_end is None
