"""Look at the fresh seeds of the lock: score their sealed test predictions, and test the hypotheses on them.

Test values appear in no prompt of the search, which continues during the looks; they only decide whether further fresh
seeds run.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from pathlib import Path

from labwright.record.claims.hypothesis_tests import is_look_conclusive
from labwright.record.events.search_events import LookTaken, SealedTestScored
from labwright.record.result_folders import ResultFolder, list_result_folders
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Failure, Node
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.repository.command_cells import read_sealed_test_values
from labwright.sandbox.scoring import score_sealed
from labwright.search.hours import count_affordable_seeds
from labwright.search.replication import explain_sampling_end, list_look_replicates
from labwright.stages.evidence.resampling import resample_effects
from labwright.stages.run_context import RunContext


async def score_node(context: RunContext, node: Node) -> None:
    """Record the test measurements of a node, unless they are recorded."""
    if node.id in context.state.search.test_measurements:
        return
    failure, results = None, list_result_folders(context.state, context.folder, node)
    measurements = await to_thread(score_results, results, context.folder.labels, seed=node.seed)
    try:
        for folder, result in results:
            measurements += await context.executor.evaluate(folder, seed=node.seed, sealed=result.sealed)
    except SubmissionRefused as error:  # the user's own scorer failed: the other values remain
        failure = Failure(kind="other", message=str(error))
    context.recorder.append(SealedTestScored(node=node.id, measurements=measurements, failure=failure))


def score_results(results: Sequence[ResultFolder], labels: Path, *, seed: int) -> tuple[Measurement, ...]:
    """Return the test measurements of a node from the sealed files of its cells. Raises `SubmissionRefused`,
    `RepositoryError`."""
    places = [folder for folder, _ in results]
    scored = [score_sealed(at, labels, seed=seed, expected=result.sealed, cells=places) for at, result in results]
    read = [read_sealed_test_values(at, result.sealed) for at, result in results]
    return tuple(value for values in (*scored, *read) for value in values)


async def take_look(context: RunContext, look: int) -> None:
    """Score the fresh seeds of a look, test the hypotheses on them, and record whether sampling continues.

    The look is one event, and earlier scoring is not repeated, so a kill costs at most the scoring of one node.
    """
    state, lock = context.state, context.state.search.current_lock
    if lock is None or len(state.search.looks) > look:  # recorded before a kill
        return
    nodes = list_look_replicates(state, look)
    for node in nodes:
        await score_node(context, node)
    taken = LookTaken(
        look=look,
        seeds=tuple(node.seed for node in nodes),
        resampled=await to_thread(lambda: tuple(resample_effects(state, context.folder, nodes))),
    )
    conclusive = is_look_conclusive(state, taken, context.search.family)
    ends = "every claim is decided or precise enough" if conclusive else explain_end_of_sampling(context, look)
    context.recorder.append(taken.model_copy(update={"conclusive": conclusive, "ends": ends or ""}))


def explain_end_of_sampling(context: RunContext, look: int) -> str | None:
    """Return the reason why no look follows the one at index `look` although it decided nothing, or None."""
    lock, settings = context.state.search.current_lock, context.search
    assert lock is not None
    affordable = count_affordable_seeds(
        context.state,
        settings,
        run_seconds=context.run_seconds,
        seconds_left=context.seconds_left(),
        read=lock.looks[look],
    )
    return explain_sampling_end(lock, look, settings, affordable=affordable)


def continue_sampling(context: RunContext) -> None:
    """Record that sampling continues if only a limit ended it and that limit has been raised."""
    last = context.state.search.looks[-1] if context.state.search.looks else None
    if last is None or not last.ends or last.conclusive or context.state.search.stages["ablation"].is_settled:
        return
    if explain_end_of_sampling(context, last.look) is None:
        context.recorder.append(last.model_copy(update={"ends": ""}))
