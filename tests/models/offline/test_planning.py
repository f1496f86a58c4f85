"""The offline planners: a plan covers the study's risks and parts, and what is missed is what its claims need."""

from __future__ import annotations

import pytest

from labwright.models.offline.planning import ablation_plan, missing_ablations
from labwright.models.offline.study import the_study
from labwright.models.roles.planning import AblationPlanInputs, MissingAblations, MissingAblationsInputs
from labwright.record.ablation import Ablation
from labwright.record.ablation_results import AblationResult
from labwright.record.nouns.papers import Draft, Section
from labwright.stages.planned_ablations import answers_to_risks, sift
from tests.models.offline.inputs import IDEA, PLAN, agenda_winner, brief, code_inputs, made


def plan_inputs(most: int = 5) -> AblationPlanInputs:
    return AblationPlanInputs(idea=IDEA, data_plan=PLAN, method=brief(agenda_winner()), most=most, node_seconds=60.0)


def asked(*done: Ablation) -> MissingAblations:
    draft = Draft(title="T", abstract="A", sections=(Section(title="R", body="It helps."),))
    return missing_ablations(
        MissingAblationsInputs(
            idea=IDEA,
            data_plan=PLAN,
            draft=draft,
            most=2,
            node_seconds=60.0,
            method_plan="p",
            method_code={"experiment.py": agenda_winner().experiment},
            trials=tuple(AblationResult(ablation=one, by="author", outcome="measured") for one in done),
        )
    )


@pytest.mark.parametrize("most", [3, 5])
def test_a_plan_is_usable_as_it_is_and_answers_every_risk(most: int) -> None:
    plan = ablation_plan(plan_inputs(most))
    kept, faults = sift(plan.ablations, PLAN, most=most)
    lines, unsaid = answers_to_risks(plan.risks, kept, IDEA.risks)
    assert kept == plan.ablations and len(kept) == most and faults == unsaid == ()
    tested = sum("(tested by " in line for line in lines)
    assert tested == min(most, len(IDEA.risks)) and "did not say" not in " ".join(lines)


def test_a_planned_ablation_is_what_its_program_takes_out() -> None:
    parent = brief(agenda_winner())
    for one in ablation_plan(plan_inputs()).ablations:
        program = made(code_inputs("ablation", "ablate", item=one.item, ablation=one, parent=parent))
        assert program.varies == one.name and f'"{one.name}": ' in program.experiment


def test_over_both_planners_the_parts_that_the_claims_credit_are_all_covered() -> None:
    needed = {spec.condition for spec in the_study().ablations if spec.needed}
    planned = ablation_plan(plan_inputs(3)).ablations
    missing = asked(*planned).ablations
    assert needed and needed <= {one.name for one in (*planned, *missing)}
    none = asked(*planned, *missing)
    assert none.ablations == () and "taken out alone" in none.why
