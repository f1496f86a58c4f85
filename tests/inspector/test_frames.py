"""Frames of a run: they say what the record and the other views say, every column is documented, the notebook runs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from labwright.inspector.frames import FRAME_COLUMNS, open_run
from labwright.inspector.tree import build_tree
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_test_claims
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.event_log import RecordError
from tests.inspector.cell_run import make_cell_run
from tests.inspector.sample_run import EventStory, make_sample
from tests.inspector.web_server import record_story

ROOT = Path(__file__).parents[2]
RUN = ROOT / "examples" / "recorded-run.zip"
NOTEBOOK = ROOT / "examples" / "read_a_run.ipynb"
PAGE = ROOT / "docs" / "python.md"


def _open(place: Path, story: EventStory) -> Any:  # pandas is typed too loosely for a strict check of its frames
    return open_run(record_story(place / "run", story))


def _every(run: Any) -> dict[str, Any]:
    return {"nodes": run.nodes, "cells": run.cells, "measurements": run.measurements, "claims": run.claims}


@pytest.fixture(scope="module")
def whole() -> Any:
    return open_run(str(RUN))


# --- a small run ----------------------------------------------------------------------------------------------------


def test_nodes_are_those_of_the_tree(tmp_path: Path) -> None:
    run = _open(tmp_path, make_sample())
    nodes = run.nodes.set_index("node")
    assert list(nodes.index) == ["n0001", "n0002", "n0003", "n0004", "n0005", "n0006"]
    assert list(nodes["status"]) == ["buggy", "good", "good", "good", "good", "running"]
    assert nodes.loc["n0003", ["parent", "kind", "value", "best"]].tolist() == ["n0001", "debug", 0.3, True]
    assert nodes.loc["n0001", "error"] == "shape" and nodes.loc["n0003", "error"] == ""
    assert nodes["tokens"].tolist() == [1300] * 6
    assert nodes["judged"].dropna().is_monotonic_increasing and nodes["judged"].isna().tolist() == [False] * 5 + [True]
    assert not nodes["title"].str.contains("[\x00-\x1f\x7f-\x9f\u202e]").any(), "it may be printed on a terminal"


def test_cells_have_what_became_of_each(tmp_path: Path) -> None:
    cells = _open(tmp_path, make_cell_run()).cells
    outcomes = cells.groupby("node")["outcome"].apply(list).to_dict()
    assert outcomes == {
        "n0001": ["measured"] * 4,
        "n0002": ["taken over", "taken over", "failed", "failed", "left out"],
        "n0003": ["taken over", "measured", "waiting", "waiting"],
    }
    taken = cells[cells["outcome"] == "taken over"]
    assert set(taken["by"]) == {"n0001"} and taken["value"].tolist() == [0.5, 0.6, 0.5]
    assert cells[cells["node"] == "n0001"]["seconds"].tolist() == [2.0, 3.0, 4.0, 5.0]
    assert cells[cells["diverged"]]["outcome"].tolist() == ["failed"]


def test_measurements_have_units_and_parts_of_the_condition(tmp_path: Path) -> None:
    values = _open(tmp_path, make_cell_run()).measurements
    first = values[values["node"] == "n0001"]
    assert first["condition"].tolist() == ["plain@low", "smooth@low", "plain@high", "smooth@high"]
    assert first["arm"].tolist() == ["plain", "smooth"] * 2 and set(first["level"]) == {"low", "high"}
    assert set(first["metric"]) == {"log_loss"} and set(first["grade"]) == {"computed"}


@pytest.mark.parametrize("events", [0, 1, 2, 9])
def test_a_run_that_has_only_begun_has_all_columns(tmp_path: Path, events: int) -> None:
    story = make_sample()
    del story.events[events:]
    run = _open(tmp_path, story)
    for name, frame in _every(run).items():
        assert list(frame.columns) == FRAME_COLUMNS[name]
    assert run.claims.empty and run.nodes["value"].dtype == float


def test_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is not the folder of a run"):
        open_run(tmp_path)


# --- the recorded run -----------------------------------------------------------------------------------------------


def test_frames_of_the_recorded_run_agree_with_its_other_views(whole: Any) -> None:
    state = whole.state
    rows = {row.id: row for stage in build_tree(state).stages for row in stage.nodes}
    assert set(whole.nodes["node"]) == set(rows)
    assert whole.nodes["seconds"].sum() == pytest.approx(sum(row.seconds for row in rows.values()))
    assert len(whole.cells) == sum(len(owed.cells) for owed in state.required_cells.values())
    tests = whole.measurements[whole.measurements["split"] == "test"]
    assert len(tests) == sum(len(every) for every in state.search.test_measurements.values()) > 0


def test_claims_are_those_of_the_paper(whole: Any) -> None:
    tested = whole.claims[(whole.claims["split"] == "test") & (whole.claims["kind"] != "hypothesis")].set_index("key")
    means = compute_test_claims(whole.state)
    every = [*means, *compute_differences(whole.state, means)]
    assert set(tested.index) == {one.key for one in every} and len(tested) == len(every)
    for one in every:
        assert tested.loc[one.key, "mean"] == one.mean and tested.loc[one.key, "nodes"] == " ".join(one.nodes)
    asked = whole.claims[whole.claims["kind"] == "hypothesis"]
    found = [(part.verdict, one.confirmed) for one in decide_hypotheses(whole.state) for part in one.parts]
    assert [*zip(asked["verdict"], asked["confirmed"], strict=True)] == found
    assert set(asked["split"]) == {"test"}


def test_every_column_of_the_recorded_run_has_values(whole: Any) -> None:
    """So that nothing is documented which is never there; it had no GPU, and no metric with a unit."""
    never = {("cells", "gpu_bytes"), ("measurements", "unit"), ("claims", "unit")}
    for name, frame in _every(whole).items():
        assert list(frame.columns) == FRAME_COLUMNS[name]
        empty = {column for column in frame if frame[column].isna().all() or (frame[column] == "").all()}
        assert {(name, column) for column in empty} <= never


# --- page and notebook ----------------------------------------------------------------------------------------------


def test_the_page_lists_every_column() -> None:
    tables = PAGE.read_text().partition("<!-- columns -->")[2].split("### ")[1:]
    listed = {table.partition("\n")[0]: re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for table in tables}
    assert listed == dict(FRAME_COLUMNS)


def _code() -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_kept_without_outputs() -> None:
    assert _code() and not [cell for cell in _code() if cell["outputs"] or cell["execution_count"] is not None]


@pytest.mark.slow
def test_the_notebook_runs_and_draws() -> None:
    nbformat.validate(json.loads(NOTEBOOK.read_text()))
    manager, client = start_new_kernel(
        kernel_name="python3", cwd=str(NOTEBOOK.parent), env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    outputs: list[dict[str, Any]] = []
    try:
        for cell in _code():
            reply: Any = client.execute_interactive(
                "".join(cell["source"]), timeout=600, allow_stdin=False, output_hook=outputs.append
            )
            assert reply["content"]["status"] == "ok", "\n".join(reply["content"].get("traceback", []))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    shown = [one["content"]["data"] for one in outputs if "data" in one["content"]]
    assert any("image/png" in data for data in shown) and any("text/html" in data for data in shown)
