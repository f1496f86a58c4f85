"""What the last stage ablates is planned before it, from the idea, the data plan and the method as its code stands.

Kept: no two planned ablations make the same change in other words, each can be carried out by the data plan, and of
every risk factor of the idea it is recorded which ablation tests it, or why none does. Where no plan comes of it, the
stage takes up the risk factors in the idea's own words, and the record says why.

Not guaranteed: that these are the ablations that a reader would ask for first (`stages.missing_ablations` asks one),
nor that two changes which differ in words differ in effect.

Source: AblationBench, section 4 (author-side planner) and appendix A.1 (the form).
"""

from __future__ import annotations

from collections.abc import Sequence

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from labwright.models.roles.study_plan import ABLATION_PLAN, AblationPlanInputs, RiskTested
from labwright.record.ablation import Ablation, is_same_ablation
from labwright.record.estimands import list_main_arms
from labwright.record.events.search_events import AblationsPlanned, DecisionMade
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.search.stage_snapshot import build_snapshot
from labwright.stages.prompt_inputs import (
    build_node_brief,
    list_arm_settings,
    list_unreported_stages,
    list_visible_summaries,
)
from labwright.stages.run_context import RunContext
from labwright.stages.settings import MAX_ABLATION_PLAN_CALLS

MAX_RISKS = 12
"""Risk factors that a prompt shows (`_idea.md`), and that a plan must answer."""


async def plan_ablations(context: RunContext, decided: DecisionMade, client: ModelClient) -> None:
    """Record what the last stage takes up, unless the record has it."""
    if context.state.planned_ablations is not None:
        return
    most = min(context.search.planned_ablations, context.search.find_limits("ablation").nodes)
    view = build_snapshot(context.state, "ablation", decided.seen, before=decided.k, settings=context.search)
    if view.root is None:
        context.recorder.append(AblationsPlanned(why="no stage before found a node to ablate"))
        return
    inputs = AblationPlanInputs(
        idea=context.idea,
        data_plan=context.plan,
        facts=context.facts,
        most=most,
        method=build_node_brief(
            context.folder, view.root, settings=list_arm_settings(context.state, view.root, decided)
        ),
        node_seconds=context.node_seconds,
        rate=context.state.rate,
        earlier=list_visible_summaries(context, view),
        unreported=list_unreported_stages(context, view),
        notes=context.state.list_notes(decided.k, "ablation"),
        written=describe_user_nodes(context.state),
    )
    kept: tuple[Ablation, ...] = ()
    complaints: tuple[str, ...] = ()
    risks = context.idea.risks[:MAX_RISKS]
    answered, _ = match_risks((), kept, risks)
    try:
        for _ in range(MAX_ABLATION_PLAN_CALLS):
            answer = await client.ask(ABLATION_PLAN, inputs.model_copy(update={"complaints": complaints}))
            kept, faults = filter_ablations(answer.ablations, context.plan, limit=most)
            answered, unanswered = match_risks(answer.risks, kept, risks)
            complaints = (*faults, *unanswered)
            if not complaints:
                break
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        complaints = (*complaints, str(error))
    why = "" if kept else f"the model gave no usable plan: {'; '.join(complaints)}"
    context.recorder.append(AblationsPlanned(ablations=kept, risks=answered, why=why))


def describe_user_nodes(state: RunState) -> tuple[str, ...]:
    """What people's own code for the last stage does, a line a node: it is there before the stage is planned."""
    return tuple(f"{node.id}: {node.plan}" for node in state.user_nodes if node.stage == "ablation")


def filter_ablations(
    ablations: Sequence[Ablation], plan: DataPlan, *, limit: int, done: Sequence[Ablation] = ()
) -> tuple[tuple[Ablation, ...], tuple[str, ...]]:
    """The ablations that can be used, the first ones where there are too many; and what is wrong with others."""
    kept: list[Ablation] = []
    faults: list[str] = []
    for one in ablations:
        fault = find_ablation_fault(one, plan, (*done, *kept))
        if fault:
            faults.append(fault)
        elif len(kept) < limit:
            kept.append(one)
    return tuple(kept), tuple(faults)


def find_ablation_fault(ablation: Ablation, plan: DataPlan, others: Sequence[Ablation]) -> str:
    """Why an ablation cannot be used beside these others; empty where it can."""
    if ablation.name in list_main_arms(plan):
        return f"{ablation.name!r} is an arm of the data plan that every experiment measures: name what is ablated"
    metrics = [metric.name for metric in plan.metrics]
    unknown = [name for name in ablation.metrics if name not in metrics]
    if unknown:
        return f"{ablation.name!r} names the metric {unknown[0]!r}; the data plan has {', '.join(metrics)}"
    same = next((other for other in others if is_same_ablation(ablation, other)), None)
    return f"{ablation.name!r} makes the same change as {same.name!r}" if same is not None else ""


def match_risks(
    answers: Sequence[RiskTested], ablations: Sequence[Ablation], risks: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A line a risk factor, which ablation tests it or why none does; and what the answer lacks."""
    names = {one.name for one in ablations}
    tested: dict[int, str] = {}
    for one in answers:
        if one.by in names:
            tested[one.risk] = f"tested by {one.by}"
        elif not one.by and one.reason.strip():
            tested.setdefault(one.risk, f"not tested: {one.reason.strip()}")
    faults = tuple(
        f"risk factor {n} needs the name of a usable ablation that tests it, or a reason why none does"
        for n in range(1, len(risks) + 1)
        if n not in tested
    )
    return tuple(f"{risk} ({tested.get(n, 'the planner did not say')})" for n, risk in enumerate(risks, 1)), faults
