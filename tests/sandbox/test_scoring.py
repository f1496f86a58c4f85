"""Metrics compared with scikit-learn, and submissions of hostile code."""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference  # pyright: ignore[reportMissingTypeStubs]

from labwright.sandbox import metrics
from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.results import measure_attempt
from labwright.sandbox.scoring import score_sealed, score_submissions, seal_test_predictions
from tests.sandbox.conftest import DatasetStore

sk: Any = reference
ROWS, TEST_ROWS = 360, 359


def examples(seed: int, n: int, classes: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(classes) * 0.3, size=n), rng.integers(0, classes, size=n)


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), n=st.integers(2, 60), classes=st.integers(2, 6))
def test_the_metrics_agree_with_scikit_learn(seed: int, n: int, classes: int) -> None:
    p, y = examples(seed, n, classes)
    labels = range(classes)
    ours = metrics.compute_scores("probabilities", p, y)
    clipped = np.clip(p, metrics.MIN_PROBABILITY, 1.0)
    assert ours["accuracy"] == pytest.approx(sk.accuracy_score(y, p.argmax(1)))
    assert ours["macro_f1"] == pytest.approx(sk.f1_score(y, p.argmax(1), average="macro"))
    assert ours["log_loss"] == pytest.approx(-np.log(clipped[np.arange(n), y]).mean())
    assert ours["log_loss"] == pytest.approx(
        sk.log_loss(y, clipped / clipped.sum(1, keepdims=True), labels=labels), rel=1e-4
    )
    assert ours["brier"] == pytest.approx(sk.brier_score_loss(y, p, labels=labels, scale_by_half=False))
    assert 0 <= ours["ece"] <= 1
    assert ours.get("auroc") == pytest.approx(one_against_the_rest(p, y))
    of_classes = metrics.compute_scores("predictions", p.argmax(1), y)
    assert of_classes == {name: ours[name] for name in ("accuracy", "macro_f1")}
    from_logits = metrics.compute_scores("logits", np.log(p + 1e-300) + 5.0, y)
    assert from_logits == pytest.approx(ours, abs=1e-6)


def one_against_the_rest(p: Any, y: Any) -> float | None:
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    areas = [sk.roc_auc_score(y == c, p[:, c]) for c in classes if 0 < (y == c).sum() < len(y)]
    return float(np.mean(areas)) if areas else None


def auroc(p: Any, y: Any) -> float | None:
    return metrics.compute_scores("probabilities", p, y).get("auroc")


def test_auroc_counts_ties_half_and_leaves_out_what_it_cannot_say() -> None:
    tied = np.array([[0.5, 0.5], [0.5, 0.5], [0.2, 0.8]])
    assert auroc(tied, np.array([0, 1, 1])) == 0.75
    assert auroc(tied, np.array([1, 1, 1])) is None
    assert auroc(np.full((4, 3), 1 / 3), np.array([0, 0, 1, 1])) == 0.5


def test_calibration_error_by_hand() -> None:
    """Two bins: 3 at 0.9, of which 2 are correct, and 1 wrong at 0.6."""
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.6, 0.4]])
    assert metrics.compute_scores("probabilities", p, np.array([0, 0, 1, 1]))["ece"] == pytest.approx(
        (abs(2 - 2.7) + 0.6) / 4
    )
    assert metrics.compute_scores("probabilities", np.eye(3), np.arange(3))["ece"] == 0.0


def test_regression_metrics_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, p = rng.normal(size=50).astype(np.float32), rng.normal(size=50)
    assert metrics.compute_scores("predictions", p, y) == pytest.approx(
        {"mse": sk.mean_squared_error(y, p), "mae": sk.mean_absolute_error(y, p), "r2": sk.r2_score(y, p)}
    )
    assert metrics.compute_scores("predictions", p, np.ones(50))["r2"] == 0.0


def test_every_computed_metric_is_declared() -> None:
    p, y = examples(0, 20, 3)
    computed = {
        *metrics.compute_scores("probabilities", p, y),
        *metrics.compute_scores("predictions", p[:, 0], y.astype(float)),
    }
    assert computed == set(METRICS)
    assert all(name == spec.name and spec.title for name, spec in METRICS.items())


# --- untrusted submissions ------------------------------------------------------------------------------------------


def put(folder: Path, number: int, split: str = "validation", **fields: Any) -> None:
    """Write what lab.submit would, or worse."""
    rows = ROWS if split == "validation" else TEST_ROWS
    kind = fields.pop("kind", "probabilities")
    values = fields.pop("values", np.full((rows, 10), 0.1))
    columns = {name: fields.pop(name) for name in [*fields] if name.startswith("column-")}
    line = {
        "file": f"{number}.npz",
        "dataset": "digits",
        "split": split,
        "condition": "a",
        "step": None,
        "kind": kind,
        **fields,
    }
    (folder / "submissions").mkdir(exist_ok=True)
    np.savez(folder / "submissions" / f"{number}.npz", **{kind: values}, **columns)
    with open(folder / "submissions.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def test_validation_is_scored_and_test_is_sealed_until_later(store: DatasetStore, tmp_path: Path) -> None:
    put(tmp_path, 0)
    put(tmp_path, 1, split="test")
    found = score_submissions(tmp_path, store.labels, split="validation", seed=4)
    assert {one.name for one in found} == {"accuracy", "macro_f1", "auroc", "log_loss", "ece", "brier"}
    assert {(one.grade, one.split, one.seed, one.condition) for one in found} == {("computed", "validation", 4, "a")}
    assert {one.name: one.value for one in found}["log_loss"] == pytest.approx(np.log(10))
    sealed = seal_test_predictions(tmp_path, store.labels)
    assert sorted(sealed) == ["1.npz", "index.jsonl"]
    assert not (tmp_path / "submissions" / "1.npz").exists()
    assert score_submissions(tmp_path, store.labels, split="test", seed=4) == ()
    tests = score_sealed(tmp_path, store.labels, seed=4, expected=sealed)
    assert {(one.split, one.grade) for one in tests} == {("test", "computed")}
    assert len(tests) == 6


@pytest.mark.parametrize("tamper", ["values", "index", "extra"])
def test_sealed_predictions_that_changed_are_not_scored(store: DatasetStore, tmp_path: Path, tamper: str) -> None:
    put(tmp_path, 0, split="test")
    sealed = seal_test_predictions(tmp_path, store.labels)
    if tamper == "values":
        np.savez(tmp_path / "sealed" / "0.npz", probabilities=np.full((TEST_ROWS, 10), 0.1), more=1)
    elif tamper == "index":
        index = tmp_path / "sealed" / "index.jsonl"
        index.write_text(index.read_text().replace('"a"', '"b"'))
    else:
        sealed["9.npz"] = "0" * 64
    with pytest.raises(SubmissionRefused):
        score_sealed(tmp_path, store.labels, seed=0, expected=sealed)


def test_a_planted_seal_is_thrown_away(store: DatasetStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("kept")
    job = tmp_path / "job"
    job.mkdir()
    (job / "sealed").symlink_to(outside)
    put(job, 0, split="test")
    seal_test_predictions(job, store.labels)
    assert not (job / "sealed").is_symlink()
    assert [path.name for path in outside.iterdir()] == ["keep"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"values": np.full((3, 10), 0.1)}, r"must have shape \(360, 10\), got \(3, 10\)"),
        ({"values": np.full((ROWS, 10), np.nan)}, "not finite"),
        ({"values": np.full((ROWS, 10), 0.3)}, "not probabilities"),
        ({"values": np.array([{"a": 1}] * ROWS)}, "not what lab.submit writes"),
        ({"values": np.full((ROWS, 10), "x")}, "must have shape"),
        ({"file": "../0.npz"}, "not written by lab.submit"),
        ({"file": "7.npz"}, "cannot be read"),
        ({"dataset": "../labels/digits"}, "not written by lab.submit"),
        ({"dataset": "wine"}, "has no labels"),
        ({"split": "train"}, "not written by lab.submit"),
        ({"condition": ""}, "not written by lab.submit"),
        ({"kind": "guesses"}, "not written by lab.submit"),
    ],
)
def test_bad_submissions_are_refused_in_words(
    store: DatasetStore, tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    put(tmp_path, 0, **{"split": "validation", **fields})
    with pytest.raises(SubmissionRefused, match=words):
        score_submissions(tmp_path, store.labels, split="validation", seed=0)


def test_links_pipes_junk_and_repeats_are_refused(store: DatasetStore, tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(SubmissionRefused) as caught:
            score_submissions(tmp_path, store.labels, split="validation", seed=0)
        return str(caught.value)

    put(tmp_path, 0)
    file = tmp_path / "submissions" / "0.npz"
    file.rename(tmp_path / "elsewhere.npz")
    file.symlink_to(tmp_path / "elsewhere.npz")
    assert "is a symbolic link" in refused()
    file.unlink()
    os.mkfifo(file)
    assert "not a plain file" in refused()
    file.unlink()
    file.write_bytes(b"PK\x03\x04 junk")
    assert "not what lab.submit writes" in refused()
    file.unlink()
    put(tmp_path, 0)
    assert refused() == (
        "submission of 'a' for digits/validation was submitted twice: submit a condition once per dataset and split"
    )
    (tmp_path / "submissions.jsonl").write_text("{not json\n")
    assert "not written by lab.submit" in refused()
    (tmp_path / "submissions.jsonl").unlink()
    put(tmp_path, 0)
    put(tmp_path, 0, condition="b")
    assert refused() == (
        "submission of 'b' for digits/validation refers to 0.npz, which belongs to another submission: "
        "submit predictions only with lab.submit"
    )


def test_an_artifact_that_is_gone_is_refused_before_it_is_sealed(store: DatasetStore, tmp_path: Path) -> None:
    put(tmp_path, 0, split="test", kind="artifact", file="7.bin")
    with pytest.raises(SubmissionRefused, match=r"7\.bin cannot be read: No such file"):
        seal_test_predictions(tmp_path, store.labels)
    assert not (tmp_path / "sealed").exists()


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("made", ["numbers", "classes", "negative", "member", "members"])
def test_no_small_file_takes_the_memory_of_the_host(store: DatasetStore, tmp_path: Path, made: str, split: str) -> None:
    rows = ROWS if split == "validation" else TEST_ROWS
    values: Any = {
        "numbers": np.random.default_rng(0).random(rows),
        "classes": np.arange(rows) * 10**9,
        "negative": np.full(rows, -1),
    }.get(made, np.zeros(rows))
    (tmp_path / "submissions").mkdir()
    with zipfile.ZipFile(tmp_path / "submissions" / "ab.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3000 if made == "members" else 0):
            archive.writestr(f"{number}.npy", b"")
        with archive.open("predictions.npy", "w") as file:
            np.lib.format.write_array(file, np.zeros(10**6) if made == "member" else values)
    (tmp_path / "submissions.jsonl").write_text(
        json.dumps({"file": "ab.npz", "dataset": "digits", "split": split, "condition": "m", "kind": "predictions"})
    )
    tracemalloc.start()
    with pytest.raises(SubmissionRefused, match=r"class numbers 0\.\.9|unpacks to|more than the limit"):
        measure_attempt(tmp_path, store.labels, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6 and not (tmp_path / "sealed").exists()
