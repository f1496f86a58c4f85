"""The winner is probed after the search, before anything is scored on test data: see `review.honesty.probe`."""

from __future__ import annotations

import shutil

from models.door import Desk
from record.claims import replicates_of, winner
from record.events import Probed, Suspected
from record.folder import read_source
from record.nouns import Finding, Measurement, Node
from review.honesty.probe import ENTRY, PERMUTATIONS, Probe, labels_probe, program, seed_probe
from sandbox.chance import chance_of
from sandbox.job import Job, Outcome
from stages.bench import Bench, do_work, in_thread


async def probe_winners(bench: Bench) -> None:
    """Probe the winner; where it turns out suspect, the one that takes its place, too."""

    async def work(_: Desk) -> None:
        while (best := winner(bench.state)) is not None and not _probed(bench, best, "labels"):
            node = bench.state.nodes[best]
            if not _probed(bench, best, "seed"):
                _seeds(bench, node)
            await _labels(bench, node)

    await do_work(bench, "probe the winner", work)


def _probed(bench: Bench, node: str, probe: str) -> bool:
    return any(one.node == node and one.probe == probe for one in bench.state.probes)


async def _labels(bench: Bench, node: Node) -> None:
    source = read_source(bench.folder.source(node.id))
    if bench.state.limited is not None:
        _record(bench, node, Probe("unclear", f"not run: {bench.state.limited}"))
        return
    if ".y" not in source["experiment.py"]:
        _record(bench, node, Probe("unclear", "not run: the code reads no labels"))
        return
    found, seconds, measured, runs = Probe("still", ""), 0.0, tuple[Measurement, ...](), 0
    while found.outcome == "still" and runs < PERMUTATIONS:
        outcome = await _permuted(bench, node, source["experiment.py"], runs)
        found = await _judged(bench, node, outcome)
        seconds, measured, runs = seconds + outcome.seconds, outcome.measurements, runs + 1
    told = f"{found.why} (permutation {runs} of at most {PERMUTATIONS})"
    _record(bench, node, Probe(found.outcome, told), seconds, measured)


async def _permuted(bench: Bench, node: Node, experiment: str, number: int) -> Outcome:
    """The node's code with the training labels in another order."""
    folder = bench.folder.root / "probes" / node.id / str(number)
    await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))  # what a kill left
    return await bench.executor.run(Job(
        name=f"{node.id}/labels{number}", folder=folder, source={"experiment.py": experiment, ENTRY: program(number)},
        entry=ENTRY, seed=node.seed, timeout=bench.node_seconds * bench.search.retry_factor,
        datasets=tuple(use.name for use in bench.plan.datasets)))


async def _judged(bench: Bench, node: Node, outcome: Outcome) -> Probe:
    if outcome.failure is not None:
        return Probe("unclear", f"with permuted labels the code failed: {outcome.failure.message}")
    metric = bench.plan.primary
    chance = await in_thread(lambda: chance_of(bench.folder.labels, metric.name))
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
