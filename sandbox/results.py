"""What finished code left in its folder (values, arrays, artifacts, figures), read as untrusted and graded by us."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import numpy as np

from record.nouns.data import Grade, Measurement
from record.nouns.figures import Figure, FigureFacts
from record.nouns.frozen import encodable
from record.nouns.nodes import Failure
from record.unexpected import of_machine, stumbled
from sandbox.errors import SandboxError, SubmissionRefused
from sandbox.job import ARTIFACTS, MEASUREMENTS
from sandbox.scoring import score_submissions, seal
from sandbox.untrusted import FILE_BYTES, Unfit, names_in, open_regular, read_as, read_lines, write_whole

_MOST_FILES = 10_000
SAID = 400
"""Values of train and dev that an attempt's record carries; the file has all."""
_FIELDS = ("name", "value", "condition", "dataset", "split", "step")


@dataclass(frozen=True)
class Measured:
    """Final validation values, sealed test predictions, and the sha256 of the file that holds every value."""

    final: tuple[Measurement, ...]
    sealed: dict[str, str]
    curves_sha256: str | None
    said: tuple[Measurement, ...] = ()
    """The last of each final value that the code gave of train and dev, at most `SAID` of them."""


def hash_arrays(folder: Path) -> dict[str, str]:
    """File name under arrays/ -> sha256. Raises `Unfit` for a file that is no array, or needs unpickling."""
    return {name: _hash_array(folder, name) for name in names_in(folder, "arrays", ".npy")}


def hash_artifacts(folder: Path, limit: int) -> dict[str, str]:
    """File under artifacts/ -> sha256. Raises `Unfit` for links, odd names, and more than `limit` bytes in all."""
    found: dict[str, str] = {}
    left = limit
    for relative in _artifact_files(folder):
        with open_regular(folder, f"{ARTIFACTS}/{relative}", left) as file:
            found[relative] = hashlib.file_digest(file, "sha256").hexdigest()
            left -= os.fstat(file.fileno()).st_size
    return found


def _artifact_files(folder: Path) -> list[str]:
    """Every file under artifacts/, relative to it; what `lab` was still writing is left out. Raises `Unfit`."""
    base = folder / ARTIFACTS
    found: list[str] = []
    for top in names_in(folder, ARTIFACTS, ""):
        if not (base / top).is_dir() or (base / top).is_symlink():
            found.append(top)
        for place, folders, files in os.walk(base / top):
            links = [one for one in folders if os.path.islink(os.path.join(place, one))]
            found += [os.path.relpath(os.path.join(place, one), base) for one in (*files, *links)]
            if len(found) > _MOST_FILES:
                raise Unfit(f"{ARTIFACTS}/ holds more than {_MOST_FILES} files: put them into one archive")
    for one in found:
        if not one.isprintable():
            raise Unfit(f"{ARTIFACTS}/ holds a file named {one!r}: name it in UTF-8, without control characters")
    return sorted(found)


def measure(
    folder: Path, labels: Path, *, seed: int, grade: Grade = "computed", cut: bool = False,
    evaluated: Sequence[Measurement] = (),
) -> Measured:
    """Score, seal, and write `measurements.jsonl` anew. Raises `Unfit`, `SubmissionRefused`.

    Whatever grade the file claims, a value that the code wrote is `logged`; where we could score the same quantity,
    ours is the final one, with the given grade; `evaluated` are what frozen scorers gave, and ours too. With `cut`,
    for code that we ended midway, lines that cannot be read are left out.
    """
    scored = (*score_submissions(folder, labels, split="validation", seed=seed, grade=grade), *evaluated)
    logged = _logged(folder, seed=seed, cut=cut)
    sealed = seal(folder, labels, grade=grade)
    every = [*scored, *logged]
    curves = _write(folder, every) if every else None
    return Measured(_final(scored, logged), sealed, curves, _learning_values(logged))


def missing_measurement(measured: Measured) -> Failure | None:
    """The failure of an experiment that ran but measured nothing that could select it."""
    if measured.final:
        return None
    return Failure(kind="no measurement", message="the script ran to its end but measured nothing on validation: "
                   "hand in predictions with lab.submit(dataset, 'validation', condition, ...)")


def failure_of(error: Exception) -> Failure:
    """The failure of an experiment that left something which cannot be read, or over which we stumbled ourselves.

    Raises the error again where it is none of the experiment's: of our disk, kernels, devices or isolation.
    """
    if isinstance(error, SubmissionRefused):
        return Failure(kind="other", message=str(error))
    if isinstance(error, SandboxError) or of_machine(error):
        raise error
    return stumbled(error)


def _learning_values(logged: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """The last of each quantity that has no step and is not of validation, newest last."""
    last = {(*_quantity(one), one.split): one for one in logged if one.step is None and one.split != "validation"}
    return tuple(last.values())[-SAID:]


def _final(scored: Iterable[Measurement], logged: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One value of each quantity on validation: ours where we scored it, else the last that the code gave."""
    ours = {_quantity(one): one for one in scored if _is_final(one)}
    said = {_quantity(one): one for one in logged if _is_final(one)}
    return tuple((said | ours)[quantity] for quantity in [*ours, *(key for key in said if key not in ours)])


def _is_final(one: Measurement) -> bool:
    return one.step is None and one.split == "validation" and bool(one.condition and one.dataset)


def _quantity(one: Measurement) -> tuple[str, str, str]:
    return one.dataset, one.condition, one.name


def _logged(folder: Path, *, seed: int, cut: bool) -> list[Measurement]:
    """What the code wrote. Lines about the test split are left out: the code cannot know them, selection must not."""
    found: list[Measurement] = []
    for number, line in enumerate(read_lines(folder, MEASUREMENTS, FILE_BYTES), start=1):
        try:
            fields: dict[str, Any] = json.loads(line)
            chosen = encodable({key: fields[key] for key in _FIELDS if key in fields})
            one = Measurement(**chosen, seed=seed, grade="logged")
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if cut:
                continue
            raise Unfit(f"{MEASUREMENTS} line {number} was not written by lab: {_first_line(error)}") from error
        if one.split != "test":
            found.append(one)
    return found


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _write(folder: Path, values: Iterable[Measurement]) -> str:
    content = "".join(one.model_dump_json() + "\n" for one in values).encode()
    write_whole(folder, MEASUREMENTS, content)
    return hashlib.sha256(content).hexdigest()


def _hash_array(folder: Path, name: str) -> str:
    with open_regular(folder, f"arrays/{name}", FILE_BYTES) as file:
        _check_header(file, name)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_header(file: BufferedReader, name: str) -> None:
    with read_as(f"arrays/{name} is not an array that numpy can read: save it with lab.save"):
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, _, dtype = read(file)
        said = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise Unfit(f"arrays/{name} holds Python objects: save numeric arrays with lab.save")
    held = os.fstat(file.fileno()).st_size - file.tell()
    if min(shape, default=1) < 0 or said != held:
        raise Unfit(f"arrays/{name} holds {held} bytes, not what its header says, {shape} of {dtype}: save it with "
                    "lab.save")


_MAX_FIGURES = 50
FIGURE_BYTES = 20 * 2**20
"""Of one figure: a picture of the pixels below seldom takes more, and prompts and papers carry it."""
_FACTS_BYTES = 2**20
MOST_PIXELS = 40_000_000
"""Of a figure: ten times a page at 300 dots an inch would have more; a small file may unpack to any number."""


def collect_figures(folder: Path) -> tuple[tuple[Figure, ...], Failure | None]:
    """The figures under figures/ (PNG and PDF, by name), and a failure where one is no image or none was drawn.

    A figure that matplotlib did not save has no facts.
    """
    figures: list[Figure] = []
    try:
        names = [*names_in(folder, "figures", ".png"), *names_in(folder, "figures", ".pdf")]
        if len(names) > _MAX_FIGURES:
            raise Unfit(f"figures/ holds {len(names)} figures, more than the limit of {_MAX_FIGURES}")
        for name in sorted(names):
            figures.append(_figure(folder, name))
    except Unfit as error:
        return tuple(figures), Failure(kind="figure", message=str(error))
    if not any(figure.name.endswith(".png") for figure in figures):
        return tuple(figures), Failure(kind="figure", message="no figure was drawn: save PNG files into figures/")
    return tuple(figures), None


def _figure(folder: Path, name: str) -> Figure:
    with open_regular(folder, f"figures/{name}", FIGURE_BYTES) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        (_check_png if name.endswith(".png") else _check_pdf)(file, name)
    return Figure(name=name, sha256=digest, facts=_facts(folder, name))


def _check_png(file: BufferedReader, name: str) -> None:
    from PIL import Image

    with (read_as(f"figures/{name} is not a PNG image that can be read", Unfit, Image.DecompressionBombWarning,
                  Image.DecompressionBombError), warnings.catch_warnings()):
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=["PNG"]) as image:
            image.verify()
    if image.width * image.height > MOST_PIXELS:
        raise Unfit(f"figures/{name} has {image.width} x {image.height} pixels, more than the limit of {MOST_PIXELS}: "
                    "save it with dpi=200")


def _check_pdf(file: BufferedReader, name: str) -> None:
    if not file.read(1024).startswith(b"%PDF-"):
        raise Unfit(f"figures/{name} is not a PDF file")


def _facts(folder: Path, name: str) -> FigureFacts:
    try:
        with open_regular(folder, f"figures/{name}.facts.json", _FACTS_BYTES) as file:
            return FigureFacts.model_validate(_finite(encodable(json.load(file))))
    except (Unfit, ValueError, RecursionError):
        return FigureFacts()


def _finite(said: Any) -> Any:
    """What was said without the fields that hold a number which is not finite."""
    if isinstance(said, dict):
        fields = cast("dict[str, Any]", said).items()
        return {name: _finite(value) for name, value in fields if not _not_finite(value)}
    return [_finite(one) for one in cast("list[Any]", said)] if isinstance(said, list) else said


def _not_finite(value: Any) -> bool:
    """Whether it is a number that is not finite, or a list with one."""
    if isinstance(value, list):
        return any(_not_finite(one) for one in cast("list[Any]", value))
    return isinstance(value, float) and not math.isfinite(value)
