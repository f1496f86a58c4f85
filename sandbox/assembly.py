"""The folder of a job of cells, put together from what its cells left: as if one script had left it all.

In the order of the job's cells, so that how they were packed cannot be told from it. Files are linked where the system
can, else copied; no code is alive that could write to them.
"""

from __future__ import annotations

import hashlib
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from labwright.record.nouns.data import Measurement
from labwright.sandbox.cells import Schedule
from labwright.sandbox.collecting import Collector
from labwright.sandbox.errors import ExecutorError, SubmissionRefused
from labwright.sandbox.failures import cut_middle
from labwright.sandbox.formulas import kept
from labwright.sandbox.job import ARTIFACTS, MEASUREMENTS, Job, Outcome
from labwright.sandbox.output import OUTPUT_CHARS, TAIL_CHARS, Transcript, notebook_of_cells
from labwright.sandbox.results import final_values, hash_arrays, hash_artifacts, said_values
from labwright.sandbox.scoring import score_submissions, sealed_sha256
from labwright.sandbox.untrusted import BadFile, entries_below, link_file, read_whole, remove, write_whole

_FOLDERS = ("arrays", ARTIFACTS, "sealed", "submissions")
_BYTES = 2**32
"""Of a file that is read whole: those of all cells together."""
_LINES = (MEASUREMENTS, "submissions.jsonl", "sealed/index.jsonl")


def assemble(job: Job, schedule: Schedule, collector: Collector) -> Outcome:
    """Put the job's folder together; what came of the job. Raises `ExecutorError`.

    What metrics say of several conditions is said here. Of several trials of one place nothing is put together: their
    files have the same names.
    """
    several = len({cell.place for cell in job.cells}) < len(job.cells)
    measured = [] if several else [(cell, schedule.folders[cell]) for cell in job.cells if cell in schedule.folders]
    try:
        for name in (*_FOLDERS, *_LINES, "node.ipynb", "stdout.txt"):
            remove(job.folder, name)
        for name in _FOLDERS:
            for _, folder in measured:
                _join(folder, job.folder, name)
        for name in _LINES:
            _append((folder for _, folder in measured), job.folder, name)
        _compare(job, collector)
        return replace(_outcome(job, schedule, collector.artifact_bytes), stdout_tail=_told(job, schedule))
    except (OSError, BadFile, SubmissionRefused) as error:
        raise ExecutorError(f"cannot put {job.folder} together: {error}") from error


def _compare(job: Job, collector: Collector) -> None:
    """Add the values that take the predictions of several cells: those that no cell has by itself."""
    names = {name for name, text in kept(collector.labels).items() if text.startswith("flip_rate")}
    if names:
        before = read_whole(job.folder, MEASUREMENTS, _BYTES)
        lines = {line.decode() for line in before.splitlines()}
        more = [
            one.model_dump_json()
            for one in score_submissions(
                job.folder, collector.labels, split="validation", seed=job.seed, grade=collector.grade
            )
            if one.name in names
        ]
        write_whole(
            job.folder, MEASUREMENTS, before + "".join(f"{line}\n" for line in more if line not in lines).encode()
        )


def _outcome(job: Job, schedule: Schedule, artifact_bytes: int) -> Outcome:
    folder = job.folder
    measured = read_whole(folder, MEASUREMENTS, _BYTES)
    values = [Measurement.model_validate_json(line) for line in measured.splitlines()]
    ran = schedule.outcomes.values()
    return Outcome(
        seconds=schedule.spent,
        failure=schedule.failure(),
        measurements=final_values(values),
        said=said_values(values),
        arrays=hash_arrays(folder),
        artifacts=hash_artifacts(folder, artifact_bytes * len(job.cells)),
        sealed=sealed_sha256(folder),
        curves_sha256=hashlib.sha256(measured).hexdigest() if measured else None,
        peak_host_bytes=max((one.peak_host_bytes or 0 for one in ran), default=0) or None,
        peak_gpu_bytes=max((one.peak_gpu_bytes or 0 for one in ran), default=0) or None,
        resumed=any(one.resumed for one in ran),
        cells=schedule.lines(),
        asked=dict(sum((Counter(one.asked) for one in ran), start=Counter[str]())),
    )


def _join(source: Path, target: Path, folder: str) -> None:
    """Put the files of a cell's folder into that of the job. Raises `BadFile`, also where another cell left such."""
    for name, status in entries_below(source, folder):
        if stat.S_ISREG(status.st_mode) and f"{folder}/{name}" not in _LINES:
            link_file(source, f"{folder}/{name}", target, f"{folder}/{name}")


def _append(parts: Iterable[Path], folder: Path, name: str) -> None:
    content = b"".join(read_whole(part, name, _BYTES) for part in parts)
    if content:
        write_whole(folder, name, content)


def _told(job: Job, schedule: Schedule) -> str:
    """Write the notebook and all output; the end of it."""
    most = max(4000, OUTPUT_CHARS // len(job.cells))
    shown: list[tuple[str, str]] = []
    for line in schedule.lines():
        folder, output = schedule.places.get(line.cell), ""
        if folder is not None:
            output = cut_middle(read_whole(folder, "stdout.txt", _BYTES).decode(errors="replace"), most)
        outcome = "measured before" if line.cell in job.ready else line.outcome
        words = f"{line.cell}: {outcome}" + (f" in {line.seconds:.1f} s" if line.seconds else "")
        shown.append((words + (f"; {line.why}" if line.why else ""), output))
    source = job.source.get(job.entry, "")
    write_whole(job.folder, "node.ipynb", notebook_of_cells(source, shown))
    transcript = Transcript(2 * OUTPUT_CHARS)
    for words, output in shown:
        transcript.add("stdout", f"--- {words}\n{output}" + ("\n" if output and not output.endswith("\n") else ""))
    write_whole(job.folder, "stdout.txt", transcript.text())
    return transcript.tail(TAIL_CHARS)
