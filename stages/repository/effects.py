"""What taking a part out does: effects between runs of the same seed, what may be called, and the rows of the report.

An effect is positive where the part helps, whatever the metric's direction. A run that failed is no pair and no zero.
Effects are taken to be independent and roughly normal, as `record.claims.means` says, which every interval is of.

Source: AblateCell, its metrics of importance; docs/repositories.md where that is silent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from labwright.record.claims.means import (
    LEVEL,
    MINIMUM_REPLICATES,
    detectable,
    holm,
    interval,
    p_value,
    students_t,
    t_quantile,
)
from labwright.record.nouns.repository import Called, Direction, Gate, PartResult

CRITICAL = 0.05
"""The share of the baseline that a part decides to be critical, as published."""
FLOOR = 0.9
"""A removal that loses this share of what zeroing the whole model loses has broken it, whatever its part is worth."""
TWIN_ERRORS = 3.0
"""Standard errors by which a joint effect must pass the sum of the single ones."""

UNRANKED: tuple[Literal["breaks the program", "changes what is scored"], ...] = (
    "breaks the program",
    "changes what is scored",
)
"""What is told of a part, and is no importance of it."""

LEAST_RANKED = 5
"""Parts that a cheap command and the full one must both have ranked before their agreement is told."""

Values = Mapping[int, float | None]
"""Seed -> the metric; None where the run failed."""


class Effect(NamedTuple):
    """`n`: pairs that gave a value. `relative`: to the size of the baseline's mean."""

    effects: tuple[float | None, ...]
    n: int
    mean: float | None
    relative: float | None


def effect_of(direction: Direction, baseline: Sequence[float | None], ablated: Sequence[float | None]) -> Effect:
    """Pairs by their place, which is their seed."""
    sign = 1.0 if direction == "max" else -1.0
    effects = tuple(
        None if one is None or other is None else sign * _difference(one, other)
        for one, other in zip(baseline, ablated, strict=True)
    )
    found = [one for one in effects if one is not None]
    mean = fmean(found) if found else None
    return Effect(effects, len(found), mean, _relative(mean, [one for one in baseline if one is not None]))


def _difference(one: float, other: float) -> float:
    """Without the last digits of floating point: .80 - .60 and .82 - .62 are the same, and no spread between seeds."""
    size = max(abs(one), abs(other))
    return round(one - other, 12 - math.ceil(math.log10(size))) if size else 0.0


def _relative(mean: float | None, baseline: Sequence[float]) -> float | None:
    level = abs(fmean(baseline)) if baseline else 0.0
    return mean / level if level and mean is not None else None


class Critical(NamedTuple):
    """Names, the largest effect first. What harms by as much is among both."""

    critical: tuple[str, ...]
    harmful: tuple[str, ...]


def critical(baseline_mean: float, effects: Mapping[str, float], share: float = CRITICAL) -> Critical:
    """The parts whose effect reaches a share of the baseline."""
    order = sorted(effects, key=lambda name: (-abs(effects[name]), name))
    return Critical(
        tuple(name for name in order if _reaches(effects[name], baseline_mean, share)),
        tuple(name for name in order if effects[name] < 0),
    )


def _reaches(effect: float, baseline_mean: float, share: float = CRITICAL) -> bool:
    threshold = share * abs(baseline_mean)
    return abs(effect) >= threshold or math.isclose(abs(effect), threshold, rel_tol=1e-9)


@dataclass(frozen=True)
class Interval:
    """Of effects: 95 % t interval of their mean.

    `sd`, `low`, `high` and `p` are None where all effects are equal: that is no measured noise of 0.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def called(self) -> Called | None:
        """`unknown`, or None where the p decides."""
        return "unknown" if self.n < MINIMUM_REPLICATES or self.p is None else None


def paired_interval(effects: Iterable[float | None]) -> Interval:
    """Of effects between runs of the same seed."""
    found = [one for one in effects if one is not None]
    sd, low, high = interval(found)
    return Interval(len(found), fmean(found) if found else None, sd, low, high, p_value(found))


def unpaired_interval(
    direction: Direction, baseline: Iterable[float | None], ablated: Iterable[float | None]
) -> Interval:
    """Of a difference of means where no seed joins the runs; `n` is of the smaller group, `sd` of one difference.

    Source: Welch 1947, with Satterthwaite's degrees of freedom.
    """
    groups = [[one for one in some if one is not None] for some in (baseline, ablated)]
    n = min(map(len, groups))
    mean = (fmean(groups[0]) - fmean(groups[1])) * (1 if direction == "max" else -1) if n else None
    sds = [stdev(one) for one in groups] if n > 1 else [0.0]
    if mean is None or not any(sds):
        return Interval(n, mean)
    errors = [sd * sd / len(one) for sd, one in zip(sds, groups, strict=True)]
    freedom = sum(errors) ** 2 / sum(error * error / (len(one) - 1) for error, one in zip(errors, groups, strict=True))
    error = math.sqrt(sum(errors))
    half = t_quantile(1 - LEVEL / 2, freedom) * error
    p = min(1.0, 2 * students_t(-abs(mean) / error, freedom))
    return Interval(n, mean, math.hypot(*sds), mean - half, mean + half, p)


class Interaction(NamedTuple):
    """`value`: what parts do together beyond the sum of what each does; `twins`: more than chance explains."""

    value: float
    bound: float
    twins: bool


def interaction(singles: Iterable[float], joint: float, *, sigma: float, runs: int = 1) -> Interaction:
    """Of parts that were each taken out `runs` times, and once as often together. `sigma`: of one effect."""
    alone = list(singles)
    value, bound = joint - sum(alone), TWIN_ERRORS * sigma * math.sqrt((1 + len(alone)) / runs)
    return Interaction(value, bound, value > bound)


def shows_more(singles: Iterable[float], joint: float, *, sigma: float) -> bool:
    """Whether a set taken out together is worth halving: it shows an effect, and more than its parts add up to.

    Looser than `interaction`, whose bound a single pair must pass in the end: of many parts it would find nothing.
    """
    return joint > TWIN_ERRORS * sigma and joint - sum(singles) > TWIN_ERRORS * sigma


def rank_agreement(cheap: Mapping[str, float], full: Mapping[str, float]) -> float | None:
    """How alike a cheap command and the full one rank the sizes of effects: Kendall's tau-b, from -1 to 1.

    Over the parts that both measured; None of fewer than `LEAST_RANKED`, or where one ranks nothing.
    """
    names = [name for name in cheap if name in full]
    pairs = [(_order(cheap, one, other), _order(full, one, other)) for one, other in combinations(names, 2)]
    ranked = sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs)
    return sum(a * b for a, b in pairs) / math.sqrt(ranked) if len(names) >= LEAST_RANKED and ranked else None


def _order(effects: Mapping[str, float], one: str, other: str) -> int:
    a, b = abs(effects[one]), abs(effects[other])
    return (a > b) - (a < b)


class Floor(NamedTuple):
    """`at_floor`: by mutation, in their order. `ranked`: the one whose effect stands for the part."""

    gap: float
    at_floor: tuple[bool, ...]
    ranked: str | None
    effect: float | None
    flag: str


def floor_rule(
    direction: Direction, baseline: float, floor: float, effects: Sequence[tuple[str, float]], share: float = FLOOR
) -> Floor:
    """Which of several ways of taking a part out is reported, in the order in which they were tried.

    `floor`: the metric with the whole model's output zeroed. The first that does not end there; where all do the one
    that loses least, flagged: the part is indispensable, or every way of removing it breaks the program.
    """
    gap = (baseline - floor) * (1 if direction == "max" else -1)
    at_floor = tuple(at_the_floor(effect, gap, share) for _, effect in effects)
    free = [one for one, low in zip(effects, at_floor, strict=True) if not low]
    name, effect = free[0] if free else min(effects, key=lambda one: one[1], default=(None, None))
    return Floor(gap, at_floor, name, effect, "at the floor" if effects and not free else "")


def at_the_floor(effect: float, gap: float, share: float = FLOOR) -> bool:
    """Whether so large an effect may only say that nothing works any more; a gap that is none tells nothing."""
    return gap > 0 and effect >= share * gap


def patch_gate(baseline: float, ablated: float, *, reached: bool | None, repeatable: bool = True) -> Gate:
    """Of two runs with one seed: whether the patch was executed, and whether any digit moved.

    `reached`: whether changed lines ran, None where nobody knows; `repeatable`: whether the unchanged program gives the
    same digits twice, without which digits that differ say nothing.
    """
    if reached is False and (baseline == ablated or not repeatable):
        return "not reached"
    return "no effect" if baseline == ablated else "moved"


@dataclass(frozen=True)
class Measured:
    """A part as it was run on fresh seeds, or why it was not."""

    part: str
    mutation: str = ""
    where: str = ""
    gate: Gate = "moved"
    baseline: Values = field(default_factory=dict[int, float | None])
    ablated: Values = field(default_factory=dict[int, float | None])
    flag: str = ""
    found_with: int = 0
    runs: tuple[str, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether there are effects to look at."""
        return self.gate in ("moved", "at the floor", "no effect", *UNRANKED) and bool(self.ablated)


def results(measured: Sequence[Measured], *, direction: Direction, paired: bool = True) -> tuple[PartResult, ...]:
    """The rows of the report, in the order given; p is corrected by Holm over all that could be called.

    `paired`: whether a seed joins the runs; without one means are compared. A part that was seen too seldom, or at
    seeds that all agree, is no test.
    """
    found = [_interval(one, direction, paired) for one in measured]
    tested = [place for place, one in enumerate(found) if one.called is None and measured[place].gate not in UNRANKED]
    corrected = dict(zip(tested, holm([found[place].p for place in tested]), strict=True))
    return tuple(_row(one, found[place], corrected.get(place), len(tested)) for place, one in enumerate(measured))


def _interval(one: Measured, direction: Direction, paired: bool) -> Interval:
    if not one.ran:
        return Interval(0)
    if not paired:
        return unpaired_interval(direction, one.baseline.values(), one.ablated.values())
    seeds = sorted(one.baseline.keys() & one.ablated.keys())
    return paired_interval(
        effect_of(direction, [one.baseline[seed] for seed in seeds], [one.ablated[seed] for seed in seeds]).effects
    )


def _row(one: Measured, found: Interval, p: float | None, compared: int) -> PartResult:
    level = [value for value in one.baseline.values() if value is not None]
    mean = 0.0 if one.gate == "no effect" else found.mean
    return PartResult(
        part=one.part,
        mutation=one.mutation,
        where=one.where,
        n=found.n,
        mean=mean,
        relative=_relative(mean, level),
        low=found.low,
        high=found.high,
        p=p,
        called=called_of(one.gate, found, p, fmean(level) if level else 0.0),
        detectable=None if found.sd is None else detectable(found.n, found.sd, max(1, compared)),
        flag=one.flag
        or (
            "at the floor"
            if one.gate == "at the floor"
            else "the same at every seed, so that nothing tells it from chance"
            if found.n > 1 and found.p is None and mean
            else ""
        ),
        found_with=one.found_with,
        runs=one.runs,
    )


def called_of(gate: Gate, found: Interval, p: float | None, baseline_mean: float) -> Called:
    """What may be said of a part; `p` is the corrected one. Nothing is called of fewer than five pairs."""
    if gate in ("no effect", "not reached", *UNRANKED):
        return gate
    if gate not in ("moved", "at the floor") or found.mean is None:
        return "not measured"
    if found.called is not None or p is None:
        return "unknown"
    if p > LEVEL:
        return "no measurable difference"
    if found.mean < 0:
        return "harmful"
    return "critical" if _reaches(found.mean, baseline_mean) else "helps"
