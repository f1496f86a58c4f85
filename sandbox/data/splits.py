"""Assign rows to splits: by the given splits, by group, by time, or at random from a seed, stratified by class.

Splits that the data do not define are taken from the train rows by the same rule; dev is always taken from train,
unless `dev_from` is validation.

scikit-learn's splitters are not used, since they make two parts or equal folds. Dividing a class of five rows or five
groups into four unequal parts needs other rules, and changing them would change the data of recorded studies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.sandbox.data import Examples
from labwright.sandbox.errors import DatasetError

Array = NDArray[Any]
Rows = dict[str, Array]

SPLIT_SHARES = {"train": 0.5, "dev": 0.1, "validation": 0.2, "test": 0.2}
"""In chronological order for data with times."""
MIN_ROWS = 50
"""Validation and test get a fifth each; with fewer than ten examples in each, arms could not be distinguished."""
MIN_SPLIT_ROWS = 5
"""Minimum number of examples per split."""
MIN_CLASS_ROWS = 5
"""Minimum number of examples per class, so that every split gets one."""


@dataclass(frozen=True)
class Splits:
    """Sorted row numbers by split, with a description of the rule."""

    rows: Rows
    rule: str
    warnings: tuple[str, ...] = ()


def split_rows(examples: Examples, seed: int) -> Splits:
    """Split the examples. Raises `DatasetError` if that is impossible."""
    if len(examples.y) < MIN_ROWS:
        raise DatasetError(
            f"it has {len(examples.y)} examples, at least {MIN_ROWS} are needed: validation and test get a "
            "fifth each, and with fewer than ten examples in each, arms could not be distinguished"
        )
    given: Rows = {}
    if examples.split_names is not None:
        given = {
            split: np.flatnonzero(examples.split_names == split)
            for split in SPLIT_SHARES
            if split in examples.split_names
        }
        if "train" not in given:
            raise DatasetError(f"no row belongs to train (splits found: {', '.join(given) or 'none'})")
    pool = given.pop("train", np.arange(len(examples.y)))
    shares = {split: share for split, share in SPLIT_SHARES.items() if split not in given}
    if examples.dev_from == "validation":
        if "validation" not in given:
            raise DatasetError(
                "dev_from=validation needs a given validation split: one taken from train is distributed like train"
            )
        dev, rest = shares.pop("dev"), SPLIT_SHARES["validation"]
        cut = {"dev": dev / (dev + rest), "validation": rest / (dev + rest)}
        given |= _divide_rows(examples, given["validation"], cut, seed)
    total = sum(shares.values()) if given else 1.0
    rows = given | _divide_rows(examples, pool, {split: share / total for split, share in shares.items()}, seed)
    rows = {split: np.sort(rows[split]) for split in SPLIT_SHARES}
    warnings: tuple[str, ...] = ()
    if examples.times is not None and examples.target_times is not None:
        rows, warnings = _drop_overlapping(examples.times, examples.target_times, rows)
    return Splits(rows, _describe_rule(examples, given, seed), (*_check_splits(examples, rows), *warnings))


def _drop_overlapping(times: Array, ends: Array, rows: Rows) -> tuple[Rows, tuple[str, ...]]:
    """Drop the examples whose target time reaches the first time of the next split."""
    kept = dict(rows)
    for split, later in pairwise(SPLIT_SHARES):
        kept[split] = rows[split][ends[rows[split]] < times[rows[later]].min(initial=np.inf)]
    dropped = sum(map(len, rows.values())) - sum(map(len, kept.values()))
    return kept, (
        f"{dropped} examples are left out because their target lies in the period of the next split",
    ) if dropped else ()


def _divide_rows(examples: Examples, pool: Array, shares: Mapping[str, float], seed: int) -> Rows:
    """Divide rows at random, stratified by class, or by groups or times."""
    rng = np.random.default_rng(seed)
    if examples.groups is not None:
        return _divide_by_group(examples, pool, shares, rng)
    if examples.times is not None:
        return _divide_by_time(examples.times[pool], pool, shares)
    strata = [pool]
    if examples.y.dtype.kind == "i":
        strata = [pool[examples.y[pool] == label] for label in range(int(examples.y.max()) + 1)]
        few = [label for label, rows in enumerate(strata) if len(rows) < MIN_CLASS_ROWS]
        if few:
            shown = ", ".join(f"{_class_label(examples, label)} has {len(strata[label])}" for label in few[:3])
            where = (" in train" if "train" in shares else " in validation") if len(pool) < len(examples.y) else ""
            raise DatasetError(
                f"{len(few)} of {len(strata)} classes have too few examples{where} ({shown}): at least "
                f"{MIN_CLASS_ROWS} are needed for every split to get one; merge or remove such classes"
            )
    parts: dict[str, list[Array]] = {split: [] for split in shares}
    bounds = np.cumsum(list(shares.values()))[:-1]
    for stratum in strata:
        places = np.rint(bounds * len(stratum)).astype(int)
        for split, part in zip(shares, np.split(rng.permutation(stratum), places), strict=True):
            parts[split].append(part)
    return {split: np.concatenate(part) for split, part in parts.items()}


def _divide_by_group(examples: Examples, pool: Array, shares: Mapping[str, float], rng: np.random.Generator) -> Rows:
    """Assign groups, largest first, to the split whose shares of all classes then come closest to their targets."""
    assert examples.groups is not None
    names, group = np.unique(examples.groups[pool], return_inverse=True)
    if len(names) < len(shares):
        raise DatasetError(
            f"it cannot be split by group: {len(names)} groups are too few for {len(shares)} splits "
            f"({', '.join(shares)}); omit group= or group by another column"
        )
    label = examples.y[pool] if examples.y.dtype.kind == "i" else np.zeros(len(pool), dtype=np.int64)
    counts = np.zeros((len(names), int(label.max()) + 1))
    np.add.at(counts, (group, label), 1)
    totals = np.maximum(counts.sum(axis=0), 1.0)
    wanted = np.array(list(shares.values()))[:, None] * totals
    have = np.zeros_like(wanted)
    home = np.zeros(len(names), dtype=np.int64)
    order = rng.permutation(len(names))
    for i in order[np.argsort(-counts[order].sum(axis=1), kind="stable")]:
        after = ((have + counts[i] - wanted) ** 2 / totals).sum(axis=1)
        before = ((have - wanted) ** 2 / totals).sum(axis=1)
        home[i] = int(np.argmin(after - before))
        have[home[i]] += counts[i]
    return {split: pool[home[group] == i] for i, split in enumerate(shares)}


def _divide_by_time(times: Array, pool: Array, shares: Mapping[str, float]) -> Rows:
    """Divide rows by time; rows with equal times stay together, in the later split."""
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    places = np.rint(np.cumsum(list(shares.values()))[:-1] * len(pool)).astype(int)
    bounds = [int(np.searchsorted(ordered, ordered[place], "left")) for place in places]
    parts = np.split(pool[order], bounds)
    if any(not len(part) for part in parts):
        raise DatasetError(
            f"it cannot be split by time: {len(np.unique(times))} distinct times are too few, or one "
            "of them has too many rows; omit time= or use a finer time column"
        )
    return dict(zip(shares, parts, strict=True))


def _check_splits(examples: Examples, rows: Mapping[str, Array]) -> tuple[str, ...]:
    """Return warnings. Raises `DatasetError` for a split that is too small or a class that is missing from train.

    Groups spread over several given splits cause only a warning, because given splits are kept.
    """
    for split, index in rows.items():
        if len(index) < MIN_SPLIT_ROWS:
            raise DatasetError(f"{split} has only {len(index)} rows, at least {MIN_SPLIT_ROWS} are needed")
    warnings: list[str] = []
    if examples.y.dtype.kind == "i":
        classes = np.arange(int(examples.y.max()) + 1)
        lacking = {split: np.setdiff1d(classes, examples.y[index]) for split, index in rows.items()}
        if len(lacking["train"]):
            raise DatasetError(
                f"train has no example of class {_class_label(examples, int(lacking['train'][0]))}, so it "
                "cannot be learned: change the split or remove the class"
            )
        warnings += [
            f"{split} has no example of class {', '.join(_class_label(examples, int(i)) for i in missing[:3])}"
            for split, missing in lacking.items()
            if len(missing)
        ]
    if (groups := examples.groups) is not None:
        learned, scored = (
            np.concatenate([groups[rows[split]] for split in splits])
            for splits in (("train", "dev"), ("validation", "test"))
        )
        if len(shared := np.intersect1d(learned, scored)):
            warnings.append(f"{len(shared)} groups occur both in train and in validation or test in the given splits")
    return tuple(warnings)


def _class_label(examples: Examples, i: int) -> str:
    return repr(examples.class_names[i]) if examples.class_names else str(i)


def _describe_rule(examples: Examples, given: Rows, seed: int) -> str:
    by = (
        f"whole groups, seed {seed}"
        if examples.groups is not None
        else "in order of time"
        if examples.times is not None
        else f"stratified by class, seed {seed}"
        if examples.y.dtype.kind == "i"
        else f"at random, seed {seed}"
    )
    if not given:
        return f"automatic, {by}"
    made = [split for split in SPLIT_SHARES if split not in given and split != "train"]
    cut = [f"{' and '.join(made)} taken from train"] if made else []
    if "dev" in given:
        cut.insert(0, "dev taken from validation")
    return f"given train, {', '.join(split for split in given if split != 'dev')}; {', '.join(cut)}, {by}"
