"""Splits: groups stay together, time is respected, given splits are kept, and shared rows are counted."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.sandbox.data import Examples
from labwright.sandbox.data.preparation import SPLIT_SHARES, count_duplicates, hash_rows, split_rows
from labwright.sandbox.job import DatasetError
from tests.sandbox.data.sample_files import make_rows, materialise_named, write_table

ORDER = tuple(SPLIT_SHARES)


def examples(
    n: int, *, groups: object = None, times: object = None, parts: object = None, classes: int = 2
) -> Examples:
    rng = np.random.default_rng(1)
    y = np.arange(n) % classes if classes else rng.normal(size=n).astype(np.float32)

    def array(values: object) -> np.ndarray | None:
        return None if values is None else np.asarray(values)

    return Examples(rng.normal(size=(n, 2)), y, groups=array(groups), times=array(times), split_names=array(parts))


@given(st.lists(st.integers(0, 19), min_size=120, max_size=300), st.integers(0, 9), st.sampled_from([0, 2]))
def test_no_group_stands_in_two_splits(groups: list[int], seed: int, classes: int) -> None:
    given_examples = examples(len(groups), groups=groups, classes=classes)
    try:
        rows = split_rows(given_examples, seed).rows
    except DatasetError as error:  # too few groups, or one so large that a split is empty: rejected, never torn apart
        assert any(why in str(error) for why in ("groups are too few", "its cut", "are needed"))
        return
    homes = [set(np.asarray(groups)[index]) for index in rows.values()]
    assert sum(map(len, homes)) == len(set(groups))
    assert np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(len(groups)))


def test_groups_of_one_size_come_near_to_the_shares() -> None:
    rows = split_rows(examples(600, groups=np.arange(600) // 10), 4).rows
    assert {split: len(index) for split, index in rows.items()} == {
        split: pytest.approx(600 * share, abs=20) for split, share in SPLIT_SHARES.items()
    }


@given(st.lists(st.integers(0, 60), min_size=80, max_size=200), st.integers(0, 9))
def test_time_runs_from_train_to_test_and_moments_stay_together(times: list[int], seed: int) -> None:
    try:
        rows = split_rows(examples(len(times), times=times, classes=0), seed).rows
    except DatasetError as error:
        assert "it cannot be split by time" in str(error) or "rows, at least 5 are needed" in str(error)
        return
    clock = np.asarray(times)
    for earlier, later in itertools.pairwise(ORDER):
        assert clock[rows[earlier]].max() < clock[rows[later]].min()


@pytest.mark.parametrize(
    ("given_parts", "rule"),
    [
        (
            ["train"] * 70 + ["validation"] * 15 + ["test"] * 15,
            "given train, validation, test; dev taken from train, stratified by class, seed 3",
        ),
        (
            ["train"] * 80 + ["test"] * 20,
            "given train, test; dev and validation taken from train, stratified by class, seed 3",
        ),
        (["train"] * 100, "automatic, stratified by class, seed 3"),
    ],
)
def test_given_splits_are_kept(given_parts: list[str], rule: str) -> None:
    found = split_rows(examples(100, parts=given_parts), 3)
    parts = np.asarray(given_parts)
    for split in ("validation", "test"):
        if split in given_parts:
            assert np.array_equal(found.rows[split], np.flatnonzero(parts == split))
    assert set(parts[found.rows["dev"]]) == {"train"} and found.rule == rule


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"^no row belongs to train \(splits found: test\)"):
        split_rows(examples(60, parts=["test"] * 60), 0)
    with pytest.raises(DatasetError, match="it cannot be split by time: 3 distinct times are too few"):
        split_rows(examples(60, times=np.arange(60) % 3), 0)
    with pytest.raises(DatasetError, match="test has only 2 rows, at least 5"):
        split_rows(examples(60, parts=["train"] * 58 + ["test"] * 2), 0)
    late = Examples(np.zeros((60, 1)), np.repeat([0, 1], [50, 10]), times=np.arange(60))
    with pytest.raises(DatasetError, match="train has no example of class 1"):
        split_rows(late, 0)


def test_groups_that_given_splits_tear_are_warned_of() -> None:
    parts = ["train"] * 60 + ["validation"] * 20 + ["test"] * 20
    found = split_rows(examples(100, parts=parts, groups=np.arange(100) % 30), 0)
    assert found.warnings == ("30 groups occur both in train and in validation or test in the given splits",)


def test_shared_rows_are_counted_for_each_pair_of_splits() -> None:
    x = np.array([[0.0, 1], [2, 3], [np.nan, 5], [-0.0, 1], [2, 3], [np.nan, 5], [8, 8]])
    rows = {"train": np.array([0, 1]), "dev": np.array([2]), "validation": np.array([3, 4]), "test": np.array([5, 6])}
    digests = {split: hash_rows(x[index]) for split, index in rows.items()}
    assert count_duplicates(digests) == {("validation", "train"): 2, ("test", "dev"): 1}


def test_shared_rows_of_given_splits_are_a_warning_with_counts(tmp_path: Path) -> None:
    rows = [
        {**row, "part": ("train", "train", "train", "validation", "test")[i % 5]} for i, row in enumerate(make_rows())
    ]
    for i in (4, 9, 14):
        rows[i] = {**rows[i - 4], "part": "test"}
    write_table(tmp_path / "fields.csv", rows)
    facts = materialise_named("fields=fields.csv,target=good,split=part,drop=farm,drop=day", tmp_path).facts
    assert facts.duplicates == sum(facts.duplicates_by.get(f"test in {split}", 0) for split in ("train",))
    assert sum(facts.duplicates_by.values()) == 3
    assert any("rows of test" in line and "also occur in train" in line for line in facts.warnings)


def test_the_same_file_and_seed_give_the_same_cut(tmp_path: Path) -> None:
    write_table(tmp_path / "fields.csv", make_rows())
    text = "fields=fields.csv,target=good,group=farm,drop=day"
    one, again, other = (
        materialise_named(text, tmp_path, seed=1),
        materialise_named(text, tmp_path, seed=1),
        materialise_named(text, tmp_path, seed=2),
    )
    assert one.facts == again.facts and one.facts.fingerprint != other.facts.fingerprint
