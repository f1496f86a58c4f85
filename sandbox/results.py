"""What finished code left in its folder (values, arrays, artifacts, figures), read as untrusted and graded by us."""

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
from labwright.sandbox.errors import SandboxError, SubmissionRefused
from labwright.sandbox.job import ARTIFACTS, MEASUREMENTS
from labwright.sandbox.safe_io import (
    MAX_FILE_BYTES,
    BadFile,
    iterate_entries,
    list_names,
    open_regular,
    raise_read_errors_as,
    read_lines,
    write_file,
)
from labwright.sandbox.scoring import score_submissions, seal_test_predictions

_MAX_FILES = 10_000
MAX_SELF_REPORTED = 400
"""Values of train and dev that an attempt's record carries; the file has all."""
_MEASUREMENT_FIELDS = ("name", "value", "condition", "dataset", "split", "step")


@dataclass(frozen=True)
class AttemptMeasurements:
    """Final validation values, sealed test predictions, and the sha256 of the file that holds every value."""

    final: tuple[Measurement, ...]
    sealed: dict[str, str]
    curves_sha256: str | None
    self_reported: tuple[Measurement, ...] = ()
    """The last of each final value that the code gave of train and dev, at most `SAID` of them."""


def hash_arrays(folder: Path) -> dict[str, str]:
    """File name under arrays/ -> sha256. Raises `BadFile` for a file that is no array, or needs unpickling."""
    return {name: _hash_array(folder, name) for name in list_names(folder, "arrays", ".npy")}


def _hash_array(folder: Path, name: str) -> str:
    with open_regular(folder, f"arrays/{name}", MAX_FILE_BYTES) as file:
        with raise_read_errors_as(f"arrays/{name} is not an array that numpy can read: save it with lab.save"):
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, _, dtype = read(file)
            announced = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise BadFile(f"arrays/{name} holds Python objects: save numeric arrays with lab.save")
        held = os.fstat(file.fileno()).st_size - file.tell()
        if min(shape, default=1) < 0 or announced != held:
            raise BadFile(
                f"arrays/{name} holds {held} bytes, not what its header says, {shape} of {dtype}: save it with lab.save"
            )
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_artifacts(folder: Path, limit: int) -> dict[str, str]:
    """File under artifacts/ -> sha256; what `lab` was still writing is left out.

    Raises `BadFile` for links, odd names, too many files, and more than `limit` bytes in all.
    """
    kept = set(list_names(folder, ARTIFACTS, ""))
    digests: dict[str, str] = {}
    left = limit
    for relative, status in iterate_entries(folder, ARTIFACTS):
        if relative.partition("/")[0] not in kept or stat.S_ISDIR(status.st_mode):
            continue
        if len(digests) == _MAX_FILES:
            raise BadFile(f"{ARTIFACTS}/ holds more than {_MAX_FILES} files: put them into one archive")
        if not relative.isprintable():
            raise BadFile(f"{ARTIFACTS}/ holds a file named {relative!r}: name it in UTF-8, without control characters")
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
    """Score, seal, and write `measurements.jsonl` anew. Raises `BadFile`, `SubmissionRefused`.

    Whatever grade the file claims, a value that the code wrote is `logged`; where we could score the same quantity,
    ours is the final one, with the given grade; `evaluated` are what frozen scorers gave, and ours too. With `cut`,
    for code that we ended midway, lines that cannot be read are left out.
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
    """The failure of an experiment that ran but measured nothing that could select it."""
    if measured.final:
        return None
    return Failure(
        kind="no measurement",
        message="the script ran to its end but measured nothing on validation: "
        "hand in predictions with lab.submit(dataset, 'validation', condition, ...)",
    )


def failure_from_error(error: Exception) -> Failure:
    """The failure of an experiment that left something which cannot be read, or that our own code failed on.

    Raises the error again where it is none of the experiment's: of our disk, kernels, devices or isolation.
    """
    if isinstance(error, SubmissionRefused):
        return Failure(kind="other", message=str(error))
    if isinstance(error, SandboxError) or is_machine_error(error):
        raise error
    return build_internal_failure(error)


def select_self_reported(values: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """The last of each final value that the code gave of train and dev, at most `SAID` of them."""
    learning = {
        (*_get_quantity(value), value.split): value
        for value in values
        if value.grade == "logged" and value.step is None and value.split != "validation"
    }
    return tuple(learning.values())[-MAX_SELF_REPORTED:]


def select_final_values(values: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """One value of each quantity on validation, of all that `measurements.jsonl` holds."""
    return _merge_final_values(
        (value for value in values if value.grade != "logged"), (value for value in values if value.grade == "logged")
    )


def _merge_final_values(scored: Iterable[Measurement], logged: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One value of each quantity on validation: ours where we scored it, else the last that the code gave."""
    ours, theirs = (
        {
            _get_quantity(value): value
            for value in values
            if value.step is None and value.split == "validation" and value.condition and value.dataset
        }
        for values in (scored, logged)
    )
    return tuple((ours | {key: value for key, value in theirs.items() if key not in ours}).values())


def _get_quantity(value: Measurement) -> tuple[str, str, str]:
    return value.dataset, value.condition, value.name


def _read_logged(folder: Path, *, seed: int, cut: bool) -> list[Measurement]:
    """What the code wrote. Lines about the test split are left out: the code cannot know them, selection must not."""
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
            raise BadFile(f"{MEASUREMENTS} line {number} was not written by lab: {reason}") from error
        if value.split != "test":
            values.append(value)
    return values


_MAX_FIGURES = 50
MAX_FIGURE_BYTES = 20 * 2**20
"""Of one figure: a picture of the pixels below seldom takes more, and prompts and papers carry it."""
_MAX_FACTS_BYTES = 2**20
MAX_PIXELS = 40_000_000
"""Of a figure: ten times a page at 300 dots an inch would have more; a small file may unpack to any number."""


def collect_figures(folder: Path) -> tuple[tuple[Figure, ...], Failure | None]:
    """The figures under figures/ (PNG and PDF, by name), and a failure where one is no image or none was drawn.

    A figure that matplotlib did not save has no facts.
    """
    figures: list[Figure] = []
    try:
        names = [*list_names(folder, "figures", ".png"), *list_names(folder, "figures", ".pdf")]
        if len(names) > _MAX_FIGURES:
            raise BadFile(f"figures/ holds {len(names)} figures, more than the limit of {_MAX_FIGURES}")
        for name in sorted(names):
            figures.append(_read_figure(folder, name))
    except BadFile as error:
        return tuple(figures), Failure(kind="figure", message=str(error))
    if not any(figure.name.endswith(".png") for figure in figures):
        return tuple(figures), Failure(kind="figure", message="no figure was drawn: save PNG files into figures/")
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

    with (
        raise_read_errors_as(
            f"figures/{name} is not a PNG image that can be read",
            BadFile,
            Image.DecompressionBombWarning,
            Image.DecompressionBombError,
        ),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=["PNG"]) as image:
            image.verify()
    if image.width * image.height > MAX_PIXELS:
        raise BadFile(
            f"figures/{name} has {image.width} x {image.height} pixels, more than the limit of {MAX_PIXELS}"
            ": save it with dpi=200"
        )


def _drop_non_finite(facts: Any) -> Any:
    """The facts without the fields that hold a number which is not finite, or a list with one."""
    if isinstance(facts, dict):
        fields = cast("dict[str, Any]", facts).items()
        return {name: _drop_non_finite(value) for name, value in fields if not _is_not_finite(value)}
    return [_drop_non_finite(item) for item in cast("list[Any]", facts)] if isinstance(facts, list) else facts


def _is_not_finite(value: Any) -> bool:
    if isinstance(value, list):
        return any(_is_not_finite(item) for item in cast("list[Any]", value))
    return isinstance(value, float) and not math.isfinite(value)
