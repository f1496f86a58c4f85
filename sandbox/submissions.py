"""Submitted predictions as the host reads them: from untrusted files, checked again in full."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from record.nouns.measurements import MOST_STEPS, Grade, Split
from sandbox.errors import SubmissionRefused
from sandbox.untrusted import NAME, Unfit, open_regular, read_as, read_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

SCORED_SPLITS: tuple[Split, ...] = ("validation", "test")
MAX_SUBMISSIONS = 20_000
MAX_BYTES = 256 * 2**20
"""Largest submission file that is read."""
ARTIFACT_BYTES = 2**40
"""Largest artifact that is hashed; what may be submitted is `SandboxSettings.artifact_bytes`."""
_SUM_TOLERANCE = 1e-2


class Submission(BaseModel):
    """One line of submissions.jsonl."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    file: str = Field(pattern=r"^[0-9a-f]{1,40}\.(npz|bin)$")
    dataset: str = Field(pattern=rf"^{NAME.pattern}$")
    split: Literal["validation", "test"]
    condition: str = Field(min_length=1, max_length=200)
    step: int | None = Field(default=None, ge=-MOST_STEPS, le=MOST_STEPS)
    kind: Literal["predictions", "probabilities", "logits", "artifact"]
    name: str = Field(default="artifact", pattern=rf"^{NAME.pattern}$", description="of an artifact, as it was given")
    packed: bool = Field(default=False, description="whether an artifact is a folder, put into one archive")
    grade: Grade | None = None
    """Written by us when it is sealed; what the code says of it counts for nothing."""

    @field_validator("condition")
    @classmethod
    def _encodable(cls, text: str) -> str:
        text.encode()  # a lone surrogate could not be written into a record
        return text

    @property
    def where(self) -> str:
        step = "" if self.step is None else f", step {self.step}"
        return f"submission of {self.condition!r} for {self.dataset}/{self.split}{step}"


@dataclass(frozen=True)
class Truth:
    """The withheld labels of one split. `classes` is 0 for regression."""

    y: Array
    classes: int


def listed(folder: Path, index: str) -> list[Submission]:
    """The submissions that an index file lists. Raises `SubmissionRefused`."""
    try:
        lines = read_lines(folder, index, MAX_BYTES)
        if len(lines) > MAX_SUBMISSIONS:
            raise SubmissionRefused(f"{len(lines)} submissions, more than the limit of {MAX_SUBMISSIONS}")
        found = [Submission.model_validate_json(line) for line in lines]
    except Unfit as error:
        raise SubmissionRefused(str(error)) from error
    except ValidationError as error:
        raise SubmissionRefused(f"{index} was not written by lab.submit: {error.errors()[0]['msg']}") from error
    _refuse_twins(found)
    return found


def _refuse_twins(found: Sequence[Submission]) -> None:
    """Raises `SubmissionRefused` where two lines claim one file, or hand in for one cell."""
    files, cells = dict[str, Submission](), set[object]()
    for one in found:
        cell = one.dataset, one.split, one.condition, one.step
        if cell in cells:
            raise SubmissionRefused(f"{one.where} came twice: a condition is submitted once per dataset and split")
        if one.file in files:
            raise SubmissionRefused(f"{one.where} claims {one.file}, which is that of the {files[one.file].where}: "
                                    "hand predictions in with lab.submit alone")
        cells.add(cell)
        files[one.file] = one


def truth_of(labels: Path, submission: Submission) -> Truth:
    """The labels to score against. Raises `SubmissionRefused` where the run has none for that dataset."""
    import numpy as np

    path = labels / f"{submission.dataset}.npz"
    if not path.is_file():
        raise SubmissionRefused(f"{submission.where}: this run has no labels for it")
    with np.load(path, allow_pickle=False) as file:
        return Truth(file[f"{submission.split}_y"], int(json.loads(str(file["meta"]))["classes"]))


def values_of(folder: Path, place: str, submission: Submission, truth: Truth) -> Array:
    """The submitted values, fit to be scored. Raises `SubmissionRefused`."""
    import numpy as np

    try:
        with (read_as(f"{submission.where} is not what lab.submit writes", SubmissionRefused),
              open_regular(folder, f"{place}/{submission.file}", MAX_BYTES) as file,
              np.load(file, allow_pickle=False) as archive):
            _check_members(archive.zip, submission)
            values = archive[submission.kind]
    except Unfit as error:
        raise SubmissionRefused(str(error)) from error
    _check(submission, values, truth)
    return values


def check_artifact(folder: Path, place: str, submission: Submission) -> None:
    """Make sure that an artifact is there as one plain file. Raises `SubmissionRefused`."""
    try:
        open_regular(folder, f"{place}/{submission.file}", ARTIFACT_BYTES).close()
    except Unfit as error:
        raise SubmissionRefused(str(error)) from error


def _check_members(archive: zipfile.ZipFile, submission: Submission) -> None:
    """A small archive may unpack to any size; ask before unpacking."""
    size = sum(member.file_size for member in archive.infolist())
    if size > MAX_BYTES:
        raise SubmissionRefused(f"{submission.where} unpacks to {size} bytes, more than the limit of {MAX_BYTES}")


def _check(submission: Submission, values: Array, truth: Truth) -> None:
    import numpy as np

    classes = truth.classes
    expected = (len(truth.y),) if submission.kind == "predictions" else (len(truth.y), classes)
    if submission.kind != "predictions" and classes == 0:
        raise SubmissionRefused(f"{submission.where}: a regression takes predictions, not {submission.kind}")
    if values.shape != expected or values.dtype.kind not in "iuf":
        raise SubmissionRefused(f"{submission.where}: must have shape {expected}, "
                                f"got {values.shape} of dtype {values.dtype}")
    with np.errstate(over="ignore"):  # what only a wider type holds is none that can be scored
        finite = np.isfinite(values.astype(np.float64)).all()
    if not finite:
        raise SubmissionRefused(f"{submission.where}: holds values that are not finite")
    if submission.kind == "probabilities" and (
            values.min(initial=0.0) < -1e-6 or np.abs(values.sum(axis=1) - 1.0).max(initial=0.0) > _SUM_TOLERANCE):
        raise SubmissionRefused(f"{submission.where}: rows are not probabilities that sum to 1")
