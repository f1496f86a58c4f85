"""Execute experiments of a run again from its record, and compare their numbers.

Code, seed, limits and data come from the record; execution uses fresh kernels and a separate folder. The host computes
values in the same way, including those of test predictions. The required agreement is defined in
`stages.evidence.reproduction_match`.

Limits: this does not check that a number means what the paper says. Checkpoints are not reused, so an attempt that
continued from one is executed in full.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from labwright.models.settings import SubjectSettings
from labwright.record.claims.estimates import find_replicates
from labwright.record.errors import UsageError
from labwright.record.python_syntax import collect_strings
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import find_deletion_setting
from labwright.record.run_folder import RunFolder, hash_texts, read_source
from labwright.record.schema.nodes import Node
from labwright.sandbox.datasets import DatasetSources, materialise
from labwright.sandbox.errors import DatasetError
from labwright.sandbox.job import Executor, Job, measure_all
from labwright.sandbox.metrics import write_formulas
from labwright.sandbox.results import failure_from_error
from labwright.sandbox.scorers import copy_frozen_scorers
from labwright.stages.evidence.looks import score_results
from labwright.stages.evidence.reproduction_match import NodeReproduction, RunReproduction, compare_numbers
from labwright.stages.evidence.scoring import nodes_to_score
from labwright.stages.nodes.node_cells import (
    build_rerun_job,
    list_node_artifacts,
    sum_measured_seconds,
    with_llm_access,
)

ReportNode = Callable[[NodeReproduction, int, int], None]
"""Called for each finished node, with the number of finished nodes and the total."""


TIMEOUT_FACTOR = 3.0
"""Factor by which an execution may exceed its recorded time when it is repeated."""


def select_nodes(state: RunState, names: Sequence[str] = (), *, limit: int | None = None) -> list[Node]:
    """Return the named nodes; by default those that the paper rests on, with at most `limit` replicates of each.

    Raises: `UsageError`.
    """
    for name in names:
        if name not in state.nodes:
            raise UsageError(f"this run has no node {name!r}: 'scientist tree RUN' lists them")
        if not state.nodes[name].attempts:
            kind, status = state.nodes[name].kind, state.nodes[name].status
            raise UsageError(f"{name} ({kind}, {status}) was never executed: choose one with an attempt")
    if names:
        return [state.nodes[name] for name in dict.fromkeys(names)]
    selected: list[Node] = []
    for node in nodes_to_score(state):
        siblings = [one.id for one in find_replicates(state, node.parent or "") if one.status == "good"]
        if node not in selected and (limit is None or node.kind != "replicate" or siblings.index(node.id) < limit):
            selected.append(node)
    if not selected:
        raise UsageError("the paper of this run does not rest on any node yet: name one with --node")
    return selected


async def reproduce_nodes(
    state: RunState,
    nodes: Sequence[Node],
    site: ReproductionSite,
    *,
    environment_differences: Sequence[str] = (),
    report: ReportNode | None = None,
) -> RunReproduction:
    """Execute these nodes again, as many in parallel as the executor allows. Raises `ExecutorError`."""
    done: list[NodeReproduction] = []

    async def execute_again(node: Node) -> NodeReproduction:
        again = await _rerun_node(state, node, site)
        done.append(again)
        if report is not None:
            report(again, len(done), len(nodes))
        return again

    reproductions = await asyncio.gather(*map(execute_again, nodes))
    names = {node.id for node in nodes}
    return RunReproduction(
        nodes=tuple(reproductions),
        numbers=tuple(compare_numbers(state, reproductions, exact=not environment_differences)),
        environment_differences=tuple(environment_differences),
        left_out=tuple(dict.fromkeys(node.id for node in nodes_to_score(state) if node.id not in names)),
    )


@dataclass(frozen=True)
class ReproductionSite:
    """Paths and settings of a reproduction: the original run (only read) and the scratch folder (written)."""

    run: RunFolder
    scratch: RunFolder
    executor: Executor
    timeout: float
    """Time limit in seconds for an attempt without a recorded limit."""
    datasets: tuple[str, ...] = field(default=())
    subjects: Mapping[str, SubjectSettings] = field(default_factory=dict[str, SubjectSettings])


def copy_datasets(state: RunState, run: RunFolder, scratch: RunFolder, sources: DatasetSources) -> tuple[str, ...]:
    """Copy the run's data, rebuild damaged files from their source, and return the dataset names.

    Raises: `DatasetError`; `UsageError` if the data differ from those of the record.
    """
    scratch.create_folders()
    if state.search.data_plan is not None:
        write_formulas(state.search.data_plan.metrics, state.search.data_plan.columns, scratch.labels)
    for facts in state.search.datasets:
        for source, target in ((run.views, scratch.views), (run.labels, scratch.labels)):
            file = f"{facts.name}.npz"
            if (source / file).is_file():
                shutil.copyfile(source / file, target / file)
        rebuilt = materialise(facts.name, views=scratch.views, labels=scratch.labels, seed=facts.seed, sources=sources)
        if rebuilt.fingerprint != facts.fingerprint:
            raise UsageError(
                f"the dataset {facts.name!r} cannot be rebuilt: the run's copy was changed or is "
                f"missing, and its source now gives other data (fingerprint {rebuilt.fingerprint[:12]}..."
                f", recorded {facts.fingerprint[:12]}...)"
            )
    try:
        copy_frozen_scorers(state.search.scorers, run.scorers, scratch.scorers)
    except DatasetError as error:
        raise UsageError(str(error)) from None
    return tuple(facts.name for facts in state.search.datasets)


async def _rerun_node(state: RunState, node: Node, place: ReproductionSite) -> NodeReproduction:
    recorded = node.attempts[-1]
    again = NodeReproduction(node=node.id, kind=node.kind, seed=node.seed, recorded_seconds=sum_measured_seconds(node))
    folder = place.scratch.get_attempt_path(node.id, recorded.number)
    try:
        source = read_source(place.run.get_source_path(node.id))
    except (OSError, UnicodeDecodeError) as error:
        return again.model_copy(update={"failure": f"its code cannot be read: {error}"})
    if hash_texts(source) != node.source_sha256:
        return again.model_copy(update={"failure": "its code differs from the recorded code; nothing was executed"})
    deleted = {
        name: keep
        for name in sorted({word for text in source.values() for word in collect_strings(text)})
        if name in state.nodes and (keep := find_deletion_setting(state, name))
    }
    if deleted:
        return again.model_copy(
            update={
                "failure": "; ".join(
                    f"it reads artifacts of {name}, which were deleted (keep={keep})" for name, keep in deleted.items()
                )
            }
        )
    job = build_rerun_job(
        Job(
            name=f"{node.id}/again",
            folder=folder,
            source=source,
            seed=node.seed,
            datasets=place.datasets,
            timeout=max(recorded.limit or place.timeout, TIMEOUT_FACTOR * sum_measured_seconds(node)),
            alone=recorded.alone,
            artifacts=list_node_artifacts(
                state,
                place.run,
                (
                    one
                    for one in state.nodes.values()
                    if one.decision in state.decisions[node.decision].seen and one.status == "good"
                ),
            ),
        ),
        node,
        state,
    )
    assert state.search.data_plan is not None
    job = with_llm_access(job, state.search.data_plan, place.subjects, state.search.datasets)
    outcome = await measure_all(place.executor, job)
    before, after, failure = recorded.failure, outcome.failure, ""
    if (before and before.kind) != (after and after.kind):
        failure = (
            f"{f'failed ({after.kind}): {after.message}' if after else 'finished'}; in the record it "
            f"{f'failed ({before.kind})' if before else 'finished'}"
        )
    again = again.model_copy(
        update={"seconds": outcome.seconds, "failure": failure, "measurements": outcome.measurements}
    )
    if node.id not in state.search.test_measurements or outcome.failure is not None:
        return again
    try:
        results = outcome.measured_folders
        tests = await asyncio.to_thread(score_results, results, place.scratch.labels, seed=node.seed)
        for path, result in results:
            tests += await place.executor.evaluate(path, seed=node.seed, sealed=result.sealed)
    except Exception as error:  # noqa: BLE001  boundary of a worker: errors in files left by code belong to its node
        return again.model_copy(
            update={"failure": f"its test predictions cannot be scored: {failure_from_error(error).message}"}
        )
    return again.model_copy(update={"tests": tests})
