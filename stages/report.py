"""The report on a stage: what its writer is told of the nodes, of the choice among them, and of the replicates.

Validation data only. Nothing here depends on times or costs, except that a rule may name them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles.assessing import SUMMARY, Candidate, Selection, StageReport, SummaryInputs
from labwright.record.claims.decisions import decide, run_of
from labwright.record.claims.differences import differences
from labwright.record.claims.means import (
    Claim,
    ablations,
    ignores_seed,
    replicates_of,
    trusted_replicates,
    validation_claims,
)
from labwright.record.events.searching import Summarised
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Seen
from labwright.record.nouns.nodes import SEARCH_KINDS, StageName, StageSummary
from labwright.search.replication import as_left
from labwright.search.score import coverage, diverged, gain, measured
from labwright.search.tree import View, unmarked, view_of
from labwright.stages.bench import Bench
from labwright.stages.briefs import node_line, settings_of, statistic
from labwright.stages.summaries import branch, failures
from labwright.stages.tables import tables_of_means

FEWEST = 3
"""Replicates below which an interval is not shown: with two, its half-width is nine standard deviations."""
MOST = 12
"""Keys of a report."""
RULE = (
    "the node that measured most of the stage's panel, the (dataset, condition) cells of baselines and methods on the "
    "stage's datasets (training that diverged counts as {worst}); of equals the one with the largest gain over the "
    "reference node (the earliest of those): the relative difference of the primary metric's mean over the cells of "
    "the arms that decide which all of them measured, by dataset, averaged over datasets; of "
    "those that noise hides from it on every dataset (no further away than one standard error of their difference: of "
    "the pairs of runs with one seed where both ran with three, else of two runs, by the spread of replicates; exactly "
    "equal where the noise is unknown) the one that a model found sounder from its "
    "code, if it was asked and named one, else the {tie} one. Validation data, one seed a node"
)
"""`search.tree.View.best` in words."""


def whole_stage(bench: Bench, stage: StageName, by: int | None = None) -> View:
    """The stage as its search left it (`search.replication.as_left`); before its end, with every result."""
    return as_left(bench.state, stage, bench.search, by=by) or view_of(
        bench.state, stage, Seen(through=bench.state.last_decision), settings=bench.search
    )


def selection_of(view: View) -> Selection:
    """What was compared when the best node was chosen, best first; nothing where a stage does not choose."""
    if view.stage == "ablation":
        return Selection(
            rule="nothing is chosen: ablations are measured against the node that was settled on before",
            arms=(),
            cells=len(view.panel.entries),
        )
    best = view.best.id if view.best else ""
    candidates: list[Candidate] = []
    for node in ([view.root] if view.root else []) + list(view.good):
        found = measured(node, view.plan)
        values = [
            value for entry, value in found.items() if entry in view.panel.entries and entry.arm in view.panel.arms
        ]
        candidates.append(
            Candidate(
                id=node.id,
                cells=coverage(node, view.panel),
                diverged=len(diverged(node, view.panel)),
                mean=fmean(values) if values else None,
                gain=gain(node, view.widest[0] if view.widest else node, view.shared),
            )
        )
    close = tuple(node.id for node in view.equals)
    return Selection(
        rule=RULE.format(tie=_tie(view), worst=_worst(view)),
        cells=len(view.panel.entries),
        arms=tuple(arm.name for arm in view.plan.arms if arm.name in view.panel.arms),
        reference=view.widest[0].id if view.widest else "",
        noise=view.noise,
        close=close if len(close) > 1 else (),
        candidates=tuple(sorted(candidates, key=lambda one: (one.id == best, one.cells, one.gain), reverse=True)),
        asked=tuple(
            f"{a} or {b}: {better or 'neither'}" for (a, b), better in view.compared.items() if {a, b} <= set(close)
        ),
    )


def _tie(view: View) -> str:
    return "cheaper" if view.by_cost else "earlier"


def _worst(view: View) -> str:
    worst = view.panel.metric.worst
    return "missing" if worst is None else f"the metric's worst value, {worst:.4g}"


def reasons_for(view: View) -> tuple[str, ...]:
    """Why this node is carried forward, from what was compared."""
    if view.best is None:
        return ("no node of this stage works, or what works is suspect",)
    if view.stage == "ablation":
        return ("ablations are measured against the node that the agenda settled on",)
    chosen = selection_of(view)
    first, *others = chosen.candidates
    equals = [one for one in others if one.cells == first.cells]
    reasons = [
        f"it measured {first.cells} of the {chosen.cells} (dataset, condition) cells of the stage's panel, "
        + (f"as many as {', '.join(one.id for one in equals)}" if equals else "no other node as many")
    ]
    if equals:
        means = [
            f"{one.id} {one.mean:.4g} ({one.gain:+.1%}{f', {one.diverged} cells diverged' * bool(one.diverged)})"
            for one in (first, equals[0])
            if one.mean is not None
        ]
        reasons.append(
            f"{view.plan.primary.name} over the validation cells of {', '.join(chosen.arms)}, and the gain relative to "
            f"{chosen.reference}, for one seed: {' against '.join(means)}, the best of the others"
        )
    if chosen.close:  # why this one of those that measurements do not tell apart
        sds = ", ".join(f"{dataset} {sd:.3g}" for dataset, sd in chosen.noise.items())
        reasons.append(
            f"the noise between seeds hides the differences of {', '.join(chosen.close)} (standard "
            f"deviation over replicates: {sds})"
            if sds
            else f"{', '.join(chosen.close)} measured the same"
        )
        if chosen.asked:
            reasons.append(f"a model was asked which is the sounder one to build on, {'; '.join(chosen.asked)}")
        if not any(answer.endswith(f": {first.id}") for answer in chosen.asked):
            reasons.append(f"of those it is the {_tie(view)} one")
    if first.id in view.together.stands_for:
        reasons.append(f"it stands for {view.together.stands_for[first.id]}, whose children failed alike")
    if view.root is not None and first.id == view.root.id:
        reasons.append(f"no node of this stage gains over {first.id}" + (" by more than the noise" * bool(view.noise)))
    return tuple(reasons)


async def summarise(bench: Bench, client: ModelClient, stage: StageName) -> None:
    """Record the report on a stage: the model's words, and what the program adds. Keys that were not shown go."""
    inputs = summary_inputs(bench, stage, client.decision)
    try:
        answer = _from_record(inputs, "nothing was tried in this stage") if not inputs.nodes else None
        answer = answer or await client.usable(SUMMARY, inputs, then="the report is made from the record alone")
        answer = answer or _from_record(inputs, "no model gave words for this report")
    except BudgetSpent:
        answer = _from_record(inputs, "the budget had no room for words")
    shown = {one.key for one in (*inputs.statistics, *inputs.differences)}
    bench.recorder.append(
        Summarised(
            k=client.decision,
            summary=StageSummary(
                stage=stage,
                tried=answer.tried,
                found=answer.found,
                held=answer.held,
                next=answer.next,
                numbers=tuple(key for key in dict.fromkeys(answer.numbers) if key in shown)[:MOST],
                branch=inputs.branch,
                failures=failures(_as_decided(bench, stage, client.decision).stage_nodes(stage)),
            ),
        )
    )


def _from_record(inputs: SummaryInputs, why: str) -> StageReport:
    """A report without a model's words."""
    primary = inputs.data_plan.primary.name
    counted = Counter(node.status for node in inputs.nodes)
    return StageReport(
        tried=f"Made from the record alone, since {why}. Nodes: "
        + (", ".join(f"{number} {status}" for status, number in counted.items()) or "none"),
        found=f"{inputs.best or 'No node'} was carried forward: {'; '.join(inputs.reasons)}",
        numbers=tuple(one.key for one in (*inputs.statistics, *inputs.differences) if one.name == primary),
    )


def summary_inputs(bench: Bench, stage: StageName, k: int) -> SummaryInputs:
    """What the report is written from: the record as decision k, to write it, saw it, now as on any later day.

    Shown are the claims on validation of the best and of the ablated variants, each condition of the first node that
    measured it, and what these nodes said of themselves on dev.
    """
    state, plan = _as_decided(bench, stage, k), bench.plan
    last = state.stages[stage].settlement(k)
    best = state.nodes.get(last[1].best or "") if last is not None else None
    tops = ([best] if best else []) + (ablations(state) if stage == "ablation" else [])
    planned = {metric.name: place for place, metric in enumerate(plan.metrics)}
    by_key: dict[str, Claim] = {}
    for claim in (claim for node in tops for claim in validation_claims(state, node.id) if claim.name in planned):
        by_key.setdefault(claim.key, claim)
    claims = sorted(by_key.values(), key=lambda claim: planned[claim.name])
    shown = tuple(
        statistic(claim) if claim.n >= FEWEST else statistic(claim).model_copy(update={"low": None, "high": None})
        for claim in claims
    )
    return SummaryInputs(
        idea=bench.idea,
        data_plan=plan,
        facts=bench.facts,
        stage=stage,
        ended=last[1].ended if last is not None else "",
        best=best.id if best else None,
        nodes=tuple(node_line(node, plan) for node in state.stage_nodes(stage) if node.kind in SEARCH_KINDS),
        best_plan=best.plan if best else "",
        settings=settings_of(bench.state, best, bench.state.decisions[best.decision]) if best else (),
        reasons=last[1].reasons if last is not None else (),
        selection=selection_of(whole_stage(bench, stage, k)),
        statistics=shown,
        differences=tuple(
            one if one.n >= FEWEST else one.model_copy(update={"low": None, "high": None})
            for one in differences(state, claims)
        ),
        replicates_failed=sum(one.status != "good" for top in tops for one in replicates_of(state, top.id)),
        decisions=decide(
            plan, [run_of(one) for one in trusted_replicates(state, best.id) if one.status == "good"], confirmed=False
        )
        if best is not None and stage != "ablation"
        else (),
        tables=tables_of_means(shown, (*tops[1:], *tops[:1]), plan),
        seedless=tuple(top.id for top in tops if ignores_seed(state, top.id)),
        branch=branch(state, best.id if best else None),
    )


def _as_decided(bench: Bench, stage: StageName, k: int) -> RunState:
    """The state without what came after decision k, to report on a stage, or may not have been seen by it."""
    decided = bench.state.decisions.get(k)
    if decided is None or decided.seen == Seen():  # begun when everything of the stage was done
        nodes = unmarked(bench.state, k)
    else:
        nodes = view_of(bench.state, stage, decided.seen, before=k).nodes
    if stage in ("agenda", "ablation") or bench.state.lock is None:
        return replace(bench.state, nodes=nodes)
    fresh = bench.state.lock.seeds  # what a stage before the lock found does not rest on them
    return replace(
        bench.state,
        locks=[],
        nodes={name: one for name, one in nodes.items() if not (one.kind == "replicate" and one.seed in fresh)},
    )
