"""Experiments of a run executed again from its record, and what their numbers come to.

The code, seed, limits and data of the record, in fresh kernels and a folder of its own; values are computed by us in
the same way, test predictions too. How near they must be to the recorded ones: `stages.evidence.agreement`.

What it does not guarantee: that a number means what the paper says of it. Checkpoints are not used again, so an attempt
that went on from one runs as a whole.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from labwright.models.settings import SubjectSettings
from labwright.record.claims.means import replicates_of
from labwright.record.errors import WrongUse
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, read_source, sha256_of_files
from labwright.record.keeping import collected_of
from labwright.record.nouns.nodes import Node
from labwright.record.syntax import strings_in
from labwright.sandbox.datasets import Sources, materialise
from labwright.sandbox.errors import DatasetError
from labwright.sandbox.formulas import keep
from labwright.sandbox.job import Artifacts, Executor, Job
from labwright.sandbox.repository.cells import unsealed
from labwright.sandbox.results import failure_of
from labwright.sandbox.scorers import copy_frozen
from labwright.sandbox.scoring import score_sealed
from labwright.stages.evidence.agreement import NodeReproduction, Reproduction, numbers
from labwright.stages.evidence.scoring import frozen
from labwright.stages.nodes.cells import again as as_cells
from labwright.stages.nodes.cells import asking, seconds_measured

Tell = Callable[[NodeReproduction, int, int], None]
"""Told of each node when it is done: how many are, and of how many."""


SLOWER = 3.0
"""How much longer than it was recorded an execution may take when it comes again."""


def chosen(state: RunState, names: Sequence[str] = (), *, limit: int | None = None) -> list[Node]:
    """The nodes of these names; by default what the paper rests on, with at most `limit` replicates of each.

    Raises: `WrongUse`.
    """
    for name in names:
        if name not in state.nodes:
            raise WrongUse(f"this run has no node {name!r}: 'scientist tree RUN' lists them")
        if not state.nodes[name].attempts:
            kind, status = state.nodes[name].kind, state.nodes[name].status
            raise WrongUse(f"{name} ({kind}, {status}) was never executed: choose one that was")
    if names:
        return [state.nodes[name] for name in dict.fromkeys(names)]
    found: list[Node] = []
    for node in frozen(state):
        siblings = [one.id for one in replicates_of(state, node.parent or "") if one.status == "good"]
        if node not in found and (limit is None or node.kind != "replicate" or siblings.index(node.id) < limit):
            found.append(node)
    if not found:
        raise WrongUse("no node of this run was carried to its paper yet: name one with --node")
    return found


async def reproduce(
    state: RunState, nodes: Sequence[Node], place: Place, *, unlike: Sequence[str] = (), tell: Tell | None = None
) -> Reproduction:
    """Execute these nodes again, as many at a time as the executor has places. Raises `ExecutorError`."""
    done: list[NodeReproduction] = []

    async def execute_again(node: Node) -> NodeReproduction:
        again = await _again(state, node, place)
        done.append(again)
        if tell is not None:
            tell(again, len(done), len(nodes))
        return again

    ran = await asyncio.gather(*map(execute_again, nodes))
    names = {node.id for node in nodes}
    return Reproduction(
        nodes=tuple(ran),
        numbers=tuple(numbers(state, ran, same=not unlike)),
        unlike=tuple(unlike),
        left_out=tuple(dict.fromkeys(node.id for node in frozen(state) if node.id not in names)),
    )


@dataclass(frozen=True)
class Place:
    """Where nodes are executed again: the run that is read, and the folder beside it that is written."""

    run: RunFolder
    scratch: RunFolder
    executor: Executor
    timeout: float
    """Seconds of an attempt whose record does not say how long it had."""
    datasets: tuple[str, ...] = field(default=())
    subjects: Mapping[str, SubjectSettings] = field(default_factory=dict[str, SubjectSettings])


def lay_out_data(state: RunState, run: RunFolder, scratch: RunFolder, sources: Sources) -> tuple[str, ...]:
    """Copy the run's data; what is damaged is made anew from its source. Returns their names.

    Raises: `DatasetError`, and `WrongUse` where they are not those of the record.
    """
    scratch.create()
    if state.data_plan is not None:
        keep(state.data_plan.metrics, scratch.labels)
    for facts in state.datasets:
        for source, target in ((run.views, scratch.views), (run.labels, scratch.labels)):
            file = f"{facts.name}.npz"
            if (source / file).is_file():
                shutil.copyfile(source / file, target / file)
        made = materialise(facts.name, views=scratch.views, labels=scratch.labels, seed=facts.seed, sources=sources)
        if made.fingerprint != facts.fingerprint:
            raise WrongUse(
                f"the data {facts.name!r} cannot be made again: the run's copy was changed or is "
                f"gone, and its source now gives other data (fingerprint {made.fingerprint[:12]}..."
                f", recorded {facts.fingerprint[:12]}...)"
            )
    try:
        copy_frozen(state.scorers, run.scorers, scratch.scorers)
    except DatasetError as error:
        raise WrongUse(str(error)) from None
    return tuple(facts.name for facts in state.datasets)


async def _again(state: RunState, node: Node, place: Place) -> NodeReproduction:
    recorded = node.attempts[-1]
    again = NodeReproduction(node=node.id, kind=node.kind, seed=node.seed, recorded_seconds=seconds_measured(node))
    folder = place.scratch.attempt(node.id, recorded.number)
    try:
        source = read_source(place.run.source(node.id))
    except (OSError, UnicodeDecodeError) as error:
        return again.model_copy(update={"failure": f"its code cannot be read: {error}"})
    if sha256_of_files(source) != node.source_sha256:
        return again.model_copy(
            update={"failure": "its code is not what the record says was run; nothing was executed"}
        )
    gone = {
        name: keep
        for name in sorted({word for text in source.values() for word in strings_in(text)})
        if name in state.nodes and (keep := collected_of(state, name))
    }
    if gone:
        return again.model_copy(
            update={
                "failure": "; ".join(
                    f"it reads what {name} left, which was collected (keep={keep})" for name, keep in gone.items()
                )
            }
        )
    job = as_cells(
        Job(
            name=f"{node.id}/again",
            folder=folder,
            source=source,
            seed=node.seed,
            datasets=place.datasets,
            timeout=max(recorded.limit or place.timeout, SLOWER * seconds_measured(node)),
            alone=recorded.alone,
            artifacts={
                one.id: Artifacts(place.run.attempt(one.id, one.attempts[-1].number), one.attempts[-1].artifacts)
                for one in state.nodes.values()
                if one.decision in state.decisions[node.decision].seen
                and one.status == "good"
                and one.attempts
                and one.attempts[-1].artifacts
            },
        ),
        node,
        state,
    )
    assert state.data_plan is not None
    outcome = await place.executor.run(asking(job, state.data_plan, place.subjects, state.datasets))
    before, after, failure = recorded.failure, outcome.failure, ""
    if (before and before.kind) != (after and after.kind):
        failure = (
            f"{f'failed ({after.kind}): {after.message}' if after else 'ran to its end'}; by the record it "
            f"{f'failed ({before.kind})' if before else 'ran to its end'}"
        )
    again = again.model_copy(
        update={"seconds": outcome.seconds, "failure": failure, "measurements": outcome.measurements}
    )
    if node.id not in state.tests or outcome.failure is not None:
        return again
    try:
        tests = await asyncio.to_thread(score_sealed, folder, place.scratch.labels, seed=node.seed)
        tests += await asyncio.to_thread(unsealed, folder, None)
        tests += await place.executor.evaluate(folder, seed=node.seed, sealed=outcome.sealed)
    except Exception as error:  # noqa: BLE001  a worker's edge: whatever comes of what the code left is the node's
        return again.model_copy(
            update={"failure": f"its test predictions cannot be scored: {failure_of(error).message}"}
        )
    return again.model_copy(update={"tests": tests})
