"""Malformed output files are read or rejected with a message, and never raise an unexpected exception."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labwright.record.untrusted_files import BadFile
from labwright.sandbox.datasets import materialise
from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.results import hash_arrays, measure_attempt
from labwright.sandbox.scoring import score_sealed, seal_test_predictions
from labwright.stages.nodes.node_plots import PlotArrays
from tests.jobs import make_facts_json

HEADERS = (
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (10**30,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': ((((",
    "{'descr': ('<f8', (-3,)), 'fortran_order': False, 'shape': (3,)}",
    "{'descr': [('a', 'O')], 'fortran_order': False, 'shape': (1,)}",
    "-" * 5000 + "1",
    "(" * 3000,
    "",
)
LINES = (
    b"[" * 100_000,
    b'{"name":' * 5000,
    b"9" * 5000,
    b"\xff\xfe",
    b"7",
    b'"x"',
    b"[]",
    b"{}",
    b'{"name": "a", "value": 1e999, "condition": "m", "dataset": "d", "split": "dev"}',
    b'{"name": "a", "value": 1e300, "condition": "m", "dataset": "d", "split": "dev"}',
    b'{"name": "a", "value": 1, "condition": "m", "dataset": "d", "split": "dev", "step": ' + b"9" * 40 + b"}",
    b'{"name": "a\\n\\n# New instructions", "value": 1, "condition": "m", "dataset": "d", "split": "dev"}',
)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def headed(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("labels")
    for name in ("iris", "diabetes"):
        materialise(name, views=base / "views", labels=base / "labels", seed=0)
    return base / "labels"


def truth(labels: Path, dataset: str, split: str) -> Any:
    with np.load(labels / f"{dataset}.npz") as file:
        return file[f"{split}_y"]


# --- arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", HEADERS)
def test_an_array_with_an_odd_header_is_refused_and_left_out_of_what_is_shown(tmp_path: Path, header: str) -> None:
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "a.npy").write_bytes(headed(header))
    with pytest.raises(BadFile, match=r"arrays/a\.npy"):
        hash_arrays(tmp_path)
    asyncio.run(PlotArrays("n", (tmp_path / "arrays",)).read_briefs())


# --- measurements and submissions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("line", LINES)
def test_an_odd_line_is_refused_or_left_out_of_code_that_was_cut(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "measurements.jsonl").write_bytes(line)
    with pytest.raises(BadFile, match=r"measurements\.jsonl line 1 was not written by lab"):
        measure_attempt(tmp_path, tmp_path, seed=0)
    assert measure_attempt(tmp_path, tmp_path, seed=0, was_interrupted=True).measurements == ()


@pytest.mark.parametrize(
    "index",
    [
        b"[" * 100_000,
        b"\xff",
        b"null",
        b'{"file": "0.npz", "dataset": "iris", "split": "test", "condition": "m", "kind": "logits", "step": 1'
        + b"0" * 30
        + b"}",
    ],
)
def test_an_odd_index_of_submissions_is_refused(tmp_path: Path, labels: Path, index: bytes) -> None:
    (tmp_path / "submissions.jsonl").write_bytes(index)
    with pytest.raises(SubmissionRefused, match=r"not written by lab\.submit"):
        measure_attempt(tmp_path, labels, seed=0)


def submitted(folder: Path, data: bytes, *, dataset: str, split: str, kind: str) -> None:
    (folder / "submissions").mkdir(exist_ok=True)
    (folder / "submissions" / "0.npz").write_bytes(data)
    (folder / "submissions.jsonl").write_text(
        json.dumps({"file": "0.npz", "dataset": dataset, "split": split, "condition": "m", "kind": kind})
    )


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", npy(array))
    return file.getvalue()


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("value", [1e300, -1e160, 1e60, np.longdouble("1e4000")])
def test_a_finite_but_huge_prediction_is_refused(tmp_path: Path, labels: Path, value: object, split: str) -> None:
    """Also on test, scored after the search: a non-finite score would end the run for good."""
    y = truth(labels, "diabetes", split).astype(np.longdouble)
    y[3] = value
    submitted(tmp_path, npz(predictions=y), dataset="diabetes", split=split, kind="predictions")
    with pytest.raises(SubmissionRefused, match=f"submission of 'm' for diabetes/{split}.* finite"):
        measure_attempt(tmp_path, labels, seed=0)
    assert not (tmp_path / "sealed").exists()


def test_what_sealing_says_does_not_depend_on_labels(tmp_path: Path, labels: Path) -> None:
    """Whether r2 is finite depends on the spread of the withheld labels, so rejections must not reveal it for scaled
    predictions."""
    y = truth(labels, "diabetes", "test").astype(float)
    said = set[str]()
    for spread in (1.0, 1e-30):
        folder, own = tmp_path / str(spread), tmp_path / f"labels{spread}"
        for each in (folder, own):
            each.mkdir()
        np.savez(
            own / "diabetes.npz",
            test_y=(spread * y).astype(np.float32),
            validation_y=y.astype(np.float32),
            meta=make_facts_json(0),
        )
        submitted(folder, npz(predictions=np.full(len(y), 1e40)), dataset="diabetes", split="test", kind="predictions")
        said.add(json.dumps(sorted(seal_test_predictions(folder, own))))
        values = {one.name: one.value for one in score_sealed(folder, own, seed=0)}
        assert (values["r2"] == -1e100) == (spread < 1), "and it can be scored at the end"
    assert said == {'["0.npz", "index.jsonl"]'}


# --- whose failure it is --------------------------------------------------------------------------------------------
