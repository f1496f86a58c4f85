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
from labwright.models.roles.planning import ABLATION_PLAN, AblationPlanInputs, RiskTested
from labwright.record.ablation import Ablation, alike
from labwright.record.estimands import main_arms
from labwright.record.events.searching import AblationsPlanned, Decided
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import DataPlan
from labwright.search.tree import view_of
from labwright.stages.bench import Bench
from labwright.stages.briefs import node_brief, settings_of, summaries, unreported
from labwright.stages.settings import PLANNINGS

MOST_RISKS = 12
"""Risk factors that a prompt shows (`_idea.md`), and that a plan must answer."""


async def plan_ablations(bench: Bench, decided: Decided, client: ModelClient) -> None:
    """Record what the last stage takes up, unless the record has it."""
    if bench.state.planned is not None:
        return
    most = min(bench.search.planned_ablations, bench.search.limits("ablation").nodes)
    view = view_of(bench.state, "ablation", decided.seen, before=decided.k, settings=bench.search)
    if view.root is None:
        bench.recorder.append(AblationsPlanned(why="no stage before found a node to ablate"))
        return
    inputs = AblationPlanInputs(
        idea=bench.idea,
        data_plan=bench.plan,
        facts=bench.facts,
        most=most,
        method=node_brief(bench.folder, view.root, settings=settings_of(bench.state, view.root, decided)),
        node_seconds=bench.node_seconds,
        rate=bench.state.rate,
        earlier=summaries(bench, view),
        unreported=unreported(bench, view),
        notes=bench.state.notes_for(decided.k, "ablation"),
        written=written_by_people(bench.state),
    )
    kept: tuple[Ablation, ...] = ()
    complaints: tuple[str, ...] = ()
    risks = bench.idea.risks[:MOST_RISKS]
    answered, _ = answers_to_risks((), kept, risks)
    try:
        for _ in range(PLANNINGS):
            answer = await client.ask(ABLATION_PLAN, inputs.model_copy(update={"complaints": complaints}))
            kept, faults = sift(answer.ablations, bench.plan, most=most)
            answered, unanswered = answers_to_risks(answer.risks, kept, risks)
            complaints = (*faults, *unanswered)
            if not complaints:
                break
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        complaints = (*complaints, str(error))
    why = "" if kept else f"the model gave no usable plan: {'; '.join(complaints)}"
    bench.recorder.append(AblationsPlanned(ablations=kept, risks=answered, why=why))


def written_by_people(state: RunState) -> tuple[str, ...]:
    """What people's own code for the last stage does, a line a node: it is there before the stage is planned."""
    return tuple(f"{node.id}: {node.plan}" for node in state.human_nodes if node.stage == "ablation")


def sift(
    found: Sequence[Ablation], plan: DataPlan, *, most: int, done: Sequence[Ablation] = ()
) -> tuple[tuple[Ablation, ...], tuple[str, ...]]:
    """The ablations that can be used, the first ones where there are too many; and what is wrong with others."""
    kept: list[Ablation] = []
    faults: list[str] = []
    for one in found:
        fault = fault_of(one, plan, (*done, *kept))
        if fault:
            faults.append(fault)
        elif len(kept) < most:
            kept.append(one)
    return tuple(kept), tuple(faults)


def fault_of(one: Ablation, plan: DataPlan, others: Sequence[Ablation]) -> str:
    """Why an ablation cannot be used beside these others; empty where it can."""
    if one.name in main_arms(plan):
        return f"{one.name!r} is an arm of the data plan that every experiment measures: name what is ablated"
    metrics = [metric.name for metric in plan.metrics]
    unknown = [name for name in one.metrics if name not in metrics]
    if unknown:
        return f"{one.name!r} names the metric {unknown[0]!r}; the data plan has {', '.join(metrics)}"
    same = next((other for other in others if alike(one, other)), None)
    return f"{one.name!r} makes the same change as {same.name!r}" if same is not None else ""


def answers_to_risks(
    answers: Sequence[RiskTested], kept: Sequence[Ablation], risks: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A line a risk factor, which ablation tests it or why none does; and what the answer lacks."""
    names = {one.name for one in kept}
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
