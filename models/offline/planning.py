"""Roles of planning: the study as a plan, ablations, and summaries of documents by their sentences."""

from __future__ import annotations

import re

from labwright.models.errors import CatalogueError
from labwright.models.offline.study import AblationSpec, find_study_by_idea, is_repository_study
from labwright.models.offline.table_study import is_table_study, plan_table_ablations, plan_table_study
from labwright.models.roles.ideation import DigestAnswer, DigestInputs
from labwright.models.roles.study_plan import (
    AblationPlan,
    AblationPlanInputs,
    MissingAblationsAnswer,
    MissingAblationsInputs,
    PlanInputs,
    PlanRevision,
    RiskTested,
)
from labwright.record.baseline_check import Ablation
from labwright.record.ideation import DocumentStatement
from labwright.record.plan_edits import PlanEdit
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import FindingAnswer
from labwright.record.schema.prior_work import OmittedPriorWork

MAX_QUOTE_WORDS = 25
"""Words of a quote."""
MAX_STATEMENTS = 12
"""Statements of a document."""


def first_words(text: str) -> str:
    """Return the first words of a text, unchanged."""
    return " ".join(text.split()[:MAX_QUOTE_WORDS])[:400]


def answer_digest(inputs: DigestInputs) -> DigestAnswer:
    """Quote the first sentences of each page."""
    share = max(1, MAX_STATEMENTS // max(1, len(inputs.pages)))
    taken = [(page.page, text) for page in inputs.pages for text in split_sentences(page.text)[:share]]
    lines = [" ".join(line.split()) for page in inputs.pages[:1] for line in page.text.splitlines()]
    return DigestAnswer(
        subject=next((line for line in lines if " " in line), inputs.file)[:400],
        statements=tuple(
            DocumentStatement(text=text[:600], page=page, quote=first_words(text))
            for page, text in taken[:MAX_STATEMENTS]
        ),
    )


def split_sentences(text: str) -> list[str]:
    """Return the sentences of at least six words, unchanged."""
    flat = " ".join(text.split())
    return [one for one in re.split(r"(?<=[.!?])\s+", flat) if len(one.split()) >= 6]


# Roles `plan`, `ablation_plan` and `missing_ablations`: the study's plan, and ablations for its risks and claims.


def answer_plan(inputs: PlanInputs) -> DataPlan | PlanRevision:
    """Return the study's data plan, restricted to the available datasets and metrics that the idea names, or a plan for
    the user's tables.

    Asked to revise it, answer each finding with the reason why the plan stays; the one edit changes nothing.

    Raises:
        CatalogueError: the idea is not the study's and has no data of the user, or none of its datasets is available.
    """
    if inputs.before is not None:
        reason = "The study that this model knows is fixed."
        return PlanRevision(
            edits=(PlanEdit(path="task", value=inputs.before.task),),
            answers=tuple(
                FindingAnswer(finding=number, changed=False, reason=reason)
                for number in range(1, len(inputs.findings) + 1)
            ),
        )
    if any(entry.own for entry in inputs.catalogue):
        return plan_table_study(inputs)
    study = find_study_by_idea(inputs.idea)
    have = {entry.name for entry in inputs.catalogue}
    datasets = tuple(use for use in study.plan.datasets if use.name in have)
    if not datasets:
        wanted = ", ".join(use.name for use in study.plan.datasets)
        raise CatalogueError(f"the study {study.name} needs one of the datasets {wanted}; have {sorted(have)!r}")
    named = " ".join(inputs.idea.datasets).lower().replace(" ", "_")
    metrics = tuple(metric for metric in study.plan.metrics if metric.name in inputs.metrics) or study.plan.metrics[:1]
    known = ("", *(metric.name for metric in metrics))
    return study.plan.model_copy(
        update={
            "datasets": tuple(use for use in datasets if use.name in named) or datasets,
            "metrics": metrics,
            "hypotheses": tuple(
                one.model_copy(
                    update={"alternatives": tuple(each for each in one.alternatives if each.metric in known)}
                )
                for one in study.plan.hypotheses
            ),
            "omitted": tuple(
                OmittedPriorWork(name=row.name, reason="it is not part of the study that this model knows")
                for row in inputs.common
            ),
        }
    )


def answer_ablation_plan(inputs: AblationPlanInputs) -> AblationPlan:
    """Return the ablations that the risks name, in order, then the study's other parts, up to the maximum."""
    if is_table_study(inputs.data_plan):
        return plan_table_ablations(inputs)
    parts = find_study_by_idea(inputs.idea).ablations
    chosen: list[AblationSpec] = []
    risks: list[RiskTested] = []
    for number, risk in enumerate(inputs.idea.risks, start=1):
        named = [one for one in parts if any(word in risk.lower() for word in one.keywords)]
        part = next((one for one in named if one not in chosen), named[0] if named else None)
        if part is not None and part not in chosen and len(chosen) < inputs.most:
            chosen.append(part)
        if part in chosen:
            risks.append(RiskTested(risk=number, by=part.condition))
        else:
            risks.append(RiskTested(risk=number, reason="none of the planned ablations corresponds to it"))
    chosen += [one for one in parts if one not in chosen]
    return AblationPlan(
        ablations=tuple(to_ablation(one, inputs.data_plan) for one in chosen[: inputs.most]), risks=tuple(risks)
    )


def answer_missing_ablations(inputs: MissingAblationsInputs) -> MissingAblationsAnswer:
    """Return the parts that the study's claims credit and that nobody measured; empty if all were."""
    if is_repository_study(inputs) or is_table_study(inputs.data_plan):
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
