"""`lab` without a kernel: what it writes, and its error messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab
import lab._data
import lab._job
import numpy as np
import pytest
import scipy.sparse  # pyrefly: ignore

from labwright.record.schema.nodes import Cell
from tests.sandbox.conftest import DatasetStore, write_job_file

ma: Any = np.ma
csr_array: Any = scipy.sparse.csr_array  # pyrefly: ignore
ROWS = 360


@pytest.fixture(params=["experiment"])
def folder(
    request: pytest.FixtureRequest, store: DatasetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Set up the folder of a job with seed 7 that may use digits and diabetes."""
    datasets = {name: str(store.views / f"{name}.npz") for name in ("digits", "diabetes")}
    lab._data.data.cache_clear()
    return write_job_file(tmp_path, monkeypatch, mode=request.param, datasets=datasets)


def uniform(rows: int = ROWS, classes: int = 10) -> Any:
    return np.full((rows, classes), 1.0 / classes)


def wrong(value: Any) -> Any:
    """Return a value of a type that a type checker would reject."""
    return value


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_data_comes_without_the_withheld_labels(folder: Path) -> None:
    data = lab.data("digits")
    assert (data.name, data.classes) == ("digits", 10)
    assert data.train.x.dtype == np.float32 and data.train.y.dtype == np.int64
    assert len(data.train.x) == len(data.train.y) > len(data.dev.x) == len(data.dev.y)
    assert len(data.validation.x) == ROWS
    with pytest.raises(lab.LabError, match=r"labels of digits/test are withheld.*lab\.submit"):
        _ = data.test.y
    assert lab.data("diabetes").classes == 0


def test_what_is_handed_in(folder: Path) -> None:
    lab.submit("digits", "validation", "baseline", probabilities=uniform())
    lab.submit("digits", "validation", "baseline", probabilities=uniform(), step=3)
    lab.submit("digits", "test", "method@noise20", predictions=np.zeros(len(lab.data("digits").test.x)))
    lab.submit("diabetes", "validation", "baseline", predictions=list(range(len(lab.data("diabetes").validation.x))))
    index = lines(folder / "submissions.jsonl")
    assert [(one["split"], one["condition"], one["kind"], one["step"]) for one in index] == [
        ("validation", "baseline", "probabilities", None),
        ("validation", "baseline", "probabilities", 3),
        ("test", "method@noise20", "predictions", None),
        ("validation", "baseline", "predictions", None),
    ]
    files = [one["file"] for one in index]
    assert sorted(path.name for path in (folder / "submissions").iterdir()) == sorted(files) and len(set(files)) == 4
    with np.load(folder / "submissions" / files[2]) as file:
        assert file["predictions"].dtype == np.int64


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        "t.bfloat16()",
        "t.to(torch.float8_e4m3fn)",
        "t.to_sparse_csr()",
        "(t * 1j).conj().imag.neg()",
        "tuple(list(row) for row in t)",
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_tensors_of_every_sort_are_taken(folder: Path, make: str) -> None:
    torch = torch_()
    given = eval(make, {"torch": torch, "t": torch.full((ROWS, 10), 0.5)})
    lab.submit("digits", "validation", "a", logits=given)
    lab.save("given", given)
    lab.log("first", given[0][0], step=torch.tensor(3))
    assert np.array_equal(np.load(folder / "arrays" / "given.npy"), np.full((ROWS, 10), 0.5))
    assert [(one["value"], one["step"]) for one in lines(folder / "measurements.jsonl")] == [(0.5, 3)]


def torch_() -> Any:
    import torch

    return torch


@pytest.mark.slow
def test_probabilities_of_half_precision_sum_to_one_as_nearly_as_they_can(folder: Path) -> None:
    torch = torch_()
    torch.manual_seed(0)
    for name in ("bfloat16", "float16"):
        rows = torch.softmax(4 * torch.randn(ROWS, 10), 1).to(getattr(torch, name))
        lab.submit("digits", "validation", name, probabilities=rows)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lab.data("mnist"), r"no dataset 'mnist' in the data plan of this run; it has: diabetes, digits"),
        (lambda: lab.submit("digits", "train", "a", logits=uniform()), r"cannot submit for split 'train'"),
        (lambda: lab.submit("digits", "validation", "a", predictions=uniform()), r"shape \(360,\), got \(360, 10\)"),
        (
            lambda: lab.submit("digits", "validation", "a", logits=uniform() * np.nan),
            r"3600 of 3600 logits are not finite",
        ),
        (lambda: lab.submit("digits", "validation", "a", predictions=np.full(ROWS, 0.5)), r"class numbers 0\.\.9"),
        (lambda: lab.submit("digits", "validation", "a", logits=1, predictions=1), r"exactly one of"),
        (
            lambda: lab.submit("digits", "validation", "a", logits=uniform(), columns={"mark": [1, 2]}),
            r"got shape \(2,\)",
        ),
        (lambda: lab.submit("digits", "test", "a", logits=uniform(), step=1), r"without step="),
        (lambda: lab.log("loss", float("nan"), step=1), r"'loss' is nan, which is not finite"),
        (lambda: lab.log("loss", wrong("low"), step=1), r"takes one number"),
        (lambda: lab.result("acc", 1.0, condition="", dataset="digits"), r"needs condition= and dataset="),
        (lambda: lab.save("..", np.ones(2)), r"cannot use the name '\.\.'"),
        (lambda: lab.save("a", [[1, 2], [3]]), r"not a rectangular array"),
        (lambda: lab.save("a", [10**400]), r"not a rectangular array of numbers"),
    ],
)
def test_wrong_use_is_refused_in_words(folder: Path, call: Callable[[], object], words: str) -> None:
    with pytest.raises(lab.LabError, match=words):
        call()
    assert sorted(path.name for path in folder.iterdir()) == ["job.json"]


def test_numbers_and_arrays(folder: Path) -> None:
    lab.log("loss", np.float32(0.5), step=2, condition="a", dataset="digits", split="dev")
    lab.result("parameters", 12, condition="a", dataset="digits")
    lab.save("loss.npy", [1.0, float("nan")])
    assert lines(folder / "measurements.jsonl") == [
        {"name": "loss", "value": 0.5, "step": 2, "condition": "a", "dataset": "digits", "split": "dev"},
        {
            "name": "parameters",
            "value": 12.0,
            "step": None,
            "condition": "a",
            "dataset": "digits",
            "split": "validation",
        },
    ]
    assert np.isnan(np.load(folder / "arrays" / "loss.npy")[1])


@pytest.mark.parametrize("folder", ["plot"], indirect=True)
def test_a_plotting_script_only_reads(folder: Path) -> None:
    for call in (lambda: lab.data("digits"), lambda: lab.log("a", 1.0), lambda: lab.save("a", [1])):
        with pytest.raises(lab.LabError, match=r"belongs in experiment\.py"):
            call()


def test_outside_of_a_kernel_lab_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_JOB", raising=False)
    lab._job.read_job.cache_clear()
    with pytest.raises(lab.LabError, match="scientist exec"):
        _ = lab.seed


@pytest.mark.parametrize(
    ("arm", "level"),
    [("adam", ""), ("adam", "wd_1"), ("adam", "wd__1"), ("adam__wd", "1"), ("adam__wd", ""), ("a_", "1")],
)
def test_a_cell_names_its_files_by_the_place_that_the_host_knows(arm: str, level: str) -> None:
    assert lab._job.LabCell("digits", arm, level).name == Cell(dataset="digits", arm=arm, level=level).place_name
    swapped = Cell(dataset="digits", arm=arm, level=level, setting_of="sgd", setting_trial=2)
    ours = lab._job.LabCell("digits", arm, level, setting_of="sgd", setting_trial=2)
    assert (ours.name, ours.condition) == (swapped.place_name, swapped.condition)
    assert swapped.condition.startswith(f"{arm}-at-sgd")
