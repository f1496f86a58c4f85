"""Cells in every view: status, why, tree, logs, and the page of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.inspector.diagnosis import diagnose_run
from labwright.inspector.event_text import describe_event, format_execution
from labwright.inspector.live_view import format_live
from labwright.inspector.logs import describe_small_step
from labwright.inspector.render import format_status, format_tree
from labwright.inspector.status import RunStatus
from labwright.inspector.tree import build_tree
from labwright.inspector.web.fragments import RunFragments
from labwright.inspector.web.node_panel import build_panel
from labwright.inspector.web.page_renderer import PageRenderer
from labwright.inspector.web.run_cache import CachedRun
from labwright.inspector.web.tables import build_grid
from labwright.record.events.run_events import RunResumed
from labwright.record.events.search_events import AttemptExecuted, CellExecuted, CellsRequired, NodeStepEntered
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import parse_arm
from labwright.record.schema.nodes import Cell
from tests.inspector.cell_run import make_cell_run
from tests.inspector.sample_run import BEGAN, make_ended, make_sample, read_status
from tests.inspector.web_server import ParsedPage, record_story

LEFT = "cells 2 of 4, about 12s compute left"


def harmless(text: str) -> bool:
    return not {c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u202c"}


def test_status_says_what_all_cells_came_to() -> None:
    found = read_status("runs/calm", make_cell_run().events, "process 7 on here", now=BEGAN)
    assert RunStatus.model_validate_json(found.model_dump_json()) == found
    page = "\n".join(line.plain for line in format_status(found))
    assert (
        "cells       5 measured, 3 reused, 2 failed, 1 left out, 2 waiting (of 13); 33s compute, 7.0s "
        "saved by reuse, about 12s compute left"
    ) in page
    assert harmless(page)
    without = read_status("runs/calm", make_sample().events, None, now=BEGAN)
    assert without.cells is None and "cells" not in "\n".join(line.plain for line in format_status(without))


def test_tree_live_view_and_why_tell_what_a_running_node_has_left() -> None:
    story = make_cell_run()
    story.add(NodeStepEntered(node="n0003", step="running"))
    tree = build_tree(story.state)
    rows = {row.id: row for row in tree.stages[0].nodes}
    assert rows["n0001"].cells is not None and rows["n0001"].cells.done_count == 4
    lines = [line.plain for line in format_tree(tree)]
    assert any("n0003" in line and LEFT in line for line in lines)
    assert any("n0002" in line and "cells 2 of 5, 2 failed, 1 left out" in line for line in lines)
    assert not any("n0001" in line and "cells" in line for line in lines), "nothing is missing there"
    frame = [line.plain for line in format_live(story.state, (), 30)]
    assert any(LEFT in line for line in frame)
    why = diagnose_run(story.state, "process 7 on here", now=BEGAN + 100)
    assert [one.detail for one in why.waiting] == [f"running its code, seed 1, {LEFT}"]


def test_events_in_words() -> None:
    story = make_cell_run()
    owed = [describe_event(event, story.state) for event, _ in story.events if isinstance(event, CellsRequired)]
    assert owed == [
        "n0001: 4 cells to run",
        "n0002: 3 cells to run, 2 reused from n0001",
        "n0003: 3 cells to run, 1 reused from n0001",
    ]
    runs = [event for event, _ in story.events if isinstance(event, CellExecuted)]
    assert {describe_event(event, story.state) for event in runs} == {None}
    steps = [describe_small_step(event, story.state) or "" for event in runs]
    assert (
        steps[0]
        == "n0001 ran plain@low on digits, seed 1 in 2.0s: log_loss 0.5"
        == format_execution(runs[0], story.state)
    )
    assert steps[4].startswith("n0002 ran smooth@low on digits, seed 2 in 7.0s: timeout:")
    assert all(map(harmless, steps))
    last = next(event for event, _ in reversed(story.events) if isinstance(event, AttemptExecuted))
    assert describe_event(last, story.state) == "n0002 ran 9.0s: 2 measurements of 2 of 5 cells"
    forgotten = CellsRequired(node="n0001", cells=owed_cells(runs), keys=("k",), taken={"k": "0-0"})
    assert describe_event(forgotten, story.state) == "n0001: 0 cells to run, 1 reused from a missing node"


def owed_cells(runs: list[CellExecuted]) -> tuple[Cell, ...]:
    return (runs[0].run.cell,)


@pytest.mark.slow
def test_logs_of_a_node_show_its_cells_and_those_of_the_run_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_story(tmp_path / "calm", make_cell_run())
    assert main(["logs", str(folder)]) == 0
    whole = capsys.readouterr().out
    assert "n0002: 3 cells to run" in whole and "ran plain@low" not in whole
    assert main(["logs", str(folder), "--node", "n0002"]) == 0
    assert "ran smooth@high on digits, seed 2 in 2.0s: diverged" in capsys.readouterr().out
    assert main(["status", str(folder)]) == 0 and "5 measured, 3 reused" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_lists_a_nodes_cells_and_counts_those_of_the_run(tmp_path: Path) -> None:
    run = CachedRun(record_story(tmp_path / "calm", make_cell_run()), "calm")
    run.refresh()
    panel, pages = build_panel(run, "n0002"), PageRenderer({})
    assert panel is not None and [one.find_value(panel.metric) for one in panel.cells] == [0.5, 0.6, None, None, None]
    html = pages.render_page("node", panel=panel, run="calm")
    rows = [row.split("</tr>")[0] for row in html.split('id="cells"')[1].split("</details>")[0].split("<tr>")[2:]]
    assert len(rows) == 5 and 'reused from <a class="tonode" href="/runs/calm/nodes/n0001">n0001</a>' in rows[0]
    assert "failed</td>" in rows[2] and "diverged: " in rows[3] and "no time was left for it" in rows[4]
    assert "trial" not in html.split('id="cells"')[1].split("</thead>")[0] and "img" not in ParsedPage(html).tags
    views = RunFragments(run, pages)
    assert "8 of 13 cells" in views.render("overview")[1]["summary"].html
    assert "time in cells" in views.render("cost")[1]["cost"].html
    pieces = views.render("tree")[1]
    assert "cells 2 of 4, about 12s" in pieces["row-n0003"].html and "2/4" in pieces["g-n0003"].html
    plain = CachedRun(record_story(tmp_path / "plain", make_ended()), "plain")
    plain.refresh()
    other = build_panel(plain, "n0002")
    assert other is not None and 'id="cells"' not in pages.render_page("node", panel=other, run="plain")
    views = RunFragments(plain, pages)
    assert "cells" not in views.render("overview")[1]["summary"].html
    assert "time in cells" not in views.render("cost")[1]["cost"].html


def test_a_killed_process_leaves_its_nodes_cells_as_they_are() -> None:
    story = make_cell_run()
    story.add(RunResumed())
    [row] = [row for row in build_tree(story.state).stages[0].nodes if row.id == "n0003"]
    assert row.cells is not None and (row.cells.done_count, row.cells.waiting) == (2, 2)
    assert RunFolder(Path("run")).get_cell_path("a-0") == Path("run/cells/a-0")


def test_the_grid_has_datasets_arms_and_levels_in_the_order_of_the_plan(tmp_path: Path) -> None:
    run = CachedRun(record_story(tmp_path / "celled", make_cell_run()), "celled")
    run.refresh()
    plan = run.state.search.data_plan
    assert plan is not None
    found = [parse_arm(condition) for _, condition in build_grid(run, 0).columns]
    arms = [arm.name for arm in plan.arms if arm.name in found]
    assert arms and list(dict.fromkeys(found))[: len(arms)] == arms
