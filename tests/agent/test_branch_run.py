"""Whole branches of a small run: real kernels, record and TeX; the model is a script. Parents stay as they are."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import shutil
from contextlib import closing, redirect_stderr
from pathlib import Path

import pytest

from labwright.agent import branch, run
from labwright.agent.audit import audit_run
from labwright.agent.branch import BranchChanges, create_branch, read_origin
from labwright.agent.cli import main
from labwright.agent.settings import override_settings
from labwright.models.backend import ModelRequest, Reply
from labwright.models.replay import ScriptedModel
from labwright.record import control_files
from labwright.record.branching import BranchPointError
from labwright.record.claims.estimates import find_winner
from labwright.record.event_log import EventLog, RecordError, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import StageWinnerChosen
from labwright.record.lock import acquire_lock
from labwright.record.reducers.run_state import RunState
from labwright.stages.paper.appendix import BRANCH_NOTE
from tests.stages.small_study import IDEA, experiment_code, make_small_model, plots_code
from tests.stages.test_whole_run import small_settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)"),
    pytest.mark.usefixtures("reusing_executions"),
]


def scripted(*_: object) -> ScriptedModel:
    return make_small_model()


def files_of(folder: Path) -> dict[str, str]:
    """sha256 by path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped once its first stage had settled."""
    runs = tmp_path_factory.mktemp("runs")

    sent: list[Event] = []
    small = make_small_model()

    def tell(event: Event, _: RunState) -> None:
        if isinstance(event, StageWinnerChosen):
            control_files.send_command(runs / "parent", CommandReceived(verb="stop", text="enough"))
            sent.append(event)

    class Waiting(ScriptedModel):
        """Gives a loaded machine the time to see that it is to stop."""

        async def answer(self, request: ModelRequest) -> Reply:
            await asyncio.sleep(2.0 if sent else 0.0)
            return await small.answer(request)

    def waiting(*_: object) -> ScriptedModel:
        return Waiting(lambda request: request.inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", waiting)
        run.start_study(IDEA, small_settings(search__max_seeds=2), runs=runs, name="parent", listener=tell)
    assert read_state(runs / "parent").search.stages["preliminary"].is_settled
    return runs / "parent"


def stopped_at(run: Path, role: str) -> ScriptedModel:
    """The small study's model; who asks it in that role is asked to stop."""

    class Stopping(ScriptedModel):
        async def answer(self, request: ModelRequest) -> Reply:
            if request.role.name == role:
                control_files.send_command(run, CommandReceived(verb="stop", text="enough"))
            return await small.answer(request)

    small = make_small_model()
    return Stopping(lambda request: request.inputs)


@pytest.fixture(scope="module")
def own(parent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A branch of it from a node, that begins with a person's code and is stopped before its ablations."""
    point, made = good_draft(read_state(parent)), parent.parent / "own"
    code = tmp_path_factory.mktemp("code")
    (code / "experiment.py").write_text(experiment_code(shrinkage=0.01))
    (code / "plots.py").write_text(plots_code())
    before = files_of(parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", lambda _: stopped_at(made, "ablation_plan"))  # pyrefly: ignore
        assert (
            main(
                [
                    "branch",
                    str(parent),
                    "--from",
                    point,
                    "--code",
                    str(code),
                    "--author",
                    "Ada Lovelace",
                    "--note",
                    "Hardly any shrinkage.\nIt should do as well.",
                    "--name",
                    "own",
                ]
            )
            == 130
        )
    assert files_of(parent) == before and read_state(made).search.stages["agenda"].is_settled
    return made


@pytest.fixture(scope="module")
def again(own: Path) -> Path:
    """A branch of that branch from a stage, that goes to its end: it has a paper."""
    before, told = files_of(own), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(told):
        patch.setattr(run, "open_backend", scripted)
        assert (
            main(
                [
                    "branch",
                    str(own),
                    "--from",
                    "ablation",
                    "--name",
                    "again",
                    "--set",
                    "search.num_workers=1",
                    "--note",
                    "mind the spread",
                ]
            )
            == 0
        )
        made = own.parent / "again"
        assert main(["resume", str(made)]) == 0
    assert "branch of own at ablation" in told.getvalue()
    assert files_of(own) == before
    return made


def good_draft(state: RunState) -> str:
    return next(node.id for node in state.nodes.values() if node.kind == "draft" and node.status == "good")


@pytest.mark.bench
def test_a_node_that_a_person_wrote_is_checked_like_any_other(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = read_state(own)
    [node] = state.user_nodes
    point = state.ancestry[0].branching.point
    assert (node.author, node.parent, node.kind, node.status) == ("Ada Lovelace", point, "improve", "good")
    assert node.title == "Hardly any shrinkage." and node.setups["SHRINKAGE"] == 0.01 and node.verdict is not None
    assert not [key for key in state.calls.answers if key.decision == node.decision and key.role == "code"]
    assert main(["tree", str(own)]) == 0
    shown = capsys.readouterr().out
    assert "by Ada Lovelace" in shown and f"branch of parent at {point}" in shown


@pytest.mark.bench  # a whole run; tests/stages/test_disclosure.py has the words
def test_a_node_that_a_person_wrote_is_told_of_everywhere(own: Path, again: Path) -> None:
    state = read_state(again)
    [node] = state.user_nodes
    point = state.ancestry[0].branching.point
    assert node == read_state(own).nodes[node.id]
    told = json.loads((again / "review" / "disclosure.json").read_text())
    written = [(one["id"], one["author"]) for one in told["nodes"] if one["author"]]
    assert written == [(node.id, "Ada Lovelace")]
    appendix = (again / "paper" / "appendix.tex").read_text()
    assert f"after the verdict on node \\rec{{{point}" in appendix and "Ada Lovelace" in appendix
    assert "Some experiments use code written by a person; the appendix lists them." in " ".join(appendix.split())
    assert main(["reproduce", str(again), "--node", node.id, "--json"]) == 0


@pytest.mark.bench
def test_a_branch_of_a_branch_from_a_stage_is_a_run_of_its_own(
    own: Path, again: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = audit_run(again)
    assert report.findings == [] and report.counts["ancestors"] == 2 and report.counts["scores"] > 20
    state, old = read_state(again), read_state(own)
    assert [one.branching.parent for one in state.ancestry] == ["parent", "own"] and find_winner(state) == find_winner(
        old
    )
    kept = [node for node in old.nodes.values() if node.decision <= state.ancestry[-1].decision]
    assert all(state.nodes[node.id].source_sha256 == node.source_sha256 for node in kept)
    assert state.read_setting("search.num_workers") == 1
    plan = "Hardly any shrinkage.\nIt should do as well."
    assert [note.command.text for note in state.notes] == [plan, "mind the spread"]
    assert state.calls.total_usage.calls + count_inherited_calls(state) == len(state.calls.answers)
    _told_of_its_ancestors(again, state)
    listed = json.loads((again / "manifest.json").read_text())
    assert all(
        f"nodes/{node.id}/attempt1/arrays/loss.npy" in listed
        for node in kept
        if node.attempts and "loss.npy" in node.attempts[0].arrays
    )
    assert main(["status", str(again), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert [one["point"] for one in status["ancestry"]][1:] == ["ablation"]
    assert status["cost"]["calls"] == state.calls.total_usage.calls


def count_inherited_calls(state: RunState) -> int:
    return sum(one.calls for ancestor in state.ancestry for one in ancestor.usage.values())


def _told_of_its_ancestors(made: Path, state: RunState) -> None:
    told = json.loads((made / "review" / "disclosure.json").read_text())
    assert [one["branching"]["parent"] for one in told["ancestry"]] == ["parent", "own"]
    assert told["siblings"] == BRANCH_NOTE
    calls = [used["calls"] for one in told["ancestry"] for used in one["usage"].values()]
    assert sum(calls) == count_inherited_calls(state) > 0
    assert [one["author"] for one in told["nodes"] if one["author"]] == ["Ada Lovelace"]
    appendix = (made / "paper" / "appendix.tex").read_text()
    assert "This run is a branch of the run own, before the first decision of the ablation stage." in appendix
    assert BRANCH_NOTE in appendix


def shot(parent: Path, point: str, root: Path, **changes: object) -> Path:
    origin = read_origin(parent, point)
    assert origin.cut.state.started is not None
    settings = override_settings(origin.cut.state.started.settings, {})
    create_branch(origin, BranchChanges(settings, **changes), root)  # pyrefly: ignore
    return root


def test_arrays_are_shared_on_disk_and_what_people_read_and_edit_is_not(parent: Path) -> None:
    made = shot(parent, "tuning", parent.parent / "linked")
    shared = [path for path in made.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert shared and {path.parent.name for path in shared} <= {"arrays", "sealed"}
    assert not {path.name for path in made.iterdir()} & {"lock", "paper", "probes", "manifest.json"}
    assert not list((made / "control").iterdir())


def test_a_run_that_goes_on_is_only_read_and_what_is_said_against_its_numbers_later_holds(
    parent: Path, tmp_path: Path
) -> None:
    watched = tmp_path / "watched"
    shutil.copytree(parent, watched)
    node = good_draft(read_state(watched))
    with closing(EventLog(watched / "events.jsonl")) as log:
        log.append(CommandReceived(verb="mark", target=node, text="typed by hand"))
        log.append(CommandReceived(verb="note", text="later, and not for the branch"))
    before = files_of(watched)
    with acquire_lock(watched):
        made = shot(watched, "tuning", tmp_path / "made")
    state = read_state(made)
    assert "typed by hand" in " ".join(state.nodes[node].suspect) and state.notes == []
    assert {name: one for name, one in files_of(watched).items() if name != "lock"} == {
        name: one for name, one in before.items() if name != "lock"
    }


def test_a_branch_that_cannot_be_made_whole_leaves_nothing(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(parent, damaged)
    next(damaged.glob("nodes/*/attempt1/arrays/loss.npy")).write_bytes(b"other")
    with pytest.raises(RecordError, match=r"loss\.npy is missing or differs from the record"):
        shot(damaged, "tuning", tmp_path / "runs" / "made")
    shutil.rmtree(damaged / "data" / "labels")
    with pytest.raises(RecordError):
        shot(damaged, "tuning", tmp_path / "runs" / "made")
    assert list((tmp_path / "runs").iterdir()) == []
    with pytest.raises(BranchPointError, match="has not started"):
        read_origin(parent, "ablation")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(branch, "write_rows", killed)
    monkeypatch.setattr(branch.shutil, "rmtree", lambda *_, **__: None)  # pyrefly: ignore  as after a kill -9
    with pytest.raises(KeyboardInterrupt):
        shot(parent, "tuning", tmp_path / "runs" / "made")
    [left] = os.listdir(tmp_path / "runs")
    assert left.startswith(".made.") and not (tmp_path / "runs" / left / "events.jsonl").exists()


def test_what_is_there_or_cannot_be_is_refused_and_creates_nothing(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (parent.parent / "taken").mkdir(exist_ok=True)
    runs = tmp_path / "runs"
    for arguments, said in (
        (["--name", "taken"], "already exists"),
        (["--set", "seed=9"], "--seed sets that of decisions"),
        (["--set", "data=[]"], "fixed when it starts"),
        (["--code", str(tmp_path)], "contains no experiment.py"),
        (["--name", "../out"], "is not a valid folder name"),
        (["--note", "x" * 2000], "shorten it to at most"),
        (["--set", "nothing=1"], "unknown setting"),
    ):
        where = [] if "taken" in arguments else ["--runs", str(runs)]
        assert main(["branch", str(parent), "--from", "tuning", *where, *arguments]) == 2, arguments
        told = capsys.readouterr().err.strip().splitlines()
        assert len(told) == 1 and said in told[0], told
    assert not runs.exists()
