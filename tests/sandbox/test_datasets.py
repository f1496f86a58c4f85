"""Datasets: splits, withheld labels and reproducibility."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labwright.record.schema.data_plan import DatasetFacts
from labwright.sandbox.datasets import materialise, read_materialised


def make(name: str, base: Path, seed: int = 3) -> DatasetFacts:
    return materialise(name, views=base / "views", labels=base / "labels", seed=seed)


def test_a_view_holds_no_withheld_label(tmp_path: Path) -> None:
    make("digits", tmp_path)
    with np.load(tmp_path / "views" / "digits.npz") as view:
        assert sorted(view.files) == ["about", "dev_x", "dev_y", "meta", "test_x", "train_x", "train_y", "validation_x"]
        assert view["train_x"].dtype == np.float32
        assert abs(float(view["train_x"].mean())) < 1e-4
        spread = view["train_x"].std(axis=0)
        assert np.all((np.abs(spread - 1) < 1e-3) | (spread == 0))
    with np.load(tmp_path / "labels" / "digits.npz") as labels:
        assert sorted(labels.files) == ["meta", "test_y", "validation_y"]
        counts = np.bincount(labels["test_y"])
        assert counts.max() - counts.min() <= 3


def test_no_view_lets_code_check_guesses_of_labels(tmp_path: Path) -> None:
    facts = make("iris", tmp_path)
    assert len(facts.fingerprint) == 64 and read_materialised("iris", tmp_path / "views", tmp_path / "labels") == facts
    with np.load(tmp_path / "views" / "iris.npz") as view:
        assert not any(facts.fingerprint in str(view[name]) for name in view.files)


def test_the_same_seed_gives_the_same_bytes_and_another_another_cut(tmp_path: Path) -> None:
    first, second, other = (make("wine", tmp_path / name, seed) for name, seed in (("a", 3), ("b", 3), ("c", 4)))
    assert first == second
    assert first.fingerprint != other.fingerprint
    for part in ("views", "labels"):
        assert (tmp_path / "a" / part / "wine.npz").read_bytes() == (tmp_path / "b" / part / "wine.npz").read_bytes()


def test_what_is_there_is_kept_and_what_is_damaged_is_mended(tmp_path: Path) -> None:
    facts = make("wine", tmp_path)
    view = tmp_path / "views" / "wine.npz"
    stamp = view.stat().st_mtime_ns
    assert make("wine", tmp_path) == facts
    assert view.stat().st_mtime_ns == stamp
    whole = view.read_bytes()
    view.write_bytes(whole[: len(whole) // 2])
    assert make("wine", tmp_path) == facts
    assert view.read_bytes() == whole
    assert not list(tmp_path.rglob("*.part"))
