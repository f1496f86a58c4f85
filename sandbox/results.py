"""Results of finished code: read its values, arrays, artifacts and figures from its folder as untrusted data, grade
them, and compute those of a job from its cells."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from labwright.record.internal_errors import build_internal_failure, is_machine_error
from labwright.record.schema import replace_unencodable
from labwright.record.schema.data_plan import EvidenceGrade, Measurement
from labwright.record.schema.nodes import Cell, Failure, TrainingCounts
from labwright.record.schema.paper import Figure, FigureFacts
from labwright.record.untrusted_files import (
    MAX_FILE_BYTES,
    BadFile,
    create_file,
    iterate_entries,
    iterate_lines,
    list_names,
    make_harmless,
    open_parent,
    open_regular,
    raise_read_errors_as,
    read_file,
    read_status,
    remove_path,
    write_file,
)
from labwright.sandbox.cell_scheduler import MAX_SELF_REPORTED
from labwright.sandbox.job import (
    ARTIFACTS,
    CHECKPOINTS,
    MEASUREMENTS,
    CellResult,
    ExecutorError,
    Job,
    JobOutcome,
    SandboxError,
    SubmissionRefused,
)
from labwright.sandbox.llm_gateway import LlmSession, write_exchange_ids
from labwright.sandbox.output import MAX_KEPT_CHARS, MAX_TAIL_CHARS, Transcript, build_notebook, cut_middle
from labwright.sandbox.scoring import (
    SUBMISSION_INDEX,
    get_file_stem,
    read_index,
    score_submissions,
    seal_test_predictions,
)
from labwright.sandbox.workspace import KernelScript

_MAX_FILES = 10_000
_MAX_ARRAY_BYTES = 2**34
"""Limit of all arrays of an attempt in bytes: holes in files take no room on disk, but time to hash and copy."""
_MAX_FINAL_VALUES, _MAX_WORD_CHARS = 2000, 200
"""Maximum number of final values that code reports, which the record contains (curves are only in a file), and length
of their names."""
_MEASUREMENT_FIELDS = ("name", "value", "condition", "dataset", "split", "step")


RESUMABLE_FAILURES = ("memory", "timeout", "died")
"""After these failures, an attempt's checkpoints are kept for another attempt of the same node."""


@dataclass(frozen=True)
class KernelExecution:
    """Result of executing a script. `seconds` is the wall clock of the code alone."""

    seconds: float
    failure: Failure | None
    transcript: Transcript
    peak_host_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    scorer_values: tuple[Measurement, ...] = ()
    """Values that frozen scorers computed afterwards."""
    kernel_unusable: bool = True
    """Whether the kernel can run no further code."""
    is_first_cell: bool = False
    """Whether no other cell had finished in this kernel before."""
    peak_process_bytes: int = 0
    """Peak memory of the process in bytes, beyond that of its kernel; 0 if it did not finish."""
    training: TrainingCounts | None = None
    """Training counts of a cell's process, if it finished."""
    llm_session: LlmSession | None = None
    """The cell's session with language models; None if it may not query any."""


class AttemptMeasurements(NamedTuple):
    """Final validation values, sealed test predictions, the sha256 of the file with every value, and the last report of
    each final value for train and dev, at most `MAX_SELF_REPORTED`: fields of an `ExecutionResult`."""

    measurements: tuple[Measurement, ...]
    sealed: dict[str, str]
    curves_sha256: str | None
    self_reported: tuple[Measurement, ...]


def hash_arrays(folder: Path) -> dict[str, str]:
    """Map files under arrays/ to their sha256. Raises `BadFile` for a file that is not an array or needs unpickling."""
    names = list_names(folder, "arrays", ".npy")
    if len(names) > _MAX_FILES:
        raise BadFile(f"arrays/ contains {len(names)} arrays, more than the limit of {_MAX_FILES}: stack them")
    sizes = (status.st_size for name in names if (status := read_status(folder, f"arrays/{name}")) is not None)
    if (size := sum(sizes)) > _MAX_ARRAY_BYTES:
        raise BadFile(f"arrays/ contains {size / 1e9:.0f} GB, more than the limit of {_MAX_ARRAY_BYTES / 1e9:.0f} GB")
    return {name: _hash_array(folder, name) for name in names}


def _hash_array(folder: Path, name: str) -> str:
    with open_regular(folder, f"arrays/{name}", MAX_FILE_BYTES) as file:
        with raise_read_errors_as(f"arrays/{name} is not an array that numpy can read: save it with lab.save"):
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, _, dtype = read(file)
            announced = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise BadFile(f"arrays/{name} contains Python objects: save numeric arrays with lab.save")
        size = os.fstat(file.fileno()).st_size - file.tell()
        if min(shape, default=1) < 0 or announced != size:
            raise BadFile(f"arrays/{name} has {size} bytes, but its header declares {shape} of {dtype}: use lab.save")
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_artifacts(folder: Path, limit: int) -> dict[str, str]:
    """Map files under artifacts/ to their sha256; files that `lab` had not finished are left out.

    Raises `BadFile` for links, invalid names, too many files, and more than `limit` bytes in total.
    """
    kept = set(list_names(folder, ARTIFACTS, ""))
    digests: dict[str, str] = {}
    left = limit
    for relative, status in iterate_entries(folder, ARTIFACTS):
        if relative.partition("/")[0] not in kept or stat.S_ISDIR(status.st_mode):
            continue
        if len(digests) == _MAX_FILES:
            raise BadFile(f"{ARTIFACTS}/ contains more than {_MAX_FILES} files: pack them into one archive")
        if not relative.isprintable():
            raise BadFile(f"{ARTIFACTS}/ contains a file named {relative!r}: use UTF-8 without control characters")
        with open_regular(folder, f"{ARTIFACTS}/{relative}", left) as file:
            digests[relative] = hashlib.file_digest(file, "sha256").hexdigest()
            left -= os.fstat(file.fileno()).st_size
    return digests


def measure_attempt(
    folder: Path,
    labels: Path,
    *,
    seed: int,
    grade: EvidenceGrade = "computed",
    was_interrupted: bool = False,
    evaluated: Sequence[Measurement] = (),
) -> AttemptMeasurements:
    """Score and seal submissions, and rewrite `measurements.jsonl`. Raises `BadFile`, `SubmissionRefused`.

    Values written by the code are graded `logged`, regardless of the file's claim. If the host scored the same
    quantity, its value is the final one, with the given grade; the same holds for `evaluated`, the values of frozen
    scorers. With `was_interrupted`, for code that was stopped midway, unreadable lines are skipped.
    """
    scored = (*score_submissions(folder, labels, split="validation", seed=seed, grade=grade), *evaluated)
    kept: list[Measurement] = []
    digest = _rewrite_measurements(folder, scored, _iterate_logged(folder, seed=seed, cut=was_interrupted), kept)
    sealed = seal_test_predictions(folder, labels, grade=grade)
    reported = tuple(value for value in kept if value.split != "validation")[-MAX_SELF_REPORTED:]
    return AttemptMeasurements(_merge_final_values(scored, kept), sealed, digest, reported)


def _rewrite_measurements(
    folder: Path, scored: Sequence[Measurement], logged: Iterator[Measurement], final: list[Measurement]
) -> str | None:
    """Rewrite `measurements.jsonl` and return its sha256, or None if there are no values.

    Add the last logged value of each quantity and split without a step to `final`; the other values may be many and
    are never in memory together. Raises `BadFile`.
    """
    first = next(logged, None)
    if first is None and not scored:
        return None
    last: dict[tuple[str, ...], Measurement] = {}
    digest = hashlib.sha256()
    with open_parent(folder, MEASUREMENTS) as (place, name), create_file(place, name) as file:
        for value in chain(scored, () if first is None else (first,), logged):
            line = value.model_dump_json().encode() + b"\n"
            digest.update(line)
            file.write(line)
            if value.step is None and value.grade == "logged":
                last[*_get_quantity(value), value.split] = value
                if len(last) > _MAX_FINAL_VALUES:
                    most = f"more than {_MAX_FINAL_VALUES} final values"
                    raise BadFile(f"{MEASUREMENTS} has {most}: give values of a curve a step")
    final += last.values()
    return digest.hexdigest()


def failure_from_error(error: Exception) -> Failure:
    """Return the failure of an experiment whose files cannot be read, or that triggered an internal error.

    Re-raises errors that the experiment did not cause, such as those of disk, kernels, devices or isolation.
    """
    if isinstance(error, SubmissionRefused):
        return Failure(kind="other", message=str(error))
    if isinstance(error, SandboxError) or is_machine_error(error):
        raise error
    return build_internal_failure(error)


def _merge_final_values(scored: Iterable[Measurement], logged: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return one validation value per quantity: that of the host if it scored the quantity, otherwise the last
    one by the code.
    """
    final: dict[tuple[str, str, str], Measurement] = {}
    for value in (*logged, *scored):  # the value of the host comes last
        if value.step is None and value.split == "validation" and value.condition and value.dataset:
            final[_get_quantity(value)] = value
    return tuple(final.values())


def _get_quantity(value: Measurement) -> tuple[str, str, str]:
    return value.dataset, value.condition, value.name


def _iterate_logged(folder: Path, *, seed: int, cut: bool) -> Iterator[Measurement]:
    """Yield the values written by the code, without values for the test split, which the code cannot know and
    selection must not use.
    """
    for number, line in enumerate(iterate_lines(folder, MEASUREMENTS, MAX_FILE_BYTES), start=1):
        try:
            fields: dict[str, Any] = json.loads(line)
            chosen = replace_unencodable({key: fields[key] for key in _MEASUREMENT_FIELDS if key in fields})
            value = Measurement(**chosen, seed=seed, grade="logged")
            for word in (value.name, value.condition, value.dataset):  # they are shown to models and in tables
                if len(word) > _MAX_WORD_CHARS or not word.isprintable():
                    raise ValueError(f"a name has more than {_MAX_WORD_CHARS} characters, or one that is not printable")
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if cut:
                continue
            reason = " ".join(str(error).split())[:200]
            raise BadFile(f"{MEASUREMENTS} line {number} was not written by lab.log: {reason}") from error
        if value.split != "test":
            yield value


_MAX_FIGURES = 50
MAX_FIGURE_BYTES = 20 * 2**20
"""Size limit of a figure in bytes: an image within the pixel limit rarely needs more, and prompts and papers
include the file.
"""
_MAX_FACTS_BYTES = 2**20
MAX_PIXELS = 40_000_000
"""Pixel limit of a figure: about five pages at 300 dpi. The limit is needed because a small file may decompress to
any number of pixels.
"""


def collect_figures(folder: Path) -> tuple[tuple[Figure, ...], Failure | None]:
    """Read the figures under figures/ (PNG and PDF); the failure says if a file is not an image or no figure exists.

    A figure not saved by matplotlib has no facts.
    """
    figures: list[Figure] = []
    try:
        names = [*list_names(folder, "figures", ".png"), *list_names(folder, "figures", ".pdf")]
        if len(names) > _MAX_FIGURES:
            raise BadFile(f"figures/ contains {len(names)} figures, more than the limit of {_MAX_FIGURES}")
        for name in sorted(names):
            figures.append(_read_figure(folder, name))
    except BadFile as error:
        return tuple(figures), Failure(kind="figure", message=str(error))
    if not any(figure.name.endswith(".png") for figure in figures):
        return tuple(figures), Failure(kind="figure", message="no figure was drawn: save PNG files to figures/")
    return tuple(figures), None


def _read_figure(folder: Path, name: str) -> Figure:
    with open_regular(folder, f"figures/{name}", MAX_FIGURE_BYTES) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        if name.endswith(".png"):
            _check_png(file, name)
        elif not file.read(1024).startswith(b"%PDF-"):
            raise BadFile(f"figures/{name} is not a PDF file")
    try:
        with open_regular(folder, f"figures/{name}.facts.json", _MAX_FACTS_BYTES) as file:
            facts = FigureFacts.model_validate(_drop_non_finite(replace_unencodable(json.load(file))))
    except (BadFile, ValueError, RecursionError):
        facts = FigureFacts()
    return Figure(name=name, sha256=digest, facts=facts)


def _check_png(file: BufferedReader, name: str) -> None:
    from PIL import Image

    with raise_read_errors_as(f"figures/{name} is not a readable PNG image"), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=["PNG"]) as image:
            image.verify()
    if image.width * image.height > MAX_PIXELS:
        size = f"{image.width} x {image.height} pixels, more than the limit of {MAX_PIXELS}"
        raise BadFile(f"figures/{name} has {size}: save it with dpi=200")


def _drop_non_finite(facts: Any) -> Any:
    """Remove fields that contain a number that is not finite, or a list with one: code may write such facts."""
    if isinstance(facts, dict):
        fields = cast("dict[str, Any]", facts).items()
        return {name: kept for name, value in fields if (kept := _drop_non_finite(value)) is not None}
    if isinstance(facts, list):
        items = list(map(_drop_non_finite, cast("list[Any]", facts)))
        return None if None in items else items
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


# --- results of a cell, and of a job from its cells -------------------------------------------------------------------


@dataclass(frozen=True)
class ResultCollector:
    """Reads the files that code wrote. `cache` is the folder that all code of a run shares."""

    labels: Path
    cache: Path
    artifact_bytes: int
    grade: EvidenceGrade

    def collect(self, script: KernelScript, execution: KernelExecution) -> CellResult:
        """Read the result. It blocks, so call it in a thread. Raises `ExecutorError`."""
        folder = script.folder
        make_harmless(folder)
        if execution.kernel_unusable:
            with suppress(BadFile):  # another cell may have caused it
                make_harmless(self.cache)
        result = build_result(script, execution)
        try:
            result = result.model_copy(update={"arrays": hash_arrays(folder)})
        except BadFile as error:
            result = with_failure(result, failure_from_error(error))
        if script.job.kind == "plot":
            figures, failure = collect_figures(folder)
            result = with_failure(result.model_copy(update={"figures": figures}), failure)
        else:
            result = self._collect_experiment(script, result, execution)
        self._write_output(script, execution, result.failure)
        if result.failure is None or result.failure.kind not in RESUMABLE_FAILURES:
            remove_path(folder, CHECKPOINTS)
        return result

    def _write_output(self, script: KernelScript, execution: KernelExecution, failure: Failure | None) -> None:
        """Write the output; no notebook for a cell of a plan, since its node has one for all cells."""
        stem, log = ("plots", "plots.stdout.txt") if script.job.kind == "plot" else ("node", "stdout.txt")
        try:
            if script.cell.is_script:
                cells = [(script.job.source.get(script.job.entry, ""), execution.transcript.to_chunks())]
                write_file(script.folder, f"{stem}.ipynb", build_notebook(cells, failure))
            write_file(script.folder, log, execution.transcript.to_text())
        except OSError as error:
            if is_machine_error(error):
                raise ExecutorError(f"cannot write to {script.folder}: {error}") from error
            raise

    def _collect_experiment(self, script: KernelScript, result: CellResult, execution: KernelExecution) -> CellResult:
        folder, cell = script.folder, None if script.cell.is_script else script.cell
        try:
            result = result.model_copy(update={"artifacts": hash_artifacts(folder, self.artifact_bytes)})
        except BadFile as error:
            result = with_failure(result, failure_from_error(error))
        hopeless = execution.failure is not None and execution.failure.kind == "hopeless"
        try:
            listed = read_index(folder, SUBMISSION_INDEX)
            submitted = [f"submissions/{one.file}" for one in listed if one.kind == "artifact"]
            sizes = (status.st_size for name in submitted if (status := read_status(folder, name)) is not None)
            if sum(sizes) > self.artifact_bytes:  # they will be hashed
                raise SubmissionRefused(f"the submitted artifacts exceed {self.artifact_bytes / 1e9:g} GB")
            if execution.llm_session is None and any(one.kind == "answers" for one in listed):
                raise SubmissionRefused("it cites answers of language models, but it may not query any")
            if cell is not None:
                _check_names(result, cell)
                _check_submissions(folder, cell)
            measured = measure_attempt(
                folder,
                self.labels,
                seed=script.cell.seed,
                grade=self.grade,
                was_interrupted=hopeless,
                evaluated=execution.scorer_values,
            )
            if cell is not None:
                _check_values(measured.measurements, cell)
        except SubmissionRefused as error:
            failure = failure_from_error(error)
            if cell is not None and "not finite" in failure.message:
                failure = failure.model_copy(update={"kind": "diverged"})
            return with_failure(result, failure)
        message = "the script finished without submitting validation predictions (lab.submit)"
        failure = None if measured.measurements else Failure(kind="no measurement", message=message)
        return with_failure(result.model_copy(update=measured._asdict()), failure)


def build_result(script: KernelScript, execution: KernelExecution) -> CellResult:
    """Build the result from the execution alone, without reading files of the code."""
    session, exchanges = execution.llm_session, None
    if session is not None and session.answer_counts:
        exchanges = write_exchange_ids(script.folder, session)
    return CellResult(
        cell=script.cell,
        seconds=execution.seconds,
        failure=execution.failure,
        resumed=script.resumed,
        training=None if script.resumed else execution.training,
        asked=dict(session.answer_counts) if session is not None else {},
        exchanges_sha256=exchanges,
        peak_host_bytes=execution.peak_host_bytes,
        peak_gpu_bytes=execution.peak_gpu_bytes,
        stdout_tail=execution.transcript.read_tail(MAX_TAIL_CHARS),
    )


def with_failure(result: CellResult, failure: Failure | None) -> CellResult:
    """Return the result with this failure, unless it has one."""
    return result.model_copy(update={"failure": result.failure or failure})


def _check_submissions(folder: Path, cell: Cell) -> None:
    """Raise `SubmissionRefused` if a cell submitted for another cell; remove files that it did not submit."""
    listed = read_index(folder, SUBMISSION_INDEX)
    for one in listed:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            raise SubmissionRefused(f"{one.description} does not belong to this cell, {cell}")
        if one.file.partition(".")[0] != get_file_stem(one):
            raise SubmissionRefused(f"{one.description} refers to {one.file}, not to its own file: use lab.submit")
    for name in set(list_names(folder, "submissions", "")) - {one.file for one in listed}:
        remove_path(folder, f"submissions/{name}")


def _check_names(result: CellResult, cell: Cell) -> None:
    """Raise `BadFile` if a file could belong to another cell, since a node has the files of all its cells."""
    left = {f"arrays/{name}" for name in result.arrays}
    left |= {f"{ARTIFACTS}/{name.partition('/')[0]}" for name in result.artifacts}
    for name in sorted(left):
        if not Path(name).stem.endswith(f"__{cell.place_name}"):
            raise BadFile(f"{name} does not name its cell: save arrays with lab.save and files with lab.save_artifact")


def _check_values(final: tuple[Measurement, ...], cell: Cell) -> None:
    for one in final:
        if (one.dataset, one.condition) != (cell.dataset, cell.condition):
            where = f"{one.name} of {one.condition!r} on {one.dataset!r}"
            raise SubmissionRefused(f"{where} does not belong to this cell, {cell}")


def write_job_output(folder: Path, job: Job, outcome: JobOutcome) -> str:
    """Write the notebook and the output of all cells for readers; return the tail of the output. Raises `BadFile`,
    `OSError`."""
    most = max(4000, MAX_KEPT_CHARS // len(outcome.cells))
    shown: list[tuple[str, str]] = []
    for line in outcome.cells:
        place, output = outcome.folders.get(line.cell), ""
        if place is not None:
            output = cut_middle(read_file(place.path, "stdout.txt", MAX_FILE_BYTES).decode(errors="replace"), most)
        words = f"{line.cell}: {'measured before' if job.cells[line.cell].known is not None else line.outcome}"
        words += f" in {line.seconds:.1f} s" if line.seconds else ""
        shown.append((words + (f"; {line.why}" if line.why else ""), output))
    cells = [("# " + words.replace("\n", "\n# "), [("stdout", output)] if output else []) for words, output in shown]
    write_file(folder, "node.ipynb", build_notebook([(job.source.get(job.entry, ""), []), *cells]))
    transcript = Transcript(2 * MAX_KEPT_CHARS)
    for words, output in shown:
        transcript.add("stdout", f"--- {words}\n{output}" + ("\n" if output and not output.endswith("\n") else ""))
    write_file(folder, "stdout.txt", transcript.to_text())
    return transcript.read_tail(MAX_TAIL_CHARS)
