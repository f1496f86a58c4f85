"""Roles `ablation_plan` and `missing_ablations`: a study's ablations that the idea's risks and its claims ask for."""

from __future__ import annotations

from collections.abc import Sequence

from models.offline.study import AblationSpec, study_of_idea
from models.roles.planning import AblationPlan, AblationPlanInputs, MissingAblations, MissingAblationsInputs, RiskTested
from record.ablation import Ablation
from record.nouns.data import DataPlan


def ablation_plan(inputs: AblationPlanInputs) -> AblationPlan:
    """What the risks name, in their order, then the study's other parts; as many as there is room for."""
    study = study_of_idea(inputs.idea)
    asked = [_named(study.ablations, risk) for risk in inputs.idea.risks]
    chosen: list[AblationSpec] = []
    risks: list[RiskTested] = []
    for number, specs in enumerate(asked, start=1):
        first = next((one for one in specs if one not in chosen), None) or next(iter(specs), None)
        if first is None:
            risks.append(RiskTested(risk=number, reason="no part of the method stands for it"))
        elif first in chosen or len(chosen) < inputs.most:
            chosen += [] if first in chosen else [first]
            risks.append(RiskTested(risk=number, by=first.condition))
        else:
            risks.append(RiskTested(risk=number, reason="there is no room for it beside the others"))
    chosen += [one for one in study.ablations if one not in chosen]
    return AblationPlan(ablations=tuple(_planned(one, inputs.data_plan) for one in chosen[: inputs.most]),
                        risks=tuple(risks))


def missing_ablations(inputs: MissingAblationsInputs) -> MissingAblations:
    """The parts that the study's claims credit and that nobody measured; none where all were."""
    study = study_of_idea(inputs.idea)
    done = {one.ablation.name for one in inputs.trials if one.outcome == "measured"}
    lacking = [one for one in study.ablations if one.needed and one.condition not in done]
    if not lacking:
        return MissingAblations(why="Every part that the claims credit was taken out alone.")
    found = tuple(_planned(one, inputs.data_plan) for one in lacking[: inputs.most])
    parts = " and ".join(one.part for one in found)
    return MissingAblations(ablations=found, why=f"The claims credit the method as a whole; nobody measured it without "
                                                 f"{parts}.")


def _named(specs: Sequence[AblationSpec], risk: str) -> list[AblationSpec]:
    text = risk.lower()
    return [one for one in specs if any(word in text for word in one.keywords)]


def _planned(spec: AblationSpec, plan: DataPlan) -> Ablation:
    return Ablation(name=spec.condition, part=spec.part, action=spec.action, replacement=spec.replacement,
                    metrics=tuple(metric.name for metric in plan.metrics), why=spec.plan)
