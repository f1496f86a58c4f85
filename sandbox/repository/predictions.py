"""Score the predictions of a repository's command on labels that it cannot see.

The labels are a table with a column `label` and optionally `id` and `split` (validation or test). Integers and words
are classes, numbers with a decimal point are values. There is one prediction per row, in a table with `prediction` or
one column per class, a JSON list, or an array (.npy) of one or two dimensions; rows are matched by `id` if the labels
have it, otherwise by order. The submission has the format of `lab.submit`, so scoring is the same.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.untrusted_files import MAX_FILE_BYTES, open_regular, raise_read_errors_as, write_file
from labwright.sandbox.data.preparation import ArrayStream, write_archives
from labwright.sandbox.job import RepositoryError, SubmissionRefused
from labwright.sandbox.limited_process import call_limited
from labwright.sandbox.repository.git_mirror import find_root
from labwright.sandbox.repository.metric import find_file
from labwright.sandbox.scoring import SUBMISSION_INDEX

Array = NDArray[Any]
_MAX_VALUE_BYTES = 64
"""Maximum bytes per prediction in a file of predictions only, plus four per letter of the longest class name."""
SPLITS = ("validation", "test")
SUM_TOLERANCE = 0.1
"""Accepted difference from 1 of the sum of a row of probabilities, which may be rounded to few decimals."""
PREDICTION_COLUMN, LABEL_COLUMN, ID_COLUMN, SPLIT_COLUMN = "prediction", "label", "id", "split"


@dataclass(frozen=True)
class TruthLabels:
    """Labels, one per row."""

    labels: Array
    """Indices into `class_names`, or values."""
    splits: tuple[str, ...]
    ids: tuple[str, ...]
    """Empty: rows are matched by order."""
    class_names: tuple[str, ...]
    """Names of the classes; empty for values."""

    @property
    def without_splits(self) -> TruthLabels:
        """The same labels with all rows in validation."""
        return replace(self, splits=("validation",) * len(self.labels))

    @property
    def digest(self) -> str:
        whole = json.dumps([self.labels.tolist(), self.splits, self.ids, self.class_names])
        return hashlib.sha256(whole.encode()).hexdigest()

    def add_facts(self, facts: DatasetFacts) -> DatasetFacts:
        """Add facts derived from the labels to the recorded facts."""
        return facts.model_copy(
            update={
                "sizes": {name: self.splits.count(name) for name in SPLITS if name in self.splits},
                "target": LABEL_COLUMN,
                "task": "classification" if self.class_names else "regression",
                "classes": len(self.class_names),
                "class_names": self.class_names,
                "fingerprint": hashlib.sha256(f"{facts.fingerprint} {self.digest}".encode()).hexdigest(),
            }
        )


def check_truth(path: Path, repository: Path, mounted: Iterable[str] = ()) -> None:
    """Raise `RepositoryError` if the command could read the labels, or if they are invalid."""
    places = [find_root(repository), *map(Path, mounted)]
    if any(path.resolve().is_relative_to(place.resolve()) for place in places):
        raise RepositoryError(f"--truth {path} is readable by the command: move it elsewhere")
    read_truth(path)


def read_truth(path: Path) -> TruthLabels:
    """Read the labels from a table (.csv, .tsv). Raises `RepositoryError`."""

    def check(is_valid: bool | np.bool_, fault: str) -> None:
        if not is_valid:
            raise RepositoryError(f"--truth {path}: {fault}")

    try:
        columns = _parse_columns(path.read_text(encoding="utf-8-sig"), path.suffix)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RepositoryError(f"--truth {path} cannot be read: {error}") from None
    labels, ids = columns.get(LABEL_COLUMN, []), tuple(columns.get(ID_COLUMN, ()))
    has = ", ".join(columns) or "nothing"
    check(bool(labels), f"it needs a column {LABEL_COLUMN!r} and at least one row; it has {has}")
    split = tuple(columns.get(SPLIT_COLUMN) or ["validation"] * len(labels))
    odd = sorted(set(split) - set(SPLITS))
    check(not odd, f"split {''.join(odd[:1])!r} is neither validation nor test")
    check("validation" in split, "there are no validation rows, which the search needs for selection")
    check(len(set(ids)) == len(ids), "an id occurs in two rows")
    check("" not in labels, f"row {[*labels, ''].index('') + 1} has no label")
    values = _parse_numbers(labels)
    check(values is None or np.isfinite(values).all(), "a label is not finite")
    if values is not None and any(set(label) & set(".eE") for label in labels):
        return TruthLabels(values, split, ids, ())
    names = tuple(sorted(set(labels), key=lambda name: (float(name) if values is not None else 0.0, name)))
    check(len(names) > 1, f"all labels are {labels[0]!r} (write numbers with a decimal point for regression)")
    return TruthLabels(np.array([names.index(label) for label in labels]), split, ids, names)


def write_labels(truth: TruthLabels, facts: DatasetFacts, labels: Path) -> None:
    """Write the labels of each split to the label folder."""
    with write_archives(labels / f"{facts.name}.npz") as (archive,):
        for split in SPLITS:
            rows = [row for row, name in enumerate(truth.splits) if name == split]
            archive.add(f"{split}_y", ArrayStream.from_array(truth.labels[rows]))
            archive.add(f"{split}_rows", ArrayStream.from_array(np.array(rows, dtype=np.int64)))
        archive.add("ids", ArrayStream.from_array(np.array(truth.ids, dtype=np.str_)))
        archive.add("meta", ArrayStream.from_array(np.array(facts.model_dump_json())))


def submit_predictions(
    folder: Path,
    location: str,
    checkout: Path,
    *,
    labels: Path,
    dataset: str,
    condition: str,
    since: float | None = None,
) -> None:
    """Submit the predictions that a command wrote to its checkout, for each split.

    Raises `SubmissionRefused` if they are missing or do not match the labels.
    """
    with np.load(labels / f"{dataset}.npz", allow_pickle=False) as file:
        facts, ids = json.loads(str(file["meta"])), [str(name) for name in file["ids"]]
        rows: dict[str, Array] = {split: file[f"{split}_rows"] for split in SPLITS}
    total = sum(map(len, rows.values()))
    kind, values = call_limited(
        _read_predictions, checkout, location, facts["class_names"], ids, total, since, subject="the predictions"
    )
    lines: list[dict[str, Any]] = []
    for split in (name for name in SPLITS if len(rows[name])):
        name = hashlib.sha256(f"{condition} {split}".encode()).hexdigest()[:40] + ".npz"
        content = io.BytesIO()
        arrays: dict[str, Any] = {kind: values[rows[split]]}
        np.savez_compressed(content, **arrays)
        write_file(folder, f"submissions/{name}", content.getvalue())
        lines.append({"file": name, "dataset": dataset, "split": split, "condition": condition, "kind": kind})
    write_file(folder, SUBMISSION_INDEX, "".join(json.dumps(line) + "\n" for line in lines))


def _read_predictions(
    checkout: Path, place: str, names: Sequence[str], ids: Sequence[str], total: int, since: float | None
) -> tuple[str, Array]:
    """Return the kind of the predictions and their values in the order of the labels. Raises `SubmissionRefused`."""
    path, _, column = place.partition(":")
    suffix = PurePosixPath(path).suffix
    limit = MAX_FILE_BYTES
    if suffix in (".npy", ".json"):
        width = _MAX_VALUE_BYTES + 4 * max(map(len, names), default=0)
        limit = min(limit, 2**16 + total * max(1, len(names)) * width)
    with raise_read_errors_as(f"{path} contains no valid predictions", SubmissionRefused):
        with open_regular(checkout, find_file(path, checkout, since), limit) as file:
            content = file.read()
        given = list[str]()
        if suffix == ".npy":
            values = np.load(io.BytesIO(content), allow_pickle=False)
        elif suffix == ".json":
            values = np.array(json.loads(content))
        else:
            columns = _parse_columns(content.decode("utf-8-sig"), suffix)
            values, given = _read_table_columns(columns, column, names, path)
        if ids and given:
            places = {name: at for at, name in enumerate(given)}
            if missing := next((name for name in ids if name not in places), None):
                raise SubmissionRefused(f"{path} has no prediction for id {missing!r}")
            values = values[[places[name] for name in ids]]
        if len(values) != total:
            raise SubmissionRefused(f"{path} has {len(values)} predictions for {total} labels")
        return _detect_kind(values, names, path)


def _read_table_columns(
    columns: Mapping[str, list[str]], column: str, names: Sequence[str], path: str
) -> tuple[Array, list[str]]:
    given = columns.get(ID_COLUMN, [])
    by_class = [columns[name] for name in names if name in columns]
    if not column and names and len(by_class) == len(names):
        return np.array(by_class, dtype=np.float64).T, given
    if (found := columns.get(wanted := column or PREDICTION_COLUMN)) is None:
        raise SubmissionRefused(f"{path} has no column {wanted!r}, only {', '.join(columns)[:200]}")
    return np.array(found), given


def _detect_kind(values: Array, names: Sequence[str], path: str) -> tuple[str, Array]:
    if values.ndim == 2 and names:
        return _detect_class_kind(values, names, path)
    if values.ndim != 1:
        raise SubmissionRefused(f"{path} has predictions of shape {values.shape}, but there is one label per row")
    if not names:
        numbers = _parse_numbers([str(value) for value in values])
        if numbers is None:
            raise SubmissionRefused(f"{path} contains words, but the labels are numbers")
        return "predictions", numbers
    texts = [str(value) for value in values]
    known = {name: at for at, name in enumerate(names)}
    numbers = _parse_numbers(names)
    by_number = {} if numbers is None else {number: at for at, number in enumerate(numbers.tolist())}
    if len(by_number) == len(names):  # if all classes are numbers, 1.0 means class 1 (but v1.0 does not mean v1)
        for text in set(texts) - known.keys():
            number = _parse_numbers([text])
            if number is not None and number[0] in by_number:
                known[text] = by_number[number[0]]
    if odd := next((text for text in texts if text not in known), None):
        raise SubmissionRefused(f"{path} predicts {odd!r}, which is not a class: {', '.join(names[:10])}")
    return "predictions", np.array([known[text] for text in texts])


def _detect_class_kind(values: Array, names: Sequence[str], path: str) -> tuple[str, Array]:
    """Distinguish probabilities, whose rows sum to 1 up to rounding, from logits. Raises `SubmissionRefused` for
    ambiguous values, since a softmax of probabilities would change the scores."""
    if values.shape[1] != len(names) or values.dtype.kind not in "iuf":
        raise SubmissionRefused(f"{path} has {values.shape[1]} columns for {len(names)} classes")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise SubmissionRefused(f"{path} contains values that are not finite")
    sums, least = values.sum(1), values.min()
    is_one = np.abs(sums - 1).max() <= SUM_TOLERANCE
    if is_one and least >= 0:
        return "probabilities", values / sums[:, None]
    if not is_one and least < 0:
        return "logits", values
    raise SubmissionRefused(
        f"{path} contains neither probabilities nor unambiguous logits: its smallest value is {least:.4g}, and its "
        f"rows sum to {sums.min():.4g} to {sums.max():.4g}; write probabilities that sum to 1, or logits with the mean "
        "of each row subtracted"
    )


def _parse_columns(text: str, suffix: str) -> dict[str, list[str]]:
    """Parse a table into column -> strings. Raises `csv.Error` if rows differ in length."""
    rows = list(csv.reader(io.StringIO(text), delimiter="\t" if suffix == ".tsv" else ",", strict=True))
    head, body = [name.strip() for name in rows[0]] if rows else [], [row for row in rows[1:] if row]
    if any(len(row) != len(head) for row in body):
        raise csv.Error("its rows have different lengths")
    return {name: [row[at].strip() for row in body] for at, name in enumerate(head)}


def _parse_numbers(texts: Sequence[str]) -> Array | None:
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return None
