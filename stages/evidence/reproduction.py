"""Execute experiments of a run again from its record, and compare their numbers.

Code, seed, limits and data come from the record; execution uses fresh kernels and a separate folder. The host computes
values in the same way, including those of test predictions. The required agreement is defined in
`stages.evidence.reproduction`.

Limits: this does not check that a number means what the paper says. Checkpoints are not reused, so an attempt that
continued from one is executed in full.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from labwright.models.settings import SubjectSettings
from labwright.record.claims.estimates import compute_t_interval, compute_t_quantile, find_replicates
from labwright.record.claims.formatting import format_claims
from labwright.record.errors import UsageError
from labwright.record.python_syntax import collect_strings
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import PrintedValue, to_plain_text
from labwright.record.retention import find_deletion_setting
from labwright.record.run_folder import RunFolder, hash_texts, read_source, write_file
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import KIND_NAMES, Node
from labwright.sandbox.datasets import SALT_FILE, DatasetSources, find_user_salt, materialise
from labwright.sandbox.job import DatasetError, Executor, Job, measure_all
from labwright.sandbox.metrics import write_formulas
from labwright.sandbox.results import failure_from_error
from labwright.sandbox.scorers import copy_frozen_scorers
from labwright.stages.evidence.resampling import score_results
from labwright.stages.evidence.scoring import nodes_to_score
from labwright.stages.nodes.node_cells import (
    build_rerun_job,
    list_node_artifacts,
    sum_measured_seconds,
    with_llm_access,
)
from labwright.stages.paper.paper_context import build_paper_claims

# Compare numbers of the record with those of reproduced nodes: equal, within noise, or different. With the recorded
# processor, interpreter and thread count, the printed digits must be equal. Otherwise, and on a GPU, a mean may
# differ within the measured noise: the tolerance is exceeded by two means of equally many replicates in only a
# fraction `FALSE_ALARM_RATE` of cases (Student t).

FALSE_ALARM_RATE = 0.001
"""Rate at which a correct number from nondeterministic code is reported as different."""

Quantity = tuple[str, str, str, str]


def compare_numbers(
    state: RunState, reproductions: Sequence[NodeReproduction], *, exact: bool
) -> Iterator[ReproducedNumber]:
    """Yield every number that depends on these nodes, claims of the paper first; `exact` requires equal digits."""
    again = {one.node: one for one in reproductions}
    claims = build_paper_claims(state)
    by_key = {one.key: one for one in build_paper_claims(_apply_reproductions(state, again)).all_claims}
    for claim in claims.all_claims:
        if reproduced := tuple(node for node in claim.nodes if node in again):
            after = by_key.get(claim.key)
            values = dict(zip(claim.nodes, claim.values, strict=True))
            new = dict(zip(after.nodes, after.values, strict=True)) if after is not None else {}
            texts: dict[str, tuple[PrintedValue, PrintedValue]] = {}
            if after is not None and after.nodes == claim.nodes == reproduced:
                new_texts = format_claims([after])
                texts = {key.rpartition(".")[2]: (text, new_texts[key]) for key, text in format_claims([claim]).items()}
            number = ReproducedNumber(key=claim.key, claim=True, nodes=reproduced, replicates=max(claim.n, 1))
            yield _compare_values(
                number, [values[one] for one in reproduced], [*map(new.get, reproduced)], claim.sd, texts, exact=exact
            )
    covered = {(node, (one.split, one.dataset, one.name, one.condition)) for one in claims.means for node in one.nodes}
    for name, one in again.items():  # values outside claims: on validation, and of the seed used for selection
        node = state.nodes[name]
        top = node.parent if node.kind == "replicate" and node.parent else name
        noise: dict[Quantity, list[float]] = {}
        for replicate in find_replicates(state, top):
            for measured in _list_measurements(state, replicate):
                noise.setdefault(_to_quantity(measured), []).append(measured.value)
        after = {_to_quantity(measured): measured.value for measured in (*one.measurements, *one.tests)}
        for measured in _list_measurements(state, node):
            quantity = _to_quantity(measured)
            if (name, quantity) not in covered:
                spread, key = noise.get(quantity, []), f"{name}:{'/'.join(quantity)}"
                number = ReproducedNumber(key=key, claim=False, nodes=(name,), replicates=max(len(spread), 1))
                sd = compute_t_interval(spread)[0]
                yield _compare_values(number, [measured.value], [after.get(quantity)], sd, exact=exact)


def _list_measurements(state: RunState, node: Node) -> tuple[Measurement, ...]:
    return (*node.measurements, *state.search.test_measurements.get(node.id, ()))


def _apply_reproductions(state: RunState, again: Mapping[str, NodeReproduction]) -> RunState:
    """Return the state with the reproduced measurements of these nodes in place of the recorded ones."""
    nodes = dict(state.nodes)
    for name, one in again.items():
        *earlier, last = nodes[name].attempts
        attempts = (*earlier, last.model_copy(update={"measurements": one.measurements}))
        nodes[name] = nodes[name].model_copy(update={"attempts": attempts})
    return replace(
        state,
        nodes=nodes,
        search=replace(
            state.search,
            test_measurements=state.search.test_measurements
            | {name: one.tests for name, one in again.items() if name in state.search.test_measurements},
        ),
    )


def _to_quantity(one: Measurement) -> Quantity:
    return one.split, one.dataset, one.name, one.condition


def _compare_values(
    number: ReproducedNumber,
    recorded: Sequence[float],
    reproduced: Sequence[float | None],
    sd: float | None,
    texts: Mapping[str, tuple[PrintedValue, PrintedValue]] = MappingProxyType({}),
    *,
    exact: bool,
) -> ReproducedNumber:
    """Complete a number with its values before and after, node by node; `sd` is over all replicates. `texts`: both as
    printed, in every form, if all nodes of a mean were reproduced; it is then shown as mean and interval."""
    present = [value for value in reproduced if value is not None]
    is_missing = len(present) < len(reproduced)
    difference = None if is_missing else abs(fmean(present) - fmean(recorded))
    noise = compute_tolerance(sd, number.replicates, len(number.nodes))
    before, after = ([_format_value(value) for value in values] for values in (recorded, reproduced))
    equal = not is_missing and all(a == b for a, b in (*zip(before, after, strict=True), *texts.values()))
    verdict: ReproductionVerdict = "missing" if is_missing else "equal" if equal else "different"
    if verdict == "different" and not exact and difference is not None and noise is not None and difference <= noise:
        verdict = "within noise"
    if texts:
        before, after = ([" ".join(to_plain_text(texts[form][side]) for form in ("pm", "ci"))] for side in (0, 1))
    texts_shown = {"recorded": ", ".join(before), "reproduced": ", ".join(after)}
    return number.model_copy(update={"difference": difference, "noise": noise, "verdict": verdict, **texts_shown})


def _format_value(value: float | None) -> str:
    return "missing" if value is None else f"{value:.4g}"


def compute_tolerance(sd: float | None, replicates: int, reproduced: int) -> float | None:
    """Return the tolerance for the mean over `reproduced` replicates; None if the noise is unknown."""
    if sd is None or replicates < 2:
        return None
    return compute_t_quantile(1 - FALSE_ALARM_RATE / 2, replicates - 1) * sd * math.sqrt(2 / reproduced)


ReproductionVerdict = Literal["equal", "within noise", "different", "missing"]


class NodeReproduction(FrozenModel):
    """A node that was executed again. `failure` is the reason why its numbers are missing; empty if it ended as
    recorded.
    """

    node: str
    kind: str
    seed: int
    seconds: float = 0.0
    recorded_seconds: float
    failure: str = ""
    measurements: tuple[Measurement, ...] = ()
    tests: tuple[Measurement, ...] = ()


class ReproducedNumber(FrozenModel):
    """A number over its reproduced nodes. `noise` is the largest acceptable `difference`; None if unknown."""

    key: str
    claim: bool
    """Whether the paper may print it under this key; other values appear in the appendix or only in the record."""
    nodes: tuple[str, ...]
    replicates: int
    """Number of replicates that it is a mean over."""
    recorded: str = ""
    reproduced: str = ""
    difference: float | None = None
    noise: float | None = None
    verdict: ReproductionVerdict = "missing"


class RunReproduction(FrozenModel):
    """The result of a reproduction. If `environment_differences` is empty, digits must be equal."""

    nodes: tuple[NodeReproduction, ...]
    numbers: tuple[ReproducedNumber, ...]
    environment_differences: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes behind the paper's numbers that were left out on request."""

    @property
    def is_reproduced(self) -> bool:
        """Whether every node ended as recorded, and every number is equal or differs within the noise."""
        ended = not any(one.failure for one in self.nodes)
        return ended and all(one.verdict in ("equal", "within noise") for one in self.numbers)


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
            raise UsageError(f"{name} ({KIND_NAMES[kind]}, {status}) was never executed: choose one with an attempt")
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
    write_formulas(state.search.plan.metrics, state.search.plan.columns, scratch.labels)
    salt = run.labels / SALT_FILE  # runs of earlier versions have none
    write_file(scratch.labels / SALT_FILE, salt.read_text() if salt.is_file() else "")
    for facts in state.search.datasets:
        for source, target in ((run.views, scratch.views), (run.labels, scratch.labels)):
            file = f"{facts.name}.npz"
            if (source / file).is_file():
                shutil.copyfile(source / file, target / file)
        build = partial(
            materialise, facts.name, views=scratch.views, labels=scratch.labels, seed=facts.seed, sources=sources
        )
        rebuilt = build()
        if rebuilt.fingerprint != facts.fingerprint and not salt.is_file() and find_user_salt().is_file():
            shutil.copyfile(find_user_salt(), scratch.labels / SALT_FILE)  # the run's copy is lost
            for folder in (scratch.views, scratch.labels):
                (folder / f"{facts.name}.npz").unlink(missing_ok=True)
            rebuilt = build()
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
    try:
        job = _build_job(state, node, place)
    except (OSError, UnicodeError, UsageError) as error:
        return again.model_copy(update={"failure": f"nothing was executed: {error}"})
    job = with_llm_access(job, state.search.plan, place.subjects, state.search.datasets)
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


def _build_job(state: RunState, node: Node, place: ReproductionSite) -> Job:
    """Build the job that executes a node's recorded code again. Raises `UsageError`, `OSError`, `UnicodeError`."""
    source, recorded = read_source(place.run.get_source_path(node.id)), node.attempts[-1]
    if hash_texts(source) != node.source_sha256:
        raise UsageError("its code differs from the recorded code")
    for name in sorted({word for text in source.values() for word in collect_strings(text)} & state.nodes.keys()):
        if keep := find_deletion_setting(state, name):
            raise UsageError(f"it reads artifacts of {name}, which were deleted (keep={keep})")
    seen = state.decisions[node.decision].seen
    visible = (one for one in state.nodes.values() if one.decision in seen and one.status == "good")
    job = Job(
        name=f"{node.id}/again",
        folder=place.scratch.get_attempt_path(node.id, recorded.number),
        source=source,
        seed=node.seed,
        datasets=place.datasets,
        timeout=max(recorded.limit or place.timeout, TIMEOUT_FACTOR * sum_measured_seconds(node)),
        alone=recorded.alone,
        artifacts=list_node_artifacts(state, place.run, visible),
    )
    return build_rerun_job(job, node, state)
