"""Plan the ablations of the last stage from the idea, the data plan and the current code of the method.

Guarantees: no two planned ablations make the same change under different names; the data plan supports each of them;
for every risk factor of the idea, the record names the ablation that tests it or states why none does. The control for
the strongest surprise runs first; a surprise names only measured conditions. If planning fails, the stage uses the risk
factors of the idea verbatim, and the reason is recorded.

Limits: a reader may ask for other ablations first (`stages.reviewer_requests` asks a reviewer), and two changes with
different wording may have the same effect.

Source: AblationBench, section 4 (author-side planner) and appendix A.1 (the form).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from labwright.models.client import ModelClient
from labwright.models.roles.study_plan import ABLATION_PLAN, AblationPlan, AblationPlanInputs, RiskTested
from labwright.record.baseline_check import Ablation, Surprise, is_same_ablation
from labwright.record.estimands import find_swapped_arms, list_main_arms
from labwright.record.events.search_events import AblationsPlanned, DecisionMade
from labwright.record.schema.data_plan import DataPlan
from labwright.search.stage_snapshot import build_snapshot
from labwright.stages.prompt_inputs import build_node_brief, list_arm_settings, list_visible_summaries
from labwright.stages.repository.paper_study import show_studied_repository
from labwright.stages.run_context import RunContext, ask_until_sound
from labwright.stages.settings import MAX_ABLATION_PLAN_CALLS

MAX_RISKS = 12
"""Maximum number of risk factors that a prompt shows (`_idea.md`) and that a plan must answer."""


async def plan_ablations(context: RunContext, decided: DecisionMade, client: ModelClient) -> None:
    """Ask for the plan of the last stage and record it, unless it is already recorded."""
    if context.state.search.planned_ablations is not None:
        return
    most = min(context.search.planned_ablations, context.search.find_limits("ablation").nodes)
    view = build_snapshot(context.state, "ablation", decided.seen, before=decided.k, settings=context.search)
    if view.root is None:
        context.recorder.append(AblationsPlanned(why="no earlier stage selected a node to ablate"))
        return
    inputs = AblationPlanInputs(
        **dict(context.build_study_inputs(decided.k)),
        most=most,
        method=build_node_brief(
            context.folder, view.root, settings=list_arm_settings(context.state, view.root, decided)
        ),
        repository=await show_studied_repository(context),
        node_seconds=context.node_seconds,
        rate=context.state.rate,
        earlier=list_visible_summaries(view),
        notes=context.state.list_notes(decided.k, "ablation"),
        written=tuple(f"{node.id}: {node.plan}" for node in context.state.user_nodes if node.stage == "ablation"),
    )
    measured, risks = {one.condition for one in view.root.measurements}, context.idea.risks[:MAX_RISKS]

    def find_faults(answer: AblationPlan) -> tuple[str, ...]:
        kept, faults = filter_ablations(answer.ablations, context.plan, limit=most)
        fault = find_surprise_fault(answer.surprise, kept, measured)
        return (*faults, *match_risks(answer.risks, kept, risks)[1], *([fault] if fault else []))

    answer, complaints = await ask_until_sound(client, ABLATION_PLAN, inputs, find_faults, MAX_ABLATION_PLAN_CALLS)
    kept, _ = filter_ablations(answer.ablations if answer is not None else (), context.plan, limit=most)
    surprise = answer.surprise if answer is not None else None
    if find_surprise_fault(surprise, kept, measured):
        surprise = None
    context.recorder.append(
        AblationsPlanned(
            ablations=tuple(sorted(kept, key=lambda one: surprise is None or one.name != surprise.control)),
            risks=match_risks(answer.risks if answer is not None else (), kept, risks)[0],
            surprise=surprise,
            why="" if kept else f"the model gave no usable plan: {'; '.join(complaints)}",
        )
    )


def filter_ablations(
    ablations: Sequence[Ablation], plan: DataPlan, *, limit: int, done: Sequence[Ablation] = ()
) -> tuple[tuple[Ablation, ...], tuple[str, ...]]:
    """Return the first `limit` usable ablations, and one complaint for each unusable one."""
    kept: list[Ablation] = []
    faults: list[str] = []
    for ablation in ablations:
        fault = find_ablation_fault(ablation, plan, (*done, *kept))
        if fault:
            faults.append(fault)
        elif len(kept) < limit:
            kept.append(ablation)
    return tuple(kept), tuple(faults)


def find_ablation_fault(ablation: Ablation, plan: DataPlan, others: Sequence[Ablation]) -> str:
    """Return why an ablation cannot be added to `others`; empty if it can."""
    if ablation.name in (*list_main_arms(plan), *find_swapped_arms(plan)):
        return f"{ablation.name!r} is an arm that every experiment measures: use a name that says what is ablated"
    if ablation.title and ablation.title.casefold() in {plan.name_arm(one).casefold() for one in list_main_arms(plan)}:
        return f"{ablation.name!r} has the title {ablation.title!r} of another arm: give it its own"
    if ablation.same_as and ablation.same_as not in plan.compared_arms:
        return f"{ablation.name!r} has the unknown `same_as` {ablation.same_as!r}: name a baseline of the plan, or none"
    metrics = [metric.name for metric in plan.metrics]
    unknown = [name for name in ablation.metrics if name not in metrics]
    if unknown:
        return f"{ablation.name!r} uses the unknown metric {unknown[0]!r}; the data plan has {', '.join(metrics)}"
    same = next((other for other in others if is_same_ablation(ablation, other)), None)
    return f"{ablation.name!r} makes the same change as {same.name!r}" if same is not None else ""


def find_surprise_fault(
    surprise: Surprise | None, ablations: Sequence[Ablation], measured: Collection[str]
) -> str | None:
    """Return why a surprise cannot be followed (no usable ablation is its control, or nothing measured its conditions);
    None if it can."""
    if surprise is None:
        return None
    if surprise.control not in {one.name for one in ablations}:
        return f"surprise: its control {surprise.control!r} is no usable ablation of your plan: name one of them"
    unknown = [name for name in surprise.conditions if name not in measured]
    if unknown:
        return f"surprise: {unknown[0]!r} was not measured; measured conditions: {', '.join(sorted(measured))}"
    return None


def match_risks(
    answers: Sequence[RiskTested], ablations: Sequence[Ablation], risks: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return one line per risk factor (its ablation, or why there is none), and one complaint per unanswered factor."""
    names = {one.name for one in ablations}
    tested: dict[int, str] = {}
    for answer in answers:
        if answer.by in names:
            tested[answer.risk] = f"tested by {answer.by}"
        elif not answer.by and answer.reason.strip():
            tested.setdefault(answer.risk, f"not tested: {answer.reason.strip()}")
    faults = tuple(
        f"risk factor {n} needs the name of a usable ablation that tests it, or the reason why none does"
        for n in range(1, len(risks) + 1)
        if n not in tested
    )
    return tuple(f"{risk} ({tested.get(n, 'the planner gave no reason')})" for n, risk in enumerate(risks, 1)), faults
