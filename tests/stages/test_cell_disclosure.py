"""What a paper and its disclosure tell of cells: taken over, failed, diverged, left out, and what they took."""

from __future__ import annotations

import json

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.events.search_events import CellExecuted, CellsRequired
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import Cell
from labwright.stages.paper.appendix import list_disclosures, render_incidents
from labwright.stages.paper.disclosure import format_disclosure
from tests.inspector.cell_run import make_cell_run, make_execution, make_key
from tests.inspector.sample_run import make_sample
from tests.paper import synthetic_paper


def plain(text: str) -> str:
    return text.replace("\\allowbreak{}", "").replace("\\rec{", "").replace("}", "")


def test_the_disclosure_has_every_cell_and_what_all_of_them_took() -> None:
    found = json.loads(format_disclosure(make_cell_run().state, isolation="", text_round=0))
    nodes = {one["id"]: one["cells"] for one in found["nodes"]}
    assert [one["outcome"] for one in nodes["n0002"]] == ["taken over", "taken over", "failed", "failed", "left out"]
    first = nodes["n0002"][0]
    assert (first["taken_from"], first["execution"], first["seconds"]) == ("n0001", nodes["n0001"][0]["execution"], 2.0)
    assert (first["dataset"], first["arm"], first["level"], first["seed"]) == ("digits", "plain", "low", 1)
    assert nodes["n0002"][3]["diverged"] and nodes["n0002"][4]["why"] == "no time was left for it"
    assert found["cells"]["measured"] == 5 and found["cells"]["seconds_saved"] == 7.0
    assert found["gpus_per_experiment"] == 0


def test_programs_that_do_all_at_once_change_nothing() -> None:
    found = json.loads(format_disclosure(make_sample().state, isolation="", text_round=0))
    assert found["cells"] is None and not any(one["cells"] for one in found["nodes"])


def test_the_appendix_lists_cells_that_are_missing() -> None:
    listed = plain(render_incidents(make_cell_run().state))
    assert "left out, no time was left for it: smooth@most on digits" in listed and "failed, diverged: " in listed


def test_checks_are_counted_and_what_differs_is_listed() -> None:
    story = make_cell_run()
    [(_, first), *_] = story.state.cells.values()
    story.add(
        *(CellExecuted(node="n0003", run=make_execution(first.cell, value, n=n)) for n, value in ((1, 0.5), (2, 0.9)))
    )
    found = json.loads(format_disclosure(story.state, isolation="", text_round=0))["cells"]
    assert found["repeated"] == 2 and found["differing"] == [[first.id, f"{first.id[:-1]}2"]]
    assert f"{first.id} and {first.id[:-1]}2" in plain(render_incidents(story.state))


def with_cells(kind: str) -> RunState:
    """The synthetic run, in which a replicate that the paper reports has a cell that came to this."""
    events = synthetic_paper.make_events()
    state = fold_events((event, float(at)) for at, event in enumerate(events))
    node = compute_paper_claims(state)[0].nodes[0]
    cell = Cell(dataset="digits", arm="method", level="noise20", seed=1)
    value = 0.3 if kind == "measured" else None
    run = make_execution(cell, value, kind="diverged" if kind == "diverged" else "timeout")
    events += [CellsRequired(node=node, cells=(cell,), keys=(make_key(cell),)), CellExecuted(node=node, run=run)]
    return fold_events((event, float(at)) for at, event in enumerate(events))


def test_the_text_of_a_paper_must_tell_what_is_missing_of_what_it_reports() -> None:
    lines = {
        kind: list_disclosures(with_cells(kind), compute_paper_claims(with_cells(kind)))
        for kind in ("measured", "failed", "diverged")
    }
    assert not any("failed" in line for line in lines["measured"])
    [failed] = [line for line in lines["failed"] if line not in lines["measured"]]
    assert failed.startswith("Some of the reported experiments failed or were left out")
    [diverged] = [line for line in lines["diverged"] if line not in lines["measured"]]
    assert "training runs diverged" in diverged and not any(character.isdigit() for character in failed + diverged)
