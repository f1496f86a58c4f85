"""The winner is probed (`review.honesty.probe`); then the sealed test predictions of what is frozen are scored, once.

Selection never sees the test set: no prompt of the search and no stage summary carries what is computed here.
"""

from __future__ import annotations

import shutil
from asyncio import to_thread
from contextlib import suppress

from models.client import ModelClient
from models.errors import BudgetSpent
from record.claims.differences import differences
from record.claims.means import ablations, paper_claims, replicates_of, trusted_replicates, winner
from record.events.searching import Probed, Resampled, Suspected, Unsealed
from record.fold.state import RunState
from record.folder import read_source
from record.ladder import rungs
from record.nouns.data import Measurement
from record.nouns.decisions import Work
from record.nouns.nodes import Failure, Finding, Node
from record.source import PLOTS, code_of
from review.honesty.probe import ENTRY, PERMUTATIONS, TASK, Probe, labels_probe, program, seed_probe
from sandbox.errors import SubmissionRefused
from sandbox.job import Job, Outcome, TooLate
from sandbox.repository.cells import unsealed
from sandbox.scoring import chance_level, score_sealed
from stages.bench import Bench, do_work, note_time, numbered
from stages.evidence.resampling import resampled
from stages.nodes.cells import again, doubted
from stages.nodes.node import measure_taken_over
from stages.stage import trusted_winner


async def measure_what_was_taken_over(bench: Bench) -> None:
    """Once two executions of one key differed, have the nodes of the paper measure what they had taken over."""

    async def work(_: ModelClient) -> None:
        for node in frozen(bench.state):
            if any(line.outcome == "taken over" for line in node.attempts[-1].cells):
                with suppress(BudgetSpent, TooLate):
                    await measure_taken_over(bench, node.id)

    if doubted(bench):
        await do_work(bench, "measure what was taken over", work)


async def probe_winners(bench: Bench) -> None:
    """Probe the winner; where it turns out suspect, the one that takes its place, too."""

    async def work(_: ModelClient) -> None:
        while (best := winner(bench.state)) is not None and not _probed(bench, best, "labels"):
            node = bench.state.nodes[best]
            if not _probed(bench, best, "seed"):  # the replicates ran the same code with other seeds
                others = [one.measurements for one in replicates_of(bench.state, best) if one.status == "good"]
                found = seed_probe(node.measurements, others, bench.plan.primary)
                bench.recorder.append(Probed(node=best, probe="seed", outcome=found.outcome, why=found.why))
            await _labels(bench, node)

    await do_work(bench, TASK, work)


def _probed(bench: Bench, node: str, probe: str) -> bool:
    return any(one.node == node and one.probe == probe for one in bench.state.probes)


async def _labels(bench: Bench, node: Node) -> None:
    """Probe the labels. What one permutation may take of the GPUs is left free from the start (`stages.shares`)."""
    code = {path: text for path, text in read_source(bench.folder.source(node.id)).items() if path != PLOTS}
    found, seconds, measured, runs = Probe("still", ""), 0.0, tuple[Measurement, ...](), 0
    why = ("it asks language models" if bench.plan.subjects else
           "a repository reads its own data" if bench.repository is not None else "the code reads no labels")
    tried = bench.state.limited is None and not bench.plan.subjects and bench.repository is None and any(
        ".y" in text for text in code_of(code).values())
    if not tried:
        found = Probe("unclear", f"not run: {bench.state.limited or why}")
    while found.outcome == "still" and runs < PERMUTATIONS:
        try:
            outcome = await _permuted(bench, node, code, runs)
        except (BudgetSpent, TooLate) as error:
            reason = error if isinstance(error, BudgetSpent) else bench.state.limited
            found = Probe("unclear", f"{found.why or 'not run'}; {reason}")
            break
        if outcome.failure is not None:
            found = Probe("unclear", f"with permuted labels the code failed: {outcome.failure.message}")
        else:
            metric = bench.plan.primary
            chance = await to_thread(chance_level, bench.folder.labels, metric.name)
            found = labels_probe(node.measurements, outcome.measurements, metric=metric, chance=chance)
        seconds, measured, runs = seconds + outcome.seconds, outcome.measurements, runs + 1
    why = found.why + f" (permutation {runs} of at most {PERMUTATIONS})" * tried
    if found.outcome == "still":
        bench.recorder.append(Suspected(node=node.id, findings=(Finding(kind="labels", why=why),)))
    bench.recorder.append(Probed(node=node.id, probe="labels", seconds=seconds, measurements=measured,
                                 outcome=found.outcome, why=why))
    if bench.budget is not None:
        for number in range(runs):
            bench.budget.give_back(f"{node.id}/labels{number}")  # what was taken is settled by now


async def _permuted(bench: Bench, node: Node, code: dict[str, str], number: int) -> Outcome:
    """What comes of the node's code with the training labels in another order. Raises `BudgetSpent`, `TooLate`."""
    name, folder = f"{node.id}/labels{number}", bench.folder.root / "probes" / node.id / str(number)
    if bench.budget is not None:
        bench.budget.reserve_attempt(numbered(bench.recorder, Work(task=TASK)), name, bench.retry_seconds)
    await to_thread(shutil.rmtree, folder, ignore_errors=True)  # what a kill left
    try:
        return await bench.executor.run(again(Job(
            name=name, folder=folder, source=code | {ENTRY: program(number)}, entry=ENTRY,
            seed=node.seed, timeout=bench.retry_seconds, late=lambda: bench.seconds_left() <= 0,
            datasets=tuple(use.name for use in bench.plan.datasets)), node, bench.state))
    except TooLate:
        note_time(bench)
        if bench.budget is not None:
            bench.budget.give_back(name)
        raise


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
            over := await to_thread(resampled, bench.state, bench.folder)):
        bench.recorder.append(Resampled(found=over))


def frozen(state: RunState) -> list[Node]:
    """Winner and ablations with their replicates, and the rungs; only nodes that worked."""
    best = winner(state)
    tops = ([state.nodes[best]] if best else []) + ablations(state)
    nodes = [*(node for top in tops for node in (top, *trusted_replicates(state, top.id))), *rungs(state)]
    return [node for node in nodes if node.status == "good" and node.attempts and not node.suspect]
