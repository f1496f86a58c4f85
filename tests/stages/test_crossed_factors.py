"""A whole scripted run of two crossed factors with cells left out, on a file with a column that metrics alone go by."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from labwright.agent.audit import audit_run
from labwright.agent.settings import compose_settings
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import FigureScript, FiguresInputs, PlotInputs, Plots
from labwright.record.claims.estimates import find_winner
from labwright.record.estimands import CellRef, EstimandError, describe_estimand, evaluate_estimand
from labwright.record.schema.data_plan import DataPlan, DatasetUse, Factor, Level, MetricSpec, OmittedCells
from labwright.record.schema.hypotheses import Effect, Hypothesis, RivalExplanation
from tests.programs import whole_files
from tests.stages import cell_study
from tests.stages.test_user_data import LEAST, farms, ran

PLAN = DataPlan.model_validate(
    cell_study.PLAN.model_dump()
    | {
        "datasets": (DatasetUse(name="farms"),),
        "left_out": (
            OmittedCells(arm="moved", level="k2", reason="it costs most"),
            OmittedCells(level="n0.5_k2", reason="nothing is left there"),
        ),
        "factors": (
            Factor(name="noise", levels=(Level(name="n0.1", value=0.1), Level(name="n0.5", value=0.5))),
            Factor(name="neighbours", levels=(Level(name="k1", value=1), Level(name="k2", value=2))),
        ),
        "metrics": (
            MetricSpec(name="log_loss", title="log loss", higher_is_better=False),
            MetricSpec(
                name="worst_farm",
                title="accuracy on the worst soil",
                higher_is_better=True,
                formula="worst(accuracy, by=soil)",
            ),
            MetricSpec(name="balanced_accuracy", higher_is_better=True),
            MetricSpec(name="flips", title="flips", higher_is_better=False, formula="flip_rate(to=n0.1_k1)"),
        ),
        "hypotheses": (
            Hypothesis(
                id="gain",
                statement="shrinking gains whatever the neighbours",
                reason="less is noise",
                effects=(Effect(estimand="mean(plain@n0.1 - shrunk@n0.1, over=[k1, k2])", smallest=0.02),),
                rival=RivalExplanation(
                    statement="noise alone",
                    estimand="shrunk@n0.1_k1 - shrunk@n0.5_k1",
                    ours="near zero",
                    theirs="below zero",
                ),
            ),
        ),
    }
)


def read(place: CellRef) -> float:
    noise, neighbours = place.level.split("_")
    return {"n0.1": 0.1, "n0.5": 0.5}[noise] * 2 + {"k1": 1.0, "k2": 3.0}[neighbours] + 10 * (place.arm == "plain")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mean(plain@n0.1 - shrunk@n0.1, over=[k1, k2])", 10.0),
        ("slope(shrunk@k1, over=[n0.1, n0.5])", 2.0),
        ("slope(shrunk, over=[n0.1_k1, n0.5_k1])", 2.0),
        ("slope(plain@n0.1, over=[k1, k2])", 2.0),
        ("mean(slope(shrunk, over=[n0.1, n0.5]), over=[k1])", 2.0),
        ("drop(shrunk@n0.5_k1, from=n0.1_k1)", 0.0),
        ("mean(drop(shrunk, from=n0.1), over=[n0.5_k1])", -0.8),
        ("shrunk@n0.1_k2", 3.2),
    ],
)
def test_a_level_of_one_factor_stands_for_it_where_levels_are_crossed(text: str, value: float) -> None:
    assert evaluate_estimand(text, PLAN, PLAN.primary_metric, read) == pytest.approx(value)
    assert describe_estimand(text, PLAN)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("shrunk@n0.5_k2", "is excluded from the plan"),
        ("moved@n0.1_k2", "is excluded from the plan"),
        ("shrunk@n0.1", "leaves other factors open: write shrunk@n0.1_k1"),
        ("slope(shrunk, over=[n0.1_k1, n0.1_k2, n0.5_k1])", "slope needs the levels of one factor"),
        ("shrunk@n9", "there is no level 'n9'; the plan has n0.1, n0.5, k1, k2, n0.1_k1"),
    ],
)
def test_what_is_no_place_of_crossed_levels_is_said(text: str, complaint: str) -> None:
    with pytest.raises(EstimandError) as caught:
        evaluate_estimand(text, PLAN, PLAN.primary_metric, read)
    assert complaint in str(caught.value)


def test_levels_are_made_of_factors_and_read_again_as_they_were() -> None:
    assert PLAN.level_names == ("n0.1_k1", "n0.1_k2", "n0.5_k1", "n0.5_k2")
    assert (PLAN.factor, PLAN.levels[0].title) == ("noise x neighbours", "noise n0.1, neighbours k1")
    assert DataPlan.model_validate_json(PLAN.model_dump_json()) == PLAN
    assert [one for one in PLAN.conditions if "moved" in one] == ["moved@n0.1_k1", "moved@n0.5_k1"]
    single = PLAN.model_dump() | {"factors": PLAN.factors[:1], "left_out": ()}
    assert DataPlan.model_validate(single).level_names == ("n0.1", "n0.5")


def _turned(text: str) -> str:
    return (
        text.replace('NOISE = {"low": 0.1, "high": 0.5}', "")
        .replace("NOISE[cell.level]", 'float(cell.level.partition("_")[0][1:])')
        .replace("__high.npy", "__n0.1_k1.npy")
    )


def crossed_model() -> ScriptedModel:
    def code(inputs: CodeInputs) -> Program:
        program = cell_study.answer_code(inputs)
        return program.model_copy(update={"files": whole_files({one.path: _turned(one.text) for one in program.files})})

    def plot(_: PlotInputs) -> Plots:
        return Plots(plots=_turned(cell_study.plots_code()))

    def figures(inputs: FiguresInputs) -> FigureScript:
        script = cell_study.small_study.answer_figures(inputs)
        return script.model_copy(
            update={"script": _turned(script.script.replace("/loss.npy", "/loss__*shr*__high.npy"))}
        )

    return cell_study.small_study.make_small_model(plan=lambda _: PLAN, code=code, plot=plot, figures=figures)


@pytest.mark.bench  # three minutes
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")
def test_a_run_measures_what_is_not_left_out_and_prints_formulas_by_name(tmp_path: Path) -> None:
    table = farms(tmp_path / "farms.csv")
    settings = compose_settings(
        environment={}, flags=LEAST | {"data": [f"farms={table},target=good,meta=soil,drop=week,drop=farm"]}
    )
    state = ran(tmp_path, crossed_model(), settings)
    assert state.process_end is not None, "it ended"
    node = state.nodes[find_winner(state) or ""]
    tests = state.search.test_measurements[node.id]
    assert {one.condition for one in tests if one.name == "log_loss"} == {
        f"{arm}@{level}"
        for arm in ("plain", "shrunk", "moved")
        for level in ("n0.1_k1", "n0.1_k2", "n0.5_k1")
        if (arm, level) != ("moved", "n0.1_k2")
    }
    for values in (node.measurements, tests):
        assert {one.name for one in values} >= {"worst_farm", "balanced_accuracy", "flips"}
        flips = {one.condition: one.value for one in values if one.name == "flips"}
        assert flips["plain@n0.1_k1"] == 0.0
        assert len(flips) == 8
    folder = tmp_path / "own"
    with np.load(folder / "data" / "labels" / "farms.npz") as labels:
        assert labels["test_meta"].shape == (48, 1)
    assert state.search.data_plan is not None
    report = audit_run(folder)
    assert not report.findings, report.findings
    results = (folder / "paper" / "results.tex").read_text()
    assert "worst_farm" in results or "log_loss" in results
