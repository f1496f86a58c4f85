"""Probe and audit the code that the paper rests on, then score its sealed test predictions."""

from __future__ import annotations

from asyncio import to_thread
from contextlib import suppress

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import (
    compute_paper_claims,
    find_ablation_nodes,
    find_added_replicates,
    find_trusted_replicates,
    find_winner,
)
from labwright.record.events.search_events import SealedTestResampled
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import find_reference_nodes
from labwright.record.schema.nodes import Node
from labwright.stages.evidence.resampling import resample_differences, score_node
from labwright.stages.evidence.sanity_probes import probe_winners
from labwright.stages.measuring import TooLate
from labwright.stages.nodes.node_cells import has_nondeterminism
from labwright.stages.nodes.node_runner import remeasure_reused
from labwright.stages.run_context import RunContext, run_once
from labwright.stages.stage_runner import find_trusted_winner


async def remeasure_reused_cells(context: RunContext) -> None:
    """Make the nodes of the paper measure their reused cells themselves if two executions of one key differed."""

    async def work(_: ModelClient) -> None:
        for node in nodes_to_score(context.state):
            if any(line.outcome == "taken over" for line in node.attempts[-1].cells):
                with suppress(BudgetSpent, TooLate):
                    await remeasure_reused(context, node.id)

    if has_nondeterminism(context.state):
        await run_once(context, "measure what was taken over", work)


async def score_tests(context: RunContext) -> None:
    """Probe the winner; record test measurements of the winner, the ablations, and the replicates of both.

    Also record how their differences vary with the test examples (`stages.evidence.resampling`).
    """
    await remeasure_reused_cells(context)
    await probe_winners(context)
    find_trusted_winner(context)

    async def work(_: ModelClient) -> None:
        await score_selected_nodes(context)

    await run_once(context, "score tests", work)


async def score_selected_nodes(context: RunContext) -> None:
    """Record the missing test measurements of the frozen nodes and the resampled differences.

    No node is scored twice; nodes that are frozen later (what reviewers requested) are scored then.
    """
    for node in nodes_to_score(context.state):
        await score_node(context, node)
    difference_keys = {
        one.key
        for one in compute_differences(context.state, compute_paper_claims(context.state))
        if one.split == "test"
    }
    needs_effects = context.plan.hypotheses and not any(
        key.startswith("hypothesis/") for key in context.state.search.resampled_intervals
    )
    if (needs_effects or difference_keys - context.state.search.resampled_intervals.keys()) and (
        intervals := await to_thread(resample_differences, context.state, context.folder)
    ):
        context.recorder.append(SealedTestResampled(found=intervals))


def nodes_to_score(state: RunState) -> list[Node]:
    """Return the working nodes among the winner, the ablations, the replicates of both, those of addenda, and the
    reference models."""
    best = find_winner(state)
    tops = ([state.nodes[best]] if best else []) + find_ablation_nodes(state)
    nodes = [
        *(node for top in tops for node in (top, *find_trusted_replicates(state, top.id))),
        *find_added_replicates(state),
        *find_reference_nodes(state),
    ]
    return [node for node in nodes if node.status == "good" and node.attempts and not node.suspect]
