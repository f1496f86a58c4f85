"""The sealed test predictions, scored once, after the last stage, for what is frozen by then.

Selection never sees the test set: no prompt of the search and no stage summary carries what is computed here.
"""

from __future__ import annotations

from models.door import Desk
from record.claims import ablations, differences, paper_claims, replicates_of, winner
from record.events.nodes import Resampled, Unsealed
from record.fold.state import RunState
from record.nouns.nodes import Failure, Node
from sandbox.errors import SubmissionRefused
from sandbox.scoring import score_sealed
from stages.bench import Bench, do_work, in_thread
from stages.evidence.probing import probe_winners, trusted_winner
from stages.evidence.resampling import resampled


async def score_tests(bench: Bench) -> None:
    """Probe the winner; record test measurements of the winner, the ablations, and the replicates of both.

    And how far their differences vary with the test examples (`stages.evidence.resampling`).
    """
    await probe_winners(bench)
    trusted_winner(bench)

    async def work(_: Desk) -> None:
        await score_frozen(bench)

    await do_work(bench, "score tests", work)


async def score_frozen(bench: Bench) -> None:
    """Record what is not recorded yet of the frozen nodes: their test measurements, and the differences resampled.

    No node is scored twice; what is frozen later, ablations that a reviewer asked for, is scored when it is.
    """
    for node in frozen(bench.state):
        if node.id not in bench.state.tests:
            await _score(bench, node)
    called = {one.key for one in differences(bench.state, paper_claims(bench.state)) if one.split == "test"}
    if called - bench.state.resampled.keys() and (
            over := await in_thread(lambda: resampled(bench.state, bench.folder))):
        bench.recorder.append(Resampled(found=over))


async def _score(bench: Bench, node: Node) -> None:
    last = node.attempts[-1]
    folder = bench.folder.attempt(node.id, last.number)
    found = await in_thread(lambda: score_sealed(folder, bench.folder.labels, seed=node.seed, expected=last.sealed))
    try:
        found += await bench.executor.evaluate(folder, seed=node.seed, sealed=last.sealed)
        failure = None
    except SubmissionRefused as error:  # a scorer of the user's own: the other values stand
        failure = Failure(kind="other", message=str(error))
    bench.recorder.append(Unsealed(node=node.id, measurements=found, failure=failure))


def frozen(state: RunState) -> list[Node]:
    """Winner and ablations with their replicates; only nodes that worked."""
    best = winner(state)
    tops = ([state.nodes[best]] if best else []) + ablations(state)
    nodes = [node for top in tops for node in (top, *replicates_of(state, top.id))]
    return [node for node in nodes if node.status == "good" and node.attempts and not node.suspect]
