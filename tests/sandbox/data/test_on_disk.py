"""Data read in pieces or memory-mapped: array files, images, texts; and time series cut into windows."""

from __future__ import annotations

import json
import os
import textwrap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from labwright.agent.cli import main
from labwright.sandbox.data import preparation
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.datasets import build_registry, materialise, read_materialised
from labwright.sandbox.job import DatasetError
from labwright.sandbox.scoring import score_submissions
from tests.sandbox.data.sample_files import materialise_named, write_pictures, write_table

pytestmark = pytest.mark.slow


def shards(folder: Path, *, n: int = 90) -> dict[str, np.ndarray]:
    """Grey images in two shards with a given test split; all arrays by name."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    found = {
        "train_x-0": rng.integers(0, 256, (n, 6, 5), dtype=np.uint8),
        "train_x-1": rng.integers(0, 256, (n // 2, 6, 5), dtype=np.uint8),
        "train_y-0": np.arange(n) % 3,
        "train_y-1": np.arange(n // 2) % 3,
        "test_x": rng.integers(0, 256, (n, 6, 5), dtype=np.uint8),
        "test_y": rng.permutation(np.arange(n) % 3),
    }
    for name, array in found.items():
        np.save(folder / f"{name}.npy", array)
    return found


def test_shards_pass_in_pieces_and_come_out_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = shards(tmp_path / "im")
    whole = materialise_named("im=im", tmp_path)
    monkeypatch.setattr(preparation, "PIECE_BYTES", 100)  # three images
    monkeypatch.setattr(preparation, "MAX_SCALED_BYTES", 1000)
    kept = materialise_named("raw=im", tmp_path)
    assert whole.facts.form == "" and whole.view["train_x"].dtype == np.float32
    assert kept.facts.form.startswith("uint8 images") and kept.facts.sizes == whole.facts.sizes
    for split in ("train", "dev", "validation", "test"):
        assert kept.view[f"{split}_x"].dtype == np.uint8 and kept.view[f"{split}_x"].shape[1:] == (6, 5, 1)
        assert np.array_equal(kept.view[f"{split}_x"] / np.float32(255), whole.view[f"{split}_x"])
    assert np.array_equal(kept.view["test_x"][..., 0], arrays["test_x"])
    assert set(kept.labels) - {"meta"} == {"validation_y", "test_y"} and "test_y" not in kept.view
    folder = tmp_path / "store-raw-3"
    assert read_materialised("raw", folder / "views", folder / "labels") == kept.facts
    with open(folder / "views" / "raw.npz", "r+b") as file:
        file.seek(2000)
        file.write(b"\xff\xfe\xfd")
    assert read_materialised("raw", folder / "views", folder / "labels") is None


def test_data_that_change_while_they_are_read_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path / "p", {"a": 40, "b": 40})
    source = build_registry([parse_spec("p=p", tmp_path)])["p"]
    pinned = build_registry([source.pin(0)])  # type: ignore[union-attr]
    done = preparation.ArrayArchive.add

    def change(self: preparation.ArrayArchive, key: str, stream: preparation.ArrayStream) -> None:
        done(self, key, stream)
        if key == "validation_y":
            next((tmp_path / "p" / "a").glob("*.png")).unlink()

    monkeypatch.setattr(preparation.ArrayArchive, "add", change)
    with pytest.raises(DatasetError, match="it changed since the run began"):
        materialise("p", views=tmp_path / "v", labels=tmp_path / "l", seed=0, sources=pinned)
    assert [path.name for path in tmp_path.glob("[vl]/*")] == ["order.salt"]


def test_code_maps_what_is_large_and_is_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code on memory-mapped images may write to its batches, but not to the view."""
    (tmp_path / "im").mkdir()
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 2
    np.save(
        tmp_path / "im" / "x.npy",
        (rng.integers(0, 100, (3000, 80, 80, 3)) + 100 * y[:, None, None, None]).astype(np.uint8),
    )
    np.save(tmp_path / "im" / "y.npy", y)
    monkeypatch.setattr(preparation, "MAX_SCALED_BYTES", 1000)
    (tmp_path / "probe.py").write_text(
        textwrap.dedent("""
        import lab, numpy as np
        data = lab.data("im")
        x = data.train.x
        assert x.dtype == np.uint8 and x.shape == (1500, 80, 80, 3) and x.ctypes.data % 64 == 0, x.ctypes.data
        before = x[0].copy()
        x[0] = 7
        assert (lab.data.__wrapped__("im").train.x[0] == before).all()
        means = np.array([x[i:i + 100].mean(axis=(1, 2, 3)) for i in range(100, 1500, 100)]).ravel()
        cut = means.mean()
        for split in ("validation", "test"):
            rows = getattr(data, split).x
            guess = np.concatenate([rows[i:i + 64].mean(axis=(1, 2, 3)) > cut for i in range(0, len(rows), 64)])
            lab.submit("im", split, "method", predictions=guess.astype(int))
    """)
    )
    os.chdir(tmp_path)
    assert main(["exec", "probe.py", "--data", "im=im", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {(one["name"], one["grade"]): one["value"] for one in told["measurements"]}
    assert any(name == "accuracy" and value == 1.0 for (name, _), value in found.items()), found


# --- texts ----------------------------------------------------------------------------------------------------------


def questions(path: Path, n: int = 80) -> Path:
    return write_table(
        path,
        [
            {
                "id": i,
                "question": f"Frage {i}: wie viel ist {i} plus {i}? \u00e4\u4e2d" + " lang" * (i % 9),
                "answer": "even" if i % 2 else "odd",
            }
            for i in range(n)
        ],
    )


def test_texts_are_served_as_they_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions(tmp_path / "q.csv")
    found = materialise_named("q=q.csv,target=answer,text=question", tmp_path)
    assert found.facts.form == "texts" and found.facts.warnings == ("the text is the only feature: id left out",)
    (tmp_path / "probe.py").write_text(
        textwrap.dedent("""
        import lab, json
        data = lab.data("q")
        texts = [*data.train.x, *data.dev.x, *data.validation.x, *data.test.x]
        assert data.train.x.shape == data.train.y.shape and isinstance(data.train.x[0], str), data.train.x
        some = data.train.x[[2, 0]]
        assert list(some) == [data.train.x[2], data.train.x[0]]
        print(json.dumps(sorted(texts)))
        number = lambda text: int(text.split()[1].strip(":"))
        for split in ("validation", "test"):
            lab.submit("q", split, "method", predictions=[0 if number(t) % 2 else 1 for t in getattr(data, split).x])
    """)
    )
    os.chdir(tmp_path)
    assert main(["exec", "probe.py", "--data", "q=q.csv,target=answer,text=question", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["value"] for one in told["measurements"] if one["name"] == "accuracy"} == {1.0}


# --- series ---------------------------------------------------------------------------------------------------------


def series(path: Path, *, n: int = 120, shops: int = 2) -> Path:
    return write_table(
        path,
        [
            {"shop": f"s{k}", "day": day, "sold": 1000 * k + day, "rain": (day * 7) % 5}
            for day in reversed(range(n))
            for k in range(shops)
        ],
    )


def test_series_may_have_dates(tmp_path: Path) -> None:
    days = [{"day": f"2020-{1 + n // 28:02}-{1 + n % 28:02}", "sold": float(n)} for n in range(200)]
    write_table(tmp_path / "s.csv", days)
    found = materialise_named("s=s.csv,target=sold,time=day,horizon=3,window=4", tmp_path)
    assert found.facts.split_rule == "automatic, in order of time" and found.facts.shape == (4, 1)


def test_what_later_inputs_of_a_series_show_is_not_scored_as_unseen(tmp_path: Path) -> None:
    series(tmp_path / "s.csv")
    rows = materialise_named("s=s.csv,target=sold,time=day,horizon=3,group=shop", tmp_path).facts.sizes["validation"]
    line = {"file": "0.npz", "dataset": "s", "split": "validation", "condition": "m", "kind": "predictions"}
    (tmp_path / "job" / "submissions").mkdir(parents=True)
    (tmp_path / "job" / "submissions.jsonl").write_text(json.dumps(line))
    np.savez(tmp_path / "job" / "submissions" / "0.npz", predictions=np.zeros(rows))
    labels = tmp_path / "store-s-3" / "labels"
    found = score_submissions(tmp_path / "job", labels, split="validation", seed=0, grade="scored")
    assert {one.grade for one in found} == {"computed"}


def test_series_become_windows_whose_targets_lie_ahead(tmp_path: Path) -> None:
    series(tmp_path / "s.csv")
    found = materialise_named("s=s.csv,target=sold,time=day,group=shop,horizon=3,window=4,step=2", tmp_path)
    facts, view = found.facts, found.view
    assert facts.shape == (4, 2) and facts.target == "sold, 3 rows ahead" and "by 2 columns" in facts.form
    assert facts.split_rule == "automatic, in order of time" and facts.task == "regression"
    ends: dict[str, tuple[float, float]] = {}
    for split in facts.sizes:
        y = (view if f"{split}_y" in view else found.labels)[f"{split}_y"]
        days = y % 1000
        ends[split] = (float(days.min() - 3), float(days.max()))  # start of its first example, its last target
    order = [*facts.sizes]
    assert all(ends[one][1] < ends[later][0] for one, later in pairwise(order)), ends
    assert any("lies in the period of the next split" in one for one in facts.warnings)
    sold = view["train_x"][..., 0]  # standardised: steps of one row are equal
    assert np.allclose(np.diff(sold, axis=1), np.diff(sold, axis=1)[0, 0], atol=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("time=day,group=shop,horizon=200", "no series has the 201 rows"),
        ("horizon=2", "horizon= needs time=COLUMN"),
        ("time=day,step=3", "window= and step= are for time series"),
    ],
)
def test_series_that_cannot_be(tmp_path: Path, options: str, words: str) -> None:
    series(tmp_path / "s.csv")
    with pytest.raises(DatasetError) as caught:
        materialise_named(f"s=s.csv,target=sold,{options}", tmp_path)
    assert words in str(caught.value) and "\n" not in str(caught.value)
