"""A whole small run whose nodes leave artifacts, killed between the record of what goes and its deletion."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from labwright.agent import run as runs_of
from labwright.agent.audit import audit_run
from labwright.agent.branch import BranchChanges, create_branch, read_origin
from labwright.agent.cli import main
from labwright.models.backend import ModelRequest, Reply
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.settings import ModelSettings
from labwright.record import retention
from labwright.record.claims.estimates import find_replicates, find_winner
from labwright.record.event_log import EventLog, read_events, read_state
from labwright.record.events.run_events import FoldersDeleted
from labwright.record.events.search_events import NodeJudged
from labwright.record.python_syntax import collect_strings
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, hash_file, read_source
from tests.execution_cache import reusing_executions_between_runs
from tests.stages.small_study import IDEA, make_small_model
from tests.stages.test_whole_run import small_settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.bench,
    pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)"),
]

LEAVES = '\nlab.save_artifact("means", means)\nlab.checkpoint({"means": 1})\n'
WORSE = ("SHRINKAGE = 0.2", "SHRINKAGE = 0.8")
"""Of drafts, so that tuning finds something better."""
READS = '\nprint("read", np.load(lab.artifact("means", node="NODE")).shape)\n'


class Killed(BaseException):
    pass


class Leaving(ScriptedModel):
    """The model of the small study; its programs leave an artifact, and read that of the node that they start from."""

    def __init__(self) -> None:
        super().__init__(lambda request: request.inputs)
        self.study = make_small_model()

    async def answer(self, request: ModelRequest) -> Reply:
        reply = await self.study.answer(request)
        if not isinstance(reply.output, Program) or not isinstance(request.inputs, CodeInputs):
            return reply
        parent = request.inputs.parent
        reads = READS.replace("NODE", parent.node.id) if parent is not None and parent.artifacts else ""
        if parent is not None and parent.artifacts:
            assert parent.artifacts == ("means.npy",)
        files = tuple(
            one
            if one.path != "experiment.py"
            else one.model_copy(update={"text": one.text.replace(*WORSE) + LEAVES + reads})
            for one in reply.output.files
        )
        return Reply(usage=reply.usage, model=reply.model, output=reply.output.model_copy(update={"files": files}))


@contextmanager
def killed_before_deletion() -> Generator[None]:
    """Ends what runs inside where the first thing that was recorded is about to be deleted."""

    async def kill(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "to_thread", kill)
        with pytest.raises(Killed):
            yield


def opened(_: ModelSettings) -> Leaving:
    return Leaving()


def resumed(run: Path, **settings: Any) -> int:
    with pytest.MonkeyPatch.context() as patch, reusing_executions_between_runs():
        patch.setattr(runs_of, "open_backend", opened)
        return runs_of.resume_run(run, settings, listener=lambda event, state: None)


def begun(runs: Path, **changes: object) -> int:
    with pytest.MonkeyPatch.context() as patch, reusing_executions_between_runs():
        patch.setattr(runs_of, "open_backend", opened)
        return runs_of.start_study(
            IDEA,
            small_settings(search__order="arrival", **changes),
            runs=runs,
            name="run",
            listener=lambda event, state: None,
        )


def checked(run: Path, keep: str) -> RunState:
    """The state of a run of which only what was collected is gone, and which an audit finds clean."""
    state, folder = read_state(run), RunFolder(run)
    assert [one for one in state.deleted_folders if (run / one).exists()] == []
    for node in state.nodes.values():
        for attempt in node.attempts:
            left = folder.get_attempt_path(node.id, attempt.number) / "artifacts"
            assert {one.name: hash_file(one) for one in left.glob("*")} == attempt.artifacts
    report = audit_run(run)
    assert report.findings == [] and report.counts["scores"] > 20
    assert (report.counts[f"folders deleted (keep={keep})"] > 0) == (keep != "all")
    return state


def readers(run: Path, state: RunState) -> dict[str, set[str]]:
    """Node -> nodes that its source names."""
    return {
        node.id: {
            word
            for text in read_source(RunFolder(run).get_source_path(node.id)).values()
            for word in collect_strings(text)
        }
        & state.nodes.keys()
        for node in state.nodes.values()
    }


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    with killed_before_deletion():
        begun(runs)
    state = read_state(runs / "run")
    assert read_events(runs / "run" / "events.jsonl")[-1][0].type == "collected" and state.search.stage is not None, (
        "mid-search"
    )
    assert state.deleted_folders and all((runs / "run" / one).is_dir() for one in state.deleted_folders)
    assert resumed(runs / "run") == 0
    return runs / "run"


def test_of_stages_that_are_over_what_is_built_on_or_read_stays(best: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, read = checked(best, "best"), readers(best, read_state(best))
    kept = {node.id for node in state.nodes.values() if node.attempts and node.attempts[-1].artifacts}
    assert set().union(*read.values()) <= kept and any(read.values()), "what a source names is there"
    top = find_winner(state) or ""
    assert {top, *(one.id for one in find_replicates(state, top))} <= kept
    assert {one.best for one in state.search.stages.values()} <= kept
    assert main(["status", str(best)]) == 0
    assert f"{len(state.deleted_folders)} folders of unreferenced checkpoints and artifacts" in capsys.readouterr().out
    reader = next(node for node, names in read.items() if names and state.nodes[node].status == "good")
    assert main(["reproduce", str(best), "--node", reader]) == 0


def test_a_branch_from_an_earlier_point_knows_what_is_gone(best: Path, tmp_path: Path) -> None:
    events = [event for event, _ in read_events(best / "events.jsonl")]
    at = next(at for at, event in enumerate(events) if isinstance(event, FoldersDeleted))
    point = [event.node for event in events[:at] if isinstance(event, NodeJudged)][-1]
    create_branch(read_origin(best, point), BranchChanges(small_settings(search__order="arrival")), tmp_path / "branch")
    state, gone = read_state(tmp_path / "branch"), read_state(best).deleted_folders
    assert state.deleted_folders.items() <= gone.items() and state.deleted_folders and state.freed_bytes == 0
    for node in state.nodes.values():
        for attempt in node.attempts:
            left = tmp_path / "branch" / "nodes" / node.id / f"attempt{attempt.number}" / "artifacts"
            assert {one.name for one in left.glob("*")} == attempt.artifacts.keys(), "what it may be offered is there"
    assert [one.kind for one in audit_run(tmp_path / "branch").findings] == ["not checked"], "it has no paper yet"


def test_what_reads_deleted_artifacts_is_not_reproduced(
    best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "cited"
    shutil.copytree(best, run)
    reader, (other,) = next((node, read) for node, read in readers(run, read_state(run)).items() if read)
    gone = f"nodes/{other}/attempt1/artifacts"
    with closing(EventLog(run / "events.jsonl")) as log:
        log.append(FoldersDeleted(keep="cited", folders=(gone,)))
    shutil.rmtree(run / gone)
    assert main(["reproduce", str(run), "--node", reader]) == 5
    assert f"it reads artifacts of {other}, which were deleted (keep=cited)" in capsys.readouterr().out
