"""What became of the cells that nodes owe, and what they took, from the log alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record.branching import copy_run
from labwright.record.cell_status import compute_all_cells, compute_cell_totals, compute_node_cells, count_cells
from labwright.record.event_log import RecordError
from labwright.record.events.search_events import AttemptExecuted, CellExecuted, DecisionMade
from labwright.record.reducers.event_fold import fold_events
from labwright.record.retention import build_manifest
from labwright.record.run_folder import RunFolder, hash_file
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Attempt, Cell
from tests.inspector.cell_run import make_cell, make_cell_line, make_cell_run, make_execution, require_cells
from tests.inspector.sample_run import EventStory

_PART = st.text("at1_", min_size=1, max_size=6)
_CELLS = st.builds(
    Cell,
    dataset=_PART.map("d{}".format),
    arm=_PART.map("a{}".format),
    level=st.one_of(st.just(""), _PART.map("1{}".format), st.sampled_from(["t1", "t12", "r0_5", "r0.5"])),
    trial=st.sampled_from([0, 1, 12]),
    seed=st.just(0),
)


@given(st.lists(_CELLS, unique=True, min_size=2, max_size=40))
def test_no_two_cells_have_one_name(cells: list[Cell]) -> None:
    by_name = {cell.name: cell for cell in cells}
    assert len(by_name) == len(cells)
    assert len({cell.place_name for cell in cells}) == len({(cell.dataset, cell.arm, cell.level) for cell in cells})


def test_each_cell_in_the_order_owed_with_what_became_of_it() -> None:
    state = make_cell_run().state
    assert [one.outcome for one in compute_node_cells(state, "n0001")] == ["measured"] * 4
    second = compute_node_cells(state, "n0002")
    assert [one.outcome for one in second] == ["taken over", "taken over", "failed", "failed", "left out"]
    assert [one.node for one in second] == ["n0001", "n0001", "", "", ""] and second[0].seconds == 2.0
    assert second[2].why.startswith("timeout") and second[4].why == "no time was left for it"
    assert [one.has_diverged for one in second] == [False, False, False, True, False]
    third = [one.outcome for one in compute_node_cells(state, "n0003")]
    assert third == ["taken over", "measured", "waiting", "waiting"]
    assert compute_all_cells(state) == {name: compute_node_cells(state, name) for name in ("n0001", "n0002", "n0003")}


def test_seconds_left_are_those_of_the_same_arm_and_dataset_or_else_of_all() -> None:
    state = make_cell_run().state
    counts = count_cells(compute_node_cells(state, "n0003"))
    assert counts is not None and (counts.done_count, counts.owed, counts.waiting) == (2, 4, 2)
    assert counts.seconds_left == 10.0 + 2.0, "of smooth 10 s, of plain the 2 s of the cell that was taken over"
    assert str(counts) == "cells 2 of 4"
    finished = count_cells(compute_node_cells(state, "n0002"))
    assert str(finished) == "cells 2 of 5, 2 failed, 1 left out" and finished is not None
    assert finished.seconds_left is None
    story = make_cell_run()
    require_cells(story, story.add_node("preliminary", "draft"), [make_cell("smooth", seed=9)])
    unknown = count_cells(compute_node_cells(story.state, "n0004"))
    assert unknown is not None and unknown.seconds_left is None and unknown.waiting == 1


def test_the_run_in_numbers() -> None:
    state = make_cell_run().state
    totals = compute_cell_totals(state, compute_all_cells(state))
    assert totals is not None
    assert (totals.measured, totals.taken_over, totals.failed) == (5, 3, 2)
    assert (totals.diverged, totals.left_out, totals.waiting) == (1, 1, 2)
    assert totals.owed == 13 and totals.executions == 7
    assert totals.seconds == 2 + 3 + 4 + 5 + 7 + 2 + 10 and totals.seconds_saved == 2 + 3 + 2
    assert totals.seconds_left == 12.0 and (totals.repeated, totals.differing) == (0, ())


def test_a_cell_that_is_measured_again_is_counted_and_a_difference_told() -> None:
    story = make_cell_run()
    again = [make_execution(make_cell("plain", "low"), value, n=n) for n, value in ((1, 0.5), (2, 0.75))]
    story.add(*(CellExecuted(node="n0003", run=run) for run in again))
    totals = compute_cell_totals(story.state, compute_all_cells(story.state))
    assert totals is not None and totals.repeated == 2
    assert totals.differing == ((again[0].id[:-1] + "0", again[1].id),)


def test_a_cell_that_failed_and_ran_again_is_as_it_ended() -> None:
    story = EventStory()
    story.add_start()
    node, one = story.add_node("preliminary", "draft"), make_cell("plain")
    require_cells(story, node, [one])
    late = make_execution(one, None)
    attempt = Attempt(number=1, seconds=1.0, failure=late.failure, cells=(make_cell_line(late),))
    story.add(CellExecuted(node=node, run=late), AttemptExecuted(node=node, attempt=attempt))
    story.add(CellExecuted(node=node, run=make_execution(one, 0.3, n=1)))
    assert [found.outcome for found in compute_node_cells(story.state, node)] == ["measured"]


def test_a_branch_has_the_folders_of_the_cells_which_the_record_vouches_for(tmp_path: Path) -> None:
    parent, branch = RunFolder(tmp_path / "parent"), RunFolder(tmp_path / "branch")
    run = make_execution(make_cell("plain"), 0.5)
    array = parent.get_cell_path(run.id) / "arrays" / "a.npy"
    array.parent.mkdir(parents=True)
    array.write_bytes(b"1")
    run = run.model_copy(update={"arrays": {"a.npy": hash_file(array)}})
    state = fold_events(
        [
            (DecisionMade(k=1, action=ExpandTree(stage="preliminary", kind="draft", seed=1)), 0.0),
            (CellExecuted(node="n0001", run=run), 1.0),
        ]
    )
    assert build_manifest(state, parent) == {f"cells/{run.id}/arrays/a.npy": hash_file(array)}
    copy_run(parent, branch, state)
    assert (branch.get_cell_path(run.id) / "arrays" / "a.npy").read_bytes() == b"1"
    array.unlink()
    with pytest.raises(RecordError, match=run.id):
        copy_run(parent, RunFolder(tmp_path / "other"), state)
