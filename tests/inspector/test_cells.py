"""Cells in every view: status, why, tree, logs, and the page of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.inspector.cells import executed_text
from labwright.inspector.describe import describe
from labwright.inspector.live import frame_lines, frame_of
from labwright.inspector.logs import small_step
from labwright.inspector.render import status_lines, tree_lines
from labwright.inspector.status import Status, status_of
from labwright.inspector.tree import tree_of
from labwright.inspector.web.cell_grid import grid_of
from labwright.inspector.web.node_panel import panel_of
from labwright.inspector.web.pages import Pages
from labwright.inspector.web.pieces import RunPieces
from labwright.inspector.web.watched import Watched
from labwright.inspector.why import Outlook, why_of
from labwright.record.events.running import Resumed
from labwright.record.events.searching import CellExecuted, CellsOwed, Executed, Stepped
from labwright.record.folder import RunFolder
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import arm_of
from tests.inspector.celled import celled
from tests.inspector.story import BEGAN, ended, told
from tests.inspector.web import Seen, recorded

LEFT = "cells 2 of 4, about 12s of computing left"


def harmless(text: str) -> bool:
    return not {c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u202c"}


def test_status_says_what_all_cells_came_to() -> None:
    found = status_of("runs/calm", celled().events, "process 7 on here", now=BEGAN)
    assert Status.model_validate_json(found.model_dump_json()) == found
    page = "\n".join(line.plain for line in status_lines(found))
    assert (
        "cells       5 measured, 3 taken over, 2 failed, 1 left out, 2 waiting (of 13); 33s of computing, 7.0s "
        "saved, about 12s of computing left"
    ) in page
    assert harmless(page)
    without = status_of("runs/calm", told().events, None, now=BEGAN)
    assert without.cells is None and "cells" not in "\n".join(line.plain for line in status_lines(without))


def test_tree_live_view_and_why_tell_what_a_running_node_has_left() -> None:
    story = celled()
    story.tell(Stepped(node="n0003", step="running"))
    tree = tree_of(story.state)
    rows = {row.id: row for row in tree.stages[0].nodes}
    assert rows["n0001"].cells is not None and rows["n0001"].cells.done == 4
    lines = [line.plain for line in tree_lines(tree)]
    assert any("n0003" in line and LEFT in line for line in lines)
    assert any("n0002" in line and "cells 2 of 5, 2 failed, 1 left out" in line for line in lines)
    assert not any("n0001" in line and "cells" in line for line in lines), "nothing is missing there"
    frame = [line.plain for line in frame_lines(frame_of(story.state), 1.0, 30)]
    assert any(LEFT in line for line in frame)
    assert any("preliminary 2/5  [######....] cells 8/13" in line for line in frame)
    why = why_of("runs/calm", story.events, "process 7 on here", outlook=Outlook(), now=BEGAN + 100)
    assert [one.detail for one in why.waiting] == [f"runs its code, seed 1, {LEFT}"]
    assert why.slots[0].why == f"n0003: runs its code, seed 1, {LEFT}"


def test_events_in_words() -> None:
    story = celled()
    owed = [describe(event, story.state) for event, _ in story.events if isinstance(event, CellsOwed)]
    assert owed == [
        "n0001 owes 4 cells",
        "n0002 owes 5 cells, 2 taken over from n0001",
        "n0003 owes 4 cells, 1 taken over from n0001",
    ]
    runs = [event for event, _ in story.events if isinstance(event, CellExecuted)]
    assert {describe(event, story.state) for event in runs} == {None}
    steps = [small_step(event, story.state) or "" for event in runs]
    assert (
        steps[0] == "n0001 ran plain@low on digits, seed 1 in 2.0s: log_loss 0.5" == executed_text(runs[0], story.state)
    )
    assert steps[4].startswith("n0002 ran smooth@low on digits, seed 2 in 7.0s: timeout:")
    assert all(map(harmless, steps))
    last = next(event for event, _ in reversed(story.events) if isinstance(event, Executed))
    assert describe(last, story.state) == "n0002 ran 9.0s: 2 measurements of 2 of 5 cells"
    forgotten = CellsOwed(node="n0001", cells=owed_cells(runs), keys=("k",), taken={"k": "0-0"})
    assert describe(forgotten, story.state) == "n0001 owes 1 cell, 1 taken over from a node that is not there"


def owed_cells(runs: list[CellExecuted]) -> tuple[Cell, ...]:
    return (runs[0].run.cell,)


@pytest.mark.slow
def test_logs_of_a_node_show_its_cells_and_those_of_the_run_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recorded(tmp_path / "calm", celled())
    assert main(["logs", str(folder)]) == 0
    whole = capsys.readouterr().out
    assert "n0002 owes 5 cells" in whole and "ran plain@low" not in whole
    assert main(["logs", str(folder), "--node", "n0002"]) == 0
    assert "ran smooth@high on digits, seed 2 in 2.0s: diverged" in capsys.readouterr().out
    assert main(["status", str(folder)]) == 0 and "5 measured, 3 taken over" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_lists_a_nodes_cells_and_counts_those_of_the_run(tmp_path: Path) -> None:
    run = Watched(recorded(tmp_path / "calm", celled()), "calm")
    run.look()
    panel, pages = panel_of(run, "n0002"), Pages({})
    assert panel is not None and [one.value for one in panel.cells] == [0.5, 0.6, None, None, None]
    html = pages.page("node", panel=panel, run="calm")
    rows = [row.split("</tr>")[0] for row in html.split('id="cells"')[1].split("</details>")[0].split("<tr>")[2:]]
    assert len(rows) == 5 and 'taken over from <a class="tonode" href="/runs/calm/nodes/n0001">n0001</a>' in rows[0]
    assert "failed</td>" in rows[2] and "diverged: " in rows[3] and "no time was left for it" in rows[4]
    assert "trial" not in html.split('id="cells"')[1].split("</thead>")[0] and "img" not in Seen(html).tags
    _, pieces = RunPieces(run, pages).now()
    assert "8 of 13, about 12s of computing left" in pieces["summary"].html and "time in cells" in pieces["cost"].html
    assert "cells 2 of 4, about 12s" in pieces["row-n0003"].html and "2/4" in pieces["g-n0003"].html
    plain = Watched(recorded(tmp_path / "plain", ended()), "plain")
    plain.look()
    other = panel_of(plain, "n0002")
    assert other is not None and 'id="cells"' not in pages.page("node", panel=other, run="plain")
    _, pieces = RunPieces(plain, pages).now()
    assert "cells" not in pieces["summary"].html and "time in cells" not in pieces["cost"].html


def test_a_killed_process_leaves_its_nodes_cells_as_they_are() -> None:
    story = celled()
    story.tell(Resumed())
    [row] = [row for row in tree_of(story.state).stages[0].nodes if row.id == "n0003"]
    assert row.cells is not None and (row.cells.done, row.cells.waiting) == (2, 2)
    assert RunFolder(Path("run")).cell("a-0") == Path("run/cells/a-0")


def test_the_grid_has_datasets_arms_and_levels_in_the_order_of_the_plan(tmp_path: Path) -> None:
    run = Watched(recorded(tmp_path / "celled", celled()), "celled")
    run.look()
    plan = run.state.data_plan
    assert plan is not None
    found = [arm_of(condition) for _, condition in grid_of(run, 0).columns]
    arms = [arm.name for arm in plan.arms if arm.name in found]
    assert arms and list(dict.fromkeys(found))[: len(arms)] == arms
