"""What taking a part out does: effects between runs of the same seed, what may be called, and the rows of the report.

An effect is positive where the part helps, whatever the metric's direction. A run that failed is no pair and no zero.
Effects are taken to be independent and roughly normal, as `record.claims.estimates` says, which every interval is of.

Source: AblateCell, its metrics of importance; docs/repositories.md where that is silent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from labwright.record.claims.estimates import (
    MIN_REPLICATES,
    SIGNIFICANCE_LEVEL,
    adjust_p_values,
    compute_detectable_effect,
    compute_p_value,
    compute_t_interval,
    compute_t_probability,
    compute_t_quantile,
)
from labwright.record.schema.repository import MetricDirection, MutationOutcome, PartClassification, PartResult

CRITICAL_SHARE = 0.05
"""The share of the baseline that a part decides to be critical, as published."""
FLOOR_SHARE = 0.9
"""A removal that loses this share of what zeroing the whole model loses has broken it, whatever its part is worth."""
MIN_TWIN_ERRORS = 3.0
"""Standard errors by which a joint effect must pass the sum of the single ones."""

UNRANKED_GATES: tuple[Literal["breaks the program", "changes what is scored"], ...] = (
    "breaks the program",
    "changes what is scored",
)
"""What is told of a part, and is no importance of it."""

MIN_RANKED_PARTS = 5
"""Parts that a cheap command and the full one must both have ranked before their agreement is told."""

ValuesBySeed = Mapping[int, float | None]
"""Seed -> the metric; None where the run failed."""


class PairedEffect(NamedTuple):
    """`n`: pairs that gave a value. `relative`: to the size of the baseline's mean."""

    effects: tuple[float | None, ...]
    n: int
    mean: float | None
    relative: float | None


def compute_effect(
    direction: MetricDirection, baseline: Sequence[float | None], ablated: Sequence[float | None]
) -> PairedEffect:
    """Pairs by their place, which is their seed."""
    sign = 1.0 if direction == "max" else -1.0
    effects = tuple(
        None if one is None or other is None else sign * _subtract(one, other)
        for one, other in zip(baseline, ablated, strict=True)
    )
    found = [one for one in effects if one is not None]
    mean = fmean(found) if found else None
    return PairedEffect(
        effects, len(found), mean, _compute_relative(mean, [one for one in baseline if one is not None])
    )


def _subtract(one: float, other: float) -> float:
    """Without the last digits of floating point: .80 - .60 and .82 - .62 are the same, and no spread between seeds."""
    size = max(abs(one), abs(other))
    return round(one - other, 12 - math.ceil(math.log10(size))) if size else 0.0


def _compute_relative(mean: float | None, baseline: Sequence[float]) -> float | None:
    level = abs(fmean(baseline)) if baseline else 0.0
    return mean / level if level and mean is not None else None


class CriticalParts(NamedTuple):
    """Names, the largest effect first. What harms by as much is among both."""

    critical: tuple[str, ...]
    harmful: tuple[str, ...]


def find_critical(baseline_mean: float, effects: Mapping[str, float], share: float = CRITICAL_SHARE) -> CriticalParts:
    """The parts whose effect reaches a share of the baseline."""
    order = sorted(effects, key=lambda name: (-abs(effects[name]), name))
    return CriticalParts(
        tuple(name for name in order if _reaches_share(effects[name], baseline_mean, share)),
        tuple(name for name in order if effects[name] < 0),
    )


def _reaches_share(effect: float, baseline_mean: float, share: float = CRITICAL_SHARE) -> bool:
    threshold = share * abs(baseline_mean)
    return abs(effect) >= threshold or math.isclose(abs(effect), threshold, rel_tol=1e-9)


@dataclass(frozen=True)
class EffectInterval:
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
    def verdict(self) -> PartClassification | None:
        """`unknown`, or None where the p decides."""
        return "unknown" if self.n < MIN_REPLICATES or self.p is None else None


def compute_paired_interval(effects: Iterable[float | None]) -> EffectInterval:
    """Of effects between runs of the same seed."""
    found = [one for one in effects if one is not None]
    sd, low, high = compute_t_interval(found)
    return EffectInterval(len(found), fmean(found) if found else None, sd, low, high, compute_p_value(found))


def compute_unpaired_interval(
    direction: MetricDirection, baseline: Iterable[float | None], ablated: Iterable[float | None]
) -> EffectInterval:
    """Of a difference of means where no seed joins the runs; `n` is of the smaller group, `sd` of one difference.

    Source: Welch 1947, with Satterthwaite's degrees of freedom.
    """
    groups = [[one for one in some if one is not None] for some in (baseline, ablated)]
    n = min(map(len, groups))
    mean = (fmean(groups[0]) - fmean(groups[1])) * (1 if direction == "max" else -1) if n else None
    sds = [stdev(one) for one in groups] if n > 1 else [0.0]
    if mean is None or not any(sds):
        return EffectInterval(n, mean)
    errors = [sd * sd / len(one) for sd, one in zip(sds, groups, strict=True)]
    freedom = sum(errors) ** 2 / sum(error * error / (len(one) - 1) for error, one in zip(errors, groups, strict=True))
    error = math.sqrt(sum(errors))
    half = compute_t_quantile(1 - SIGNIFICANCE_LEVEL / 2, freedom) * error
    p = min(1.0, 2 * compute_t_probability(-abs(mean) / error, freedom))
    return EffectInterval(n, mean, math.hypot(*sds), mean - half, mean + half, p)


class PartInteraction(NamedTuple):
    """`value`: what parts do together beyond the sum of what each does; `twins`: more than chance explains."""

    value: float
    bound: float
    is_joint: bool


def compute_interaction(singles: Iterable[float], joint: float, *, sigma: float, runs: int = 1) -> PartInteraction:
    """Of parts that were each taken out `runs` times, and once as often together. `sigma`: of one effect."""
    alone = list(singles)
    value, bound = joint - sum(alone), MIN_TWIN_ERRORS * sigma * math.sqrt((1 + len(alone)) / runs)
    return PartInteraction(value, bound, value > bound)


def exceeds_sum(singles: Iterable[float], joint: float, *, sigma: float) -> bool:
    """Whether a set taken out together is worth halving: it shows an effect, and more than its parts add up to.

    Looser than `interaction`, whose bound a single pair must pass in the end: of many parts it would find nothing.
    """
    return joint > MIN_TWIN_ERRORS * sigma and joint - sum(singles) > MIN_TWIN_ERRORS * sigma


def compute_rank_agreement(cheap: Mapping[str, float], full: Mapping[str, float]) -> float | None:
    """How alike a cheap command and the full one rank the sizes of effects: Kendall's tau-b, from -1 to 1.

    Over the parts that both measured; None of fewer than `LEAST_RANKED`, or where one ranks nothing.
    """
    names = [name for name in cheap if name in full]
    pairs = [
        (_compare_order(cheap, one, other), _compare_order(full, one, other)) for one, other in combinations(names, 2)
    ]
    ranked = sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs)
    return sum(a * b for a, b in pairs) / math.sqrt(ranked) if len(names) >= MIN_RANKED_PARTS and ranked else None


def _compare_order(effects: Mapping[str, float], one: str, other: str) -> int:
    a, b = abs(effects[one]), abs(effects[other])
    return (a > b) - (a < b)


class FloorRanking(NamedTuple):
    """`at_floor`: by mutation, in their order. `ranked`: the one whose effect stands for the part."""

    gap: float
    at_floor: tuple[bool, ...]
    ranked: str | None
    effect: float | None
    flag: str


def apply_floor_rule(
    direction: MetricDirection,
    baseline: float,
    floor: float,
    effects: Sequence[tuple[str, float]],
    share: float = FLOOR_SHARE,
) -> FloorRanking:
    """Which of several ways of taking a part out is reported, in the order in which they were tried.

    `floor`: the metric with the whole model's output zeroed. The first that does not end there; where all do the one
    that loses least, flagged: the part is indispensable, or every way of removing it breaks the program.
    """
    gap = (baseline - floor) * (1 if direction == "max" else -1)
    at_floor = tuple(is_at_floor(effect, gap, share) for _, effect in effects)
    free = [one for one, low in zip(effects, at_floor, strict=True) if not low]
    name, effect = free[0] if free else min(effects, key=lambda one: one[1], default=(None, None))
    return FloorRanking(gap, at_floor, name, effect, "at the floor" if effects and not free else "")


def is_at_floor(effect: float, gap: float, share: float = FLOOR_SHARE) -> bool:
    """Whether so large an effect may only say that nothing works any more; a gap that is none tells nothing."""
    return gap > 0 and effect >= share * gap


def classify_patch_run(
    baseline: float, ablated: float, *, reached: bool | None, repeatable: bool = True
) -> MutationOutcome:
    """Of two runs with one seed: whether the patch was executed, and whether any digit moved.

    `reached`: whether changed lines ran, None where nobody knows; `repeatable`: whether the unchanged program gives the
    same digits twice, without which digits that differ say nothing.
    """
    if reached is False and (baseline == ablated or not repeatable):
        return "not reached"
    return "no effect" if baseline == ablated else "moved"


@dataclass(frozen=True)
class PartMeasurements:
    """A part as it was run on fresh seeds, or why it was not."""

    part: str
    mutation: str = ""
    location: str = ""
    gate: MutationOutcome = "moved"
    baseline: ValuesBySeed = field(default_factory=dict[int, float | None])
    ablated: ValuesBySeed = field(default_factory=dict[int, float | None])
    flag: str = ""
    search_runs: int = 0
    runs: tuple[str, ...] = ()

    @property
    def has_effects(self) -> bool:
        """Whether there are effects to look at."""
        return self.gate in ("moved", "at the floor", "no effect", *UNRANKED_GATES) and bool(self.ablated)


def build_results(
    measured: Sequence[PartMeasurements], *, direction: MetricDirection, paired: bool = True
) -> tuple[PartResult, ...]:
    """The rows of the report, in the order given; p is corrected by Holm over all that could be called.

    `paired`: whether a seed joins the runs; without one means are compared. A part that was seen too seldom, or at
    seeds that all agree, is no test.
    """
    found = [_compute_interval(one, direction, paired) for one in measured]
    tested = [
        place for place, one in enumerate(found) if one.verdict is None and measured[place].gate not in UNRANKED_GATES
    ]
    corrected = dict(zip(tested, adjust_p_values([found[place].p for place in tested]), strict=True))
    return tuple(_build_row(one, found[place], corrected.get(place), len(tested)) for place, one in enumerate(measured))


def _compute_interval(one: PartMeasurements, direction: MetricDirection, paired: bool) -> EffectInterval:
    if not one.has_effects:
        return EffectInterval(0)
    if not paired:
        return compute_unpaired_interval(direction, one.baseline.values(), one.ablated.values())
    seeds = sorted(one.baseline.keys() & one.ablated.keys())
    return compute_paired_interval(
        compute_effect(direction, [one.baseline[seed] for seed in seeds], [one.ablated[seed] for seed in seeds]).effects
    )


def _build_row(one: PartMeasurements, found: EffectInterval, p: float | None, compared: int) -> PartResult:
    level = [value for value in one.baseline.values() if value is not None]
    mean = 0.0 if one.gate == "no effect" else found.mean
    return PartResult(
        part=one.part,
        mutation=one.mutation,
        where=one.location,
        n=found.n,
        mean=mean,
        relative=_compute_relative(mean, level),
        low=found.low,
        high=found.high,
        p=p,
        called=decide_verdict(one.gate, found, p, fmean(level) if level else 0.0),
        detectable=None if found.sd is None else compute_detectable_effect(found.n, found.sd, max(1, compared)),
        flag=one.flag
        or (
            "at the floor"
            if one.gate == "at the floor"
            else "the same at every seed, so that nothing tells it from chance"
            if found.n > 1 and found.p is None and mean
            else ""
        ),
        found_with=one.search_runs,
        runs=one.runs,
    )


def decide_verdict(
    gate: MutationOutcome, interval: EffectInterval, p: float | None, baseline_mean: float
) -> PartClassification:
    """What may be said of a part; `p` is the corrected one. Nothing is called of fewer than five pairs."""
    if gate in ("no effect", "not reached", *UNRANKED_GATES):
        return gate
    if gate not in ("moved", "at the floor") or interval.mean is None:
        return "not measured"
    if interval.verdict is not None or p is None:
        return "unknown"
    if p > SIGNIFICANCE_LEVEL:
        return "no measurable difference"
    if interval.mean < 0:
        return "harmful"
    return "critical" if _reaches_share(interval.mean, baseline_mean) else "helps"
