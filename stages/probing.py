"""The winner is probed after the search, before anything is scored on test data: see `review.honesty.probe`."""

from __future__ import annotations

import shutil

from models.door import Desk
from record.claims import replicates_of, winner
from record.events import Probed, Suspected
from record.folder import read_source
from record.nouns import Finding, Measurement, Node
from review.honesty.probe import ENTRY, PROGRAM, Probe, labels_probe, seed_probe
from sandbox.chance import chance_of
from sandbox.job import Job
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
    folder = bench.folder.root / "probes" / node.id
    await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))  # what a kill left
    outcome = await bench.executor.run(Job(
        name=f"{node.id}/labels", folder=folder, source={"experiment.py": source["experiment.py"], ENTRY: PROGRAM},
        entry=ENTRY, seed=node.seed, timeout=bench.node_seconds * bench.search.retry_factor,
        datasets=tuple(use.name for use in bench.plan.datasets)))
    if outcome.failure is not None:
        found = Probe("unclear", f"with permuted labels the code failed: {outcome.failure.message}")
    else:
        metric = bench.plan.primary
        chance = await in_thread(lambda: chance_of(bench.folder.labels, metric.name))
        found = labels_probe(node.measurements, outcome.measurements, metric=metric, chance=chance)
    _record(bench, node, found, outcome.seconds, outcome.measurements)


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
