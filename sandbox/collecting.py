"""What an execution came to, read off its folder once nothing of its code is alive any more."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import Grade, Measurement
from labwright.record.unexpected import of_machine
from labwright.sandbox.citing import list_exchanges
from labwright.sandbox.errors import ExecutorError, SubmissionRefused
from labwright.sandbox.execution import Execution, Script
from labwright.sandbox.job import ARTIFACTS, CHECKPOINTS, Outcome
from labwright.sandbox.output import TAIL_CHARS, notebook
from labwright.sandbox.results import (
    collect_figures,
    failure_of,
    hash_arrays,
    hash_artifacts,
    measure,
    missing_measurement,
)
from labwright.sandbox.scoring import INDEX, read_index, stem_of
from labwright.sandbox.untrusted import BadFile, disarm, names_in, remove, write_whole

CUT = ("memory", "timeout", "died")
"""Failures after which the checkpoints of an attempt are kept, for a second one of the same node."""
_NOT_FINITE = re.compile(r"not finite")


@dataclass(frozen=True)
class Collector:
    """Reads what code left. `cache` is the folder that all code of a run shares."""

    labels: Path
    cache: Path
    artifact_bytes: int
    grade: Grade

    def outcome(self, script: Script, source: str, execution: Execution) -> Outcome:
        """Blocks: to be called in a thread. Raises `ExecutorError`."""
        job, folder = script.job, script.folder
        disarm(folder)
        if execution.over:
            with suppress(BadFile):  # it may be another's doing
                disarm(self.cache)
        outcome = ran(script, execution)
        try:
            outcome = replace(outcome, arrays=hash_arrays(folder))
        except BadFile as error:
            outcome = replace(outcome, failure=outcome.failure or failure_of(error))
        if job.mode == "plot":
            figures, failure = collect_figures(folder)
            outcome = replace(outcome, figures=figures, failure=outcome.failure or failure)
        else:
            outcome = self._experiment(script, outcome, execution)
        self._log(script, source, replace(execution, failure=outcome.failure))
        if outcome.failure is None or outcome.failure.kind not in CUT:
            remove(folder, CHECKPOINTS)
        return outcome

    def _log(self, script: Script, source: str, execution: Execution) -> None:
        """Write what was printed; for a cell without a notebook: its job has one for all."""
        stem, log = ("plots", "plots.stdout.txt") if script.job.mode == "plot" else ("node", "stdout.txt")
        try:
            if script.cell is None:
                write_whole(script.folder, f"{stem}.ipynb", notebook(source, execution.transcript, execution.failure))
            write_whole(script.folder, log, execution.transcript.text())
        except OSError as error:
            if of_machine(error):
                raise ExecutorError(f"cannot write to {script.folder}: {error}") from error
            raise

    def _experiment(self, script: Script, outcome: Outcome, execution: Execution) -> Outcome:
        job, folder = script.job, script.folder
        try:
            outcome = replace(outcome, artifacts=hash_artifacts(folder, self.artifact_bytes))
        except BadFile as error:
            outcome = replace(outcome, failure=outcome.failure or failure_of(error))
        hopeless = execution.failure is not None and execution.failure.kind == "hopeless"
        try:
            if execution.asked is None and any(one.kind in ("answers", "judged") for one in read_index(folder, INDEX)):
                raise SubmissionRefused("it cites answers of language models, and it may ask none")
            if script.cell is not None:
                _check_names(outcome, script.cell)
                _check_submissions(folder, script.cell)
            measured = measure(
                folder, self.labels, seed=job.seed, grade=self.grade, cut=hopeless, evaluated=execution.evaluated
            )
            if script.cell is not None:
                _check_values(measured.final, script.cell)
        except SubmissionRefused as error:
            failure = failure_of(error)
            if script.cell is not None and _NOT_FINITE.search(failure.message):
                failure = failure.model_copy(update={"kind": "diverged"})
            return replace(outcome, failure=outcome.failure or failure)
        return replace(
            outcome,
            failure=outcome.failure or missing_measurement(measured),
            measurements=measured.final,
            said=measured.said,
            sealed=measured.sealed,
            curves_sha256=measured.curves_sha256,
        )


def ran(script: Script, execution: Execution) -> Outcome:
    """What is known of code without a look at what it left."""
    asked = execution.asked
    return Outcome(
        seconds=execution.seconds,
        failure=execution.failure,
        resumed=script.resumed,
        asked=dict(asked.asked) if asked is not None else {},
        exchanges_sha256=list_exchanges(script.folder, asked) if asked is not None and asked.asked else None,
        peak_host_bytes=execution.peak_host_bytes,
        peak_gpu_bytes=execution.peak_gpu_bytes,
        stdout_tail=execution.transcript.tail(TAIL_CHARS),
    )


def _check_submissions(folder: Path, cell: Cell) -> None:
    """Raises `SubmissionRefused` where a cell submitted for another; what it did not submit goes."""
    listed = read_index(folder, INDEX)
    for one in listed:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            raise SubmissionRefused(f"{one.where} is not of this cell, {cell}")
        if one.file.partition(".")[0] != stem_of(one):
            raise SubmissionRefused(
                f"{one.where} claims {one.file}, which may be another cell's: hand predictions in with lab.submit alone"
            )
    for name in set(names_in(folder, "submissions", "")) - {one.file for one in listed}:
        remove(folder, f"submissions/{name}")


def _check_names(outcome: Outcome, cell: Cell) -> None:
    """Raises `BadFile` where a file could be another cell's: those of all lie in one folder."""
    left = {f"arrays/{name}" for name in outcome.arrays} | {
        f"{ARTIFACTS}/{name.partition('/')[0]}" for name in outcome.artifacts
    }
    for name in sorted(left):
        if not Path(name).stem.endswith(f"__{cell.place}"):
            raise BadFile(
                f"{name} does not say of which cell it is: leave arrays with lab.save, and files with lab.save_artifact"
            )


def _check_values(final: tuple[Measurement, ...], cell: Cell) -> None:
    for one in final:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            raise SubmissionRefused(f"{one.name} of {one.condition!r} on {one.dataset!r} is not of this cell, {cell}")
