"""What an attempt says of its cells is held against their executions."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.audit import audit_run, find_disagreements
from labwright.record.events import Event
from labwright.record.events.search_events import AttemptExecuted, CellsRequired
from labwright.record.reducers.event_fold import fold_events
from labwright.record.schema.nodes import Attempt, CellOutcomeLine
from tests.inspector.cell_run import make_cell, make_cell_run, make_key, make_value
from tests.inspector.test_logs import written
from tests.inspector.tuning_run import make_tuning_run


def found(*more: Event) -> list[tuple[str, str]]:
    """The disagreements of the story after more events."""
    story = make_cell_run()
    story.add(*more)
    return list(find_disagreements(fold_events(story.events)))


def attempt_of(node: str) -> Attempt:
    return make_cell_run().state.nodes[node].attempts[-1]


def again(node: str, **changes: object) -> AttemptExecuted:
    """Another attempt of a node, like its last but for this."""
    return AttemptExecuted(node=node, attempt=attempt_of(node).model_copy(update=changes))


def changed(name: str, place: int, **changes: object) -> AttemptExecuted:
    lines = list(attempt_of(name).cells)
    lines[place] = lines[place].model_copy(update=changes)
    return again(name, cells=tuple(lines))


def test_a_record_that_agrees_has_no_finding() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (changed("n0002", 0, outcome="measured"), "was executed for n0001, not for n0002"),
        (changed("n0002", 0, node="n0003"), "was executed for n0001, not for n0003"),
        (changed("n0002", 2, outcome="measured"), "reported as measured, but"),
        (changed("n0001", 0, outcome="failed", why="w"), "measured it"),
        (changed("n0001", 0, id="0" * 24 + "-7"), "which is not in the record"),
        (changed("n0001", 0, id=attempt_of("n0001").cells[1].id), "of another cell or has another key"),
        (
            again("n0001", measurements=(*attempt_of("n0001").measurements, make_value(make_cell("plain"), 0.1))),
            "1 values that no cell measured",
        ),
        (again("n0001", measurements=attempt_of("n0001").measurements[1:]), "1 values missing that its cells measured"),
        (again("n0001", cells=attempt_of("n0001").cells[1:]), "differ in plain@low on digits"),
    ],
)
def test_each_kind_of_disagreement_is_a_finding(event: Event, words: str) -> None:
    assert any(words in what for _, what in found(event))


def test_what_is_taken_over_exists_under_the_same_key_and_did_not_fail() -> None:
    one, failed = make_cell("plain", "low", seed=3), attempt_of("n0002").cells[2]
    cells, keys = (one, failed.cell), (make_key(one), make_key(failed.cell))
    of_another = attempt_of("n0001").cells[0].id
    for taken, words in (
        ({keys[0]: "0" * 24 + "-0"}, "which is not in the record"),
        ({keys[0]: of_another}, "measured under another key"),
        ({keys[1]: failed.id}, "which failed"),
        ({"0" * 64: of_another}, "a cell that it does not require"),
    ):
        event = CellsRequired(node="n0003", cells=cells, keys=keys, taken=taken)
        assert any(node == "n0003" and words in what for node, what in found(event)), words
    twice = CellsRequired(node="n0003", cells=cells, keys=keys[:1] * 2)
    assert any("but has 1 different keys" in what for _, what in found(twice))


@pytest.mark.slow
def test_audit_tells_of_folders_that_are_gone_and_of_disagreements(tmp_path: Path) -> None:
    story = make_cell_run()
    story.add(again("n0002", cells=(CellOutcomeLine(cell=make_cell("plain", "low"), outcome="measured", id="gone"),)))
    folder = written(tmp_path / "calm", story)
    for run in list(story.state.cells)[1:]:
        (folder / "cells" / run).mkdir(parents=True)
    report = audit_run(folder)
    findings = [(one.kind, one.where) for one in report.findings]
    assert ("missing", f"cells/{next(iter(story.state.cells))}") in findings and ("cells", "node n0002") in findings
    assert sum(where.startswith("cells/") for _, where in findings) == 1 and report.counts["cells"] == 7


def test_the_values_of_trials_stay_in_their_cells() -> None:
    assert list(find_disagreements(make_tuning_run().state)) == []
