"""Two studies with one memory: what the first decided and how, the second sees, and prints nothing of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent.environment import paper_notice
from labwright.record.branching import hash_events
from labwright.record.claims.open_questions import read_memory
from labwright.record.event_log import read_events, read_rows
from labwright.record.events.run_events import StudiesRecalled
from labwright.record.schema.earlier_study import RecalledStudy
from labwright.record.schema.nodes import Failure
from labwright.sandbox.job import Job, JobOutcome
from labwright.stages.paper.appendix import list_disclosures, render_incidents
from tests.agent.scripted_runs import Killed, RunWorld, last_prompt
from tests.inspector.sample_run import read_status
from tests.models.ideation_examples import EARLIER_STUDY

pytestmark = pytest.mark.slow


def test_a_study_reads_what_the_one_before_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = tmp_path / "memory"
    (tmp_path / "a").mkdir()
    first = RunWorld(tmp_path / "a", monkeypatch)
    assert first.run("--memory", str(memory)) == 0
    assert [one.shown for one in first.events if isinstance(one, StudiesRecalled)] == [()]
    (kept,) = read_memory(memory).studies
    state, rows = first.state, read_rows(tmp_path / "a" / "run" / "events.jsonl")
    assert state.kept_study is not None and state.kept_study.id == kept.id and not state.kept_study.why
    before = next(at for at, (_, body) in enumerate(rows) if json.loads(body)["type"] == "study_kept")
    assert kept.digest == hash_events(rows[:before]), "the record says what it was made from"
    assert kept.run == "run" and kept.datasets == ("iris",) and [one.key for one in kept.verdicts] == ["gain"]
    assert kept.code is not None and kept.code.node == "n0002" and "SHRINKAGE" in kept.code.files["experiment.py"]
    assert "Records of earlier runs" not in last_prompt(first.model.requests, "plan")

    (tmp_path / "b").mkdir()
    second = RunWorld(tmp_path / "b", monkeypatch)
    second.kill = lambda event: event.type == "prepared"
    with pytest.raises(Killed):
        second.run("--memory", str(memory))
    assert second.main("memory", "forget", str(memory), kept.id) == 0
    second.kill = lambda _: False
    assert second.resume() == 0, "it goes on with the records that it had read"
    plan, code = (last_prompt(second.model.requests, role) for role in ("plan", "code"))
    assert f"Record `{kept.id}`, run run: Shrinking class means" in plan
    draft = next(one.prompt.user for one in second.model.requests if one.role.name == "code")
    assert f"The code of record `{kept.id}`" in draft and "SHRINKAGE" in draft
    assert kept.id not in code, "an ablation is not written from it"
    state = second.state
    assert state.recalled_studies is not None
    assert state.recalled_studies.shown[0].why.startswith("the same idea; common words: ")
    assert kept.id in render_incidents(state) and any("earlier runs" in one for one in list_disclosures(state, ()))
    assert "No person checked or edited it" in paper_notice(state)
    tested = EARLIER_STUDY.model_copy(update={"datasets": ("iris",)})
    state.recalled_studies = StudiesRecalled(memory="", shown=(RecalledStudy(study=tested, why=""),))
    assert [one for one in list_disclosures(state, ()) if "had decided hypotheses" in one] == [
        "Test data of Iris had decided hypotheses of these runs, so the tests here are not independent of what the "
        "planner knew."
    ]
    disclosed = json.loads((tmp_path / "b" / "run" / "review" / "disclosure.json").read_text())
    assert disclosed["earlier_runs"][0]["digest"] == kept.digest
    status = read_status("b", read_events(tmp_path / "b" / "run" / "events.jsonl"), None, now=0.0)
    assert kept.id in status.memory and status.memory.endswith("kept")
    capsys.readouterr()
    assert second.main("memory", "list", str(memory)) == 0
    out = capsys.readouterr().out
    assert "Shrinking class means" in out and "gain open" in out and kept.id not in out
    assert second.main("memory", "list", str(memory), "--json") == 0
    assert [one["run"] for one in json.loads(capsys.readouterr().out)] == ["run"]


def test_a_study_that_fails_is_kept_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Job) -> tuple[float, JobOutcome]:
        return 0.0, JobOutcome(seconds=1.0, failure=Failure(kind="other", message="ValueError: no such column\nat x"))

    world = RunWorld(tmp_path, monkeypatch)
    monkeypatch.setattr(world, "_ran", fail)
    assert world.run("--memory", str(tmp_path / "memory"), "--set", "search.preliminary.nodes=1") == 4
    (kept,) = read_memory(tmp_path / "memory").studies
    assert kept.failed.startswith("none of the 1 search nodes works") and kept.is_settled and kept.code is None
    (failure,) = kept.failures
    assert (failure.kind, failure.message, len(failure.nodes)) == ("other", "ValueError: no such column", 1)


def test_a_record_is_kept_although_the_run_was_killed_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = RunWorld(tmp_path, monkeypatch)
    world.kill = lambda event: event.type == "assessed"
    with pytest.raises(Killed):
        world.run("--memory", str(tmp_path / "memory"))
    world.kill = lambda _: False
    assert not read_memory(tmp_path / "memory").studies and world.state.phase == "done"
    assert world.resume() == 0
    assert len(read_memory(tmp_path / "memory").studies) == 1 and world.state.kept_study is not None


def test_without_a_memory_nothing_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = RunWorld(tmp_path, monkeypatch)
    assert world.run() == 0
    assert not {"studies_recalled", "study_kept"} & {one.type for one in world.events}
    assert world.state.recalled_studies is None
