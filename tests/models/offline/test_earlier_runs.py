"""What the offline model does differently with the record of an earlier run of its study."""

from __future__ import annotations

from labwright.models.client import render
from labwright.models.offline.ideation import answer_idea_match, answer_plan
from labwright.models.offline.study import load_study
from labwright.models.roles.ideation import IdeaMatchInputs
from labwright.models.roles.study_plan import PLAN as PLAN_ROLE
from labwright.record.schema.data_plan import DataPlan
from tests.models.ideation_examples import EARLIER_STUDY
from tests.models.offline.role_inputs import IDEA, PLAN, make_code_inputs, make_plan_inputs, write_program

assert EARLIER_STUDY.code is not None
SELECTED = {"learning_rate": 0.0123, "weight_decay": 0.001, "smoothing": 7.0, "other": 1}
OWN = EARLIER_STUDY.model_copy(
    update={"name": load_study().name, "code": EARLIER_STUDY.code.model_copy(update={"settings": {"method": SELECTED}})}
)


def test_the_first_draft_avoids_what_failed_before_and_says_so() -> None:
    alone, later = (write_program(make_code_inputs(ordinal=0, studies=studies)) for studies in ((), (OWN,)))
    assert alone.experiment != later.experiment, "a mistake of the first one is gone"
    assert later.program.plan.endswith(f"It avoids what failed in an earlier run (record {OWN.id}).")
    without = OWN.model_copy(update={"failures": ()})
    for studies in ((EARLIER_STUDY,), (without,)):  # of another study; without failures
        assert write_program(make_code_inputs(ordinal=0, studies=studies)).files == alone.files


def test_the_plan_starts_from_the_selected_settings_that_are_allowed() -> None:
    plan = answer_plan(make_plan_inputs(studies=(OWN,)))
    assert isinstance(plan, DataPlan)
    found = {one.name: (one.default, one.source) for one in plan.space}
    source = f"selected by an earlier run (record {OWN.id})"
    assert found["learning_rate"] == (0.0123, source) and found["weight_decay"] == (0.001, source)
    assert found["smoothing"][0] == next(one.default for one in PLAN.space if one.name == "smoothing"), "out of range"
    assert answer_plan(make_plan_inputs()) == answer_plan(
        make_plan_inputs(studies=(OWN.model_copy(update={"name": "x"}),))
    ), "of another study"


def test_a_settled_question_of_its_study_is_recognised() -> None:
    assert answer_idea_match(IdeaMatchInputs(idea=IDEA, studies=(EARLIER_STUDY, OWN))).same == OWN.id
    assert answer_idea_match(IdeaMatchInputs(idea=IDEA, studies=(EARLIER_STUDY,))).same == ""


def test_the_planner_is_shown_verdicts_failures_and_settings() -> None:
    shown = render(PLAN_ROLE, make_plan_inputs(studies=(OWN,))).user
    for text in (
        f"Record `{OWN.id}`, run 2026-01-02_margins",
        "refuted: A margin penalty raises accuracy on digits. [margin - plain: -0.0123 (-0.02 to -0.004), 6 seeds]",
        "2 of its experiments failed (exception): ValueError: 64 features, not 8",
        "Selected for method: learning_rate=0.0123",
    ):
        assert text in shown, text
    assert "Records of earlier runs" not in render(PLAN_ROLE, make_plan_inputs()).user
