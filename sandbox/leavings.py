"""What a finished experiment left in its folder, read as untrusted and graded by us."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from record.nouns.frozen import encodable
from record.nouns.measurements import Grade, Measurement
from record.nouns.nodes import Failure
from record.unexpected import of_machine, stumbled
from sandbox.errors import SandboxError, SubmissionRefused
from sandbox.scoring import score_submissions, seal
from sandbox.untrusted import Unfit, names_in, open_regular, read_as, read_lines, write_whole

MEASUREMENTS = "measurements.jsonl"
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


def hash_arrays(folder: Path, limit: int) -> dict[str, str]:
    """File name under arrays/ -> sha256. Raises `Unfit` for a file that is no array, or needs unpickling."""
    return {name: _hash_array(folder, name, limit) for name in names_in(folder, "arrays", ".npy")}


def measure(
    folder: Path, labels: Path, *, seed: int, limit: int, grade: Grade = "computed", cut: bool = False,
    evaluated: Sequence[Measurement] = (),
) -> Measured:
    """Score, seal, and write `measurements.jsonl` anew. Raises `Unfit`, `SubmissionRefused`.

    Whatever grade the file claims, a value that the code wrote is `logged`; where we could score the same quantity,
    ours is the final one, with the given grade; `evaluated` are what frozen scorers gave, and ours too. With `cut`,
    for code that we ended midway, lines that cannot be read are left out.
    """
    scored = (*score_submissions(folder, labels, split="validation", seed=seed, grade=grade), *evaluated)
    logged = _logged(folder, seed=seed, limit=limit, cut=cut)
    sealed = seal(folder, labels, grade=grade)
    every = [*scored, *logged]
    curves = _write(folder, every) if every else None
    return Measured(_final(scored, logged), sealed, curves, _said(logged))


def lacking(measured: Measured) -> Failure | None:
    """The failure of an experiment that ran but measured nothing that could select it."""
    if measured.final:
        return None
    return Failure(kind="no measurement", message="the script ran to its end but measured nothing on validation: "
                   "hand in predictions with lab.submit(dataset, 'validation', condition, ...)")


def defect(error: Exception) -> Failure:
    """The failure of an experiment that left something which cannot be read, or over which we stumbled ourselves.

    Raises the error again where it is none of the experiment's: of our disk, kernels, devices or isolation.
    """
    if isinstance(error, Unfit | SubmissionRefused):
        return Failure(kind="other", message=str(error))
    if isinstance(error, SandboxError) or of_machine(error):
        raise error
    return stumbled(error)


def _said(logged: Iterable[Measurement]) -> tuple[Measurement, ...]:
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


def _logged(folder: Path, *, seed: int, limit: int, cut: bool) -> list[Measurement]:
    """What the code wrote. Lines about the test split are left out: the code cannot know them, selection must not."""
    found: list[Measurement] = []
    for number, line in enumerate(read_lines(folder, MEASUREMENTS, limit), start=1):
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


def _hash_array(folder: Path, name: str, limit: int) -> str:
    with open_regular(folder, f"arrays/{name}", limit) as file:
        _check_header(file, name)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_header(file: BufferedReader, name: str) -> None:
    import numpy as np

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
