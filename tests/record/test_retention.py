"""What may be deleted: over random small states, nothing that anything can still want; and how it is done."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record import retention
from labwright.record.claims.estimates import find_ablation_nodes, find_replicates, find_winner
from labwright.record.event_log import EventLog
from labwright.record.events import paper_events
from labwright.record.events.run_events import FoldersDeleted, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellsRequired,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    StageWinnerChosen,
)
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState, SearchState
from labwright.record.retention import collectable, delete_unreferenced, find_deletions
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, MetricSpec
from labwright.record.schema.decisions import ExpandTree, RunTask, VisibleDecisions
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import STAGES, Attempt, Cell, CellOutcomeLine, CellRun, Failure, Node, NodeKind

Named = dict[str, frozenset[str]]
IDEA = Idea.model_validate({"Name": "x", "Title": "X", "Experiments": "e"})
LATE = Failure(kind="timeout", message="too slow")
PLAN = DataPlan(
    task="t",
    datasets=(DatasetUse(name="d"),),
    metrics=(MetricSpec(name="loss", higher_is_better=False),),
    arms=(Arm(name="a", role="baseline"), Arm(name="b", role="method")),
    expected_seconds=1,
)
KINDS: tuple[NodeKind, ...] = ("draft", "debug", "improve", "replicate", "replicate")


def run_of(node: str, number: int, failure: Failure | None = None) -> CellRun:
    key = f"{int(node[1:]) * 10 + number:064x}"
    return CellRun(
        id=f"{key[-24:]}-0",
        key=key,
        cell=Cell(dataset="d", arm=f"a{number}"),
        seconds=1.0,
        failure=failure,
        artifacts={"model.npy": "0"},
    )


def random_state(rng: random.Random) -> tuple[RunState, Named]:
    """A run of some nodes in some stages, at any moment, and which nodes the source of each names."""
    state = RunState(
        started=RunStarted(
            idea=IDEA,
            seed=0,
            version="0",
            model="m",
            settings={
                "keep": rng.choice(["best", "cited", "best", "all"]),
                "search": {"order": rng.choice(["arrival", "arrival", "ticket"])},
            },
        ),
        search=SearchState(data_plan=PLAN),
    )
    named: Named = {}
    reached = rng.randint(1, 4)
    for k in range(1, rng.randint(2, 14)):
        stage = STAGES[rng.randrange(reached)]
        kind = rng.choice(KINDS) if stage != "ablation" else rng.choice(("ablate", "debug", "replicate"))
        parent = rng.choice([None, *state.nodes])
        through = rng.randrange(k)
        state.decisions[k] = DecisionMade(
            k=k,
            seen=VisibleDecisions(through=through),
            action=ExpandTree(stage=stage, kind=kind, parent=parent, seed=k),
        )
        written, done = rng.random() < 0.9, rng.random() < 0.8
        node = Node(
            id=f"n{k:04d}",
            decision=k,
            parent=parent,
            stage=stage,
            kind=kind,
            seed=k,
            source_sha256="0" if written else "",
            suspect=("doubt",) if rng.random() < 0.1 else (),
        )
        named[node.id] = frozenset(rng.sample([*state.nodes, "n9999"], min(len(state.nodes), rng.choice([0, 0, 1]))))
        state.nodes[node.id] = node
        if written:
            add_attempts(state, node, rng)
        if done:
            status = rng.choice(["good", "good", "buggy"])
            state.nodes[node.id] = state.nodes[node.id].model_copy(update={"status": status})
    for stage in STAGES[: rng.choice([reached, reached - 1])]:
        own = [one.id for one in state.nodes.values() if one.status == "good"]
        apply_event(state, StageWinnerChosen(stage=stage, best=rng.choice([None, *own]), ended="limit"))
    if rng.random() < 0.5:
        state.decisions[99] = DecisionMade(k=99, action=RunTask(task="score tests"))
        state.finished_decisions.add(99)
        if rng.random() < 0.7:
            apply_event(state, paper_events.PaperReleased(released=rng.random() < 0.8, pdf=None))
    return state, named


def add_attempts(state: RunState, node: Node, rng: random.Random) -> None:
    for number in range(1, rng.choice([1, 2, 3])):
        failure = LATE if rng.random() < 0.3 else None
        lines: tuple[CellOutcomeLine, ...] = ()
        if rng.random() < 0.6:
            own = run_of(node.id, number, LATE if rng.random() < 0.3 else None)
            other = rng.choice([run for _, run in state.cells.values() if run.failure is None] or [own])
            state.cells[own.id] = node.id, own
            lines = tuple(CellOutcomeLine(cell=run.cell, outcome="measured", id=run.id) for run in (own, other))
            state.required_cells[node.id] = CellsRequired(
                node=node.id, cells=(), keys=(), taken={other.key: other.id} if other != own else {}
            )
        apply_event(
            state,
            AttemptExecuted(
                node=node.id,
                attempt=Attempt(number=number, seconds=1.0, failure=failure, artifacts={"model.npy": "0"}, cells=lines),
            ),
        )


def wanted(state: RunState, named: Named) -> Iterator[tuple[str, str]]:
    """Everything that something can still want, as who wants it and the folder; said consumer by consumer."""

    def last(who: str, name: str) -> Iterator[tuple[str, str]]:
        for attempt in state.nodes[name].attempts[-1:]:
            yield who, f"nodes/{name}/attempt{attempt.number}/artifacts"
            yield from ((f"{who}, cell", f"cells/{line.id}/artifacts") for line in attempt.cells)
        yield from ((f"{who}, own", f"cells/{run}/artifacts") for run, (by, _) in state.cells.items() if by == name)

    cited = state.read_setting("keep") == "cited" and state.paper.released is not None and state.paper.released.released
    paper = {
        name
        for top in [find_winner(state), *(one.id for one in find_ablation_nodes(state))]
        if top
        for name in (top, *(one.id for one in find_replicates(state, top)))
    }
    for name in paper:
        yield from last("the paper, its scores and its reproduction", name)
        if (
            state.required_cells.get(name)
            and state.required_cells[name].taken
            and not state.is_task_done("score tests")
        ):
            yield from (
                ("its cells may be measured after all", f"cells/{run}/checkpoints")
                for run, (by, _) in state.cells.items()
                if by == name
            )
    readers = paper if cited else state.nodes.keys()
    for name in readers:
        for read in named[name] & state.nodes.keys():
            yield from last(f"the source of {name}", read)
    for node in state.nodes.values():
        if not cited and not state.search.stages[node.stage].is_settled:
            yield from last("a parent or a cell to take over", node.id)
        if node.is_finished:
            continue
        seen = state.decisions[node.decision].seen
        shown = [node.parent] if node.parent else []
        shown += [one.id for one in state.nodes.values() if one.decision in seen and not node.source_sha256]
        for one in (node.id, *shown):
            yield from last(f"{node.id}, which is under way", one)
        if node.id in state.required_cells:
            yield from (
                (f"{node.id} takes it over", f"cells/{run}/artifacts")
                for run in state.required_cells[node.id].taken.values()
            )
        yield from (("a second attempt", f"nodes/{node.id}/attempt{one.number}/checkpoints") for one in node.attempts)
        yield from (
            ("a second attempt", f"cells/{run}/checkpoints") for run, (by, _) in state.cells.items() if by == node.id
        )
    if not cited:
        for best in {one.best for one in state.search.stages.values() if one.best}:
            for name in (best, *(one.id for one in find_replicates(state, best))):
                yield from last("the best of a stage", name)


@given(st.integers(0, 2**32))
def test_nothing_that_anything_can_want_goes_and_what_went_is_gone_from_the_state(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(15):
        state, named = random_state(rng)
        going = tuple(collectable(state, lambda node, named=named: named[node.id]))
        if state.read_setting("search.order") == "ticket" and state.phase in STAGES:
            assert all(one.endswith("checkpoints") for one in going), "what is taken over may not follow time"
        lost = [(who, folder) for who, folder in wanted(state, named) if folder in going]
        assert not lost and len(set(going)) == len(going)
        if state.read_setting("keep") == "all":
            assert not going
            continue
        apply_event(state, FoldersDeleted(keep="best", folders=going, bytes=7))
        assert tuple(collectable(state, lambda node, named=named: named[node.id])) == ()
        assert state.freed_bytes == 7 and all(
            not attempt.artifacts
            for node in state.nodes.values()
            for attempt in node.attempts
            if f"nodes/{node.id}/attempt{attempt.number}/artifacts" in going
        )


def test_much_does_go() -> None:
    """So that the property above has something to find."""
    counts = {"best": 0, "cited": 0, "checkpoints": 0}
    for seed in range(200):
        state, named = random_state(random.Random(seed))
        going = tuple(collectable(state, lambda node, named=named: named[node.id]))
        counts["checkpoints"] += any(one.endswith("checkpoints") for one in going)
        if any(one.endswith("artifacts") for one in going):
            counts[state.read_setting("keep")] += 1
    assert all(number >= 5 for number in counts.values()), counts


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


def test_what_is_gone_is_not_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of many nodes looked for every folder that ever went, after every node."""
    folder, log = small_run(tmp_path / "run")
    asyncio.run(delete_unreferenced(folder, log))
    looked: list[Path] = []
    there = Path.is_dir

    def is_dir(path: Path) -> bool:
        looked.append(path)
        return there(path)

    monkeypatch.setattr(Path, "is_dir", is_dir)
    asyncio.run(delete_unreferenced(folder, log))
    asyncio.run(delete_unreferenced(folder, log))
    assert looked == [folder.root / one for one in log.state.deleted_folders], "once more, to see that it is gone"
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
