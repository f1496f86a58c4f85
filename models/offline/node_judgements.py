"""Roles `vision`, `feedback`, `compare`, `summary`: judgements from findings, measurements and statistics only."""

from __future__ import annotations

from collections import Counter

from labwright.models.roles.figures import FigureReviews, VisionInputs
from labwright.models.roles.node_assessment import CompareInputs, FeedbackInputs, Preference, StageReport, SummaryInputs
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.record.schema.nodes import NodeVerdict, StageName
from labwright.record.schema.paper import FigureReview

NEXT_STEP: dict[StageName, str] = {
    "preliminary": "Tune both arms.",
    "tuning": "Settle the hyperparameters and run the idea's experiments.",
    "agenda": "Remove the parts that carry the claim, one at a time.",
    "ablation": "Remove the next part that carries the claim, then write the paper.",
}


def answer_vision(inputs: VisionInputs) -> FigureReviews:
    """Call every figure readable: the lint refused none of them, and this model sees no images."""
    reviews: list[FigureReview] = []
    for name, facts in zip(inputs.names, inputs.facts, strict=True):
        seen = [axes for axes in facts.axes if axes.visible]
        pairs = dict.fromkeys(f"{one.ylabel or 'no name'} against {one.xlabel or 'no name'}" for one in seen)
        shown = f"{len(seen)} panel{'s' * (len(seen) != 1)}: {', '.join(pairs) or 'nothing'}."
        reviews.append(FigureReview(name=name, readable=True, description=shown))
    return FigureReviews(reviews=tuple(reviews))


def answer_feedback(inputs: FeedbackInputs) -> NodeVerdict:
    """Judge whether the measurements cover what the plan compares, and say which arm is better with this one seed."""
    plan, primary = inputs.data_plan, inputs.data_plan.primary_metric
    values = {(one.dataset, one.condition): one.value for one in inputs.measurements if one.name == primary.name}
    wanted = list(plan.conditions)
    if inputs.stage == "ablation" or inputs.kind == "ablate":  # an ablation needs only its own arm
        arms = sorted({parse_arm(condition) for _, condition in values} - {arm.name for arm in plan.arms})
        wanted = [f"{arm}@{level.name}" for arm in arms for level in plan.levels] if plan.levels else arms
    used = [use.name for use in plan.datasets if any(dataset == use.name for dataset, _ in values)]
    missing = [f"{dataset} {one}" for dataset in used for one in wanted if (dataset, one) not in values]
    if missing or not used or not wanted:
        return NodeVerdict(
            sound=False,
            analysis=f"Not every condition of the plan was measured. Missing: {', '.join(missing) or primary.name}.",
            next_step="Measure every condition on every dataset used.",
        )
    base, method = (next((arm.name for arm in plan.arms if arm.role == role), "") for role in ("baseline", "method"))
    sign = 1 if primary.higher_is_better else -1
    gains = {
        f"{dataset} {parse_level(condition)}".strip(): sign * (value - values[dataset, other])
        for (dataset, condition), value in values.items()
        for other in [condition.replace(method, base, 1)]
        if parse_arm(condition) == method and (dataset, other) in values
    }
    better = [place for place, gain in gains.items() if gain > 0]
    where = f"on {', '.join(better)}" if better else "in no comparison"
    said = (
        f"With this one seed, {method} has the better validation {primary.title or primary.name} than {base} {where}."
    )
    return NodeVerdict(
        sound=True, analysis=said if gains else "Every condition was measured.", next_step=NEXT_STEP[inputs.stage]
    )


def answer_compare(inputs: CompareInputs) -> Preference:
    """Answer neither: this model sees what a program measured, but cannot judge its code."""
    names = f"{inputs.a.varies or inputs.a.id} and {inputs.b.varies or inputs.b.id}"
    reason = f"{names} measured the same within the noise; the offline model does not read code."
    return Preference(better="neither", reasons=reason)


def answer_summary(inputs: SummaryInputs) -> StageReport:
    """Describe the stage from its nodes and the replicates of its best node."""
    states = ", ".join(f"{count} {state}" for state, count in Counter(one.status for one in inputs.nodes).items())
    best = next((one for one in inputs.nodes if one.id == inputs.best), None)
    outcome = f" ({best.varies}; {best.outcome})" if best else ""
    reasons = f" Chosen because {'; '.join(inputs.reasons)}." if inputs.reasons else ""
    primary = inputs.data_plan.primary_metric.name
    replicated = [one for one in inputs.statistics if one.name == primary]
    keys = [one.key for one in (*inputs.differences, *inputs.statistics) if one.name == primary and one.key]
    replicates = [
        f"{len(replicated)} conditions were replicated, with at least {min(one.n for one in replicated)} seeds each."
        if replicated
        else "Nothing was replicated in this stage."
    ]
    if inputs.replicates_failed:
        replicates.append(f"{inputs.replicates_failed} replicates failed.")
    if inputs.seedless:
        replicates.append(f"The values of {', '.join(inputs.seedless)} are the same for every seed.")
    return StageReport(
        tried=f"{len(inputs.nodes)} nodes ({states or 'none'}). The stage ended because {inputs.ended}.",
        found=f"Best node: {inputs.best}{outcome}.{reasons}" if inputs.best else "No node can be carried forward.",
        supported_by_replicates=" ".join(replicates),
        next=NEXT_STEP[inputs.stage] if inputs.best else "Examine the failures before continuing.",
        numbers=tuple(keys[:12]) if inputs.best else (),
    )
