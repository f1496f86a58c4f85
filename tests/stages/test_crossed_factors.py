"""A whole scripted run of two crossed factors with cells left out, on a file with a column that metrics alone go by."""

from __future__ import annotations

import pytest

from labwright.record.estimands import CellRef, EstimandError, describe_estimand, evaluate_estimand
from labwright.record.schema.data_plan import DataPlan, DatasetUse, Factor, Level, MetricSpec, OmittedCells
from labwright.record.schema.hypotheses import Effect, Hypothesis, RivalExplanation
from tests.stages import cell_study

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
        ("mean(slope(shrunk, over=[n0.1, n0.5]), over=[k1])", 2.0),
        ("mean(drop(shrunk, from=n0.1), over=[n0.5_k1])", -0.8),
    ],
)
def test_a_level_of_one_factor_stands_for_it_where_levels_are_crossed(text: str, value: float) -> None:
    assert evaluate_estimand(text, PLAN, PLAN.primary_metric, read) == pytest.approx(value)
    assert describe_estimand(text, PLAN)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("shrunk@n0.5_k2", "is excluded from the plan"),
        ("shrunk@n0.1", "leaves other factors open: write shrunk@n0.1_k1"),
        ("slope(shrunk, over=[n0.1_k1, n0.1_k2, n0.5_k1])", "slope needs the levels of one factor"),
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
