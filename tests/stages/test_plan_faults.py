"""What cannot hold in a data plan is said to the planner, one sentence each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    DatasetUse,
    FrozenScorer,
    Level,
    MetricSpec,
    OmittedCells,
    SubmittedColumn,
)
from labwright.sandbox.metrics import METRICS, compute_scores, list_computable
from labwright.stages.data_planning import PlanChoices, add_metric_formulas
from tests.hypotheses import make_hypotheses

SIZES = {"train": 100, "dev": 20, "validation": 40, "test": 40}


def entry(name: str, classes: int, **more: Any) -> DatasetFacts:
    known: dict[str, Any] = {"source": f"csv:{name}.csv", "features": 3, "sizes": SIZES, "fingerprint": "", "seed": 0}
    return DatasetFacts(name=name, title=name, classes=classes, **(known | more))


CATALOGUE = {
    one.name: one
    for one in (
        entry("wine", 3),
        entry("digits", 10),
        entry("diabetes", 0),
        entry("folder", 0, task="none", sizes={}),
        entry("policy", 0, task="none", sizes={}),
        entry("small", 2, task="classification", sizes={"train": 5, "dev": 1, "validation": 0, "test": 0}),
    )
}
SCORERS = {
    "wine": FrozenScorer(
        dataset="wine",
        function="f",
        takes="predictions",
        sha256="0",
        metrics=(MetricSpec(name="cost", higher_is_better=False),),
    ),
    "policy": FrozenScorer(
        dataset="policy",
        function="f",
        takes="artifact",
        sha256="0",
        metrics=(MetricSpec(name="episode_return", higher_is_better=True),),
    ),
}
find_faults = PlanChoices(CATALOGUE, SCORERS).find_design_faults
PLAN = DataPlan(
    task="t",
    datasets=(DatasetUse(name="digits"),),
    expected_seconds=1,
    metrics=(MetricSpec(name="log_loss", higher_is_better=False), MetricSpec(name="accuracy", higher_is_better=True)),
    arms=(Arm(name="plain", role="baseline", untuned="it counts"), Arm(name="new", role="method", untuned="it counts")),
)


def on(*datasets: str, **changes: Any) -> DataPlan:
    return PLAN.model_copy(update={"datasets": tuple(DatasetUse(name=name) for name in datasets), **changes})


def by(*names: str, higher: bool | None = None) -> dict[str, Any]:
    def direction(name: str) -> bool:
        return METRICS[name].higher_is_better if higher is None else higher

    return {"metrics": tuple(MetricSpec(name=name, higher_is_better=direction(name)) for name in names)}


def with_arm(**fields: Any) -> DataPlan:
    return PLAN.model_copy(update={"arms": (*PLAN.arms, Arm.model_validate(fields))})


def with_column(name: str) -> DataPlan:
    column = SubmittedColumn(name=name, holds="classes", description="what the mark says")
    follows = MetricSpec(name="follows", formula="agreement(mark)", higher_is_better=False)
    return PLAN.model_copy(update={"columns": (column,), "metrics": (*PLAN.metrics, follows)})


def test_an_ablation_runs_with_the_setting_of_a_compared_arm() -> None:
    found = with_arm(name="new-at-plain", role="ablation", setting_of="plain")
    assert not any("setting_of" in one for one in find_faults(found))
    assert [found.find_tuned_arm(name) for name in ("plain", "new", "new-at-plain")] == ["plain", "new", "plain"]
    wrong = with_arm(name="control", role="ablation", setting_of="none")
    assert any("no baseline or method 'none'; available: plain, new" in one for one in find_faults(wrong))
    method = with_arm(name="other", role="method", setting_of="plain")
    assert any("only an ablation" in one for one in find_faults(method))


def test_a_column_of_the_code_has_a_name_of_its_own() -> None:
    assert not any("column" in one for one in find_faults(with_column("mark")))
    assert any("unknown column 'mark'" in one for one in find_faults(with_column("hint")))
    marked = CATALOGUE | {"digits": entry("digits", 10, task="classification", meta={"mark": ()})}
    assert any(
        "give the column that the code makes another" in one
        for one in PlanChoices(marked).find_design_faults(with_column("mark"))
    )


@pytest.mark.parametrize(
    "plan",
    [
        on("wine", "digits"),
        on("diabetes", **by("mse", "r2")),
        on("folder", **by("frames", "seconds", higher=False)),
        on("digits", "wine", left_out=(OmittedCells(arm="plain", dataset="wine", reason="it needs pixels"),)),
    ],
)
def test_what_holds_has_no_fault(plan: DataPlan) -> None:
    level = plan.levels[0].name if plan.levels else ""
    asked = plan.model_copy(
        update={"hypotheses": make_hypotheses("new", "plain", higher=plan.primary_metric.higher_is_better, level=level)}
    )
    assert find_faults(asked) == ()
    assert "no hypothesis is confirmatory" in find_faults(plan)[0]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            on("digits", **by("mse")),
            "primary metric 'mse' cannot be computed on 'digits' (10 classes); available: accuracy",
        ),
        (on("policy"), "cannot be computed on 'policy' (a folder without labels); available: episode_return"),
        (
            on("digits", **by("log_loss", higher=True)),
            "'log_loss' has the wrong direction: lower is better, so set higher_is_better to false",
        ),
        (on("small"), "dataset 'small' has no validation and no test examples"),
        (on("moon"), "there is no dataset 'moon'; available: diabetes"),
        (on("digits", arms=(*PLAN.arms, Arm(name="Plain", role="ablation"))), "arm 'plain' is defined twice"),
        (on("digits", arms=PLAN.arms[:1]), "no arm has the role 'method'"),
        (on("digits", levels=(Level(name="a"), Level(name="b"))), "there are levels (a, ...) but no `factor`"),
        (
            on("digits", left_out=(OmittedCells(arm="old", reason="r"),)),
            "`left_out`: there is no arm 'old'; available: plain, new",
        ),
        (
            on("digits", "wine", left_out=(OmittedCells(arm="new", dataset="digits", reason="r"),)),
            "`left_out` removes every cell of the method 'new' on the main dataset",
        ),
    ],
)
def test_what_cannot_hold_is_one_sentence(plan: DataPlan, words: str) -> None:
    assert words in find_faults(plan)[0]


def test_metrics_that_we_compute_get_their_worst_value_whatever_the_plan_says_of_it() -> None:
    plan = on(
        "wine",
        metrics=(
            MetricSpec(name="accuracy", higher_is_better=True, worst=0.5),
            MetricSpec(name="mse", higher_is_better=False),
            MetricSpec(name="cost", higher_is_better=False, worst=9.0),
        ),
    )
    assert [metric.worst for metric in add_metric_formulas(plan, {}).metrics] == [0.0, None, 9.0]
    wrong = compute_scores("probabilities", np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 0]))
    assert wrong == pytest.approx({name: METRICS[name].worst for name in list_computable(2)})
