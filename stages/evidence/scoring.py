"""What the paper rests on is probed and read (`stages.evidence.probing`); then the sealed test predictions are scored.

Selection never sees the test set: no prompt of the search and no stage summary carries what is computed here.
"""

from __future__ import annotations

from asyncio import to_thread
from contextlib import suppress

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.record.claims.differences import differences
from labwright.record.claims.means import ablations, paper_claims, trusted_replicates, winner
from labwright.record.events.searching import Resampled, Unsealed
from labwright.record.fold.state import RunState
from labwright.record.ladder import rungs
from labwright.record.nouns.nodes import Failure, Node
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.job import TooLate
from labwright.sandbox.repository.cells import unsealed
from labwright.sandbox.scoring import score_sealed
from labwright.stages.bench import Bench, do_work
from labwright.stages.evidence.probing import probe_winners
from labwright.stages.evidence.resampling import resampled
from labwright.stages.nodes.cells import differing
from labwright.stages.nodes.node import measure_taken_over
from labwright.stages.stage import trusted_winner


async def measure_what_was_taken_over(bench: Bench) -> None:
    """Once two executions of one key differed, have the nodes of the paper measure what they had taken over."""

    async def work(_: ModelClient) -> None:
        for node in frozen(bench.state):
            if any(line.outcome == "taken over" for line in node.attempts[-1].cells):
                with suppress(BudgetSpent, TooLate):
                    await measure_taken_over(bench, node.id)

    if differing(bench.state):
        await do_work(bench, "measure what was taken over", work)


async def score_tests(bench: Bench) -> None:
    """Probe the winner; record test measurements of the winner, the ablations, and the replicates of both.

    And how far their differences vary with the test examples (`stages.evidence.resampling`).
    """
    await measure_what_was_taken_over(bench)
    await probe_winners(bench)
    trusted_winner(bench)

    async def work(_: ModelClient) -> None:
        await score_frozen(bench)

    await do_work(bench, "score tests", work)


async def score_frozen(bench: Bench) -> None:
    """Record what is not recorded yet of the frozen nodes: their test measurements, and the differences resampled.

    No node is scored twice; what is frozen later, ablations that a reviewer asked for, is scored when it is.
    """
    for node in frozen(bench.state):
        if node.id in bench.state.tests:
            continue
        last, failure = node.attempts[-1], None
        folder = bench.folder.attempt(node.id, last.number)
        found = await to_thread(score_sealed, folder, bench.folder.labels, seed=node.seed, expected=last.sealed)
        found += await to_thread(unsealed, folder, last.sealed)
        try:
            found += await bench.executor.evaluate(folder, seed=node.seed, sealed=last.sealed)
        except SubmissionRefused as error:  # a scorer of the user's own: the other values stand
            failure = Failure(kind="other", message=str(error))
        bench.recorder.append(Unsealed(node=node.id, measurements=found, failure=failure))
    called = {one.key for one in differences(bench.state, paper_claims(bench.state)) if one.split == "test"}
    asked = bench.plan.hypotheses and not any(key.startswith("hypothesis/") for key in bench.state.resampled)
    if (asked or called - bench.state.resampled.keys()) and (
        over := await to_thread(resampled, bench.state, bench.folder)
    ):
        bench.recorder.append(Resampled(found=over))


def frozen(state: RunState) -> list[Node]:
    """Winner and ablations with their replicates, and the rungs; only nodes that worked."""
    best = winner(state)
    tops = ([state.nodes[best]] if best else []) + ablations(state)
    nodes = [*(node for top in tops for node in (top, *trusted_replicates(state, top.id))), *rungs(state)]
    return [node for node in nodes if node.status == "good" and node.attempts and not node.suspect]
