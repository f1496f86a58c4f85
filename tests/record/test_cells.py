"""What became of the cells that nodes owe, and what they took, from the log alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record.branching import copy_run
from labwright.record.cells import all_cells, cells_of, counts_of, totals_of
from labwright.record.events.searching import CellExecuted, Decided, Executed, Judged
from labwright.record.fold.apply import fold
from labwright.record.folder import RunFolder, sha256
from labwright.record.manifest import manifest
from labwright.record.nouns.cells import Cell, CellLine, place_of
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import Attempt
from labwright.record.reading import RecordError
from tests.inspector.celled import cell, celled, line, owe, ran
from tests.inspector.story import Story, told

_PART = st.text("at1_", min_size=1, max_size=6)
_CELLS = st.builds(
    Cell,
    dataset=_PART.map("d{}".format),
    arm=_PART.map("a{}".format),
    level=st.one_of(st.just(""), _PART.map("1{}".format), st.sampled_from(["t1", "t12", "r0_5", "r0.5"])),
    trial=st.sampled_from([0, 1, 12]),
    share=st.sampled_from([0.5, 1.0]),
    seed=st.just(0),
)


@given(st.lists(_CELLS, unique=True, min_size=2, max_size=40))
def test_no_two_cells_have_one_name(cells: list[Cell]) -> None:
    by_name = {cell.name: cell for cell in cells}
    assert len(by_name) == len(cells)
    assert len({cell.place for cell in cells}) == len({(cell.dataset, cell.arm, cell.level) for cell in cells})


def test_places_of_plain_names_are_as_they_always_were() -> None:
    assert Cell(dataset="digits", arm="adam", level="wd_1").place == "digits__adam__wd_1"
    assert Cell(dataset="digits", arm="adam_").name == place_of("digits", "adam_") == "digits__adam_"
    one, other = Cell(dataset="d", arm="adam", level="wd__1"), Cell(dataset="d", arm="adam__wd", level="1")
    assert one.place != other.place and one.place.startswith("d__adam__wd__1__")


def test_each_cell_in_the_order_owed_with_what_became_of_it() -> None:
    state = celled().state
    assert [one.outcome for one in cells_of(state, "n0001")] == ["measured"] * 4
    second = cells_of(state, "n0002")
    assert [one.outcome for one in second] == ["taken over", "taken over", "failed", "failed", "left out"]
    assert [one.node for one in second] == ["n0001", "n0001", "", "", ""] and second[0].seconds == 2.0
    assert second[2].why.startswith("timeout") and second[4].why == "no time was left for it"
    assert [one.diverged for one in second] == [False, False, False, True, False]
    assert [one.outcome for one in cells_of(state, "n0003")] == ["taken over", "measured", "waiting", "waiting"]
    assert all_cells(state) == {name: cells_of(state, name) for name in ("n0001", "n0002", "n0003")}


def test_seconds_left_are_those_of_the_same_arm_and_dataset_or_else_of_all() -> None:
    state = celled().state
    counts = counts_of(cells_of(state, "n0003"))
    assert counts is not None and (counts.done, counts.owed, counts.waiting) == (2, 4, 2)
    assert counts.seconds_left == 10.0 + 2.0, "of smooth 10 s, of plain the 2 s of the cell that was taken over"
    assert str(counts) == "cells 2 of 4"
    finished = counts_of(cells_of(state, "n0002"))
    assert str(finished) == "cells 2 of 5, 2 failed, 1 left out" and finished is not None
    assert finished.seconds_left is None
    story = celled()
    owe(story, story.expand("preliminary", "draft"), [cell("smooth", seed=9)])
    unknown = counts_of(cells_of(story.state, "n0004"))
    assert unknown is not None and unknown.seconds_left is None and unknown.waiting == 1


def test_the_run_in_numbers() -> None:
    state = celled().state
    totals = totals_of(state, all_cells(state))
    assert totals is not None
    assert (totals.measured, totals.taken_over, totals.failed, totals.diverged, totals.left_out, totals.waiting) == (
        5,
        3,
        2,
        1,
        1,
        2,
    )
    assert totals.owed == 13 and totals.executions == 7
    assert totals.seconds == 2 + 3 + 4 + 5 + 7 + 2 + 10 and totals.seconds_saved == 2 + 3 + 2
    assert totals.seconds_left == 12.0 and (totals.repeated, totals.differing) == (0, ())


def test_a_cell_that_is_measured_again_is_counted_and_a_difference_told() -> None:
    story = celled()
    again = [ran(cell("plain", "low"), value, n=n) for n, value in ((1, 0.5), (2, 0.75))]
    story.tell(*(CellExecuted(node="n0003", run=run) for run in again))
    totals = totals_of(story.state, all_cells(story.state))
    assert totals is not None and totals.repeated == 2
    assert totals.differing == ((again[0].id[:-1] + "0", again[1].id),)


def test_a_cell_that_failed_and_ran_again_is_as_it_ended() -> None:
    story = Story()
    story.begin()
    node, one = story.expand("preliminary", "draft"), cell("plain")
    owe(story, node, [one])
    late = ran(one, None)
    story.tell(
        CellExecuted(node=node, run=late),
        Executed(node=node, attempt=Attempt(number=1, seconds=1.0, failure=late.failure, cells=(line(late),))),
        CellExecuted(node=node, run=ran(one, 0.3, n=1)),
    )
    assert [found.outcome for found in cells_of(story.state, node)] == ["measured"]


def test_a_cell_that_failed_and_had_no_second_chance_is_left_out() -> None:
    story = Story()
    story.begin()
    node, one = story.expand("preliminary", "draft"), cell("plain")
    owe(story, node, [one])
    late = ran(one, None)
    first, second = (
        Attempt(number=n, seconds=1.0, failure=late.failure, cells=(found,))
        for n, found in ((1, line(late)), (2, CellLine(cell=one, outcome="left out", why="no time")))
    )
    story.tell(CellExecuted(node=node, run=late), Executed(node=node, attempt=first))
    assert cells_of(story.state, node)[0].outcome == "failed"
    story.tell(Executed(node=node, attempt=second))
    assert [(found.outcome, found.why) for found in cells_of(story.state, node)] == [("left out", "no time")]


def test_what_a_finished_node_never_ran_is_left_out() -> None:
    story = Story()
    story.begin()
    node = story.expand("preliminary", "draft")
    owe(story, node, [cell("plain")])
    assert cells_of(story.state, node)[0].outcome == "waiting"
    story.tell(Judged(node=node, status="cancelled"))
    found = cells_of(story.state, node)[0]
    assert found.outcome == "left out" and "ended" in found.why


def test_a_program_that_does_all_at_once_has_no_cells() -> None:
    state = told().state
    assert cells_of(state, "n0001") == () and counts_of(()) is None and totals_of(state, all_cells(state)) is None


def test_a_branch_has_the_folders_of_the_cells_which_the_record_vouches_for(tmp_path: Path) -> None:
    parent, branch = RunFolder(tmp_path / "parent"), RunFolder(tmp_path / "branch")
    run = ran(cell("plain"), 0.5)
    array = parent.cell(run.id) / "arrays" / "a.npy"
    array.parent.mkdir(parents=True)
    array.write_bytes(b"1")
    run = run.model_copy(update={"arrays": {"a.npy": sha256(array)}})
    state = fold(
        [
            (Decided(k=1, action=Expand(stage="preliminary", kind="draft", seed=1)), 0.0),
            (CellExecuted(node="n0001", run=run), 1.0),
        ]
    )
    assert manifest(state, parent) == {f"cells/{run.id}/arrays/a.npy": sha256(array)}
    copy_run(parent, branch, state)
    assert (branch.cell(run.id) / "arrays" / "a.npy").read_bytes() == b"1"
    array.unlink()
    with pytest.raises(RecordError, match=run.id):
        copy_run(parent, RunFolder(tmp_path / "other"), state)
