"""Submit predictions. The host scores them on labels that this process does not have."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab._data import Dataset, Folder, data
from lab._job import LabError, not_finite_error, require_experiment, resolve_cell
from lab._llm import LabLlmAnswer
from lab._record import (
    append_line,
    check_name,
    compute_quota_left,
    copy_content,
    to_array,
    to_path_or_array,
    write_atomically,
)

Array = NDArray[Any]
_SUM_TOLERANCE = 2.0**-8
"""Tolerance for the sum of a row of probabilities: bfloat16 rounding can change it by this much."""


def submit(
    dataset: str = "",
    split: str = "",
    condition: str = "",
    *,
    predictions: object = None,
    probabilities: object = None,
    logits: object = None,
    step: int | None = None,
    answers: Sequence[Any] | None = None,
    read: str = "",
    columns: Mapping[str, object] | None = None,
) -> None:
    """Submit one row per example, in the order of `.x`. Raises `LabError` if the submission could not be scored.

    In a cell, dataset and condition default to those of the cell. `answers` cites answers of language models
    (`lab.llm`), which the host parses according to `read`. `columns`: the plan's columns that code makes.
    """
    folder = require_experiment("submit").folder
    dataset, condition = resolve_cell("lab.submit", dataset, condition)
    where = f"lab.submit({dataset!r}, {split!r}, {condition!r})"
    cell = _build_submission_fields(where, dataset, split, condition, step)
    given: dict[str, Any] = {"answers": answers}
    given |= {"predictions": predictions, "probabilities": probabilities, "logits": logits}
    present = [kind for kind, values in given.items() if values is not None]
    if len(present) != 1:
        raise LabError(f"{where}: give exactly one of {', '.join(f'{kind}=' for kind in given)}; got {sorted(present)}")
    [kind] = present
    about = data(dataset)
    rows = about.rows(split)
    checked = _check_columns(columns, rows=rows, where=where)
    if answers is not None:
        cited = {"ids": list(map(_list_ids, answers)), "columns": {name: one.tolist() for name, one in checked.items()}}
        return _submit_answers(where, cell, cited, rows=rows, read=read)
    array = _check_predictions(kind, to_array(given[kind], where), about, rows=rows, where=where)
    named = {f"column-{name}": column for name, column in checked.items()}

    def save(path: Path) -> None:
        with open(path, "wb") as file:
            np.savez(file, allow_pickle=False, **{kind: array, **named})

    with _claim_file(folder / "submissions", cell, "npz", where) as file:
        write_atomically(file, save)
        append_line("submissions.jsonl", {"file": file.name, **cell, "kind": kind})


def _submit_answers(where: str, cell: dict[str, Any], cited: dict[str, Any], *, rows: int, read: str) -> None:
    """For each row, submit the ids of the answers that form its prediction."""
    if len(cited["ids"]) != rows:
        given = len(cited["ids"])
        raise LabError(f"{where}: cite one answer, or a list of several draws, for each of {rows} rows; got {given}")
    if read not in ("label", "number", "letter") and not read.startswith("json:"):
        raise LabError(f'{where}: read={read!r} is not "label", "letter", "number", or "json:FIELD"')
    with _claim_file(require_experiment("submit").folder / "submissions", cell, "json", where) as file:
        write_atomically(file, lambda path: path.write_text(json.dumps(cited)))
        append_line("submissions.jsonl", {"file": file.name, **cell, "kind": "answers", "read": read})


def _list_ids(cited: Any) -> list[str]:
    each = [cited] if isinstance(cited, str | LabLlmAnswer) else list(cited)
    return [one.id if isinstance(one, LabLlmAnswer) else str(one) for one in each]


def submit_artifact(dataset: str = "", split: str = "", condition: str = "", content: object = None) -> None:
    """Submit something for the run's frozen scorer: a file, a folder (by path) or an array.

    Raises `LabError` if the run has no scorer for artifacts of the dataset, or the content is invalid.
    """
    current = require_experiment("submit_artifact")
    dataset, condition = resolve_cell("lab.submit_artifact", dataset, condition)
    where = f"lab.submit_artifact({dataset!r}, {split!r}, {condition!r})"
    if dataset not in current.scorers:
        has = ", ".join(current.scorers) or "none"
        raise LabError(f"{where}: this run has no scorer for artifacts of this dataset; datasets with one: {has}")
    if split not in ("validation", "test"):
        raise LabError(f"{where}: cannot submit for split {split!r}: give 'validation' or 'test'")
    cell = _build_submission_fields(where, dataset, split, condition, None)
    given = to_path_or_array(content, where)
    folder = isinstance(given, Path) and given.is_dir()
    name = check_name("submit_artifact", given.resolve().name) if isinstance(given, Path) else "artifact.npy"

    def write(part: Path) -> None:
        if not folder:
            return copy_content(part, given)
        with tarfile.open(part, "w", dereference=True) as archive:
            archive.add(str(given), ".")

    with _claim_file(current.folder / "submissions", cell, "bin", where) as file:
        write_atomically(file, write, limit=compute_quota_left(current.artifact_bytes, file, "*.bin"), where=where)
        line = {"file": file.name, **cell, "kind": "artifact", "name": name, "packed": folder}
        append_line("submissions.jsonl", line)


def _build_submission_fields(where: str, dataset: str, split: str, condition: str, step: int | None) -> dict[str, Any]:
    """Return the fields that identify a submission."""
    if not isinstance(condition, str) or not condition:  # pyrefly: ignore
        raise LabError(f"{where}: condition must be the name of a compared arm, not {condition!r}")
    if split == "test" and step is not None:
        raise LabError(f"{where}: test predictions are submitted once, without step=")
    return {"dataset": dataset, "split": split, "condition": condition, "step": None if step is None else int(step)}


@contextlib.contextmanager
def _claim_file(folder: Path, cell: dict[str, Any], ending: str, where: str) -> Generator[Path]:
    """Create the file of a submission, named by its fields so that only one process can create it; it is removed on
    failure.

    Raises `LabError` if it exists.
    """
    folder.mkdir(exist_ok=True)
    stem = hashlib.sha256(json.dumps(cell).encode()).hexdigest()[:20]
    file = folder / f"{stem}.{ending}"
    try:
        if any(folder.glob(f"{stem}.*")):
            raise FileExistsError
        file.touch(exist_ok=False)
    except FileExistsError:
        again = "" if cell["step"] is None else f" for step {cell['step']}"
        raise LabError(f"{where} was called before{again}: submit a condition once per dataset and split") from None
    try:
        yield file
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _check_columns(columns: Mapping[str, object] | None, *, rows: int, where: str) -> dict[str, Array]:
    found = {check_name("submit", name): to_array(values, where) for name, values in (columns or {}).items()}
    for name, column in found.items():
        whole = column.astype(np.int64) if column.dtype.kind in "biuf" else np.empty(0)
        if column.shape != (rows,) or not np.array_equal(whole, column):
            given = f"shape {column.shape} of dtype {column.dtype}"
            raise LabError(f"{where}: column {name!r} must be {rows} whole numbers, in the order of .x; got {given}")
        found[name] = whole
    return found


def _check_predictions(kind: str, array: Array, about: Dataset | Folder, *, rows: int, where: str) -> Array:
    classes = about.classes
    expected = (rows,) if kind == "predictions" else (rows, classes)
    if kind != "predictions" and classes == 0:
        raise LabError(f"{where}: {about.name} is a regression dataset: give predictions= with one number per row")
    if array.shape != expected:
        raise LabError(f"{where}: shape mismatch: {kind} must have shape {expected}, got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise LabError(f"{where}: {kind} must be numbers, not dtype {array.dtype}")
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise not_finite_error(f"{where}: {bad} of {array.size} {kind} are not finite")
    if kind == "predictions" and classes == 0:
        return array.astype(np.float64)
    if kind == "predictions":
        whole = array.astype(np.int64)
        if not np.array_equal(whole, array) or whole.min(initial=0) < 0 or whole.max(initial=0) >= classes:
            span = f"{array.min()} to {array.max()}"
            raise LabError(f"{where}: predictions must be class numbers 0..{classes - 1}, got values from {span}")
        return whole
    if kind == "probabilities":
        sums = array.sum(axis=1, dtype=np.float64)
        row = int(np.argmax(np.abs(sums - 1.0)))
        if abs(sums[row] - 1.0) > _SUM_TOLERANCE:
            wrong = f"row {row} sums to {sums[row]:.4g} (submit raw scores with logits=)"
            raise LabError(f"{where}: probabilities must sum to 1 in every row; {wrong}")
        if array.min() < -1e-6:
            raise LabError(f"{where}: probabilities must not be negative, got {array.min():.4g}")
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32)
