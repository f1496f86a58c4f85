"""The report on a stage and the inputs of its writer: nodes, selection, and replicates.

Uses validation data only. The report does not depend on times or costs, although the selection rule may mention them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

from labwright.models.client import ModelClient
from labwright.models.roles.node_assessment import SUMMARY, SummaryInputs
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import (
    Claim,
    compute_validation_claims,
    find_ablation_nodes,
    find_replicates,
    find_trusted_replicates,
    is_seed_ignored,
)
from labwright.record.claims.hypothesis_tests import (
    decide_from_runs,
    has_test_data,
    read_constant_scores,
    read_replicate_values,
)
from labwright.record.events.search_events import StageSummarised
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import VisibleDecisions
from labwright.record.schema.nodes import SEARCH_KINDS, STAGES, Node, StageName, StageReport, StageSummary
from labwright.search.replication import view_at_stage_end
from labwright.search.stage_snapshot import (
    StageSnapshot,
    build_snapshot,
    collect_values,
    compute_gain,
    count_coverage,
    find_diverged,
    nodes_before_marks,
)
from labwright.stages.difference_tables import build_mean_tables
from labwright.stages.prompt_inputs import build_node_line, describe_failures, list_arm_settings, trace_branch
from labwright.stages.run_context import RunContext

Estimate = TypeVar("Estimate", bound=Claim)
MIN_INTERVAL_REPLICATES = 3
"""Minimum number of replicates for an interval: with two, its half-width would be nine standard deviations."""
MAX_REPORT_KEYS = 12
"""Maximum number of keys in a report."""


def build_stage_view(context: RunContext, stage: StageName) -> StageSnapshot:
    """Return the stage at the end of its search or, before that, with all current results."""
    state, settings = context.state, context.search
    return view_at_stage_end(state, stage, settings) or build_snapshot(state, stage, settings=settings)


def explain_selection(view: StageSnapshot) -> tuple[str, ...]:
    """Explain, from the comparison of nodes (`search.stage_snapshot.StageSnapshot.best_node`), why the best node is
    carried forward."""
    best, panel = view.best_node, view.panel
    if best is None:
        return ("no node of this stage works, or all working nodes are suspect",)
    if view.stage == "ablation":
        return ("ablations are compared with the node that is confirmed",)
    if view.selects_nothing:
        return ("the study measures, so nothing is selected after tuning: these experiments are exploratory",)
    reference, cells = view.widest_nodes[0] if view.widest_nodes else best, count_coverage(best, panel)
    compared = [*([view.root] if view.root else []), *view.good_nodes]
    equals = [one for one in compared if one.id != best.id and count_coverage(one, panel) == cells]
    gains = {one.id: compute_gain(one, reference, view.shared_panel) for one in (best, *equals)}
    equals.sort(key=lambda one: gains[one.id], reverse=True)
    reasons = [
        f"it measured {cells} of the {len(panel.entries)} (dataset, condition) cells of the stage's panel, "
        + (f"as many as {', '.join(one.id for one in equals)}" if equals else "more than any other node")
    ]
    if equals:
        diverged = {one.id: len(find_diverged(one, panel)) for one in (best, equals[0])}
        means = [
            f"{one.id} {fmean(values):.4g} ({gains[one.id]:+.1%}"
            f"{f', {diverged[one.id]} cells diverged' * bool(diverged[one.id])})"
            for one in (best, equals[0])
            if (values := _list_deciding_values(one, view))
        ]
        arms = [arm.name for arm in view.plan.arms if arm.name in panel.deciding_arms]
        reasons.append(
            f"{view.plan.primary_metric.name} over the validation cells of {', '.join(arms)}, and the gain relative to "
            f"{reference.id}, for one seed: {' vs. '.join(means)}, the best of the others"
        )
    close = [node.id for node in view.indistinguishable_nodes]
    if len(close) > 1:  # the reason for choosing this node among those that measurements do not distinguish
        sds = ", ".join(f"{dataset} {sd:.3g}" for dataset, sd in view.noise.items())
        reasons.append(
            f"the noise between seeds hides the differences of {', '.join(close)} (standard deviation over replicates: "
            f"{sds})"
            if sds
            else f"{', '.join(close)} measured the same values"
        )
        asked = {pair: better for pair, better in view.sounder_by_pair.items() if {*pair} <= {*close}}
        if asked:
            answers = [f"{a} or {b}: {better or 'neither'}" for (a, b), better in asked.items()]
            reasons.append(f"a model was asked which is sounder to build on: {'; '.join(answers)}")
        if best.id not in asked.values():
            reasons.append(f"among them it is the {'cheaper' if view.prefers_cheaper else 'earlier'} one")
    if view.root is not None and best.id == view.root.id:
        reasons.append(f"no node of this stage improves on {best.id}" + (" by more than the noise" * bool(view.noise)))
    return tuple(reasons)


def _list_deciding_values(node: Node, view: StageSnapshot) -> list[float]:
    """Return the values of the primary metric in the cells of the deciding arms."""
    measured = collect_values(node, view.panel.metric).items()
    return [value for one, value in measured if one in view.panel.entries and one.arm in view.panel.deciding_arms]


async def summarise_stage(context: RunContext, client: ModelClient, stage: StageName) -> None:
    """Record the report on a stage: the model's text, without keys that the model was not shown, and the parts written
    by the program.
    """
    inputs = build_summary_inputs(context, stage, client.decision)
    answer = _report_from_record(inputs, "this stage tried nothing") if not inputs.nodes else None
    answer = answer or await client.ask_or_none(SUMMARY, inputs, instead="the report is built from the record alone")
    answer = answer or _report_from_record(inputs, "no model gave a usable answer")
    shown = {one.key for one in (*inputs.statistics, *inputs.differences)}
    numbers = tuple(key for key in dict.fromkeys(answer.numbers) if key in shown)[:MAX_REPORT_KEYS]
    context.recorder.append(
        StageSummarised(
            k=client.decision,
            summary=StageSummary(
                **dict(answer.model_copy(update={"numbers": numbers})),
                stage=stage,
                branch=inputs.branch,
                failures=describe_failures(_rewind_state(context, stage, client.decision).list_stage_nodes(stage)),
            ),
        )
    )


def _report_from_record(inputs: SummaryInputs, why: str) -> StageReport:
    """Build a report without text by a model."""
    primary = inputs.data_plan.primary_metric.name
    counted = Counter(node.status for node in inputs.nodes)
    return StageReport(
        tried=f"Built from the record alone, since {why}. Nodes: "
        + (", ".join(f"{number} {status}" for status, number in counted.items()) or "none"),
        found=f"{inputs.best or 'No node'} was carried forward: {'; '.join(inputs.reasons)}",
        numbers=tuple(one.key for one in (*inputs.statistics, *inputs.differences) if one.name == primary),
    )


def build_summary_inputs(context: RunContext, stage: StageName, decision_id: int) -> SummaryInputs:
    """Build the inputs of the report: the record as seen by the decision to write it, reproducible at any later time.

    They contain validation claims of the best node and of the ablations (for each condition, the first node that
    measured it), and the values that these nodes reported themselves on dev.
    """
    state, plan = _rewind_state(context, stage, decision_id), context.plan
    last = state.search.stages[stage].find_settlement(decision_id)
    best = state.nodes.get(last[1].best or "") if last is not None else None
    tops = ([best] if best else []) + (find_ablation_nodes(state) if stage == "ablation" else [])
    planned = [metric.name for metric in plan.metrics]
    found = [claim for node in tops for claim in compute_validation_claims(state, node.id) if claim.name in planned]
    by_key: dict[str, Claim] = {}
    for claim in found:
        by_key.setdefault(claim.key, claim)
    claims = sorted(by_key.values(), key=lambda claim: planned.index(claim.name))
    limit = state.with_decision_context(decision_id).limit_reason
    shown = tuple(map(_hide_wide_interval, claims))
    runs = [one for one in find_trusted_replicates(state, best.id) if one.status == "good"] if best is not None else []
    return SummaryInputs(
        **dict(context.build_study_inputs(decision_id)),
        stage=stage,
        tested=has_test_data(state.nodes.values()) or any("test" in one.sizes for one in context.facts),
        ended=last[1].ended if last is not None else "",
        limit=limit or "",
        unstarted=tuple(
            later
            for later in STAGES[STAGES.index(stage) + 1 :]
            if limit and not any(node.kind in SEARCH_KINDS for node in state.list_stage_nodes(later))
        ),
        best=best.id if best else None,
        nodes=tuple(build_node_line(node, plan) for node in state.list_stage_nodes(stage) if node.kind in SEARCH_KINDS),
        best_plan=best.plan if best else "",
        settings=list_arm_settings(context.state, best, context.state.decisions[best.decision]) if best else (),
        reasons=last[1].reasons if last is not None else (),
        statistics=shown,
        differences=tuple(map(_hide_wide_interval, compute_differences(state, claims))),
        replicates_failed=sum(one.has_failed for top in tops for one in find_replicates(state, top.id)),
        decisions=decide_from_runs(
            plan, [*map(read_replicate_values, runs)], confirmed=False, scores=read_constant_scores(state)
        )
        if best is not None and shown and stage != "ablation"
        else (),
        tables=build_mean_tables(shown, (*tops[1:], *tops[:1]), plan),
        seedless=tuple(top.id for top in tops if is_seed_ignored(state, top.id)),
        branch=trace_branch(state, best.id if best else None),
    )


def _hide_wide_interval(one: Estimate) -> Estimate:
    return one if one.n >= MIN_INTERVAL_REPLICATES else one.model_copy(update={"low": None, "high": None})


def _rewind_state(context: RunContext, stage: StageName, decision_id: int) -> RunState:
    """Return the state without events after decision `decision_id` and events that the decision may not have
    seen.
    """
    decided = context.state.decisions.get(decision_id)
    if decided is None or decided.seen == VisibleDecisions():  # started after the stage was complete
        nodes = nodes_before_marks(context.state, decision_id)
    else:
        nodes = build_snapshot(context.state, stage, decided.seen, before=decision_id).nodes
    search = context.state.search
    rewound = replace(context.state, nodes=nodes, search=replace(search, looks=[]))
    if stage in ("agenda", "ablation") or (lock := search.current_lock) is None:
        return rewound
    known = {name: one for name, one in nodes.items() if one.kind != "replicate" or not lock.is_fresh_seed(one.seed)}
    return replace(
        rewound, search=replace(search, locks=[], looks=[]), nodes=known
    )  # they do not depend on these seeds
