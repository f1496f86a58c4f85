"""Re-run the code behind the paper with one thing changed, and check which numbers move.

*Labels*: with permuted labels of train and dev, the advantage over chance must disappear. *Seed*: the replicates. Run
the code behind the paper again with one thing changed, and check which numbers change.

A script of this program makes the change inside the kernel before the experiment code starts. Code that looks for a
probe can evade it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from labwright.record.schema.data_plan import DataPlan, Measurement, MetricSpec, parse_arm
from labwright.sandbox.scoring import SubmittedPredictions

PROBE_FILE = "probe.py"
UNINFORMED_ARM = re.compile(
    r"chance|random|uniform|guess|constant|dummy|majority|prior|null|naive|untrained|coin|frozen|init|zero-?shot"
    r"|no-?training",
    re.I,
)
"""Names and descriptions of arms that are deliberately uninformed or untrained."""
RETAINED_SHARE_THRESHOLD = 0.5
"""Maximum share of the advantage over chance that may remain with permuted labels."""

MIN_ADVANTAGE = 0.02
"""Minimum advantage over chance, as a share of the distance from chance to a perfect value (or of 1), for a verdict."""

MAX_PERMUTATIONS = 6
"""Number of permutations that must all leave the numbers unchanged; on small data a single one may do so by chance."""

_PROBE_TEMPLATE = '''\
"""Runs experiment.py with the labels of train and dev permuted: what it then reaches comes from something else."""
import dataclasses
import functools

import lab
import numpy as np

_data = lab.data


@functools.cache
def permuted(name):
    found = _data(name)
    if not hasattr(found, "train"):
        return found
    rng = np.random.default_rng([lab.seed, NUMBER])
    parts = {part: dataclasses.replace(getattr(found, part), y=rng.permutation(getattr(found, part).y))
             for part in ("train", "dev")}
    return dataclasses.replace(found, **parts)


lab.data = permuted
exec(compile(open("experiment.py", encoding="utf-8").read(), "experiment.py", "exec"))
'''


def build_probe_script(number: int = 0) -> str:
    """Return the script that runs experiment.py with permuted labels; `number` selects the permutation."""
    return _PROBE_TEMPLATE.replace("NUMBER", str(7919 + number))


DatasetArm = tuple[str, str]
"""Dataset and condition."""


def is_uninformed_arm(arm: str, plan: DataPlan | None) -> bool:
    """Return whether an arm is deliberately uninformed or untrained."""
    found = next((one for one in plan.arms if one.name == arm), None) if plan else None
    words = f"{arm} {found.title} {found.description}" if found else arm
    return UNINFORMED_ARM.search(words) is not None


class ProbeResult(NamedTuple):
    """Outcome of a probe: one word, and a sentence."""

    outcome: Literal["moved", "still", "unclear"]
    why: str


def judge_label_permutation(
    before: Sequence[Measurement], after: Sequence[Measurement], *, metric: MetricSpec, chance: Mapping[str, float]
) -> ProbeResult:
    """Judge whether the advantage over chance disappeared.

    `chance` is the metric of predicting the class shares (the mean), by dataset.
    """
    first, second = values_by_cell(before, metric), values_by_cell(after, metric)
    kept = [
        share
        for cell in first.keys() & second.keys()
        if cell[0] in chance
        and (share := _retained_advantage(first[cell], second[cell], chance[cell[0]], metric)) is not None
    ]
    if not kept:
        return ProbeResult("unclear", "no arm is measurably better than chance, so the probe cannot decide")
    share = median(kept)
    text = (
        f"with permuted training labels, {100 * max(0.0, share):.0f} % of the advantage over chance in "
        f"{metric.name} remains (median of {len(kept)})"
    )
    if share < RETAINED_SHARE_THRESHOLD:
        return ProbeResult("moved", text)
    return ProbeResult("still", f"{text}: it does not come from the labels")


LABEL_FREE_ARM = re.compile(r"unsupervis|heuristic|rule|threshold|cluster|zero|pre-?trained|closed.form", re.I)
"""Words for arms that need no labels."""


def find_arms_ignoring_labels(
    before: Sequence[SubmittedPredictions], after: Sequence[SubmittedPredictions], plan: DataPlan | None
) -> tuple[str, ...]:
    """Return the arms whose predictions vary between rows and are identical with permuted labels."""
    known = {(one.dataset, one.condition): one for one in after}
    found: dict[str, list[bool]] = {}
    for one in before:
        again, arm = known.get((one.dataset, one.condition)), parse_arm(one.condition)
        if again is not None and len(np.unique(one.values, axis=0)) > 1:
            found.setdefault(arm, []).append(np.array_equal(one.values, again.values))
    words = {one.name: f"{one.title} {one.description}" for one in plan.arms} if plan else {}
    return tuple(
        arm
        for arm, equal in found.items()
        if all(equal) and not is_uninformed_arm(arm, plan) and not LABEL_FREE_ARM.search(f"{arm} {words.get(arm, '')}")
    )


def judge_seed_change(
    before: Sequence[Measurement], others: Sequence[Sequence[Measurement]], metric: MetricSpec
) -> ProbeResult:
    """Judge whether any value of the metric differs between seeds."""
    first = values_by_cell(before, metric)
    seen = [
        (first[cell], value) for one in others for cell, value in values_by_cell(one, metric).items() if cell in first
    ]
    if not seen:
        return ProbeResult("unclear", "there is no good replicate to compare with")
    moved = sum(a != b for a, b in seen)
    text = f"{moved} of {len(seen)} values of {metric.name} differ under other seeds"
    return ProbeResult(
        "moved" if moved else "still",
        text if moved else f"{text}: correct for a deterministic method, otherwise the seed is ignored",
    )


def values_by_cell(values: Sequence[Measurement], metric: MetricSpec) -> dict[DatasetArm, float]:
    return {
        (one.dataset, one.condition): one.value
        for one in values
        if one.name == metric.name and one.step is None and one.split == "validation"
    }


def _retained_advantage(before: float, after: float, chance: float, metric: MetricSpec) -> float | None:
    """Return the share of the advantage that remains; None if there was none."""
    sign = 1.0 if metric.higher_is_better else -1.0
    gap = sign * (before - chance)
    room = abs(chance) if not metric.higher_is_better else max(abs(1.0 - chance), abs(chance))
    return sign * (after - chance) / gap if gap > MIN_ADVANTAGE * room else None
