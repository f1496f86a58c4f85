"""The winner is probed (`review.honesty.probe`); then the sealed test predictions of what is frozen are scored, once.

Selection never sees the test set: no prompt of the search and no stage summary carries what is computed here.
"""

from __future__ import annotations

import shutil

from models.client import ModelClient
from models.errors import BudgetSpent
from record.claims import ablations, differences, paper_claims, replicates_of, winner
from record.events.searching import Probed, Resampled, Suspected, Unsealed
from record.fold.state import RunState
from record.folder import read_source
from record.nouns.data import Measurement
from record.nouns.decisions import Work
from record.nouns.nodes import Failure, Finding, Node
from review.honesty.probe import ENTRY, PERMUTATIONS, TASK, Probe, labels_probe, program, seed_probe
from sandbox.errors import SubmissionRefused
from sandbox.job import Job, Outcome, TooLate
from sandbox.scoring import chance_level, score_sealed
from stages.bench import Bench, begun, do_work, in_thread, note_time
from stages.evidence.resampling import resampled
from stages.stage import trusted_winner


async def probe_winners(bench: Bench) -> None:
    """Probe the winner; where it turns out suspect, the one that takes its place, too."""

    async def work(_: ModelClient) -> None:
        while (best := winner(bench.state)) is not None and not _probed(bench, best, "labels"):
            node = bench.state.nodes[best]
            if not _probed(bench, best, "seed"):
                _seeds(bench, node)
            await _labels(bench, node)

    await do_work(bench, TASK, work)


def _probed(bench: Bench, node: str, probe: str) -> bool:
    return any(one.node == node and one.probe == probe for one in bench.state.probes)


async def _labels(bench: Bench, node: Node) -> None:
    """Probe the labels. What one permutation may take of the GPUs is left free from the start (`stages.shares`)."""
    source = read_source(bench.folder.source(node.id))
    if bench.state.limited is not None:
        _record(bench, node, Probe("unclear", f"not run: {bench.state.limited}"))
        return
    if ".y" not in source["experiment.py"]:
        _record(bench, node, Probe("unclear", "not run: the code reads no labels"))
        return
    found, seconds, measured, runs = Probe("still", ""), 0.0, tuple[Measurement, ...](), 0
    while found.outcome == "still" and runs < PERMUTATIONS:
        try:
            _reserve(bench, _name(node, runs))
            outcome = await _permuted(bench, node, source["experiment.py"], runs)
        except BudgetSpent as error:
            found = Probe("unclear", f"{found.why or 'not run'}; {error}")
            break
        except TooLate:
            note_time(bench)
            found = Probe("unclear", f"{found.why or 'not run'}; {bench.state.limited}")
            if bench.budget is not None:
                bench.budget.give_back(_name(node, runs))
            break
        found = await _judged(bench, node, outcome)
        seconds, measured, runs = seconds + outcome.seconds, outcome.measurements, runs + 1
    told = f"{found.why} (permutation {runs} of at most {PERMUTATIONS})"
    _record(bench, node, Probe(found.outcome, told), seconds, measured)
    if bench.budget is not None:
        for number in range(runs):
            bench.budget.give_back(_name(node, number))  # what was taken is settled by now


def _name(node: Node, number: int) -> str:
    return f"{node.id}/labels{number}"


def _limit(bench: Bench) -> float:
    """Seconds that one run with permuted labels may take."""
    return bench.retry_seconds


def _reserve(bench: Bench, name: str) -> None:
    """Set a run's share of the GPUs aside. Raises `BudgetSpent`."""
    if bench.budget is not None:
        bench.budget.reserve_attempt(begun(bench, Work(task=TASK)), name, _limit(bench))


async def _permuted(bench: Bench, node: Node, experiment: str, number: int) -> Outcome:
    """The node's code with the training labels in another order."""
    folder = bench.folder.root / "probes" / node.id / str(number)
    await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))  # what a kill left
    return await bench.executor.run(Job(
        name=_name(node, number), folder=folder, source={"experiment.py": experiment, ENTRY: program(number)},
        entry=ENTRY, seed=node.seed, timeout=_limit(bench), late=lambda: bench.seconds_left() <= 0,
        datasets=tuple(use.name for use in bench.plan.datasets)))


async def _judged(bench: Bench, node: Node, outcome: Outcome) -> Probe:
    if outcome.failure is not None:
        return Probe("unclear", f"with permuted labels the code failed: {outcome.failure.message}")
    metric = bench.plan.primary
    chance = await in_thread(lambda: chance_level(bench.folder.labels, metric.name))
    return labels_probe(node.measurements, outcome.measurements, metric=metric, chance=chance)


def _record(bench: Bench, node: Node, found: Probe, seconds: float = 0.0,
            measured: tuple[Measurement, ...] = ()) -> None:
    if found.outcome == "still":
        bench.recorder.append(Suspected(node=node.id, findings=(Finding(kind="labels", why=found.why),)))
    bench.recorder.append(Probed(node=node.id, probe="labels", seconds=seconds, measurements=measured,
                                 outcome=found.outcome, why=found.why))


def _seeds(bench: Bench, node: Node) -> None:
    """The replicates ran the same code with other seeds: nothing needs to be run again."""
    others = [one.measurements for one in replicates_of(bench.state, node.id) if one.status == "good"]
    found = seed_probe(node.measurements, others, bench.plan.primary)
    bench.recorder.append(Probed(node=node.id, probe="seed", outcome=found.outcome, why=found.why))


async def score_tests(bench: Bench) -> None:
    """Probe the winner; record test measurements of the winner, the ablations, and the replicates of both.

    And how far their differences vary with the test examples (`stages.evidence.resampling`).
    """
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
