"""What may be deleted, and how it is done."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from labwright.record import retention
from labwright.record.event_log import EventLog
from labwright.record.events.paper_events import PaperReleased
from labwright.record.events.run_events import FoldersDeleted, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    StageWinnerChosen,
)
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import collectable, delete_unreferenced, find_deletions
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt

IDEA = Idea.model_validate({"Name": "x", "Title": "X", "Experiments": "e"})


def test_any_collection_folds_after_any_prefix_and_only_such_folders_can_be_named() -> None:
    state = RunState()
    apply_event(state, FoldersDeleted(keep="best", folders=("nodes/n0404/attempt1/artifacts",)))
    assert state.deleted_folders == {"nodes/n0404/attempt1/artifacts": "best"}
    for wrong in ("nodes/n0001/attempt1/arrays", "nodes/../artifacts", "/nodes/n1/attempt1/artifacts", "data/labels"):
        with pytest.raises(ValueError, match="pattern"):
            FoldersDeleted(keep="best", folders=(wrong,))


def small_run(root: Path, **settings: Any) -> tuple[RunFolder, EventLog]:
    """A run of two drafts, of which the second is the best; each left an artifact, the first with a link elsewhere."""
    folder = RunFolder(root)
    folder.create_folders()
    log = EventLog(folder.events)
    log.append(RunStarted(idea=IDEA, seed=0, version="0", model="m", settings=settings))
    for k, name in enumerate(("n0001", "n0002"), 1):
        log.append(DecisionMade(k=k, action=ExpandTree(stage="preliminary", kind="draft", seed=0)))
        sha256 = seal_source(folder.get_source_path(name), {"experiment.py": f"X = {k}\n"})
        log.append(NodeProposed(node=name, decision=k, title="t", plan="p", varies="v", source_sha256=sha256))
        for kind in ("artifacts", "arrays"):
            (folder.get_attempt_path(name, 1) / kind).mkdir(parents=True)
            (folder.get_attempt_path(name, 1) / kind / "a.npy").write_bytes(bytes(1000))
        log.append(AttemptExecuted(node=name, attempt=Attempt(number=1, seconds=1, artifacts={"a.npy": "0"})))
        log.append(NodeJudged(node=name, status="good"))
    (folder.get_attempt_path("n0001", 1) / "artifacts" / "b.npy").write_bytes(bytes(500))
    os.link(folder.get_attempt_path("n0001", 1) / "artifacts" / "b.npy", root / "elsewhere")
    log.append(StageWinnerChosen(stage="preliminary", best="n0002", ended="limit"))
    return folder, log


def test_it_is_recorded_deleted_once_and_carried_over_to_a_branch(tmp_path: Path) -> None:
    folder, log = small_run(tmp_path / "run")
    before = log.state.event_count
    asyncio.run(delete_unreferenced(folder, log))
    asyncio.run(delete_unreferenced(folder, log))
    gone = "nodes/n0001/attempt1/artifacts"
    assert log.state.event_count == before + 1 and log.state.deleted_folders == {gone: "best"}
    assert log.state.freed_bytes == 1000, "the file with another link is still there"
    assert not (folder.root / gone).exists() and (folder.get_attempt_path("n0001", 1) / "arrays" / "a.npy").is_file()
    assert (folder.get_attempt_path("n0002", 1) / "artifacts" / "a.npy").is_file()
    assert not log.state.nodes["n0001"].attempts[0].artifacts and log.state.nodes["n0002"].attempts[0].artifacts
    event = FoldersDeleted(keep="best", folders=(gone, "nodes/n0007/attempt1/artifacts"), bytes=1000)
    _, parent = small_run(tmp_path / "parent")
    assert list(find_deletions([event], parent.state)) == [FoldersDeleted(keep="best", folders=(gone,))]
    assert list(find_deletions([event], log.state)) == [], "it knows that already"
    log.close()
    parent.close()


def test_what_can_still_be_read_stays(tmp_path: Path) -> None:
    """The best of a stage, what a source names, and what a node under way builds on."""
    _, log = small_run(tmp_path / "run")
    assert [*collectable(log.state, lambda node: ())] == ["nodes/n0001/attempt1/artifacts"]
    assert [*collectable(log.state, lambda node: ("n0001",) if node.id == "n0002" else ())] == []
    log.append(DecisionMade(k=3, action=ExpandTree(stage="tuning", kind="tune", parent="n0001", seed=0)))
    assert [*collectable(log.state, lambda node: ())] == []
    log.append(NodeJudged(node="n0003", status="buggy"))
    log.append(StageWinnerChosen(stage="tuning", best="n0002", ended="limit"))
    assert [*collectable(log.state, lambda node: ())] == ["nodes/n0001/attempt1/artifacts"]
    log.close()


@pytest.mark.parametrize("keep", ["best", "cited"])
def test_once_the_paper_is_released_cited_keeps_only_what_it_rests_on(keep: str, tmp_path: Path) -> None:
    """A stage's best node that a later one beat goes with `cited`, unless the winner's source names it."""
    folder, log = small_run(tmp_path / "run", keep=keep)
    log.append(DecisionMade(k=3, action=ExpandTree(stage="tuning", kind="tune", parent="n0002", seed=0)))
    sha256 = seal_source(folder.get_source_path("n0003"), {"experiment.py": "X = 3\n"})
    log.append(NodeProposed(node="n0003", decision=3, title="t", plan="p", varies="v", source_sha256=sha256))
    log.append(AttemptExecuted(node="n0003", attempt=Attempt(number=1, seconds=1, artifacts={"a.npy": "0"})))
    log.append(NodeJudged(node="n0003", status="good"))
    log.append(StageWinnerChosen(stage="tuning", best="n0003", ended="limit"))
    first, second = (f"nodes/n000{k}/attempt1/artifacts" for k in (1, 2))
    assert [*collectable(log.state, lambda node: ())] == [first]
    log.append(PaperReleased(released=True, pdf=None))
    assert [*collectable(log.state, lambda node: ())] == ([first, second] if keep == "cited" else [first])
    assert second not in collectable(log.state, lambda node: ("n0002",) if node.id == "n0003" else ())
    log.close()


def test_what_a_kill_left_after_the_event_is_deleted_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, log = small_run(tmp_path / "run")

    async def kill(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(retention, "to_thread", kill)
        asyncio.run(delete_unreferenced(folder, log))
    (gone,) = log.state.deleted_folders
    assert (folder.root / gone).is_dir()
    asyncio.run(delete_unreferenced(folder, log))
    assert not (folder.root / gone).exists() and len(log.state.deleted_folders) == 1
    log.close()


def test_all_is_kept_where_that_is_wanted(tmp_path: Path) -> None:
    folder, log = small_run(tmp_path / "run", keep="all")
    asyncio.run(delete_unreferenced(folder, log))
    assert not log.state.deleted_folders and (folder.get_attempt_path("n0001", 1) / "artifacts" / "a.npy").is_file()
    log.close()
