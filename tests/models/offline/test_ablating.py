"""The offline planners: a plan covers the study's risks and parts, and what is missed is what its claims need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.ablations import AblationPlanInputs, MissingAblations, MissingAblationsInputs
from models.offline.ablating import ablation_plan, missing_ablations
from models.offline.coding import code
from record.ablation import Ablation
from record.nouns.drafts import Draft, Section
from record.nouns.idea import Idea
from record.trials import Trial
from stages.ablations.planning import risks_told, sift
from tests.models.offline.any_study import Case, brief

IDEAS = Path(__file__).parents[3] / "examples" / "ideas"
STUDIES = ("label_noise_calibration", "image_imbalance", "temporal_consistency")


def case_of(name: str) -> Case:
    found = json.loads((IDEAS / f"{name}.json").read_text())
    return Case(Idea.model_validate(found[0] if isinstance(found, list) else found))


def plan_inputs(case: Case, most: int = 5) -> AblationPlanInputs:
    return AblationPlanInputs(idea=case.idea, data_plan=case.plan, method=brief(case.winner()), most=most,
                              node_seconds=60.0)


def asked(case: Case, *done: Ablation) -> MissingAblations:
    draft = Draft(title="T", abstract="A", sections=(Section(title="R", body="It helps."),))
    return missing_ablations(MissingAblationsInputs(
        idea=case.idea, data_plan=case.plan, draft=draft, most=2, node_seconds=60.0, method_plan="p",
        method_source=case.winner().experiment,
        trials=tuple(Trial(ablation=one, by="author", outcome="measured") for one in done)))


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("most", [3, 5])
def test_a_plan_is_usable_as_it_is_and_answers_every_risk(study: str, most: int) -> None:
    case = case_of(study)
    plan = ablation_plan(plan_inputs(case, most))
    kept, faults = sift(plan.ablations, case.plan, most=most)
    lines, unsaid = risks_told(plan.risks, kept, case.idea.risks)
    assert kept == plan.ablations and len(kept) == most and faults == unsaid == ()
    tested = sum("(tested by " in line for line in lines)
    assert tested == min(most, len(case.idea.risks)) and "did not say" not in " ".join(lines)


@pytest.mark.parametrize("study", STUDIES)
def test_a_planned_ablation_is_what_its_program_takes_out(study: str) -> None:
    case, parent = case_of(study), brief(case_of(study).winner())
    for one in ablation_plan(plan_inputs(case)).ablations:
        program = code(case.code_inputs("ablation", "ablate", item=one.item, ablation=one, parent=parent))
        assert program.varies == one.name and f'"{one.name}": ' in program.experiment


@pytest.mark.parametrize("study", STUDIES)
def test_over_both_planners_the_parts_that_the_claims_credit_are_all_covered(study: str) -> None:
    case = case_of(study)
    needed = {spec.condition for spec in case.study.ablations if spec.needed}
    planned = ablation_plan(plan_inputs(case, 3)).ablations
    missing = asked(case, *planned).ablations
    assert needed and needed <= {one.name for one in (*planned, *missing)}
    none = asked(case, *planned, *missing)
    assert none.ablations == () and "taken out alone" in none.why
