"""Splits: groups stay together, time is respected, given splits are kept, and shared rows are counted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.sandbox.data import Examples
from labwright.sandbox.data.preparation import SPLIT_SHARES, split_rows
from labwright.sandbox.job import DatasetError

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
            assert np.array_equal(np.sort(found.rows[split]), np.flatnonzero(parts == split))
    assert set(parts[found.rows["dev"]]) == {"train"} and found.rule == rule


@pytest.mark.parametrize("labels", [np.repeat([0, 1, 2], 100), np.linspace(0, 1, 300, dtype=np.float32)])
def test_no_place_in_a_sorted_file_tells_a_label(labels: np.ndarray) -> None:
    whole = Examples(np.random.default_rng(0).normal(size=(300, 2)), labels)
    rows = split_rows(whole, 0).rows
    for split in ("validation", "test"):
        found = labels[rows[split]]
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.35
        assert np.array_equal(rows[split], split_rows(whole, 0).rows[split])
    assert np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(300))


def test_rows_of_an_unsorted_file_keep_their_order() -> None:
    found = split_rows(examples(300, classes=0), 0).rows
    assert all(np.array_equal(part, np.sort(part)) for part in found.values())


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
