"""What the views are made of: axes for any numbers, charts, panels, headlines, a table that is safe to open."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labwright.inspector.summary import build_headline
from labwright.inspector.tree import build_tree
from labwright.inspector.web.charts import (
    baseline_value,
    build_axis,
    build_chart,
    build_run_chart,
    compute_best_so_far,
    draw_effect,
    drop_outliers,
)
from labwright.inspector.web.node_panel import build_panel
from labwright.inspector.web.run_cache import CachedRun
from labwright.inspector.web.tables import TableQuery, build_table
from labwright.record.events.search_events import NodeProposed
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.hypotheses import Effect, EffectDecision
from tests.inspector.sample_run import EventStory, make_ended, make_sample
from tests.inspector.tuning_run import make_tuning_run
from tests.inspector.web_server import record_story

Finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(Finite, max_size=8), st.booleans(), st.booleans())
@example([5e-324], False, False)
@example([1e-300, 2e-299], False, True)
def test_an_axis_holds_all_its_values_in_order_and_has_few_ticks(values: list[float], whole: bool, tight: bool) -> None:
    made = build_axis("x", values, whole=whole, tight=tight)
    assert math.isfinite(made.low) and math.isfinite(made.high) and made.low < made.high
    assert len(made.ticks) <= 12 and all(-0.1 <= at <= made.length + 0.1 for at, _ in made.ticks)
    near = [value for value in values if abs(value) <= 1e300]
    assert all(-0.11 <= made.to_pixels(value) <= made.length + 0.11 for value in near)


def test_curves_are_told_apart_by_hue_and_dash_and_thinned_out() -> None:
    curves = {f"arm{number}": [(float(n), n * 0.5) for n in range(5000)] for number in range(25)}
    made = build_chart("t", "step", "loss", curves)
    assert [(line.hue, line.dash) for line in made.lines[7:10]] == [(7, 0), (0, 1), (1, 1)]
    assert len({(line.hue, line.dash) for line in made.lines}) == len(made.lines) == 24 and made.left_out == 1
    assert all(line.points.count(" ") < 450 and line.points.split()[-1].startswith("320.0,") for line in made.lines)


def test_one_bad_value_does_not_flatten_the_chart(tmp_path: Path) -> None:
    assert drop_outliers([1.0, 1.1, 1.2, 1.3, 1e9], higher=False) == [1.0, 1.1, 1.2, 1.3]
    assert drop_outliers([1.0, 1.1, 1.2, 1.3, 1e9], higher=True)[-1] == 1e9
    assert drop_outliers([1.0, 9e9], higher=False) == [1.0, 9e9]
    story = make_sample()
    for value in (0.4, 0.35, 1e9):
        story.finish_good(story.add_node("tuning", "tune", "n0005"), value)
    run = CachedRun(record_story(tmp_path / "far", story), "far")
    run.refresh()
    made = build_run_chart(run)
    assert [dot.row.id for dot in made.dots if dot.is_clipped] == ["n0009"] and made.y.high < 10
    assert made.kinds == ("draft", "debug", "replicate", "tune") and made.baseline is not None
    assert made.baseline[0] == baseline_value(run.state, build_tree(run.state)) == 0.3 + 0.5
    rows = [(float(n), row) for n, row in enumerate(build_tree(run.state).stages[0].nodes)]
    values = [value for _, value in compute_best_so_far(rows, higher=False)]
    assert values == sorted(values, reverse=True)


def test_commands_on_the_page_work_where_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CachedRun(record_story(tmp_path / "runs" / "calm", make_sample()), "calm")
    monkeypatch.chdir(tmp_path)
    run.refresh()
    assert run.read_status().next.endswith("continue with: scientist resume runs/calm")
    monkeypatch.chdir(tmp_path / "runs" / "calm")
    assert run.read_status().run == "calm", "no folder above this one is shown"


def test_no_cell_of_the_csv_is_a_formula_and_every_error_is_found(tmp_path: Path) -> None:
    story = EventStory()
    story.add_start()
    story.finish_buggy(story.add_node("preliminary", "draft", varies="=HYPERLINK(1)"))
    story.finish_good(story.add_node("preliminary", "draft", varies="@x"), -0.5)
    story.events = [
        (event.model_copy(update={"title": event.varies}) if isinstance(event, NodeProposed) else event, at)
        for event, at in story.events
    ]
    run = CachedRun(record_story(tmp_path / "calm", story), "calm")
    run.refresh()
    table = build_table(run, TableQuery(sort="metric", down=True))
    rows = list(csv.DictReader(table.to_csv().splitlines()))
    assert [row["node"] for row in rows] == ["n0002", "n0001"], "what has no value comes last either way"
    assert rows[1]["title"] == "'=HYPERLINK(1)" and rows[0]["title"] == "'@x"
    assert float(rows[0]["log loss"]) == -0.5 and rows[1]["log loss"] == ""
    for words, found in (("SHAPE", 1), ("@x preliminary", 1), ("shape @x", 0), ("", 2)):
        assert len(build_table(run, TableQuery(q=words)).rows) == found, words
    assert build_table(run, TableQuery(sort="no such")).query.sort == "node"


def test_the_table_is_in_order_of_decisions_and_stages_and_filtered_by_both(tmp_path: Path) -> None:
    run = CachedRun(record_story(tmp_path / "calm", make_ended()), "calm")
    run.refresh()
    for query, found in (
        (TableQuery(), "123456"),
        (TableQuery(down=True), "654321"),
        (TableQuery(sort="stage"), "134256"),
        (TableQuery(sort="metric"), "534216"),
        (TableQuery(stage="tuning"), "56"),
        (TableQuery(stage="preliminary", status="buggy"), "1"),
        (TableQuery(status="no such"), ""),
    ):
        assert "".join(row.id[-1] for row in build_table(run, query).rows) == found, query
    assert build_table(run, TableQuery(q="nothing")).choices["stage"] == ("preliminary", "tuning")


def test_a_nodes_measurements_say_which_is_best_and_what_they_are_less(tmp_path: Path) -> None:
    run = CachedRun(record_story(tmp_path / "calm", make_ended()), "calm")
    run.refresh()
    panel = build_panel(run, "n0005")
    assert panel is not None
    [(_, [plain]), (_, [smooth])] = panel.grids[0].rows
    assert plain is not None and smooth is not None and smooth.best and not plain.best
    assert (round(smooth.less_baseline or 0, 9), round(smooth.less_parent or 0, 9)) == (-0.5, -0.1)
    assert plain.less_baseline is None and round(plain.less_parent or 0, 9) == -0.1


def test_the_headline_compares_on_test_data_once_it_is_scored() -> None:
    found = build_headline(make_tuning_run().state)
    assert found is not None and found.mean_difference is not None and found.split == "test"
    first = found.compared[0]
    assert first.other == "smooth" and found.mean_difference > 0, "log loss: above zero where the method is better"
    assert first.low is not None and first.high is not None and first.low < first.mean < first.high
    assert all(value > 0 for value in first.values)
    begun = EventStory()
    begun.add_start()
    before = build_headline(begun.state)
    assert before is not None and before.mean_difference is None and build_headline(RunState()) is None


def test_the_bar_of_an_effect_shows_zero_and_the_smallest_that_matters() -> None:
    effect = Effect(estimand="a - b", smallest=0.1)
    assert draw_effect(EffectDecision(effect=effect, values=())) is None
    bar = draw_effect(EffectDecision(effect=effect, values=(0.2, 0.4), mean=0.3, low=0.15, high=0.45))
    assert bar is not None and bar.ends is not None and bar.zero is not None and bar.limit_position is not None
    places = [
        bar.zero,
        bar.limit_position,
        bar.ends[0],
        bar.replicate_positions[0],
        bar.mean,
        bar.replicate_positions[1],
        bar.ends[1],
    ]
    assert places == sorted(places) and places[0] == 6 and places[-1] == 154
