"""Read values, arrays, artifacts and figures of finished code from its folder as untrusted data, and grade them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import numpy as np

from labwright.record.internal_errors import build_internal_failure, is_machine_error
from labwright.record.schema.data_plan import EvidenceGrade, Measurement
from labwright.record.schema.figures import Figure, FigureFacts
from labwright.record.schema.frozen_model import replace_unencodable
from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import (
    MAX_FILE_BYTES,
    BadFile,
    iterate_entries,
    list_names,
    open_regular,
    raise_read_errors_as,
    read_lines,
    write_file,
)
from labwright.sandbox.errors import SandboxError, SubmissionRefused
from labwright.sandbox.job import ARTIFACTS, MEASUREMENTS
from labwright.sandbox.scoring import score_submissions, seal_test_predictions

_MAX_FILES = 10_000
MAX_SELF_REPORTED = 400
"""Maximum number of train and dev values in an attempt's record; the file has all of them."""
_MEASUREMENT_FIELDS = ("name", "value", "condition", "dataset", "split", "step")


@dataclass(frozen=True)
class AttemptMeasurements:
    """Final validation values, sealed test predictions, and the sha256 of the file with every value."""

    final: tuple[Measurement, ...]
    sealed: dict[str, str]
    curves_sha256: str | None
    self_reported: tuple[Measurement, ...] = ()
    """The last report of each final value for train and dev, at most `MAX_SELF_REPORTED`."""


def hash_arrays(folder: Path) -> dict[str, str]:
    """Map files under arrays/ to their sha256. Raises `BadFile` for a file that is not an array or needs unpickling."""
    return {name: _hash_array(folder, name) for name in list_names(folder, "arrays", ".npy")}


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
            raise BadFile(
                f"arrays/{name} has {size} bytes, but its header declares {shape} of {dtype}: save it with lab.save"
            )
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
    logged = _read_logged(folder, seed=seed, cut=was_interrupted)
    sealed = seal_test_predictions(folder, labels, grade=grade)
    digest = None
    if scored or logged:
        content = "".join(value.model_dump_json() + "\n" for value in (*scored, *logged)).encode()
        write_file(folder, MEASUREMENTS, content)
        digest = hashlib.sha256(content).hexdigest()
    return AttemptMeasurements(_merge_final_values(scored, logged), sealed, digest, select_self_reported(logged))


def find_missing_measurement(measured: AttemptMeasurements) -> Failure | None:
    """Return a failure if an experiment ran but measured nothing usable for selection."""
    if measured.final:
        return None
    return Failure(
        kind="no measurement",
        message="the script finished without submitting validation predictions: "
        "submit them with lab.submit(dataset, 'validation', condition, ...)",
    )


def failure_from_error(error: Exception) -> Failure:
    """Return the failure of an experiment whose files cannot be read, or that triggered an internal error.

    Re-raises errors that the experiment did not cause, such as those of disk, kernels, devices or isolation.
    """
    if isinstance(error, SubmissionRefused):
        return Failure(kind="other", message=str(error))
    if isinstance(error, SandboxError) or is_machine_error(error):
        raise error
    return build_internal_failure(error)


def select_self_reported(values: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return the last report of each final value for train and dev, at most `MAX_SELF_REPORTED`."""
    learning = {
        (*_get_quantity(value), value.split): value
        for value in values
        if value.grade == "logged" and value.step is None and value.split != "validation"
    }
    return tuple(learning.values())[-MAX_SELF_REPORTED:]


def select_final_values(values: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return one validation value per quantity, from all values in `measurements.jsonl`."""
    return _merge_final_values(
        (value for value in values if value.grade != "logged"), (value for value in values if value.grade == "logged")
    )


def _merge_final_values(scored: Iterable[Measurement], logged: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return one validation value per quantity: that of the host if it scored the quantity, otherwise the last
    one by the code.
    """
    from_host, from_code = (
        {
            _get_quantity(value): value
            for value in values
            if value.step is None and value.split == "validation" and value.condition and value.dataset
        }
        for values in (scored, logged)
    )
    return tuple((from_host | {key: value for key, value in from_code.items() if key not in from_host}).values())


def _get_quantity(value: Measurement) -> tuple[str, str, str]:
    return value.dataset, value.condition, value.name


def _read_logged(folder: Path, *, seed: int, cut: bool) -> list[Measurement]:
    """Read the values written by the code, without values for the test split, which the code cannot know and
    selection must not use.
    """
    values: list[Measurement] = []
    for number, line in enumerate(read_lines(folder, MEASUREMENTS, MAX_FILE_BYTES), start=1):
        try:
            fields: dict[str, Any] = json.loads(line)
            chosen = replace_unencodable({key: fields[key] for key in _MEASUREMENT_FIELDS if key in fields})
            value = Measurement(**chosen, seed=seed, grade="logged")
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if cut:
                continue
            reason = " ".join(str(error).split())[:200]
            raise BadFile(f"{MEASUREMENTS} line {number} was not written by lab.log: {reason}") from error
        if value.split != "test":
            values.append(value)
    return values


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
        raise BadFile(
            f"figures/{name} has {image.width} x {image.height} pixels, more than the limit of {MAX_PIXELS}"
            ": save it with dpi=200"
        )


def _drop_non_finite(facts: Any) -> Any:
    """Remove fields that contain a number that is not finite, or a list with one."""
    if isinstance(facts, dict):
        fields = cast("dict[str, Any]", facts).items()
        return {name: _drop_non_finite(value) for name, value in fields if not _is_not_finite(value)}
    return [_drop_non_finite(item) for item in cast("list[Any]", facts)] if isinstance(facts, list) else facts


def _is_not_finite(value: Any) -> bool:
    if isinstance(value, list):
        return any(_is_not_finite(item) for item in cast("list[Any]", value))
    return isinstance(value, float) and not math.isfinite(value)
