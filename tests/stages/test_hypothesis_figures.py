"""The program's own figures: what they show is the record's, and they can be drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.reducers.run_state import RunState, SearchState
from labwright.record.schema.hypotheses import ClaimForm, Effect, Hypothesis
from labwright.stages.paper import hypothesis_figures
from labwright.stages.paper.figures import build_style, build_style_files
from labwright.stages.paper.hypothesis_figures import SCRIPT_PATH, build_figure_data, build_figure_script
from labwright.stages.paper.template import load_template
from tests.hypotheses import make_hypotheses
from tests.paper import synthetic_paper


def asked() -> RunState:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    over = Hypothesis(
        id="grows",
        statement="It grows.",
        reason="r",
        confirmatory=False,
        effects=(
            Effect(estimand="slope(baseline - method, over=levels)", smallest=0.1),
            Effect(estimand="mean(baseline - method, over=[noise20, noise40])", smallest=0.02),
        ),
    )
    run.search.data_plan = run.search.data_plan.model_copy(
        update={"hypotheses": (*make_hypotheses("method", "baseline", higher=False, level="noise20"), over)}
    )
    return run


@pytest.mark.parametrize(
    ("titles", "factor", "ticks"),
    [
        ("noise rate 0|noise rate 0.2|noise rate 0.4", "label noise rate", "0|0.2|0.4"),
        ("noise rate 0|noise rate 0.2|noise rate 0.4", "", "noise rate 0|noise rate 0.2|noise rate 0.4"),
        ("10 epochs|noise rate 0.2|noise rate 0.4", "setting", "10 epochs|noise rate 0.2|noise rate 0.4"),
        ("very small|very large|huge", "size", "very small|very large|huge"),
    ],
)
def test_ticks_leave_out_what_the_axis_names(titles: str, factor: str, ticks: str) -> None:
    run = asked()
    assert run.search.data_plan is not None
    levels = [
        one.model_copy(update={"title": title})
        for one, title in zip(run.search.data_plan.levels, titles.split("|"), strict=True)
    ]
    run.search.data_plan = run.search.data_plan.model_copy(update={"levels": tuple(levels), "factor": factor})
    assert build_figure_data(run)["differences"][0]["ticks"] == ticks.split("|")


def test_differences_are_those_of_the_record() -> None:
    run = asked()
    data = build_figure_data(run)
    found = [part for one in decide_hypotheses(run) for part in one.parts]
    digits, wine = data["differences"]
    assert (digits["dataset"], digits["ticks"]) == ("Digits", ["0% noise", "20% noise", "40% noise"])
    [series] = digits["series"]
    assert (series["label"], series["order"]) == ("label smoothing", 1), "no hypothesis reads the ablation"
    assert series["points"][1]["values"] == pytest.approx(found[0].values), "a lower loss is better: above zero"
    assert (digits["margins"], wine["margins"]) == ([0.02], []), "registered on the main dataset alone"


def test_seeds_are_drawn_as_long_as_they_do_not_hide_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    run = asked()
    assert run.search.data_plan is not None
    for limit, sentence in ((20, "Small points are seeds, large points means"), (1, "Points are means over seeds")):
        monkeypatch.setattr(hypothesis_figures, "MAX_SEEDS_DRAWN", limit)
        data = build_figure_data(run)
        point = data["differences"][0]["series"][0]["points"][1]
        assert bool(point["values"]) == (limit == 20) and point["low"] < point["mean"] < point["high"]
        script = build_figure_script(data, run.search.data_plan)
        assert (
            script is not None and f"paired by seed, by label noise. {sentence} with" in script.figures[0].description
        )


def test_the_axis_label_has_at_most_two_lines_and_the_caption_has_the_rest() -> None:
    run = asked()
    plan = run.search.data_plan
    assert plan is not None
    for title, label in (
        ("error", "Improvement in\nerror (points)"),
        ("test accuracy", "Gain in test\naccuracy (points)"),
        ("accuracy on images that have no mark", "Improvement\n(points)"),
    ):
        metrics = tuple(
            one.model_copy(update={"title": title, "low": 0.0, "high": 1.0}) if one == plan.primary_metric else one
            for one in plan.metrics
        )
        run.search.data_plan = plan.model_copy(update={"metrics": metrics})
        data = build_figure_data(run)
        script = build_figure_script(data, run.search.data_plan)
        assert data["side"] == label and script is not None
        assert f"Improvement in {title} over cross-entropy" in script.figures[0].description
        assert "below zero: worse" in script.figures[0].description


def test_without_hypotheses_there_is_no_margin_and_without_values_nothing_to_draw() -> None:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    script = build_figure_script(build_figure_data(run), run.search.data_plan)
    assert script is not None
    [part] = script.figures
    assert "Improvement in log loss over cross-entropy" in part.description and "margin" not in part.description
    bare = RunState(search=SearchState(data_plan=run.search.data_plan))
    assert build_figure_script(build_figure_data(bare), run.search.data_plan) is None


@pytest.mark.parametrize(
    ("claim", "estimand", "margins"),
    [
        ("at least", "mean(method - baseline, over=[noise20, noise40])", [-0.02]),
        ("within", "baseline@noise20 - method@noise20", [0.02, -0.02]),
        ("at least", "(baseline@noise20 - method@noise20) - (baseline@noise40 - method@noise40)", []),
        ("at least", "(baseline@noise20 - method@noise20) / baseline@noise20", []),
        ("at least", "no-schedule@noise20 - method@noise20", []),
    ],
)
def test_a_margin_is_drawn_if_the_effect_is_a_difference_from_the_baseline(
    claim: ClaimForm, estimand: str, margins: list[float]
) -> None:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    [one] = make_hypotheses("method", "baseline", higher=False, level="noise20")
    one = one.model_copy(update={"effects": (Effect(estimand=estimand, smallest=0.02, claim=claim),)})
    run.search.data_plan = run.search.data_plan.model_copy(update={"hypotheses": (one,)})
    data = build_figure_data(run)
    assert data["differences"][0]["margins"] == margins


@pytest.mark.slow
def test_the_figure_is_drawn_by_the_program(tmp_path: Path) -> None:
    run = asked()
    data = build_figure_data(run)
    assert run.search.data_plan is not None
    script = build_figure_script(data, run.search.data_plan)
    assert script is not None
    assert [one.name for one in script.figures] == ["decided"]
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "decided.json").write_text(json.dumps(data))
    assert json.loads(json.dumps(data)) == data
    for name, text in build_style_files(build_style(load_template("workshop"))).items():
        (tmp_path / name).write_text(text)
    code = "\n".join((script.script, *(one.code for one in script.figures)))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"{one.name}.{suffix}" for one in script.figures for suffix in ("pdf", "png")
    }


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_no_title_leaves_the_figure_and_panels_without_levels_have_no_tick(tmp_path: Path, count: int) -> None:
    long = "Optical recognition of handwritten digits in 8 x 8 pixels, with classes of unequal size and one more clause"
    point = {"values": [0.1, 0.2], "mean": 0.15, "low": 0.1, "high": 0.2}
    panel = {"dataset": long, "ticks": [""], "margins": [], "series": [{"label": "a", "order": 0, "points": [point]}]}
    data = {"differences": [panel] * count, "side": "improvement in loss", "factor": ""}
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "decided.json").write_text(json.dumps(data))
    for name, text in build_style_files(build_style(load_template("workshop"))).items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    check = (
        "\nimport figure_style\n"
        "def measure(figure, name):\n"
        "    figure.draw_without_rendering()\n"
        "    boxes = [one.title.get_window_extent() for one in figure.axes]\n"
        "    assert all(0 <= one.x0 and one.x1 <= figure.bbox.width for one in boxes), boxes\n"
        "    assert not any(len(one.get_xticks()) for one in figure.axes)\n"
        "save = measure\ndifferences('d')\n"
    )
    (tmp_path / "draw.py").write_text(SCRIPT_PATH.read_text() + check)
    ran = subprocess.run([sys.executable, "draw.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
