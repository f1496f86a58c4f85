"""What an execution came to, read off its folder once nothing of its code is alive any more."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.record.internal_errors import is_machine_error
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import EvidenceGrade, Measurement
from labwright.sandbox.errors import ExecutorError, SubmissionRefused
from labwright.sandbox.execution import KernelExecution, KernelScript
from labwright.sandbox.job import ARTIFACTS, CHECKPOINTS, JobOutcome
from labwright.sandbox.llm_attribution import write_exchange_ids
from labwright.sandbox.output import MAX_TAIL_CHARS, build_notebook
from labwright.sandbox.results import (
    collect_figures,
    failure_from_error,
    find_missing_measurement,
    hash_arrays,
    hash_artifacts,
    measure_attempt,
)
from labwright.sandbox.safe_io import BadFile, list_names, make_harmless, remove_path, write_file
from labwright.sandbox.scoring import SUBMISSION_INDEX, get_file_stem, read_index

RESUMABLE_FAILURES = ("memory", "timeout", "died")
"""Failures after which the checkpoints of an attempt are kept, for a second one of the same node."""
_NOT_FINITE_PATTERN = re.compile(r"not finite")


@dataclass(frozen=True)
class ResultCollector:
    """Reads what code left. `cache` is the folder that all code of a run shares."""

    labels: Path
    cache: Path
    artifact_bytes: int
    grade: EvidenceGrade

    def collect(self, script: KernelScript, source: str, execution: KernelExecution) -> JobOutcome:
        """Blocks: to be called in a thread. Raises `ExecutorError`."""
        job, folder = script.job, script.folder
        make_harmless(folder)
        if execution.kernel_unusable:
            with suppress(BadFile):  # it may be another's doing
                make_harmless(self.cache)
        outcome = outcome_from_execution(script, execution)
        try:
            outcome = replace(outcome, arrays=hash_arrays(folder))
        except BadFile as error:
            outcome = replace(outcome, failure=outcome.failure or failure_from_error(error))
        if job.mode == "plot":
            figures, failure = collect_figures(folder)
            outcome = replace(outcome, figures=figures, failure=outcome.failure or failure)
        else:
            outcome = self._collect_experiment(script, outcome, execution)
        self._write_output(script, source, replace(execution, failure=outcome.failure))
        if outcome.failure is None or outcome.failure.kind not in RESUMABLE_FAILURES:
            remove_path(folder, CHECKPOINTS)
        return outcome

    def _write_output(self, script: KernelScript, source: str, execution: KernelExecution) -> None:
        """Write what was printed; for a cell without a notebook: its job has one for all."""
        stem, log = ("plots", "plots.stdout.txt") if script.job.mode == "plot" else ("node", "stdout.txt")
        try:
            if script.cell is None:
                write_file(
                    script.folder, f"{stem}.ipynb", build_notebook(source, execution.transcript, execution.failure)
                )
            write_file(script.folder, log, execution.transcript.to_text())
        except OSError as error:
            if is_machine_error(error):
                raise ExecutorError(f"cannot write to {script.folder}: {error}") from error
            raise

    def _collect_experiment(self, script: KernelScript, outcome: JobOutcome, execution: KernelExecution) -> JobOutcome:
        job, folder = script.job, script.folder
        try:
            outcome = replace(outcome, artifacts=hash_artifacts(folder, self.artifact_bytes))
        except BadFile as error:
            outcome = replace(outcome, failure=outcome.failure or failure_from_error(error))
        hopeless = execution.failure is not None and execution.failure.kind == "hopeless"
        try:
            if execution.llm_session is None and any(
                one.kind in ("answers", "judged") for one in read_index(folder, SUBMISSION_INDEX)
            ):
                raise SubmissionRefused("it cites answers of language models, and it may ask none")
            if script.cell is not None:
                _check_names(outcome, script.cell)
                _check_submissions(folder, script.cell)
            measured = measure_attempt(
                folder,
                self.labels,
                seed=job.seed,
                grade=self.grade,
                was_interrupted=hopeless,
                evaluated=execution.scorer_values,
            )
            if script.cell is not None:
                _check_values(measured.final, script.cell)
        except SubmissionRefused as error:
            failure = failure_from_error(error)
            if script.cell is not None and _NOT_FINITE_PATTERN.search(failure.message):
                failure = failure.model_copy(update={"kind": "diverged"})
            return replace(outcome, failure=outcome.failure or failure)
        return replace(
            outcome,
            failure=outcome.failure or find_missing_measurement(measured),
            measurements=measured.final,
            self_reported=measured.self_reported,
            sealed=measured.sealed,
            curves_sha256=measured.curves_sha256,
        )


def outcome_from_execution(script: KernelScript, execution: KernelExecution) -> JobOutcome:
    """What is known of code without a look at what it left."""
    asked = execution.llm_session
    return JobOutcome(
        seconds=execution.seconds,
        failure=execution.failure,
        resumed=script.resumed,
        asked=dict(asked.answer_counts) if asked is not None else {},
        exchanges_sha256=write_exchange_ids(script.folder, asked)
        if asked is not None and asked.answer_counts
        else None,
        peak_host_bytes=execution.peak_host_bytes,
        peak_gpu_bytes=execution.peak_gpu_bytes,
        stdout_tail=execution.transcript.read_tail(MAX_TAIL_CHARS),
    )


def _check_submissions(folder: Path, cell: Cell) -> None:
    """Raises `SubmissionRefused` where a cell submitted for another; what it did not submit goes."""
    listed = read_index(folder, SUBMISSION_INDEX)
    for one in listed:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            raise SubmissionRefused(f"{one.description} is not of this cell, {cell}")
        if one.file.partition(".")[0] != get_file_stem(one):
            raise SubmissionRefused(
                f"{one.description} claims {one.file}, which may be another cell's: hand predictions in with "
                f"lab.submit alone"
            )
    for name in set(list_names(folder, "submissions", "")) - {one.file for one in listed}:
        remove_path(folder, f"submissions/{name}")


def _check_names(outcome: JobOutcome, cell: Cell) -> None:
    """Raises `BadFile` where a file could be another cell's: those of all lie in one folder."""
    left = {f"arrays/{name}" for name in outcome.arrays} | {
        f"{ARTIFACTS}/{name.partition('/')[0]}" for name in outcome.artifacts
    }
    for name in sorted(left):
        if not Path(name).stem.endswith(f"__{cell.place_name}"):
            raise BadFile(
                f"{name} does not say of which cell it is: leave arrays with lab.save, and files with lab.save_artifact"
            )


def _check_values(final: tuple[Measurement, ...], cell: Cell) -> None:
    for one in final:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            raise SubmissionRefused(f"{one.name} of {one.condition!r} on {one.dataset!r} is not of this cell, {cell}")
