"""The sealed test predictions, scored once, after the last stage, for what is frozen by then.

Selection never sees the test set: no prompt of the search and no stage summary carries what is computed here.
"""

from __future__ import annotations

from models.door import Desk
from record.claims import ablations, replicates_of, winner
from record.events import Unsealed
from record.fold import RunState
from record.nouns import Failure, Node
from sandbox.errors import SubmissionRefused
from sandbox.scoring import score_sealed
from stages.bench import Bench, do_work, in_thread
from stages.probing import probe_winners


async def score_tests(bench: Bench) -> None:
    """Probe the winner; record test measurements of the winner, the ablations, and the replicates of both."""
    await probe_winners(bench)

    async def work(_: Desk) -> None:
        for node in frozen(bench.state):
            if node.id not in bench.state.tests:
                last = node.attempts[-1]
                folder = bench.folder.attempt(node.id, last.number)
                found = await in_thread(lambda folder=folder, node=node, sealed=last.sealed: score_sealed(
                    folder, bench.folder.labels, seed=node.seed, expected=sealed))
                try:
                    found += await bench.executor.evaluate(folder, seed=node.seed, sealed=last.sealed)
                    failure = None
                except SubmissionRefused as error:  # a scorer of the user's own: the other values stand
                    failure = Failure(kind="other", message=str(error))
                bench.recorder.append(Unsealed(node=node.id, measurements=found, failure=failure))

    await do_work(bench, "score tests", work)


def frozen(state: RunState) -> list[Node]:
    """Winner and ablations with their replicates; only nodes that worked."""
    best = winner(state)
    tops = ([state.nodes[best]] if best else []) + ablations(state)
    nodes = [node for top in tops for node in (top, *replicates_of(state, top.id))]
    return [node for node in nodes if node.status == "good" and node.attempts and not node.suspect]
