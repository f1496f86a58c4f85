"""Measurements from submitted predictions, computed on the host.

The grade is `scored` where the labels were out of the code's reach, else `computed`: without isolation the code finds
them by path, if it looks for them, so nobody can promise that it did not see them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from record.nouns.measurements import LARGEST, Grade, Measurement, Split
from sandbox.errors import SubmissionRefused
from sandbox.metrics import METRICS, score
from sandbox.submissions import ARTIFACT_BYTES, Submission, check_artifact, listed, truth_of, values_of
from sandbox.untrusted import Unfit, open_regular, remove, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["METRICS", "score_sealed", "score_submissions", "seal", "sealed_predictions"]

_INDEX = "submissions.jsonl"
_SEALED_INDEX = "sealed/index.jsonl"


def score_submissions(
    folder: Path, labels: Path, *, split: Split, seed: int, grade: Grade = "computed",
) -> tuple[Measurement, ...]:
    """Every metric of every submission for `split`, with and without a step. Raises `SubmissionRefused`.

    Artifacts are passed over: a frozen scorer evaluates them (`sandbox.evaluation`).
    """
    chosen = [_graded(one, grade) for one in listed(folder, _INDEX) if one.split == split]
    return _measurements(folder, "submissions", chosen, labels=labels, seed=seed)


def seal(folder: Path, labels: Path, *, grade: Grade = "computed") -> dict[str, str]:
    """Put the test predictions into `folder/sealed/`, unscored; file name -> sha256. Raises `SubmissionRefused`.

    The grade that their scores will have is sealed with them. They are scored once and the scores forgotten, so that a
    defect shows now and not after the search.
    """
    remove(folder, "sealed")
    every = listed(folder, _INDEX)
    tests = [_graded(one, grade) for one in every if one.split == "test"]
    if not tests:
        return {}
    _measurements(folder, "submissions", tests, labels=labels, seed=0)
    for one in (one for one in tests if one.kind == "artifact"):
        check_artifact(folder, "submissions", one)
    (folder / "sealed").mkdir()
    for one in tests:
        (folder / "submissions" / one.file).rename(folder / "sealed" / one.file)
    write_whole(folder, _SEALED_INDEX, _lines(tests))
    write_whole(folder, _INDEX, _lines([one for one in every if one.split != "test"]))
    return {name: _sha256(folder, name) for name in [*(one.file for one in tests), "index.jsonl"]}


def score_sealed(
    folder: Path, labels: Path, *, seed: int, expected: Mapping[str, str] | None = None,
) -> tuple[Measurement, ...]:
    """The sealed test predictions of an attempt, scored. Raises `SubmissionRefused`.

    `folder` is the attempt's; `expected` are the recorded sha256 of its sealed files (`Attempt.sealed`).
    """
    return _measurements(folder, "sealed", as_sealed(folder, expected), labels=labels, seed=seed)


def sealed_predictions(
    folder: Path, labels: Path, *, expected: Mapping[str, str] | None = None,
) -> Iterator[tuple[Submission, Array, Array]]:
    """What `score_sealed` scores, one at a time: submission, values and truth, example by example.

    Final predictions only, in the order of their submission. Raises `SubmissionRefused`.
    """
    for one in as_sealed(folder, expected):
        if one.kind != "artifact" and one.step is None:
            truth = truth_of(labels, one)
            yield one, values_of(folder, "sealed", one, truth), truth.y


def as_submitted(folder: Path, grade: Grade) -> list[Submission]:
    """What an attempt submitted, with the grades that its values will have. Raises `SubmissionRefused`."""
    return [_graded(one, grade) for one in listed(folder, _INDEX)]


def as_sealed(folder: Path, expected: Mapping[str, str] | None) -> list[Submission]:
    """What is sealed with an attempt, checked against the recorded sha256. Raises `SubmissionRefused`."""
    sealed = listed(folder, _SEALED_INDEX)
    for name, digest in (expected or {}).items():
        if _sha256(folder, name) != digest:
            raise SubmissionRefused(f"sealed/{name} is not what was sealed: its sha256 is not {digest[:12]}...")
    if expected is not None and {one.file for one in sealed} | {"index.jsonl"} != set(expected) and sealed:
        raise SubmissionRefused("sealed/index.jsonl lists other files than were sealed")
    return sealed


def _measurements(
    folder: Path, place: str, submissions: Sequence[Submission], *, labels: Path, seed: int,
) -> tuple[Measurement, ...]:
    found: list[Measurement] = []
    for one in (one for one in submissions if one.kind != "artifact"):
        truth = truth_of(labels, one)
        found += _measured(one, score(one.kind, values_of(folder, place, one, truth), truth.y), seed=seed)
    return tuple(found)


def _measured(one: Submission, scores: Mapping[str, float], *, seed: int) -> Iterator[Measurement]:
    """The scores of a submission as measurements. Raises `SubmissionRefused`; the value itself stays unsaid."""
    for name, value in scores.items():
        if not abs(value) <= LARGEST:
            raise SubmissionRefused(f"{one.where}: its {name} is not finite, or larger than {LARGEST:g}: the "
                                    f"{one.kind} hold values that are far too large")
        yield Measurement(name=name, value=value, condition=one.condition, dataset=one.dataset, split=one.split,
                          seed=seed, step=one.step, grade=one.grade or "computed")


def _graded(one: Submission, grade: Grade) -> Submission:
    held = "evaluated" if one.kind == "artifact" and grade == "scored" else grade
    return one.model_copy(update={"grade": held})


def _lines(submissions: Sequence[Submission]) -> str:
    return "".join(json.dumps(one.model_dump()) + "\n" for one in submissions)


def _sha256(folder: Path, name: str) -> str:
    try:
        with open_regular(folder, f"sealed/{name}", ARTIFACT_BYTES) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except Unfit as error:
        raise SubmissionRefused(str(error)) from error
