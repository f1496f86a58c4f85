"""Probe whether a prediction depends on its own row and on no other validation or test row.

Every second row of validation and test is replaced by a training row, inside the kernel and before the experiment code
starts; the predictions of replaced rows must change, and no others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.review.honesty.label_probe import ProbeResult, is_uninformed_arm
from labwright.sandbox.scoring import SubmittedPredictions

Array = NDArray[Any]

ROW_PROBE_SCRIPT = '''\
"""Runs experiment.py with every second row of validation and test replaced by a training row."""
import dataclasses
import functools

import lab
import numpy as np

_data = lab.data


@functools.cache
def altered(name):
    found = _data(name)
    if not hasattr(found, "train"):
        return found
    rng = np.random.default_rng(7919)
    parts = {}
    for split in ("validation", "test"):
        x = np.array(getattr(found, split).x[:])
        places = np.arange(1, len(x), 2)
        x[places] = found.train.x[np.sort(rng.integers(len(found.train.x), size=len(places)))]
        parts[split] = dataclasses.replace(getattr(found, split), x=x)
    return dataclasses.replace(found, **parts)


lab.data = altered
exec(compile(open("experiment.py", encoding="utf-8").read(), "experiment.py", "exec"))
'''

TRANSDUCTIVE_WORDS = re.compile(
    r"transduct|semi-?supervis|unlabel|test-time|domain adapt|self-train|pseudo-?label", re.I
)
MAX_SAME_DIFFERENCE = 1e-3
"""Maximum change of an unchanged prediction, as a share of the spread of all predictions."""
MAX_STRAY_SHARE = 0.02
"""Share of predictions that may change although they should not: labels near a tie."""


def find_same_rows(before: Array, after: Array) -> NDArray[np.bool_]:
    """Return for each row whether the predictions agree within the tolerance.

    Shapes: (rows,) or (rows, classes).
    """
    if before.shape != after.shape:
        return np.zeros(len(before), dtype=bool)
    first, second = (np.asarray(one, dtype=float).reshape(len(one), -1) for one in (before, after))
    near: NDArray[np.bool_] = np.abs(first - second) <= MAX_SAME_DIFFERENCE * max(float(first.std()), 1e-12)
    return np.logical_and.reduce(near, axis=1)


def judge_row_replacement(
    before: Sequence[SubmittedPredictions],
    after: Sequence[SubmittedPredictions],
    plan: DataPlan | None,
    *,
    words: str = "",
) -> ProbeResult:
    """Judge whether the predictions of replaced rows changed, and no others.

    Predictions that are equal for all rows, and deliberately uninformed arms, are ignored. `words` is the plan's
    text, which may say that an arm is transductive.
    """
    known, why, count = {(one.dataset, one.condition): one for one in after}, list[str](), 0
    for one in before:
        again = known.get((one.dataset, one.condition))
        if again is None or len(one.values) < MIN_ROWS or len(again.values) != len(one.values):
            continue
        equal, count = find_same_rows(one.values, again.values), count + 1
        stray, varied = 1.0 - float(equal[0::2].mean()), len(np.unique(one.values, axis=0)) > 1
        where = f"{one.condition!r} on {one.dataset}"
        if stray > MAX_STRAY_SHARE and not TRANSDUCTIVE_WORDS.search(words):
            why.append(
                f"{100 * stray:.0f} % of the predictions of {where} for unchanged rows changed when "
                "other rows were replaced: they depend on other rows to predict"
            )
        elif varied and equal[1::2].all() and not is_uninformed_arm(parse_arm(one.condition), plan):
            why.append(
                f"the predictions of {where} vary between rows, and none changed when its row was replaced: "
                "they do not come from the rows"
            )
    if why:
        return ProbeResult("still", "; ".join(why))
    return (
        ProbeResult("moved", f"replacing rows changed only their own predictions ({count} cells)")
        if count
        else ProbeResult("unclear", "no predictions can be compared")
    )


MIN_ROWS = 20
"""Minimum rows to predict for a verdict."""
