"""Read the outcome of an execution from its folder, after all of its processes have exited."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.record.internal_errors import is_machine_error
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import EvidenceGrade, Measurement
from labwright.record.untrusted_files import BadFile, list_names, make_harmless, remove_path, write_file
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
from labwright.sandbox.scoring import SUBMISSION_INDEX, get_file_stem, read_index

RESUMABLE_FAILURES = ("memory", "timeout", "died")
"""After these failures, an attempt's checkpoints are kept for another attempt of the same node."""
_NOT_FINITE_PATTERN = re.compile(r"not finite")


@dataclass(frozen=True)
class ResultCollector:
    """Reads the files that code wrote. `cache` is the folder that all code of a run shares."""

    labels: Path
    cache: Path
    artifact_bytes: int
    grade: EvidenceGrade

    def collect(self, script: KernelScript, source: str, execution: KernelExecution) -> JobOutcome:
        """Read the outcome. It blocks, so call it in a thread. Raises `ExecutorError`."""
        job, folder = script.job, script.folder
        make_harmless(folder)
        if execution.kernel_unusable:
            with suppress(BadFile):  # another cell may have caused it
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
        """Write the output; no notebook for a cell, since its job has one for all cells."""
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
                raise SubmissionRefused("it cites answers of language models, but it may not query any")
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
    """Build the outcome from the execution alone, without reading files of the code."""
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
    """Raise `SubmissionRefused` if a cell submitted for another cell; remove files that it did not submit."""
    listed = read_index(folder, SUBMISSION_INDEX)
    for one in listed:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            raise SubmissionRefused(f"{one.description} does not belong to this cell, {cell}")
        if one.file.partition(".")[0] != get_file_stem(one):
            raise SubmissionRefused(
                f"{one.description} refers to {one.file}, which may belong to another cell: submit predictions only "
                f"with lab.submit"
            )
    for name in set(list_names(folder, "submissions", "")) - {one.file for one in listed}:
        remove_path(folder, f"submissions/{name}")


def _check_names(outcome: JobOutcome, cell: Cell) -> None:
    """Raise `BadFile` if a file could belong to another cell, since the files of all cells are in one folder."""
    left = {f"arrays/{name}" for name in outcome.arrays} | {
        f"{ARTIFACTS}/{name.partition('/')[0]}" for name in outcome.artifacts
    }
    for name in sorted(left):
        if not Path(name).stem.endswith(f"__{cell.place_name}"):
            raise BadFile(f"{name} does not name its cell: save arrays with lab.save and files with lab.save_artifact")


def _check_values(final: tuple[Measurement, ...], cell: Cell) -> None:
    for one in final:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            raise SubmissionRefused(
                f"{one.name} of {one.condition!r} on {one.dataset!r} does not belong to this cell, {cell}"
            )
