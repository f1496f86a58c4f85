"""Roles `plan`, `ablation_plan` and `missing_ablations`: the study's plan, and ablations for its risks and claims."""

from __future__ import annotations

from collections.abc import Sequence

from labwright.models.errors import CatalogueError
from labwright.models.offline.plain_study import is_repository_study
from labwright.models.offline.study import AblationSpec, find_study_by_idea
from labwright.models.offline.table_study import is_table_study, plan_table_ablations, plan_table_study
from labwright.models.roles.study_plan import (
    AblationPlan,
    AblationPlanInputs,
    MissingAblationsAnswer,
    MissingAblationsInputs,
    PlanInputs,
    PlanRevision,
    RiskTested,
)
from labwright.record.ablation import Ablation
from labwright.record.plan_edits import PlanEdit
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.prior_work import OmittedPriorWork
from labwright.record.schema.protocol_review import FindingAnswer
from labwright.record.schema.tuning import Hyperparameter


def answer_plan(inputs: PlanInputs) -> DataPlan | PlanRevision:
    """Return the study's data plan, restricted to the available datasets and metrics that the idea names, or a plan for
    the user's tables.

    Asked to revise it, answer the findings and leave the rest.

    Raises:
        CatalogueError: the idea is not the study's and has no data of the user, or none of its datasets is available.
    """
    if inputs.before is not None:
        return _answer_findings(inputs)
    if any(entry.own for entry in inputs.catalogue):
        return plan_table_study(inputs)
    study = find_study_by_idea(inputs.idea)
    have = {entry.name for entry in inputs.catalogue}
    datasets = tuple(use for use in study.plan.datasets if use.name in have)
    if not datasets:
        wanted = ", ".join(use.name for use in study.plan.datasets)
        raise CatalogueError(f"the study {study.name} needs one of the datasets {wanted}; have {sorted(have)!r}")
    named = " ".join(inputs.idea.datasets).lower().replace(" ", "_")
    asked = tuple(use for use in datasets if use.name in named)
    metrics = tuple(metric for metric in study.plan.metrics if metric.name in inputs.metrics)
    metrics = metrics or study.plan.metrics[:1]
    known = ("", *(metric.name for metric in metrics))
    hypotheses = tuple(
        one.model_copy(update={"alternatives": tuple(other for other in one.alternatives if other.metric in known)})
        for one in study.plan.hypotheses
    )
    omitted = tuple(
        OmittedPriorWork(name=row.name, reason="it is not part of the study that this model knows")
        for row in inputs.common
    )
    own = [one for one in inputs.studies if one.name == study.name]
    return study.plan.model_copy(
        update={
            "datasets": asked or datasets,
            "metrics": metrics,
            "hypotheses": hypotheses,
            "omitted": omitted,
            "space": tuple(_start_from_earlier(one, own) for one in study.plan.space),
        }
    )


def _start_from_earlier(one: Hyperparameter, studies: Sequence[EarlierStudy]) -> Hyperparameter:
    """Return a hyperparameter whose default is the value that an earlier run selected for its method, if allowed."""
    for study in studies:
        value = study.code.settings.get("method", {}).get(one.name) if study.code is not None else None
        inside = isinstance(value, int | float) and (one.low or 0.0) <= value <= (one.high or 0.0)
        if value is not None and (inside or value in one.options):
            source = f"selected by an earlier run (record {study.id})"
            return one.model_copy(update={"default": value, "source": source})
    return one


def _answer_findings(inputs: PlanInputs) -> PlanRevision:
    """Answer findings: doubts about scope add a line to `untested`; others get the reason why the plan stays.

    A plan with faults, or one that is too large for the hours, stays: an edit changes nothing.
    """
    assert inputs.before is not None
    scope = any(one.kind == "scope" for one in inputs.findings)
    edit = (
        PlanEdit(action="add", path="untested", value="other data than those of the plan")
        if scope
        else PlanEdit(path="task", value=inputs.before.task)
    )
    return PlanRevision(
        edits=(edit,),
        answers=tuple(
            FindingAnswer(finding=number, changed=True, reason="`untested` says so now.")
            if one.kind == "scope"
            else FindingAnswer(finding=number, changed=False, reason="The study that this model knows is fixed.")
            for number, one in enumerate(inputs.findings, 1)
        ),
    )


def answer_ablation_plan(inputs: AblationPlanInputs) -> AblationPlan:
    """Return the ablations that the risks name, in order, then the study's other parts, up to the maximum."""
    if is_table_study(inputs.data_plan):
        return plan_table_ablations(inputs)
    study = find_study_by_idea(inputs.idea)
    named = [
        [one for one in study.ablations if any(word in risk.lower() for word in one.keywords)]
        for risk in inputs.idea.risks
    ]
    chosen: list[AblationSpec] = []
    risks: list[RiskTested] = []
    for number, specs in enumerate(named, start=1):
        first = next((one for one in specs if one not in chosen), None) or next(iter(specs), None)
        if first is None:
            risks.append(RiskTested(risk=number, reason="no part of the method corresponds to it"))
        elif first in chosen or len(chosen) < inputs.most:
            chosen += [] if first in chosen else [first]
            risks.append(RiskTested(risk=number, by=first.condition))
        else:
            risks.append(RiskTested(risk=number, reason="the other ablations leave no room for it"))
    chosen += [one for one in study.ablations if one not in chosen]
    return AblationPlan(
        ablations=tuple(to_ablation(one, inputs.data_plan) for one in chosen[: inputs.most]), risks=tuple(risks)
    )


def answer_missing_ablations(inputs: MissingAblationsInputs) -> MissingAblationsAnswer:
    """Return the parts that the study's claims credit and that nobody measured; empty if all were."""
    if is_repository_study(inputs):
        return MissingAblationsAnswer(
            why="Arms of a repository are words of its command, and the plan has all of them."
        )
    if is_table_study(inputs.data_plan):
        return MissingAblationsAnswer(why="The arms of the plan separate the explanations.")
    study = find_study_by_idea(inputs.idea)
    done = {one.ablation.name for one in inputs.trials if one.outcome == "measured"}
    lacking = [one for one in study.ablations if one.needed and one.condition not in done]
    if not lacking:
        return MissingAblationsAnswer(why="Every part that the claims credit was removed alone.")
    found = tuple(to_ablation(one, inputs.data_plan) for one in lacking[: inputs.most])
    parts = " and ".join(one.part for one in found)
    return MissingAblationsAnswer(
        ablations=found, why=f"The claims credit the method as a whole; nobody measured it without {parts}."
    )


def to_ablation(spec: AblationSpec, plan: DataPlan) -> Ablation:
    """Return a part of the study as a planned ablation, which every metric of the plan should show."""
    return Ablation(
        name=spec.condition,
        part=spec.part,
        action=spec.action,
        replacement=spec.replacement,
        metrics=tuple(metric.name for metric in plan.metrics),
        why=spec.plan,
    )
