"""Which rows go into which split: by the data's own splits, by group, by time, else by us, stratified and from a seed.

Whatever split the data do not bring is cut from their train rows by the same rule; dev always is.

scikit-learn's splitters cut in two or into equal folds: four shares of a class of five rows, or of five groups, need
rules of their own, and another rule would change what recorded studies measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandbox.data import Examples
from sandbox.errors import DatasetError

Array = NDArray[Any]
Rows = dict[str, Array]

SHARES = {"train": 0.5, "dev": 0.1, "validation": 0.2, "test": 0.2}
"""In the order of time, where there is one."""
MIN_ROWS = 50
"""Validation and test get a fifth each: with fewer than ten examples in each no two arms could be told apart."""
MIN_PART = 5
"""Examples of a split that the data bring, or that groups and times lead to."""
MIN_CLASS = 5
"""Examples of a class, so that every split gets one."""


@dataclass(frozen=True)
class Splits:
    """Sorted row numbers by split, and the rule in words."""

    rows: Rows
    rule: str
    warnings: tuple[str, ...] = ()


def split_rows(examples: Examples, seed: int) -> Splits:
    """The splits of some examples. Raises `DatasetError` where they cannot be made."""
    if len(examples.y) < MIN_ROWS:
        raise DatasetError(f"it has {len(examples.y)} examples, at least {MIN_ROWS} are needed: validation and test "
                           "get a fifth each, and with fewer than ten examples in each no two arms could be told apart")
    given = _given(examples)
    pool = given.pop("train", np.arange(len(examples.y)))
    open_shares = {split: share for split, share in SHARES.items() if split not in given}
    total = sum(open_shares.values()) if given else 1.0
    rows = given | _divided(examples, pool, {split: share / total for split, share in open_shares.items()}, seed)
    made = Splits({split: np.sort(rows[split]) for split in SHARES}, _rule(examples, given, seed))
    return Splits(made.rows, made.rule, (*_checked(examples, made.rows), *_split_groups(examples, made.rows)))


def _given(examples: Examples) -> Rows:
    if examples.parts is None:
        return {}
    found = {split: np.flatnonzero(examples.parts == split) for split in SHARES}
    found = {split: rows for split, rows in found.items() if len(rows)}
    if "train" not in found:
        raise DatasetError(f"it has no train rows among its splits ({', '.join(found) or 'none'})")
    return found


def _divided(examples: Examples, pool: Array, shares: Mapping[str, float], seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    if examples.groups is not None:
        return _by_group(examples, pool, shares, rng)
    if examples.times is not None:
        return _by_time(examples.times[pool], pool, shares)
    if examples.y.dtype.kind == "i":
        _check_classes(examples, pool)
        strata = [pool[examples.y[pool] == label] for label in range(int(examples.y.max()) + 1)]
    else:
        strata = [pool]
    return _at_random(strata, shares, rng)


def _at_random(strata: list[Array], shares: Mapping[str, float], rng: Any) -> Rows:
    """Stratum by stratum, so that each split has each class in its share."""
    parts: dict[str, list[Array]] = {split: [] for split in shares}
    bounds = np.cumsum(list(shares.values()))[:-1]
    for stratum in strata:
        places = np.rint(bounds * len(stratum)).astype(int)
        for split, part in zip(shares, np.split(rng.permutation(stratum), places), strict=True):
            parts[split].append(part)
    return {split: np.concatenate(part) for split, part in parts.items()}


def _by_group(examples: Examples, pool: Array, shares: Mapping[str, float], rng: Any) -> Rows:
    """Largest groups first, each to the split that then comes nearest to its share of every class."""
    assert examples.groups is not None
    names, group = np.unique(examples.groups[pool], return_inverse=True)
    if len(names) < len(shares):
        raise DatasetError(f"it cannot be cut by group: {len(names)} groups are too few for {len(shares)} splits "
                           f"({', '.join(shares)}); leave group= out, or group by another column")
    label = examples.y[pool] if examples.y.dtype.kind == "i" else np.zeros(len(pool), dtype=np.int64)
    counts = np.zeros((len(names), int(label.max()) + 1))
    np.add.at(counts, (group, label), 1)
    totals = np.maximum(counts.sum(axis=0), 1.0)
    wanted = np.array(list(shares.values()))[:, None] * totals
    have = np.zeros_like(wanted)
    home = np.zeros(len(names), dtype=np.int64)
    order = rng.permutation(len(names))
    for one in order[np.argsort(-counts[order].sum(axis=1), kind="stable")]:
        after = ((have + counts[one] - wanted) ** 2 / totals).sum(axis=1)
        before = ((have - wanted) ** 2 / totals).sum(axis=1)
        home[one] = int(np.argmin(after - before))
        have[home[one]] += counts[one]
    return {split: pool[home[group] == i] for i, split in enumerate(shares)}


def _by_time(times: Array, pool: Array, shares: Mapping[str, float]) -> Rows:
    """In the order of time; rows of one moment stay together, in the later split."""
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    places = np.rint(np.cumsum(list(shares.values()))[:-1] * len(pool)).astype(int)
    bounds = [int(np.searchsorted(ordered, ordered[place], "left")) for place in places]
    parts = np.split(pool[order], bounds)
    if any(not len(part) for part in parts):
        raise DatasetError(f"it cannot be cut by time: {len(np.unique(times))} different times are too few, or one of "
                           "them holds too many rows; leave time= out, or give a finer column")
    return dict(zip(shares, parts, strict=True))


# --- what a cut must hold -------------------------------------------------------------------------------------------


def _check_classes(examples: Examples, pool: Array) -> None:
    counts = np.bincount(examples.y[pool], minlength=int(examples.y.max()) + 1)
    few = [i for i, count in enumerate(counts) if count < MIN_CLASS]
    if few:
        shown = ", ".join(f"{_class(examples, i)} has {counts[i]}" for i in few[:3])
        where = " in train" if len(pool) < len(examples.y) else ""
        raise DatasetError(f"{len(few)} of {len(counts)} classes have too few examples{where} ({shown}): at least "
                           f"{MIN_CLASS} are needed, so that every split gets one; merge or remove such classes")


def _checked(examples: Examples, rows: Mapping[str, Array]) -> tuple[str, ...]:
    """Warnings. Raises `DatasetError` for a split that is too small, and for a class that train does not have."""
    for split, index in rows.items():
        if len(index) < MIN_PART:
            raise DatasetError(f"its cut gives only {len(index)} rows for {split}, at least {MIN_PART} are needed")
    if examples.y.dtype.kind != "i":
        return ()
    classes = np.arange(int(examples.y.max()) + 1)
    lacking = {split: np.setdiff1d(classes, examples.y[index]) for split, index in rows.items()}
    if len(lacking["train"]):
        raise DatasetError(f"its cut leaves train without class {_class(examples, int(lacking['train'][0]))}: it "
                           "cannot be learned; cut otherwise, or remove the class")
    return tuple(f"{split} has no example of class {', '.join(_class(examples, int(i)) for i in gone[:3])}"
                 for split, gone in lacking.items() if len(gone))


def _split_groups(examples: Examples, rows: Mapping[str, Array]) -> tuple[str, ...]:
    """Groups that the data's own splits put into several parts: said, since those splits are kept."""
    if examples.groups is None:
        return ()
    groups: Any = examples.groups
    learned, scored = (np.concatenate([groups[rows[split]] for split in splits])
                       for splits in (("train", "dev"), ("validation", "test")))
    shared = np.intersect1d(learned, scored)
    return (f"{len(shared)} groups stand both in train and in validation or test, by the data's own splits",) \
        if len(shared) else ()


def _class(examples: Examples, i: int) -> str:
    return repr(examples.class_names[i]) if examples.class_names else str(i)


def _rule(examples: Examples, given: Rows, seed: int) -> str:
    by = ("whole groups" if examples.groups is not None else "in order of time" if examples.times is not None
          else f"stratified by class, seed {seed}" if examples.y.dtype.kind == "i" else f"at random, seed {seed}")
    by += f", seed {seed}" if examples.groups is not None else ""
    if examples.parts is None:
        return f"ours, {by}"
    ours = [split for split in SHARES if split not in given and split != "train"]
    return f"the data's own train, {', '.join(given)}; {' and '.join(ours)} cut from train {by}" if given else \
        f"ours, {by}"
