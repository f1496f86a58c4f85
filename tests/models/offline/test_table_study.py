"""The offline model's study of a user's own tables: its plan, and programs that fit every known model."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from labwright.models.errors import CatalogueError
from labwright.models.offline.planning import answer_ablation_plan, answer_missing_ablations, answer_plan
from labwright.models.offline.table_study import BASELINE, ESTIMATORS, HALF_THE_ROWS, METHOD, STUMPS
from labwright.models.roles.study_plan import AblationPlanInputs, MissingAblationsInputs
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetFacts
from labwright.stages.data_planning import PlanChoices
from tests.models.examples import INPUTS
from tests.models.offline.role_inputs import (
    IDEA,
    OfflineProgram,
    make_brief,
    make_code_inputs,
    make_plan_inputs,
    write_program,
)

CLASSES = DatasetFacts(
    name="crops",
    title="Crops",
    source="csv:crops.csv",
    features=5,
    classes=3,
    sizes={"train": 225, "dev": 45, "validation": 90, "test": 90},
    fingerprint="",
    seed=0,
    task="classification",
    target="crop",
)
NUMBERS = CLASSES.model_copy(update={"name": "prices", "classes": 0, "task": "regression", "target": "price"})


def make_plan(*entries: DatasetFacts, metric: str | None = None) -> DataPlan:
    found = answer_plan(
        make_plan_inputs(
            catalogue=entries,
            idea=IDEA.model_copy(update={"metric": metric}),
            metrics=("log_loss", "accuracy", "r2", "mae"),
        )
    )
    assert isinstance(found, DataPlan)
    return found


@pytest.mark.parametrize(
    ("entry", "metric", "names", "estimand"),
    [
        (CLASSES, None, ["log_loss", "accuracy"], "linear_model - gradient_boosting"),
        (CLASSES, "accuracy", ["accuracy", "log_loss"], "gradient_boosting - linear_model"),
        (CLASSES, "mae", ["log_loss", "accuracy"], "linear_model - gradient_boosting"),
        (NUMBERS, None, ["r2", "mae"], "gradient_boosting - linear_model"),
        (NUMBERS, "mae", ["mae", "r2"], "gradient_boosting - linear_model"),
    ],
)
def test_the_plan_follows_the_table_and_the_metric_of_the_idea(
    entry: DatasetFacts, metric: str | None, names: list[str], estimand: str
) -> None:
    plan = make_plan(entry, metric=metric)
    assert [one.name for one in plan.metrics] == names
    assert plan.hypotheses[0].effects[0].estimand == estimand
    assert plan.compared_arms == (BASELINE, STUMPS, METHOD)
    assert not list(PlanChoices({entry.name: entry}).find_design_faults(plan))


def test_of_several_tables_each_has_a_hypothesis() -> None:
    other = CLASSES.model_copy(update={"name": "soils"})
    plan = make_plan(CLASSES, other)
    assert [one.effects[0].estimand for one in plan.hypotheses] == [
        "linear_model - gradient_boosting",
        "on(linear_model - gradient_boosting, soils)",
    ]
    assert not list(PlanChoices({one.name: one for one in (CLASSES, other)}).find_design_faults(plan))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ((CLASSES.model_copy(update={"shape": (3, 32, 32)}),), "crops is none"),
        ((CLASSES.model_copy(update={"task": "none"}),), "crops is none"),
        ((CLASSES, NUMBERS), "tables of one kind"),
    ],
)
def test_data_that_are_no_tables_are_refused(entries: tuple[DatasetFacts, ...], words: str) -> None:
    with pytest.raises(CatalogueError, match=words):
        make_plan(*entries)


# --- programs ---------------------------------------------------------------------------------------------------------


def write(plan: DataPlan, stage: Any = "preliminary", kind: Any = "draft", **more: Any) -> OfflineProgram:
    return write_program(make_code_inputs(stage, kind, data_plan=plan, **more))


def run_cell(experiment: str, arm: str, setting: dict[str, Any], *, classes: int) -> dict[str, Any]:
    """Run one cell of a program in this process, and return what it submitted and saved."""
    rng, found = np.random.default_rng(0), dict[str, Any]()
    x = rng.normal(size=(90, 4))
    x[3, 1] = np.nan
    y = (np.nan_to_num(x).sum(axis=1) * 2).astype(int) % classes if classes else np.nan_to_num(x).sum(axis=1)
    part = types.SimpleNamespace(x=x, y=y)
    data = types.SimpleNamespace(train=part, dev=part, validation=part, test=part, classes=classes)
    cell = types.SimpleNamespace(arm=arm, dataset="crops", condition=arm, setting=setting)

    def submit(dataset: str, split: str, condition: str, **given: Any) -> None:
        found[split] = given

    def load(name: str) -> types.SimpleNamespace:
        return data

    lab = types.SimpleNamespace(seed=3, seed_everything=lambda: None, data=load, submit=submit, save=found.__setitem__)

    def measure(run: Callable[[Any], None]) -> None:
        run(cell)

    lab.measure = measure
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):  # threads that wait for each other take minutes
        patch.setitem(sys.modules, "lab", lab)
        exec(compile(experiment, "experiment.py", "exec"), {"__name__": "__main__"})
    return found


@pytest.mark.parametrize("arm", [*ESTIMATORS])
@pytest.mark.parametrize("entry", [CLASSES, NUMBERS])
def test_every_known_model_fits_and_predicts(entry: DatasetFacts, arm: str) -> None:
    plan = make_plan(entry).model_copy(
        update={"arms": (Arm(name=BASELINE, role="baseline"), Arm(name=arm, role="method")), "space": ()}
    )
    setting = {one.name: one.default for one in ESTIMATORS[arm].space}
    found = run_cell(write(plan).experiment, arm, setting, classes=entry.classes)
    given = next(iter(found["test"].values()))
    assert given.shape == ((90, 3) if entry.classes else (90,)) and np.isfinite(given).all()
    assert found["dev"].shape == ((10, 3) if entry.classes else (90, 2))


def test_later_programs_use_fewer_rows_and_an_ablation_adds_an_arm() -> None:
    plan = make_plan(CLASSES)
    draft = write(plan)
    later = write(plan, "agenda", "improve", ordinal=0, parent=make_brief(draft))
    assert later.varies == "50% of the training rows" and "TRAINING_SHARE = 0.5" in later.experiment
    ablated = write(plan, "ablation", "ablate", parent=make_brief(draft))
    assert ablated.program.arms == (HALF_THE_ROWS,)
    setting = {one.name: one.default for one in ESTIMATORS[METHOD].space}
    whole, half = (run_cell(ablated.experiment, arm, setting, classes=3) for arm in (METHOD, HALF_THE_ROWS))
    assert not np.array_equal(whole["test"]["probabilities"], half["test"]["probabilities"])


def test_its_one_ablation_is_half_of_the_rows_and_none_is_missing() -> None:
    plan = make_plan(CLASSES)
    inputs = INPUTS["ablation_plan"]
    assert isinstance(inputs, AblationPlanInputs)
    inputs = inputs.model_copy(update={"data_plan": plan})
    assert [one.name for one in answer_ablation_plan(inputs).ablations] == [HALF_THE_ROWS]
    missing = INPUTS["missing_ablations"]
    assert isinstance(missing, MissingAblationsInputs)
    missing = missing.model_copy(update={"data_plan": plan, "facts": ()})
    assert not answer_missing_ablations(missing).ablations
