"""The winner is probed after the search, before anything is scored on test data: see `review.honesty.probe`."""

from __future__ import annotations

import shutil

from models.door import Desk
from models.errors import BudgetSpent
from record.claims import replicates_of, winner
from record.events.nodes import Probed, Suspected
from record.folder import read_source
from record.nouns.decisions import Work
from record.nouns.measurements import Measurement
from record.nouns.nodes import Finding, Node
from review.honesty.probe import ENTRY, PERMUTATIONS, TASK, Probe, labels_probe, program, seed_probe
from sandbox.job import Job, Outcome, TooLate
from sandbox.scoring import chance_level
from stages.bench import Bench, begun, do_work, in_thread, note_time
from stages.stage import NothingWorkedError


async def probe_winners(bench: Bench) -> None:
    """Probe the winner; where it turns out suspect, the one that takes its place, too."""

    async def work(_: Desk) -> None:
        while (best := winner(bench.state)) is not None and not _probed(bench, best, "labels"):
            node = bench.state.nodes[best]
            if not _probed(bench, best, "seed"):
                _seeds(bench, node)
            await _labels(bench, node)

    await do_work(bench, TASK, work)


def trusted_winner(bench: Bench) -> Node:
    """The node that the paper reports. Raises `NothingWorkedError` where every stage's best is suspect."""
    best = winner(bench.state)
    if best is None or bench.state.nodes[best].suspect:
        found = dict.fromkeys(one.best for one in bench.state.stages.values() if one.best is not None)
        why = [f"{name}: {'; '.join(bench.state.nodes[name].suspect)}" for name in found
               if bench.state.nodes[name].suspect]
        raise NothingWorkedError("no paper: the best node of every stage is suspect, so that there is nothing to claim "
                                 f"(docs/honesty.md). {' | '.join(why)}")
    return bench.state.nodes[best]


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
