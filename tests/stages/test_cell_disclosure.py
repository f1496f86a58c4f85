"""What a paper and its disclosure tell of cells: taken over, failed, diverged, left out, and what they took."""

from __future__ import annotations

import json

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.events.search_events import CellExecuted, CellsRequired
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import Cell
from labwright.stages.paper.appendix import list_disclosures, render_incidents, render_supplement
from labwright.stages.paper.disclosure import format_disclosure
from tests.inspector.cell_run import make_cell_run, make_execution, make_key
from tests.inspector.sample_run import make_sample
from tests.paper import synthetic_paper
from tests.paper.test_paper_parts import typed


def plain(text: str) -> str:
    return text.replace("\\allowbreak{}", "").replace("\\rec{", "").replace("}", "")


def whole(state: RunState) -> str:
    return render_supplement(state, [], title="T", authors="A")


def test_the_disclosure_has_every_cell_and_what_all_of_them_took() -> None:
    found = json.loads(format_disclosure(make_cell_run().state, isolation="", text_round=0))
    nodes = {one["id"]: one["cells"] for one in found["nodes"]}
    assert [one["outcome"] for one in nodes["n0002"]] == ["taken over", "taken over", "failed", "failed", "left out"]
    first = nodes["n0002"][0]
    assert (first["taken_from"], first["execution"], first["seconds"]) == ("n0001", nodes["n0001"][0]["execution"], 2.0)
    assert (first["dataset"], first["arm"], first["level"], first["seed"]) == ("digits", "plain", "low", 1)
    assert nodes["n0002"][3]["diverged"] and nodes["n0002"][4]["why"] == "no time was left for it"
    assert found["cells"]["measured"] == 5 and found["cells"]["seconds_saved"] == 7.0
    assert "gpu_hours" not in found["cells"]


def test_gpu_hours_are_told_by_cell_where_gpus_were_used() -> None:
    state = make_cell_run().state
    state.overrides["sandbox.device"] = "cuda"
    state.overrides["sandbox.gpus_per_node"] = 2
    found = json.loads(format_disclosure(state, isolation="", text_round=0))
    assert found["cells"]["gpu_hours"] == round(33 * 2 / 3600, 4)
    assert found["nodes"][2]["cells"][1]["gpu_hours"] == round(10 * 2 / 3600, 6)


def test_programs_that_do_all_at_once_change_nothing() -> None:
    found = json.loads(format_disclosure(make_sample().state, isolation="", text_round=0))
    assert "cells" not in found and all("cells" not in one for one in found["nodes"])
    assert "Cells" not in whole(make_sample().state) and "taken over" not in whole(make_sample().state)


def test_the_supplement_says_what_taking_over_means_and_lists_what_is_missing() -> None:
    state = make_cell_run().state
    text = plain(whole(state))
    for words in (
        "\\section{Cells",
        "13 cells: 5 were measured, 3 taken over, 2 failed (1 of them",
        "7 executions took 33 seconds of computing;",
        "7 seconds where they were measured",
        "its values stand here unchanged",
        "this was not checked here",
    ):
        assert words in " ".join(text.split()), words
    listed = plain(render_incidents(state))
    assert "2 of n0001" in listed and "1 of n0001" in listed
    assert "left out, no time was left for it: smooth@most on digits" in listed and "failed, diverged: " in listed
    assert typed(whole(state).replace("3pt", "")) == []


def test_checks_are_counted_and_what_differs_is_listed() -> None:
    story = make_cell_run()
    [(_, first), *_] = story.state.cells.values()
    story.add(
        *(CellExecuted(node="n0003", run=make_execution(first.cell, value, n=n)) for n, value in ((1, 0.5), (2, 0.9)))
    )
    text = " ".join(plain(whole(story.state)).split())
    assert "measured again 2 times; 1 of these repetitions gave other values" in text
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
