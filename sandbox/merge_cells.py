"""Merge the folders of a job's cells into the job's folder, as if one script had written everything.

Cells are merged in the job's order, independent of how they were scheduled. Files are linked if possible, otherwise
copied; no running code can write to them.
"""

from __future__ import annotations

import hashlib
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from labwright.record.schema.data_plan import Measurement
from labwright.record.untrusted_files import BadFile, iterate_entries, link_file, read_file, remove_path, write_file
from labwright.sandbox.cell_scheduler import CellSchedule
from labwright.sandbox.errors import ExecutorError, SubmissionRefused
from labwright.sandbox.failures import cut_middle
from labwright.sandbox.job import ARTIFACTS, MEASUREMENTS, Job, JobOutcome
from labwright.sandbox.metric_formulas import read_formulas
from labwright.sandbox.output import MAX_KEPT_CHARS, MAX_TAIL_CHARS, Transcript, build_cell_notebook
from labwright.sandbox.result_collector import ResultCollector
from labwright.sandbox.results import hash_arrays, hash_artifacts, select_final_values, select_self_reported
from labwright.sandbox.scoring import hash_sealed, score_submissions

_MERGED_FOLDERS = ("arrays", ARTIFACTS, "sealed", "submissions")
_MAX_FILE_BYTES = 2**32
"""Size limit of a file that is read whole, with the content of all cells."""
_MERGED_LINE_FILES = (MEASUREMENTS, "submissions.jsonl", "sealed/index.jsonl")


def merge_cell_folders(job: Job, schedule: CellSchedule, collector: ResultCollector) -> JobOutcome:
    """Fill the job's folder and return the job's outcome. Raises `ExecutorError`.

    Metrics over several conditions are computed here. If a job has several trials of a condition, nothing is merged,
    because their files have the same names.
    """
    several = len({cell.place_name for cell in job.cells}) < len(job.cells)
    measured = (
        []
        if several
        else [(cell, schedule.measured_folders[cell]) for cell in job.cells if cell in schedule.measured_folders]
    )
    try:
        for name in (*_MERGED_FOLDERS, *_MERGED_LINE_FILES, "node.ipynb", "stdout.txt"):
            remove_path(job.folder, name)
        for name in _MERGED_FOLDERS:
            for _, folder in measured:
                _link_files(folder, job.folder, name)
        for name in _MERGED_LINE_FILES:
            _concatenate((folder for _, folder in measured), job.folder, name)
        _add_cross_cell_values(job, collector)
        return replace(
            _build_outcome(job, schedule, collector.artifact_bytes), stdout_tail=_write_output(job, schedule)
        )
    except (OSError, BadFile, SubmissionRefused) as error:
        raise ExecutorError(f"cannot merge the cells into {job.folder}: {error}") from error


def _add_cross_cell_values(job: Job, collector: ResultCollector) -> None:
    """Add metrics that need the predictions of several cells."""
    names = {name for name, text in read_formulas(collector.labels).items() if text.startswith("flip_rate")}
    if names:
        before = read_file(job.folder, MEASUREMENTS, _MAX_FILE_BYTES)
        lines = {line.decode() for line in before.splitlines()}
        more = [
            one.model_dump_json()
            for one in score_submissions(
                job.folder, collector.labels, split="validation", seed=job.seed, grade=collector.grade
            )
            if one.name in names
        ]
        write_file(
            job.folder, MEASUREMENTS, before + "".join(f"{line}\n" for line in more if line not in lines).encode()
        )


def _build_outcome(job: Job, schedule: CellSchedule, artifact_bytes: int) -> JobOutcome:
    folder = job.folder
    measured = read_file(folder, MEASUREMENTS, _MAX_FILE_BYTES)
    values = [Measurement.model_validate_json(line) for line in measured.splitlines()]
    ran = schedule.outcomes.values()
    return JobOutcome(
        seconds=schedule.spent_seconds,
        failure=schedule.find_failure(),
        measurements=select_final_values(values),
        self_reported=select_self_reported(values),
        arrays=hash_arrays(folder),
        artifacts=hash_artifacts(folder, artifact_bytes * len(job.cells)),
        sealed=hash_sealed(folder),
        curves_sha256=hashlib.sha256(measured).hexdigest() if measured else None,
        peak_host_bytes=max((one.peak_host_bytes or 0 for one in ran), default=0) or None,
        peak_gpu_bytes=max((one.peak_gpu_bytes or 0 for one in ran), default=0) or None,
        resumed=any(one.resumed for one in ran),
        cells=schedule.build_lines(),
        asked=dict(sum((Counter(one.asked) for one in ran), start=Counter[str]())),
    )


def _link_files(source: Path, target: Path, folder: str) -> None:
    """Link a cell's files into the job's folder. Raises `BadFile`, including when another cell wrote a file of the
    same name.
    """
    for name, status in iterate_entries(source, folder):
        if stat.S_ISREG(status.st_mode) and f"{folder}/{name}" not in _MERGED_LINE_FILES:
            link_file(source, f"{folder}/{name}", target, f"{folder}/{name}")


def _concatenate(parts: Iterable[Path], folder: Path, name: str) -> None:
    content = b"".join(read_file(part, name, _MAX_FILE_BYTES) for part in parts)
    if content:
        write_file(folder, name, content)


def _write_output(job: Job, schedule: CellSchedule) -> str:
    """Write the notebook and the full output; return its tail."""
    most = max(4000, MAX_KEPT_CHARS // len(job.cells))
    shown: list[tuple[str, str]] = []
    for line in schedule.build_lines():
        folder, output = schedule.result_folders.get(line.cell), ""
        if folder is not None:
            output = cut_middle(read_file(folder, "stdout.txt", _MAX_FILE_BYTES).decode(errors="replace"), most)
        outcome = "measured before" if line.cell in job.measured_folders else line.outcome
        words = f"{line.cell}: {outcome}" + (f" in {line.seconds:.1f} s" if line.seconds else "")
        shown.append((words + (f"; {line.why}" if line.why else ""), output))
    source = job.source.get(job.entry, "")
    write_file(job.folder, "node.ipynb", build_cell_notebook(source, shown))
    transcript = Transcript(2 * MAX_KEPT_CHARS)
    for words, output in shown:
        transcript.add("stdout", f"--- {words}\n{output}" + ("\n" if output and not output.endswith("\n") else ""))
    write_file(job.folder, "stdout.txt", transcript.to_text())
    return transcript.read_tail(MAX_TAIL_CHARS)
