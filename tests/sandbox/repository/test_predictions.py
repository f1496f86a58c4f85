"""Predictions of a command: how they are interpreted, and which ambiguous ones are rejected."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.nodes import Failure
from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.repository.metric import MetricReading
from labwright.sandbox.repository.predictions import read_truth, submit_predictions, write_labels
from labwright.sandbox.scoring import score_submissions

CLASSES, ROWS = 10, 300


def labels_of(place: Path, names: Sequence[str]) -> Path:
    """Write the labels of a dataset with these classes and return the folder."""
    (place / "truth.csv").write_text("\ufefflabel\n" + "\n".join(names) + "\n")
    truth = read_truth(place / "truth.csv")
    facts = DatasetFacts(name="d", source="x", features=0, classes=0, sizes={}, fingerprint="f", seed=0)
    (place / "labels").mkdir()
    write_labels(truth, truth.add_facts(facts), place / "labels")
    return place / "labels"


def score(place: Path, labels: Path, metric: str, name: str = "p.csv") -> MetricReading:
    """Score the predictions in a folder with a metric."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            submit_predictions(Path(folder), name, place, labels=labels, dataset="d", condition="run", since=0)
            found = score_submissions(Path(folder), labels, split="validation", seed=0)
    except SubmissionRefused as error:
        return MetricReading(failure=Failure(kind="other", message=str(error)))
    return MetricReading({one.name: one.value for one in found}[metric])


@pytest.fixture(scope="module")
def truth() -> NDArray[Any]:
    return np.random.default_rng(0).integers(0, CLASSES, ROWS)


@pytest.fixture(scope="module")
def probabilities(truth: NDArray[Any]) -> NDArray[Any]:
    found = np.random.default_rng(1).dirichlet(np.ones(CLASSES) * 0.2, ROWS) * 0.1
    found[np.arange(ROWS), truth] += 0.9
    return found / found.sum(1, keepdims=True)


@pytest.fixture
def scored(tmp_path: Path, truth: NDArray[Any]) -> Callable[[NDArray[Any], str, str], MetricReading]:
    """Score values by class, printed with a number format, with a metric."""
    labels = labels_of(tmp_path, [f"c{one}" for one in truth])

    def read(values: NDArray[Any], form: str, metric: str) -> MetricReading:
        lines = [",".join(f"c{k}" for k in range(CLASSES)), *(",".join(form % v for v in row) for row in values)]
        (tmp_path / "p.csv").write_text("\ufeff" + "\n".join(lines) + "\n")
        return score(tmp_path, labels, metric)

    return read


@pytest.mark.parametrize(("form", "within"), [("%.6f", 1e-5), ("%.3f", 1e-3), ("%.2f", 5e-3)])
def test_rounded_probabilities_are_scored_as_probabilities(
    scored: Callable[[NDArray[Any], str, str], MetricReading],
    probabilities: NDArray[Any],
    truth: NDArray[Any],
    form: str,
    within: float,
) -> None:
    loss = -np.log(probabilities[np.arange(ROWS), truth]).mean()
    assert scored(probabilities, form, "log_loss").value == pytest.approx(loss, abs=within)


def percent(values: NDArray[Any]) -> NDArray[Any]:
    return 100 * values


def positive_losses(values: NDArray[Any]) -> NDArray[Any]:
    return np.abs(np.log(values))


@pytest.mark.parametrize(
    ("change", "said"), [(percent, "its rows sum to 100 to 100; "), (positive_losses, "and its rows sum to ")]
)
def test_what_may_be_probabilities_or_logits_is_refused(
    scored: Callable[[NDArray[Any], str, str], MetricReading],
    probabilities: NDArray[Any],
    change: Callable[[NDArray[Any]], NDArray[Any]],
    said: str,
) -> None:
    found = scored(change(probabilities), "%.6f", "log_loss")
    assert found.failure is not None and found.value is None and said in found.failure.message
    assert "write probabilities that sum to 1, or logits with the mean of each row subtracted" in found.failure.message


@pytest.mark.parametrize(
    ("names", "predicted", "accuracy"),
    [
        (("v1", "v1.0", "v1.0"), ("v1.0", "v1.0", "v1"), 1 / 3),
        (("0", "1", "10"), ("0.0", "1.0", "10.0"), 1.0),  # as pandas writes integers in a column with gaps
        (("1", "01", "1"), ("1", "01", "01"), 2 / 3),  # two classes that differ only as texts
    ],
)
def test_a_class_is_known_by_its_name(
    tmp_path: Path, names: tuple[str, ...], predicted: tuple[str, ...], accuracy: float
) -> None:
    labels = labels_of(tmp_path, names)
    (tmp_path / "p.csv").write_text("prediction\n" + "\n".join(predicted) + "\n")
    assert score(tmp_path, labels, "accuracy").value == pytest.approx(accuracy)


@pytest.mark.parametrize(
    ("name", "content"),
    [("p.json", b"[" * 100_000), ("p.json", b"{}"), ("p.npy", b""), ("p.npy", b"\x93NUMPY\x01\x00\x05\x00{((((")],
)
def test_what_holds_no_predictions_is_refused_in_words(tmp_path: Path, name: str, content: bytes) -> None:
    labels = labels_of(tmp_path, ["a", "b"])
    (tmp_path / name).write_bytes(content)
    found = score(tmp_path, labels, "accuracy", name)
    assert found.value is None and found.failure is not None and name in found.failure.message
