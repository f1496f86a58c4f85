"""Datasets: splits, withheld labels and reproducibility."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labwright.record.schema.data_plan import DatasetFacts
from labwright.sandbox import datasets
from labwright.sandbox.data.preparation import split_rows
from labwright.sandbox.datasets import SALT_FILE, build_registry, find_user_salt, materialise, read_materialised


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


def test_the_same_seed_and_secret_give_the_same_bytes(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name / "labels").mkdir(parents=True)
        (tmp_path / name / "labels" / SALT_FILE).write_text("a secret")
    places = (("a", 3), ("b", 3), ("c", 4), ("d", 3))
    first, second, other, hidden = (make("wine", tmp_path / name, seed) for name, seed in places)
    assert first == second
    assert len({one.fingerprint for one in (first, other, hidden)}) == 3
    for part in ("views", "labels"):
        assert (tmp_path / "a" / part / "wine.npz").read_bytes() == (tmp_path / "b" / part / "wine.npz").read_bytes()


def test_who_knows_a_sorted_file_does_not_know_the_order_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    facts = make("iris", tmp_path)
    assert make("iris", tmp_path / "again") == facts, "runs of one user have one secret"
    salt, examples = (tmp_path / "labels" / SALT_FILE).read_text(), build_registry()["iris"].load()
    assert salt == find_user_salt().read_text() and len(salt) == 32
    own, known = (split_rows(examples, 3, one).rows["test"] for one in (salt, ""))
    with np.load(tmp_path / "labels" / "iris.npz") as labels:
        assert np.array_equal(labels["test_y"], examples.y[own])
    assert sorted(own) == sorted(known) and (examples.y[own] == examples.y[known]).mean() < 0.7


def test_one_secret_is_saved_of_those_that_are_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write = datasets.write_file

    def write_late(path: Path, text: str) -> None:
        """Another process is faster."""
        write(path, text)
        if not find_user_salt().exists():
            write(find_user_salt(), "that of the other")

    monkeypatch.setattr(datasets, "write_file", write_late)
    make("iris", tmp_path)
    assert (tmp_path / "labels" / SALT_FILE).read_text() == find_user_salt().read_text() == "that of the other"
    assert [*find_user_salt().parent.glob(f"*{SALT_FILE}*")] == [find_user_salt()]


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
