"""The offline planners: a plan covers the study's risks and parts, and what is missed is what its claims need."""

from __future__ import annotations

import pytest

from labwright.models.offline.planning import answer_ablation_plan, answer_missing_ablations
from labwright.models.offline.study import load_study
from labwright.models.roles.study_plan import AblationPlanInputs, MissingAblationsAnswer, MissingAblationsInputs
from labwright.record.ablation_results import AblationResult
from labwright.record.baseline_check import Ablation
from labwright.record.schema.paper import PaperDraft, Section
from labwright.stages.ablation_plan import filter_ablations, match_risks
from tests.models.offline.role_inputs import IDEA, PLAN, make_agenda_winner, make_brief, make_code_inputs, write_program


def plan_inputs(most: int = 5) -> AblationPlanInputs:
    return AblationPlanInputs(
        idea=IDEA, data_plan=PLAN, method=make_brief(make_agenda_winner()), most=most, node_seconds=60.0
    )


def asked(*done: Ablation) -> MissingAblationsAnswer:
    draft = PaperDraft(title="T", abstract="A", sections=(Section(title="R", body="It helps."),))
    return answer_missing_ablations(
        MissingAblationsInputs(
            idea=IDEA,
            data_plan=PLAN,
            draft=draft,
            most=2,
            node_seconds=60.0,
            method_plan="p",
            method_code={"experiment.py": make_agenda_winner().experiment},
            trials=tuple(AblationResult(ablation=one, by="author", outcome="measured") for one in done),
        )
    )


@pytest.mark.parametrize("most", [3, 5])
def test_a_plan_is_usable_as_it_is_and_answers_every_risk(most: int) -> None:
    plan = answer_ablation_plan(plan_inputs(most))
    kept, faults = filter_ablations(plan.ablations, PLAN, limit=most)
    lines, unsaid = match_risks(plan.risks, kept, IDEA.risks)
    assert kept == plan.ablations and len(kept) == most and faults == unsaid == ()
    tested = sum("(tested by " in line for line in lines)
    assert tested == min(most, len(IDEA.risks)) and "did not say" not in " ".join(lines)


def test_a_planned_ablation_is_what_its_program_takes_out() -> None:
    parent = make_brief(make_agenda_winner())
    for one in answer_ablation_plan(plan_inputs()).ablations:
        program = write_program(make_code_inputs("ablation", "ablate", item=one.item_text, ablation=one, parent=parent))
        assert program.varies == one.name and f'"{one.name}": ' in program.experiment


def test_over_both_planners_the_parts_that_the_claims_credit_are_all_covered() -> None:
    needed = {spec.condition for spec in load_study().ablations if spec.needed}
    planned = answer_ablation_plan(plan_inputs(3)).ablations
    missing = asked(*planned).ablations
    assert needed and needed <= {one.name for one in (*planned, *missing)}
    none = asked(*planned, *missing)
    assert none.ablations == () and "removed alone" in none.why
