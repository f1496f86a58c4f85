"""A plan is revised field by field; what no edit names stays, and a wrong edit is said in one line."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from labwright.record.plan_edits import PlanEdit, apply_plan_edits, read_field_path
from labwright.record.schema.data_plan import TuningPlan
from tests.models.examples import PLAN


def edit(path: str, value: str = "", action: str = "set") -> PlanEdit:
    return PlanEdit.model_validate({"path": path, "value": value, "action": action})


@pytest.mark.parametrize(
    ("one", "path", "value"),
    [
        (edit("task", "Sort digits."), "task", "Sort digits."),
        (edit("task", '"Sort digits."'), "task", "Sort digits."),
        (edit("notes", "3"), "notes", "3"),
        (edit("notes", "{not JSON}"), "notes", "{not JSON}"),
        (edit("expected_seconds", "12.5"), "expected_seconds", 12.5),
        (edit("arms[plain].description", "with decay: 0.1"), "arms[0].description", "with decay: 0.1"),
        (edit("arms[no-warmup].setting_of", "plain"), "arms[2].setting_of", "plain"),
        (edit("metrics[0].low", "0"), "metrics[accuracy].low", 0.0),
        (edit("tuning.levels", '["n50"]'), "tuning.levels", ("n50",)),
        (edit("untested", "other data", "add"), "untested[0]", "other data"),
        (edit("levels", '{"name": "n5000", "value": 5000}', "add"), "levels[n5000].value", 5000.0),
        (edit("hypotheses[0].effects[0].claim", "positive"), "hypotheses[0].effects[0].claim", "positive"),
    ],
)
def test_an_edit_changes_one_field(one: PlanEdit, path: str, value: object) -> None:
    found = apply_plan_edits(PLAN, [one])
    assert read_field_path(found, path) == value
    changed = path.partition(".")[0].partition("[")[0]
    assert found.model_copy(update={changed: getattr(PLAN, changed)}) == PLAN


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (edit("arm", "x"), "edit 1: the plan has no field 'arm'"),
        (edit("arms[wide].title", "x"), "the plan has no field 'arms[wide].title'"),
        (edit("arms[7]", action="remove"), "the plan has no field 'arms[7]'"),
        (edit("arms[0]; drop", "x"), "the plan has no field"),
        (edit("expected_seconds", "soon"), "'soon' is not JSON"),
        (edit("expected_seconds", "-1"), "invalid at expected_seconds: Input should be greater than 0"),
        (edit("arms[plain].role", "hero"), "invalid at arms.0.role"),
        (edit("arms[plain].colour", "red"), "invalid at arms.0.colour: Extra inputs are not permitted"),
        (edit("task", action="remove"), "'remove' takes an item of a list"),
        (edit("task", "x", "add"), "'add' takes the path of a list"),
        (edit("levels", "no", "add"), "is not JSON"),
    ],
)
def test_a_wrong_edit_is_one_line(one: PlanEdit, why: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        apply_plan_edits(PLAN, [one])
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tuning_plan_of_an_earlier_version_opens_and_one_that_is_no_mapping_is_refused() -> None:
    assert TuningPlan.model_validate({"budget": 3, "currency": "trials", "rungs": [0.5]}) == TuningPlan(budget=3)
    for wrong in (5, "few", {"bugdet": 3}):
        with pytest.raises(ValidationError):
            TuningPlan.model_validate(wrong)
