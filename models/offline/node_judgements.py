"""Roles `vision`, `feedback`, `compare`, `summary`: judgements from findings, measurements and statistics only."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from labwright.models.roles.figures import FigureReviews, VisionInputs
from labwright.models.roles.node_assessment import (
    CompareInputs,
    FeedbackInputs,
    Preference,
    StageReport,
    Statistic,
    SummaryInputs,
)
from labwright.record.schema.data_plan import DataPlan, Measurement, parse_arm, parse_level
from labwright.record.schema.nodes import NodeVerdict, StageName
from labwright.record.schema.paper import FigureReview

NEXT_STEP: dict[StageName, str] = {
    "preliminary": "Tune both arms.",
    "tuning": "Settle the hyperparameters and start the agenda.",
    "agenda": "Replicate with further seeds before anything is claimed.",
    "ablation": "Remove the next part that carries the claim.",
}
NEXT_STAGE: dict[StageName, str] = {
    "preliminary": "Tune the arms of the best node.",
    "tuning": "Run the idea's experiments.",
    "agenda": "Remove the parts that carry the claim, one at a time.",
    "ablation": "Write the paper.",
}


def answer_vision(inputs: VisionInputs) -> FigureReviews:
    """Call every figure readable: the lint refused none of them, and this model sees no images."""
    reviews: list[FigureReview] = []
    for name, facts in zip(inputs.names, inputs.facts, strict=True):
        seen = [axes for axes in facts.axes if axes.visible]
        pairs = dict.fromkeys(
            f"{axes.ylabel or 'an unnamed axis'} against {axes.xlabel or 'an unnamed axis'}" for axes in seen
        )
        shown = f"{len(seen)} panel{'s' * (len(seen) != 1)}: {', '.join(pairs) or 'nothing'}."
        reviews.append(FigureReview(name=name, readable=True, description=shown))
    return FigureReviews(reviews=tuple(reviews))


# --- feedback -------------------------------------------------------------------------------------------------------


def answer_feedback(inputs: FeedbackInputs) -> NodeVerdict:
    """Judge whether the measurements cover what the plan compares, and compare them with the parent's."""
    missing = _list_missing_conditions(inputs)
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        analysis = f"Not every condition of the plan was measured: {', '.join(missing)} {verb} missing."
        return NodeVerdict(sound=False, analysis=analysis, next_step="Measure every condition on every dataset used.")
    return NodeVerdict(
        sound=True,
        analysis=f"{_compare_arms(inputs)} {_compare_with_parent(inputs)}".strip(),
        next_step=NEXT_STEP[inputs.stage],
    )


def _list_missing_conditions(inputs: FeedbackInputs) -> list[str]:
    """List conditions of the plan without the primary metric as `dataset condition`; an ablation needs only its own."""
    plan = inputs.data_plan
    have = {(m.dataset, m.condition) for m in inputs.measurements if m.name == plan.primary_metric.name}
    datasets = [use.name for use in plan.datasets if any(dataset == use.name for dataset, _ in have)]
    wanted: Sequence[str] = plan.conditions
    if inputs.stage == "ablation" or inputs.kind == "ablate":
        arms = sorted({parse_arm(condition) for _, condition in have} - {arm.name for arm in plan.arms})
        wanted = [f"{arm}@{level.name}" for arm in arms for level in plan.levels] if plan.levels else arms
    if not datasets or not wanted:
        return [plan.primary_metric.name]
    return [
        f"{dataset} {condition}" for dataset in datasets for condition in wanted if (dataset, condition) not in have
    ]


def _values_by_condition(measurements: tuple[Measurement, ...], metric: str) -> dict[tuple[str, str], float]:
    return {(m.dataset, m.condition): m.value for m in measurements if m.name == metric}


def _compare_arms(inputs: FeedbackInputs) -> str:
    """Compare baseline and method in one sentence, dataset by dataset."""
    plan = inputs.data_plan
    values = _values_by_condition(inputs.measurements, plan.primary_metric.name)
    arms = {role: [arm.name for arm in plan.arms if arm.role == role][:1] for role in ("baseline", "method")}
    if not arms["baseline"] or not arms["method"]:
        return ""
    base, method = arms["baseline"][0], arms["method"][0]
    pairs = [
        ((d, parse_level(c)), (value, values[d, c.replace(method, base, 1)]))
        for (d, c), value in values.items()
        if parse_arm(c) == method and (d, c.replace(method, base, 1)) in values
    ]
    if not pairs:
        return "The ablated arm was measured under every condition."
    better = [f"{d} {level}".strip() for (d, level), (ours, theirs) in pairs if _is_better(plan, ours, theirs)]
    where = (
        "in every comparison"
        if len(better) == len(pairs)
        else f"on {', '.join(better)} only"
        if better
        else "in no comparison"
    )
    title = plan.primary_metric.title or plan.primary_metric.name
    return f"With this one seed, {method} has the better validation {title} than {base} {where}."


def _is_better(plan: DataPlan, value: float, other: float) -> bool:
    return value > other if plan.primary_metric.higher_is_better else value < other


def _compare_with_parent(inputs: FeedbackInputs) -> str:
    """Compare the mean over the conditions that both nodes measured with the parent's."""
    primary = inputs.data_plan.primary_metric
    own, parent = (_values_by_condition(m, primary.name) for m in (inputs.measurements, inputs.parent_measurements))
    shared = sorted(own.keys() & parent.keys())
    if not shared:
        return "There is no shared condition to compare with the parent."
    ours, theirs = fmean(own[key] for key in shared), fmean(parent[key] for key in shared)
    better = _is_better(inputs.data_plan, ours, theirs)
    word = "better than" if better else "equal to" if ours == theirs else "worse than"
    return (
        f"Over the {len(shared)} conditions that both measured, the mean {primary.title or primary.name} of "
        f"{ours:.3f} is {word} the parent's {theirs:.3f}; one seed cannot distinguish this from chance."
    )


# --- compare --------------------------------------------------------------------------------------------------------


def answer_compare(inputs: CompareInputs) -> Preference:
    """Answer neither: this model sees what a program measured, but cannot judge its code."""
    return Preference(
        better="neither",
        reasons=(
            f"{inputs.a.varies or inputs.a.id} and {inputs.b.varies or inputs.b.id} measured the same within "
            f"the noise; "
            "the offline model does not read code."
        ),
    )


# --- summary --------------------------------------------------------------------------------------------------------


def answer_summary(inputs: SummaryInputs) -> StageReport:
    """Describe the stage from its nodes and the replicates of its best node."""
    count = len(inputs.nodes)
    buggy = sum(line.status == "buggy" for line in inputs.nodes)
    kinds = ", ".join(
        f"{sum(line.kind == kind for line in inputs.nodes)} {kind}"
        for kind in dict.fromkeys(line.kind for line in inputs.nodes)
    )
    pruned = sum(line.status == "pruned" for line in inputs.nodes)
    ended = f" and {pruned} pruned" if pruned else ""
    tried = f"{count} nodes ({kinds or 'none'}), {buggy} of them buggy{ended}. The stage ended because {inputs.ended}."
    if inputs.best is None:
        return StageReport(
            tried=tried,
            found="No node of this stage can be carried forward.",
            supported_by_replicates="Nothing was replicated.",
            next="Examine the failures before continuing.",
        )
    best = next((line for line in inputs.nodes if line.id == inputs.best), None)
    reasons = f" Chosen because {'; '.join(inputs.reasons)}." if inputs.reasons else ""
    outcome = f" ({best.varies}; {best.outcome})" if best else ""
    keys = [
        one.key
        for one in (*inputs.differences, *inputs.statistics)
        if one.name == inputs.data_plan.primary_metric.name and one.key
    ]
    return StageReport(
        tried=tried,
        found=f"Best node: {inputs.best}{outcome}.{reasons}",
        supported_by_replicates=_format_replicate_support(inputs),
        next=NEXT_STAGE[inputs.stage],
        numbers=tuple(keys[:12]),
    )


def _format_replicate_support(inputs: SummaryInputs) -> str:
    """Report what the replicates support: baseline against method by condition; overlapping intervals are named."""
    statistics = {
        (s.dataset, s.condition): s for s in inputs.statistics if s.name == inputs.data_plan.primary_metric.name
    }
    lines = [line for s in statistics.values() if (line := _format_condition_support(inputs.data_plan, s, statistics))]
    failed = f" {inputs.replicates_failed} replicates failed." if inputs.replicates_failed else ""
    same = (
        f" {', '.join(inputs.seedless)} gave the same values for every seed: the spread is unknown."
        if inputs.seedless
        else ""
    )
    return (" ".join(lines) or "No comparison of arms was replicated in this stage.") + failed + same


def _format_condition_support(plan: DataPlan, ours: Statistic, all_of: dict[tuple[str, str], Statistic]) -> str:
    bases = [arm.name for arm in plan.arms if arm.role == "baseline"]
    methods = [arm.name for arm in plan.arms if arm.role == "method"]
    if not bases or parse_arm(ours.condition) not in methods:
        return ""
    theirs = all_of.get((ours.dataset, ours.condition.replace(parse_arm(ours.condition), bases[0], 1)))
    if theirs is None:
        return ""
    where = f"{ours.dataset} {parse_level(ours.condition)}".strip()
    means = f"{ours.mean:.3f} against {theirs.mean:.3f} over {ours.n} seeds"
    if ours.low is None or ours.high is None or theirs.low is None or theirs.high is None:
        why = "too few seeds for an interval" if min(ours.n, theirs.n) < 3 else "one arm the same for every seed"
        return f"{where}: {means}, {why}."
    apart = ours.high < theirs.low or theirs.high < ours.low
    return f"{where}: {means}, {'intervals apart' if apart else 'intervals overlap'}."
