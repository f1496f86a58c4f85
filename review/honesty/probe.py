"""The probe of a winner: its code again with permuted training labels, and with other seeds; must its numbers move?

The permuted view is made inside the kernel, before the code's first line, by a script of ours: it shows code that does
not learn from its labels. Code that looks for the probe can dodge it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from record.nouns.data import Measurement, MetricSpec

ENTRY = "probe.py"
RETAINED = 0.5
"""Share of its advantage over chance that code may keep with permuted labels, at most."""

LEAST = 0.02
"""Advantage over chance, as a share of chance's own distance from a perfect value (or of 1), below which nothing is
learnt that could be lost."""

TASK = "probe the winner"
"""The step of a run that does it."""

PERMUTATIONS = 6
"""How many permutations must all leave the numbers standing: on small data one alone does so by luck now and then."""

_PROGRAM = '''\
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


def program(number: int = 0) -> str:
    """The script that runs experiment.py with the labels permuted for the so-many-th time."""
    return _PROGRAM.replace("NUMBER", str(7919 + number))


Cell = tuple[str, str]
"""Dataset and condition."""


class Probe(NamedTuple):
    """What came of a probe, in a word and in a sentence."""

    outcome: Literal["moved", "still", "unclear"]
    why: str


def labels_probe(
    before: Sequence[Measurement], after: Sequence[Measurement], *, metric: MetricSpec, chance: Mapping[str, float],
) -> Probe:
    """Whether the advantage over chance was lost. `chance` is the metric of the class shares (the mean), by dataset."""
    first, second = _cells(before, metric), _cells(after, metric)
    kept = [share for cell in first.keys() & second.keys() if cell[0] in chance
            and (share := _kept(first[cell], second[cell], chance[cell[0]], metric)) is not None]
    if not kept:
        return Probe("unclear", "no arm is measurably better than chance, so there is nothing to lose")
    share = median(kept)
    text = (f"with permuted training labels {100 * max(0.0, share):.0f} % of the advantage over chance in "
            f"{metric.name} is left (median of {len(kept)})")
    if share < RETAINED:
        return Probe("moved", text)
    return Probe("still", f"{text}: it does not come from the labels")


def seed_probe(before: Sequence[Measurement], others: Sequence[Sequence[Measurement]], metric: MetricSpec) -> Probe:
    """Whether any value of the metric differs under another seed."""
    first = _cells(before, metric)
    seen = [(first[cell], value) for one in others for cell, value in _cells(one, metric).items() if cell in first]
    if not seen:
        return Probe("unclear", "there is no good replicate to compare with")
    moved = sum(a != b for a, b in seen)
    text = f"{moved} of {len(seen)} values of {metric.name} differ under other seeds"
    return Probe("moved" if moved else "still",
                 text if moved else f"{text}: right for a deterministic method, and a frozen seed otherwise")


def _cells(values: Sequence[Measurement], metric: MetricSpec) -> dict[Cell, float]:
    return {(one.dataset, one.condition): one.value for one in values
            if one.name == metric.name and one.step is None and one.split == "validation"}


def _kept(before: float, after: float, chance: float, metric: MetricSpec) -> float | None:
    """The share of the advantage that is left; None where there was none."""
    sign = 1.0 if metric.higher_is_better else -1.0
    gap = sign * (before - chance)
    room = abs(chance) if not metric.higher_is_better else max(abs(1.0 - chance), abs(chance))
    return sign * (after - chance) / gap if gap > LEAST * room else None
