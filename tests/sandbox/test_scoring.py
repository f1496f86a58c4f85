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

from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.results import measure_attempt
from labwright.sandbox.scoring import score_sealed, score_submissions, seal_test_predictions
from tests.sandbox.conftest import DatasetStore

ROWS, TEST_ROWS = 360, 359


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


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"values": np.full((3, 10), 0.1)}, r"must have shape \(360, 10\), got \(3, 10\)"),
        ({"values": np.full((ROWS, 10), 0.3)}, "not probabilities"),
        ({"values": np.full((ROWS, 10), "x")}, "must have shape"),
        ({"file": "7.npz"}, "cannot be read"),
        ({"dataset": "wine"}, "has no labels"),
        ({"condition": ""}, "not written by lab.submit"),
    ],
)
def test_bad_submissions_are_refused_in_words(
    store: DatasetStore, tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    put(tmp_path, 0, **{"split": "validation", **fields})
    with pytest.raises(SubmissionRefused, match=words):
        score_submissions(tmp_path, store.labels, split="validation", seed=0)


def test_rows_that_sum_to_more_than_one_score_no_better(store: DatasetStore, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(10), ROWS)
    for number, scale in enumerate((1.0, 1.0099)):
        put(tmp_path, number, values=rows * scale, condition="ab"[number])
    scores = score_submissions(tmp_path, store.labels, split="validation", seed=0)
    a, b = ({one.name: one.value for one in scores if one.condition == arm} for arm in "ab")
    assert b == pytest.approx(a)


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
    assert refused() == ("submission of 'a' for digits/validation was submitted twice")
    (tmp_path / "submissions.jsonl").write_text("{not json\n")
    assert "not written by lab.submit" in refused()
    (tmp_path / "submissions.jsonl").unlink()
    put(tmp_path, 0)
    put(tmp_path, 0, condition="b")
    assert refused() == (
        "submission of 'b' for digits/validation refers to 0.npz, which belongs to another submission: use lab.submit"
    )


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
