"""Read submitted predictions from untrusted files, validate them fully, and compute their measurements.

The grade is `scored` if the code could not reach the labels, otherwise `computed`: without isolation, code could find
the labels by path.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from labwright.record.errors import SubmissionRefused
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.schema.data_plan import (
    MAX_ABSOLUTE_VALUE,
    MAX_STEPS,
    DatasetFacts,
    EvidenceGrade,
    Measurement,
    MetricSpec,
    Split,
    parse_arm,
)
from labwright.record.untrusted_files import (
    FILE_NAME_PATTERN,
    MAX_FILE_BYTES,
    MAX_HASHED_BYTES,
    hash_regular,
    make_folder,
    move_path,
    open_regular,
    raise_read_errors_as,
    read_lines,
    remove_path,
    write_file,
)
from labwright.sandbox.limited_process import call_limited
from labwright.sandbox.metrics import (
    FormulaInputs,
    Measure,
    build_measures,
    compute_scores,
    parse_formula,
    rates_predictions,
    read_declared_columns,
    read_formulas,
)

Array = NDArray[Any]

MAX_SUBMISSIONS = 20_000
_MAX_TOTAL_NUMBERS = 2 * 10**10
"""Maximum number of predicted numbers of an attempt for one split: scoring them takes up to an hour."""
_SUM_TOLERANCE, _ROUNDING = 1e-2, 1e-5
"""Maximum difference of a row of probabilities from 1, and the difference above which rows are divided by their sums:
otherwise rows that are too large would have too low a log loss."""
_MAX_NUMBER = 1e45
"""Maximum magnitude of a predicted number: its squared error is still representable for any label."""
_MAX_VALUE_BYTES, _MAX_HEADER_BYTES = 16, 2**16
"""For a file of predictions: size of the widest number type, and size limit of its header, in bytes."""
SUBMISSION_INDEX = "submissions.jsonl"
COLUMN_PREFIX = "column-"
"""Prefix of the array of a submitted column in a file of predictions."""
MAX_COLUMNS = 8
"""Maximum number of columns that code submits."""
MAX_GROUPS = 1000
"""Maximum number of groups of a submitted column."""
_SEALED_INDEX = "sealed/index.jsonl"


class Submission(BaseModel):
    """One line of submissions.jsonl."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    file: str = Field(pattern=r"^[0-9a-f]{1,40}\.(npz|bin|json)$")
    dataset: str = Field(pattern=rf"^{FILE_NAME_PATTERN.pattern}$")
    split: Literal["validation", "test"]
    condition: str = Field(min_length=1, max_length=200)
    step: int | None = Field(default=None, ge=-MAX_STEPS, le=MAX_STEPS)
    kind: Literal["predictions", "probabilities", "logits", "artifact", "answers"]
    name: str = Field(default="artifact", pattern=rf"^{FILE_NAME_PATTERN.pattern}$", description="name of the artifact")
    read: str = Field(default="", max_length=100, description="how answers are parsed (`sandbox.llm_gateway`)")
    unread: int = Field(default=0, ge=0, description="number of rows without a parsable answer")
    packed: bool = Field(default=False, description="whether the artifact is a folder packed into an archive")
    grade: EvidenceGrade | None = None
    """Set by the host when sealing or when answers are cited; code can only lower it, to `unattributed`."""

    @field_validator("condition")
    @classmethod
    def _check_encodable(cls, text: str) -> str:
        text.encode()  # a lone surrogate could not be written to a record
        return text

    @property
    def description(self) -> str:
        step = "" if self.step is None else f", step {self.step}"
        return f"submission of {self.condition!r} for {self.dataset}/{self.split}{step}"

    def to_measurement(self, metric: str, value: float, *, seed: int) -> Measurement:
        """Return a measurement with a value computed from this submission."""
        return Measurement(
            name=metric,
            value=value,
            condition=self.condition,
            dataset=self.dataset,
            split=self.split,
            seed=seed,
            step=self.step,
            grade=self.grade or "computed",
        )


def read_index(folder: Path, index: str) -> list[Submission]:
    """Read the submissions in an index file.

    Raises `SubmissionRefused`, including when two lines refer to the same file, or to the same condition, dataset,
    split and step.
    """
    lines = read_lines(folder, index, MAX_FILE_BYTES, max_lines=MAX_SUBMISSIONS)
    try:
        submissions = [Submission.model_validate_json(line) for line in lines]
    except ValidationError as error:
        raise SubmissionRefused(f"{index} was not written by lab.submit: {error.errors()[0]['msg']}") from error
    inputs = set[object]()
    for submission in submissions:
        cell = submission.dataset, submission.split, submission.condition, submission.step
        if cell in inputs:
            raise SubmissionRefused(f"{submission.description} was submitted twice")
        if submission.file in inputs:
            why = f"refers to {submission.file}, which belongs to another submission: use lab.submit"
            raise SubmissionRefused(f"{submission.description} {why}")
        inputs |= {cell, submission.file}
    return submissions


def get_file_stem(submission: Submission) -> str:
    """Return the file name that `lab.submit` uses for a submission, unique per cell."""
    cell = submission.model_dump(include={"dataset", "split", "condition", "step"})
    return hashlib.sha256(json.dumps(cell).encode()).hexdigest()[:20]


class WithheldLabels(NamedTuple):
    """What the host knows of the rows of a split that are to be predicted."""

    truth: Array
    facts: DatasetFacts
    columns: dict[str, Array]
    """Columns for metrics, as strings."""


def read_labels(labels: Path, dataset: str, split: str) -> WithheldLabels:
    """Return the withheld labels of a dataset. Raises `SubmissionRefused` if the run has none."""
    path = labels / f"{dataset}.npz"
    if not path.is_file():
        raise SubmissionRefused(f"{dataset}/{split}: this run has no labels for this dataset")
    with np.load(path, allow_pickle=False) as file:
        facts = DatasetFacts.model_validate_json(str(file["meta"]))
        texts = file[f"{split}_meta"] if facts.meta else np.empty((0, 0))
        return WithheldLabels(file[f"{split}_y"], facts, {name: texts[:, i] for i, name in enumerate(facts.meta)})


def _check_total_size(submissions: Iterable[Submission], labels: Path) -> None:
    """Raise `SubmissionRefused` if scoring them all would take hours; files may be small, since they are compressed."""
    sizes: dict[tuple[str, str], int] = {}
    total = 0
    for submission in submissions:
        if submission.kind == "artifact":
            continue
        if (place := (submission.dataset, submission.split)) not in sizes:
            known = read_labels(labels, *place)
            sizes[place] = len(known.truth) * max(1, known.facts.classes)
        total += sizes[place]
    if total > _MAX_TOTAL_NUMBERS:
        raise SubmissionRefused(
            f"the submissions have {total:.2g} predicted numbers, more than {_MAX_TOTAL_NUMBERS:.2g}: use fewer steps"
        )


def read_values(
    folder: Path, subfolder: str, submission: Submission, labels: Path
) -> tuple[Array, WithheldLabels, dict[str, Array]]:
    """Return the validated values of a submission, the labels, and the submitted columns that the plan declares.

    Error messages and memory use depend only on the submission and its expected shape, never on labels. Raises
    `SubmissionRefused`, including when a final submission, unless it is a reference model's, lacks a declared column.
    """
    known = read_labels(labels, submission.dataset, submission.split)
    kind, rows, classes = submission.kind, len(known.truth), known.facts.classes

    def check(is_valid: bool | np.bool_, fault: str) -> None:
        if not is_valid:
            raise SubmissionRefused(f"{submission.description}: {fault}")

    check(kind == "predictions" or classes > 0, f"regression needs predictions, not {kind}")
    expected = (rows,) if kind == "predictions" else (rows, classes)
    declared = read_declared_columns(labels)
    numbers_expected = math.prod(expected) + len(declared) * rows
    limit = min(MAX_FILE_BYTES, numbers_expected * _MAX_VALUE_BYTES + _MAX_HEADER_BYTES)
    with (
        raise_read_errors_as(f"{submission.description} is not what lab.submit writes", SubmissionRefused),
        open_regular(folder, f"{subfolder}/{submission.file}", limit) as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        size = sum(member.file_size for member in archive.zip.infolist())  # a small archive may decompress to any size
        check(size <= limit, f"unpacks to {size} bytes, more than the limit of {limit}")
        values: Array = np.asarray(archive[kind])  # numpy returns a member that is no array as bytes
        columns = {name: np.asarray(archive[key]) for name in declared if (key := COLUMN_PREFIX + name) in archive}
    is_shaped = values.shape == expected and values.dtype.kind in "iuf"
    check(is_shaped, f"must have shape {expected}, got {values.shape} of dtype {values.dtype}")
    with np.errstate(over="ignore"):  # values that only fit a wider type cannot be scored
        numbers = values.astype(np.float64)
    check(np.isfinite(numbers).all(), "contains values that are not finite")
    if kind == "predictions" and classes:
        are_classes = ((numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < classes)).all()
        span = f"got values from {numbers.min():g} to {numbers.max():g}" if rows else ""
        check(are_classes, f"predictions must be class numbers 0..{classes - 1}, {span}")
    if kind == "predictions":
        is_small = np.abs(numbers).max(initial=0.0) <= _MAX_NUMBER
        check(is_small, f"its predictions are not finite or exceed {_MAX_NUMBER:g}: use smaller values")
    if kind == "probabilities":
        sums = numbers.sum(axis=1, keepdims=True)
        off = np.abs(sums - 1.0).max(initial=0.0)
        check(values.min(initial=0.0) >= -1e-6 and off <= _SUM_TOLERANCE, "rows are not probabilities that sum to 1")
        values = numbers / sums if off > _ROUNDING else values
    for name, holds in declared.items():
        if (column := columns.get(name)) is not None:
            low, high = (-1, classes - 1) if holds == "classes" else (0, MAX_GROUPS - 1)
            is_shaped = column.shape == (rows,) and column.dtype.kind in "iu"
            found = f"shape {column.shape} of dtype {column.dtype}"
            check(is_shaped, f"column {name!r} must be {rows} whole numbers, got {found}")
            if rows:
                least, most = int(column.min()), int(column.max())
                check(
                    low <= least and most <= high, f"column {name!r} must lie in {low}..{high}, got {least} to {most}"
                )
        elif submission.step is None and parse_arm(submission.condition) not in REFERENCE_ARM_TITLES:
            check(False, f"the plan's column {name!r} is missing: lab.submit(..., columns={{{name!r}: values}})")
    return values, known, columns


def read_submitted(folder: Path, grade: EvidenceGrade) -> list[Submission]:
    """Return an attempt's submissions with the grades of their values. Raises `SubmissionRefused`."""
    found: list[Submission] = []
    for one in read_index(folder, SUBMISSION_INDEX):
        own = "evaluated" if one.kind == "artifact" and grade == "scored" else grade
        found.append(one.model_copy(update={"grade": "unattributed" if one.grade == "unattributed" else own}))
    return found


def score_submissions(
    folder: Path, labels: Path, *, split: Split, seed: int, grade: EvidenceGrade = "computed"
) -> tuple[Measurement, ...]:
    """Compute every metric of every submission for `split`, with and without a step. Raises `SubmissionRefused`.

    Artifacts are skipped: a frozen scorer evaluates them (`sandbox.scorers`).
    """
    chosen = [submission for submission in read_submitted(folder, grade) if submission.split == split]
    _check_total_size(chosen, labels)
    return _score_all(folder, "submissions", chosen, labels=labels, seed=seed)


class SubmittedPredictions(NamedTuple):
    """The final predictions for one condition on one dataset."""

    dataset: str
    condition: str
    kind: str
    values: Array
    """(rows,) or (rows, classes)."""


def read_final_predictions(folder: Path, labels: Path) -> tuple[SubmittedPredictions, ...]:
    """Return the validation predictions without a step. Raises `SubmissionRefused`."""
    found: list[SubmittedPredictions] = []
    for one in read_index(folder, SUBMISSION_INDEX):
        if one.split == "validation" and one.step is None and one.kind in ("predictions", "probabilities", "logits"):
            values = call_limited(_read_final_values, folder, one, labels, subject=one.description)
            found.append(SubmittedPredictions(one.dataset, one.condition, one.kind, values))
    return tuple(found)


def _read_final_values(folder: Path, submission: Submission, labels: Path) -> Array:
    return read_values(folder, "submissions", submission, labels)[0]


def seal_test_predictions(folder: Path, labels: Path, *, grade: EvidenceGrade = "computed") -> dict[str, str]:
    """Move the test predictions unscored to `folder/sealed/`; return the sha256 of each file by name. Raises
    `SubmissionRefused`.

    Their future grade is sealed with them. Their format is checked now, so that errors do not appear only after the
    search. They are not scored, because success or failure of scoring would reveal facts about the labels.
    """
    remove_path(folder, "sealed")
    tests = [submission for submission in read_submitted(folder, grade) if submission.split == "test"]
    if not tests:
        return {}
    _check_total_size(tests, labels)
    others = [submission for submission in read_index(folder, SUBMISSION_INDEX) if submission.split != "test"]
    for submission in tests:
        if submission.kind == "artifact":
            open_regular(folder, f"submissions/{submission.file}", MAX_HASHED_BYTES).close()
        else:
            call_limited(_check_values, folder, submission, labels, subject=submission.description)
    make_folder(folder, "sealed")
    for submission in tests:
        move_path(folder, f"submissions/{submission.file}", folder, f"sealed/{submission.file}")
    for index, listed in ((_SEALED_INDEX, tests), (SUBMISSION_INDEX, others)):
        write_file(folder, index, "".join(json.dumps(submission.model_dump()) + "\n" for submission in listed))
    names = [*(submission.file for submission in tests), "index.jsonl"]
    return {name: hash_regular(folder, f"sealed/{name}") for name in names}


def score_sealed(
    folder: Path, labels: Path, *, seed: int, expected: Mapping[str, str] | None = None
) -> tuple[Measurement, ...]:
    """Score the sealed test predictions in a folder. Raises `SubmissionRefused`.

    `expected` contains the recorded sha256 of its sealed files (`ExecutionResult.sealed`).
    """
    return _score_all(folder, "sealed", read_sealed(folder, expected), labels=labels, seed=seed)


def iterate_sealed_predictions(
    folder: Path, labels: Path, *, expected: Mapping[str, str] | None = None
) -> Iterator[tuple[Submission, Array, Array, dict[str, Measure]]]:
    """Yield submission, values, truth and formula measures for every final prediction that `score_sealed` scores.

    The order is that of submission. Raises `SubmissionRefused`.
    """
    for submission in read_sealed(folder, expected):
        if submission.kind != "artifact" and submission.step is None:
            yield submission, *_read_scoring_inputs(folder, "sealed", submission, labels)


def _read_scoring_inputs(
    folder: Path, place: str, submission: Submission, labels: Path
) -> tuple[Array, Array, dict[str, Measure]]:
    """Return values, truth, and measures of the run's formulas by name. Raises `SubmissionRefused`."""
    values, (truth, facts, columns), submitted = read_values(folder, place, submission, labels)
    inputs = FormulaInputs(submission.kind, values, truth, facts.class_names, columns, submitted)
    return values, truth, build_measures(read_formulas(labels), inputs)


def _compute_submission_scores(folder: Path, place: str, submission: Submission, labels: Path) -> dict[str, float]:
    values, truth, more = _read_scoring_inputs(folder, place, submission, labels)
    return compute_scores(submission.kind, values, truth, more)


def _check_values(folder: Path, submission: Submission, labels: Path) -> None:
    read_values(folder, "submissions", submission, labels)


def read_sealed(folder: Path, expected: Mapping[str, str] | None) -> list[Submission]:
    """Read an attempt's sealed submissions and check them against the recorded sha256. Raises `SubmissionRefused`."""
    sealed = read_index(folder, _SEALED_INDEX)
    for name, digest in (expected or {}).items():
        if hash_regular(folder, f"sealed/{name}") != digest:
            raise SubmissionRefused(f"sealed/{name} was changed after sealing: its sha256 is not {digest[:12]}...")
    names = {submission.file for submission in sealed} | {"index.jsonl"}
    if expected is not None and names != set(expected) and sealed:
        raise SubmissionRefused("sealed/index.jsonl does not list the files that were sealed")
    return sealed


def _score_all(
    folder: Path, place: str, submissions: Sequence[Submission], *, labels: Path, seed: int
) -> tuple[Measurement, ...]:
    """Score submissions. Raises `SubmissionRefused`.

    On validation, a value that is too large is an error. On test it is clipped, because an error would reveal facts
    about the labels.
    """
    measurements: list[Measurement] = []
    columns = read_declared_columns(labels)
    of_columns = {name for name, text in read_formulas(labels).items() if parse_formula(text).column in columns}
    for submission in submissions:
        if submission.kind == "artifact":
            continue
        arguments = folder, place, submission, labels
        found = call_limited(_compute_submission_scores, *arguments, subject=submission.description)
        shown = read_labels(labels, submission.dataset, submission.split).facts.shows_labels
        for name, value in found.items():
            if submission.split == "test":
                value = min(max(value, -MAX_ABSOLUTE_VALUE), MAX_ABSOLUTE_VALUE)
            if not abs(value) <= MAX_ABSOLUTE_VALUE:
                raise SubmissionRefused(
                    f"{submission.description}: its {name} is not finite or exceeds {MAX_ABSOLUTE_VALUE:g}: the values "
                    "are far too large"
                )
            one = submission.to_measurement(name, value, seed=seed)
            depends = one.grade == "scored" and (name in of_columns or shown)
            measurements.append(one.model_copy(update={"grade": "computed"}) if depends else one)
    return tuple(measurements)


def compute_constants(labels: Path, metrics: Iterable[MetricSpec]) -> dict[str, dict[str, float]]:
    """Return the validation values of predictions that ignore the inputs: metric -> dataset -> value.

    Left out are metrics that do not say how good predictions are, datasets without labels, and values that are not
    finite.
    """
    found: dict[str, dict[str, float]] = {metric.name: {} for metric in metrics if rates_predictions(metric)}
    formulas = read_formulas(labels)
    for path in sorted(labels.glob("*.npz")):
        truth, facts, columns = read_labels(labels, path.stem, "validation")
        kind, values = "predictions", np.full(len(truth), truth.mean())
        if facts.classes:
            shares = np.bincount(truth, minlength=facts.classes) / len(truth)
            kind, values = "probabilities", np.tile(shares, (len(truth), 1))
        inputs = FormulaInputs(kind, values, truth, facts.class_names, columns)
        for name, value in compute_scores(kind, values, truth, build_measures(formulas, inputs)).items():
            if name in found and math.isfinite(value):
                found[name][path.stem] = value
    return {name: values for name, values in found.items() if values}
