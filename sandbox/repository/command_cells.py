"""Measure cells of a repository: each is one run of its command in a checkout of its arm's tree.

Guarantees: only the metric and the output are kept from a checkout; a test metric is read by the host and
sealed, and output that reveals it is redacted (`sandbox.repository.command`). Limits: a value computed by the
repository's own code may be wrong, so it is graded `logged`; predictions are scored by the host
(`sandbox.repository.predictions`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AllowInfNan, Strict, TypeAdapter

from labwright.record.schema.data_plan import MAX_ABSOLUTE_VALUE, Measurement
from labwright.record.schema.nodes import Cell, Failure, format_place_name
from labwright.record.source_tree import OUTPUT_FOLDER, ScriptResults, build_command_line, parse_arm_code, parse_program
from labwright.record.untrusted_files import (
    BadFile,
    list_names,
    make_folder,
    open_regular,
    remove_path,
    remove_tree,
    write_file,
)
from labwright.sandbox.cell_runner import CellRunner
from labwright.sandbox.cell_scheduler import CellOrder, RunningCell
from labwright.sandbox.content_store import wait_for_next_time
from labwright.sandbox.job import (
    ARTIFACTS,
    MEASUREMENTS,
    CellEnded,
    CellResult,
    Job,
    RepositoryError,
    SubmissionRefused,
)
from labwright.sandbox.output import MAX_TAIL_CHARS, LiveOutput
from labwright.sandbox.repository.command import CommandJob, CommandOutcome, OutputRedactor
from labwright.sandbox.repository.environment import StudyRepository
from labwright.sandbox.repository.metric import MetricReading, ResultMetric, parse_metric, prepare_checkout, read_metric
from labwright.sandbox.repository.predictions import submit_predictions
from labwright.sandbox.repository.trace import TRACE_FOLDER, TRACE_VARIABLES, add_hook, copy_trace
from labwright.sandbox.results import measure_attempt
from labwright.sandbox.scoring import score_submissions
from labwright.sandbox.workspace import CELLS_FOLDER, KERNELS_FOLDER

MAX_RESULT_BYTES = 5_000_000
_RESULTS = TypeAdapter(dict[str, dict[str, tuple[Annotated[float, Strict(), AllowInfNan(False)], ...]]])
SEALED_TEST_PREFIX = "test_metric"
"""Prefix of the names of sealed files with one value each."""


@dataclass(frozen=True)
class FinishedCommand:
    """A finished run of the command: its checkout, its cell's folder and its start by the checkout file system's
    clock."""

    outcome: CommandOutcome
    checkout: Path
    folder: Path
    start_time: float


@dataclass
class CommandWorker:
    """Measures cells one after another, each in a fresh checkout."""

    repository: StudyRepository
    runner: CellRunner
    job: Job
    live: LiveOutput
    number: int
    dataset: str = ""
    arm: str = ""

    async def run_cell(self, order: CellOrder, running: RunningCell) -> CellEnded:
        cell = order.cell
        checkout = self.job.folder / KERNELS_FOLDER / str(self.number) / cell.name
        folder = self.job.folder / CELLS_FOLDER / cell.name
        for old in (checkout, folder):
            await asyncio.to_thread(remove_tree, old, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            result = await self._measure_in_checkout(order, running, checkout, folder)
        except RepositoryError as error:
            result = CellResult(cell=cell, failure=Failure(kind="other", message=str(error)))
        finally:
            await asyncio.to_thread(remove_tree, checkout, ignore_errors=True)
        return CellEnded(result, folder)

    async def close(self) -> None:
        """Do nothing, since no process runs between cells."""

    async def _measure_in_checkout(
        self, order: CellOrder, running: RunningCell, checkout: Path, folder: Path
    ) -> CellResult:
        cell = order.cell
        code, arm = parse_program(self.job.source), parse_arm_code(self.job.source, cell.arm)
        assert code is not None
        mirror = self.repository.mirror
        tree = await asyncio.to_thread(mirror.apply_patch, code.tree, arm.patch)
        checkout.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(mirror.checkout, tree, checkout)
        metrics = [parse_metric(text, OUTPUT_FOLDER) for text in (code.command.metric, code.test_metric) if text]
        await asyncio.to_thread(prepare_checkout, checkout, metrics, OUTPUT_FOLDER)
        words = code.build_words(arm, cell, order.task.setting)
        argv = build_command_line(code.command, cell.seed, words, device=self.repository.environment.facts.device)
        env = code.command.env
        if code.traced:
            remove_path(checkout, TRACE_FOLDER)
            make_folder(checkout, TRACE_FOLDER)
            env |= TRACE_VARIABLES
        began = await asyncio.to_thread(wait_for_next_time, checkout)
        job = CommandJob(
            name=f"{self.job.name} {cell.name}",
            folder=checkout,
            argv=tuple(argv),
            env=add_hook(env),
            timeout=order.limit,
            environment=self.repository.environment.command_environment,
            needs=order.task.needs,
            alone=order.alone,
        )
        ran = await self.runner.run_repository_command(job, running)
        if code.traced:
            copy_trace(checkout, folder)
        finished = FinishedCommand(ran, checkout, folder, began)
        if code.results is not None:
            return await asyncio.to_thread(self._record_script_results, cell, code.results, finished)
        if code.command.predictions:
            return await asyncio.to_thread(self._score_predictions, cell, metrics[0].place, finished)
        return await asyncio.to_thread(self._record_readings, cell, code.name, finished, metrics)

    def _score_predictions(self, cell: Cell, predictions: str, finished: FinishedCommand) -> CellResult:
        """Score the predictions and seal those on test. Output that reveals test scores is redacted."""
        collector, failure, hidden = self.runner.collector, finished.outcome.failure, self.repository.redactor
        folder, found = finished.folder, dict[str, Any]()
        try:
            if failure is None:
                place: dict[str, Any] = {"labels": collector.labels, "dataset": cell.dataset}
                place |= {"condition": cell.condition, "since": finished.start_time}
                submit_predictions(folder, predictions, finished.checkout, **place)
                tests = score_submissions(folder, collector.labels, split="test", seed=cell.seed)
                hidden = hidden.with_values(*(test.value for test in tests))
                measured = measure_attempt(folder, collector.labels, seed=cell.seed, grade=collector.grade)
                found = measured._asdict()
        except SubmissionRefused as error:
            failure = Failure(kind="diverged" if "not finite" in str(error) else "other", message=str(error))
        return self._build_outcome(cell, finished, failure, hidden, found)

    def _record_script_results(self, cell: Cell, wanted: ScriptResults, finished: FinishedCommand) -> CellResult:
        """Return the outcome of a script that measures several arms, and keep its file of results as an artifact."""
        failure, found = finished.outcome.failure, dict[str, Any]()
        try:
            if failure is None:
                values, content = read_script_results(finished.checkout, wanted, cell.dataset)
                name = PurePosixPath(wanted.file).name
                write_file(finished.folder, f"{ARTIFACTS}/{name}", content)
                digest = hashlib.sha256(content).hexdigest()
                found = _write_measurements(finished.folder, values) | {"artifacts": {name: digest}}
        except RepositoryError as error:
            failure = Failure(kind="no measurement", message=str(error))
        return self._build_outcome(cell, finished, failure, self.repository.redactor, found)

    def _record_readings(
        self, cell: Cell, name: str, finished: FinishedCommand, metrics: Sequence[ResultMetric]
    ) -> CellResult:
        """Return the outcome of a cell whose metric, and perhaps whose test metric, is read from files or output."""
        ran, folder, found = finished.outcome, finished.folder, dict[str, Any]()
        readings = list[MetricReading]()
        for metric in metrics:
            printed = ran.output if metric.kind == "output" else ran.stdout
            readings.append(read_metric(metric, finished.checkout, printed, since=finished.start_time))
        value, test = (*readings, MetricReading())[:2]
        failure = ran.failure or _find_failure(value) or _find_failure(test)
        if failure is None and value.value is not None:
            about: dict[str, Any] = {"condition": cell.condition, "dataset": cell.dataset, "seed": cell.seed}
            one = Measurement(name=name, value=value.value, split="validation", grade="logged", **about)
            sealed = {} if test.value is None else _seal_test_value(folder, one, test.value)
            found = _write_measurements(folder, [one]) | {"sealed": sealed}
        return self._build_outcome(cell, finished, failure, self.repository.redactor.with_values(test.value), found)

    def _build_outcome(
        self,
        cell: Cell,
        finished: FinishedCommand,
        failure: Failure | None,
        hidden: OutputRedactor,
        found: Mapping[str, Any],
    ) -> CellResult:
        """Return the outcome with the fields that were found, and write the redacted output."""
        ran = finished.outcome
        output = hidden.redact(ran.output)
        if failure is not None:
            message, traceback = hidden.redact(failure.message), hidden.redact(failure.traceback)
            failure = failure.model_copy(update={"message": message, "traceback": traceback})
        write_file(finished.folder, "stdout.txt", output)
        self.live.add(f"\n--- {cell} ---\n{output}")
        return CellResult(
            cell=cell,
            seconds=ran.seconds,
            failure=failure,
            stdout_tail=output[-MAX_TAIL_CHARS:],
            peak_host_bytes=ran.peak_host_bytes,
            **found,
        )


def read_script_results(checkout: Path, wanted: ScriptResults, dataset: str) -> tuple[list[Measurement], bytes]:
    """Return the value of every arm, metric and seed, and the file. Raises `RepositoryError` if one is missing."""
    try:
        with open_regular(checkout, wanted.file, MAX_RESULT_BYTES) as file:
            results = _RESULTS.validate_json(content := file.read())
        pairs = [(metric, arm) for metric in wanted.metrics for arm in wanted.arms]
        values = {(metric, arm): results.get(metric, {}).get(arm, ()) for metric, arm in pairs}
        about: dict[str, Any] = {"dataset": dataset, "split": "validation", "grade": "logged"}
        found = [
            Measurement(name=metric, value=value, condition=arm, seed=seed, **about)
            for (metric, arm), numbers in values.items()
            for seed, value in enumerate(numbers, wanted.first_seed)
        ]
    except (BadFile, OSError, ValueError):
        raise RepositoryError(f"the script left no {wanted.file} in the required format") from None
    lacking = [f"{metric} of {arm}" for (metric, arm), numbers in values.items() if len(numbers) < wanted.seeds]
    if lacking:
        raise RepositoryError(
            f"{wanted.file} lacks values for {', '.join(lacking[:6])}: {wanted.seeds} finite numbers are needed of each"
        )
    return found, content


def _write_measurements(folder: Path, found: Sequence[Measurement]) -> dict[str, Any]:
    """Write the values, and return the fields of a result that have them and the hash of their file."""
    lines = "".join(f"{one.model_dump_json()}\n" for one in found).encode()
    write_file(folder, MEASUREMENTS, lines)
    return {"measurements": tuple(found), "curves_sha256": hashlib.sha256(lines).hexdigest()}


def _find_failure(reading: MetricReading) -> Failure | None:
    """Return the reason for a missing value; a non-finite value counts as diverged training."""
    failure = reading.failure
    if failure is None and reading.value is not None and abs(reading.value) > MAX_ABSOLUTE_VALUE:
        return Failure(kind="diverged", message=f"the metric is larger than {MAX_ABSOLUTE_VALUE:g}")
    if failure is not None and "is not finite" in failure.message:
        return failure.model_copy(update={"kind": "diverged"})
    return failure


def _seal_test_value(folder: Path, found: Measurement, value: float) -> dict[str, str]:
    content = found.model_copy(update={"split": "test", "value": value}).model_dump_json().encode()
    name = f"{SEALED_TEST_PREFIX}__{format_place_name(found.dataset, found.condition)}.json"
    write_file(folder, f"sealed/{name}", content)
    return {name: hashlib.sha256(content).hexdigest()}


def read_sealed_test_values(folder: Path, sealed: Mapping[str, str] | None) -> tuple[Measurement, ...]:
    """Return the sealed test values of an attempt's cells, verified by their recorded sha256, or all files if `sealed`
    is None.

    Raises `RepositoryError` if a file differs from what was sealed.
    """
    found: list[Measurement] = []
    for name in list_names(folder, "sealed", ".json") if sealed is None else sealed:
        if name.startswith(SEALED_TEST_PREFIX):
            with open_regular(folder, f"sealed/{name}", 10_000) as file:
                content = file.read()
            if sealed is not None and hashlib.sha256(content).hexdigest() != sealed[name]:
                raise RepositoryError(f"sealed/{name} was changed after it was sealed")
            found.append(Measurement.model_validate(json.loads(content)))
    return tuple(found)
