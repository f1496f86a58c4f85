"""Output of hostile code: links, pipes, pickles, junk. Written here as a kernel would leave it."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labwright.record.untrusted_files import BadFile, hash_regular, write_file
from labwright.sandbox import results, scoring, workspace
from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.results import collect_figures, hash_arrays, hash_artifacts, measure_attempt
from labwright.sandbox.scoring import score_submissions
from labwright.sandbox.workspace import copy_arm_artifacts
from tests.jobs import make_facts_json

EXPERIMENTS = [
    ("Path('measurements.jsonl').write_text('[1, 2]\\n')", "measurements.jsonl line 1 was not written by lab"),
    ('Path(\'measurements.jsonl\').write_text(\'{"name": "a", "value": NaN}\\n\')', "line 1"),
    ("Path('measurements.jsonl').write_text('{\"name\": \"a\", \"value\": 1' + '0' * 400 + '}\\n')", "line 1"),
    ("import os\nos.symlink('/etc/passwd', 'measurements.jsonl')", "measurements.jsonl is a symbolic link"),
    ("import os\nos.mkfifo('measurements.jsonl')", "not a plain file"),
    (
        "import numpy as np, os\nos.mkdir('arrays')\nnp.save('arrays/a.npy', np.array([{}]), allow_pickle=True)",
        "arrays/a.npy contains Python objects",
    ),
    ("import os\nos.mkdir('arrays')\nPath('arrays/a.npy').write_text('text')", "arrays/a.npy is not an array"),
    ("import os\nos.symlink('/etc', 'arrays')", "arrays is a symbolic link"),
]
PLOTS = [
    ("print('nothing')", "no figure was drawn"),
    ("Path('figures/a.png').write_text('no image')", "a.png is not a readable PNG image"),
    ("Path('figures/a.pdf').write_text('no pdf')", "a.pdf is not a PDF"),
    ("import os\nos.symlink('/etc/passwd', 'figures/a.png')", "a.png is a symbolic link"),
    ("Path('figures/a b.png').touch()", "letters, digits"),
    ("Path('figures/a.png').write_bytes(bytes(20 * 2**20 + 1))", "more than the limit"),
]


@pytest.mark.parametrize(("code", "words"), EXPERIMENTS)
def test_what_cannot_be_read_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(code, {"Path": Path})
    with pytest.raises(BadFile, match=words):
        hash_arrays(tmp_path)
        measure_attempt(tmp_path, tmp_path / "labels", seed=0)


@pytest.mark.parametrize(("code", "words"), PLOTS)
def test_figures_that_cannot_be_used_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figures").mkdir()
    exec(code, {"Path": Path})
    figures, failure = collect_figures(tmp_path)
    assert figures == ()
    assert failure is not None and failure.kind == "figure"
    assert words in failure.message


def test_what_code_says_last_of_train_and_dev_is_kept_beside_its_results(tmp_path: Path) -> None:
    lines = [
        {"name": "rate", "value": value, "condition": "adam", "dataset": "digits", "split": split, "step": step}
        for split, value, step in (
            ("dev", 0.1, None),
            ("dev", 0.003, None),
            ("train", 0.5, None),
            ("dev", 0.7, 3),
            ("validation", 0.9, None),
            ("test", 0.9, None),
        )
    ]
    (tmp_path / "measurements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = measure_attempt(tmp_path, tmp_path / "labels", seed=0)
    assert [(one.split, one.value) for one in found.self_reported] == [("dev", 0.003), ("train", 0.5)]
    assert [(one.split, one.value) for one in found.measurements] == [("validation", 0.9)], "dev values are not results"


def write_logged(folder: Path, count: int, name: str, *, has_step: bool = False) -> None:
    line = {"value": 1.0, "condition": "adam", "dataset": "digits", "split": "train"}
    with (folder / "measurements.jsonl").open("w") as file:
        for number in range(count):
            file.write(json.dumps(line | {"name": name % number, "step": number if has_step else None}) + "\n")


@pytest.mark.slow
def test_a_long_curve_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    write_logged(tmp_path, 20_000, "a%d" + "x" * 100)
    with pytest.raises(BadFile, match="has more than 2000 final values: give values of a curve a step"):
        measure_attempt(tmp_path, tmp_path, seed=0)
    write_logged(tmp_path, 20_000, "a%d" + "x" * 100, has_step=True)
    tracemalloc.start()
    found = measure_attempt(tmp_path, tmp_path, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    content = (tmp_path / "measurements.jsonl").read_bytes()
    assert found.curves_sha256 == hashlib.sha256(content).hexdigest() and content.count(b"\n") == 20_000
    assert peak < len(content) / 2 and not found.measurements + found.self_reported


def _pack(**arrays: Any) -> bytes:
    file = BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize("split", ["validation", "test"])
def test_submissions_that_would_take_hours_to_score_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    monkeypatch.setattr(scoring, "_MAX_TOTAL_NUMBERS", 8 * 2 * 3)
    (tmp_path / "labels").mkdir()
    truth = np.arange(8) % 2
    np.savez(tmp_path / "labels" / "d.npz", meta=make_facts_json(2), validation_y=truth, test_y=truth)
    line = {"dataset": "d", "split": split, "kind": "predictions", "condition": "m"}
    for step in range(4):
        write_file(tmp_path, f"submissions/{step:040x}.npz", _pack(predictions=np.arange(8) % 2))
        lines = [json.dumps(line | {"file": f"{one:040x}.npz", "step": one}) for one in range(step + 1)]
        write_file(tmp_path, "submissions.jsonl", "\n".join(lines))
        if step < 3:
            score_submissions(tmp_path, tmp_path / "labels", split="validation", seed=0)
    with pytest.raises(SubmissionRefused, match="have 64 predicted numbers, more than 48: use fewer steps"):
        measure_attempt(tmp_path, tmp_path / "labels", seed=0)


def test_arrays_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_MAX_FILES", 3)
    (tmp_path / "arrays").mkdir()
    for number in range(4):
        np.save(tmp_path / "arrays" / f"{number}.npy", np.zeros(1))
    with pytest.raises(BadFile, match="arrays/ contains 4 arrays, more than the limit of 3"):
        hash_arrays(tmp_path)


def test_holes_are_bytes_that_take_time_to_hash_and_room_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_MAX_ARRAY_BYTES", 3 * 10**9)
    for place in ("arrays", "checkpoints"):
        (tmp_path / place).mkdir()
        for number in range(4):
            with open(tmp_path / place / f"{number}.npy", "wb") as file:
                file.truncate(10**9 if place == "arrays" else 10**6)
    with pytest.raises(BadFile, match="arrays/ contains 4 GB, more than the limit of 3 GB"):
        hash_arrays(tmp_path)
    assert not workspace.copy_checkpoints(tmp_path, tmp_path / "next", 3 * 10**6)
    assert not (tmp_path / "next" / "checkpoints").exists()
    assert workspace.copy_checkpoints(tmp_path, tmp_path / "next", 4 * 10**6)


def test_a_cell_reads_only_artifacts_that_are_in_the_record(tmp_path: Path) -> None:
    for name in ("net", ".hidden", "words/a", ".folder/a"):
        write_file(tmp_path / "early" / "artifacts", name, b"x" * 100)
    recorded = hash_artifacts(tmp_path / "early", 250)
    copy_arm_artifacts(tmp_path / "early", tmp_path / "late", "early", 250)
    place = tmp_path / "late" / "inputs" / "arms" / "early"
    assert {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()} == set(recorded)


@pytest.mark.parametrize("name", ["\U0001f600" * 63, "x" * 255, "/".join(["x" * 255] * 40)])
def test_every_artifact_that_is_recorded_can_be_copied(tmp_path: Path, name: str) -> None:
    write_file(tmp_path / "early", f"artifacts/net/{name}", b"x")
    recorded = hash_artifacts(tmp_path / "early", 10)
    copy_arm_artifacts(tmp_path / "early", tmp_path / "late", "early", 10)
    assert list(recorded) == [f"net/{name}"] and hash_regular(tmp_path / "late", f"inputs/arms/early/net/{name}")
