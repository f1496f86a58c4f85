"""Compute the effects of ablations between runs of the same seed, their verdicts and the rows of the report.

An effect is positive if the component helps, regardless of the metric's direction. A failed run gives no pair; it is
never counted as zero. Effects are assumed to be independent and roughly normal, like all intervals of
`record.claims.estimates`. Source: AblateCell for the importance metrics; `docs/repositories.md` lists
the others.
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
"""Minimum share of the baseline for a critical effect, as published."""
FLOOR_SHARE = 0.9
"""Share of the loss that results from zeroing the whole model. An ablation that loses this share has broken the model,
regardless of the component's value.
"""
MIN_TWIN_ERRORS = 3.0
"""Minimum standard errors between a joint effect and the sum of the single effects."""

UNRANKED_GATES: tuple[Literal["breaks the program", "changes what is scored"], ...] = (
    "breaks the program",
    "changes what is scored",
)
"""Outcomes that are reported but do not measure importance."""

MIN_RANKED_PARTS = 5
"""Minimum number of components that both the proxy and the full command must have ranked for their agreement to be
reported.
"""

ValuesBySeed = Mapping[int, float | None]
"""Seed -> the metric; None if the run failed."""


class PairedEffect(NamedTuple):
    """Effects by seed. `n`: pairs with a value. `relative`: the mean effect divided by the size of the baseline's
    mean."""

    effects: tuple[float | None, ...]
    n: int
    mean: float | None
    relative: float | None


def compute_effect(
    direction: MetricDirection, baseline: Sequence[float | None], ablated: Sequence[float | None]
) -> PairedEffect:
    """Compute the effects of paired runs; both sequences are in the same order of seeds."""
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
    """Subtract without floating-point noise: .80 - .60 equals .82 - .62, so rounding does not look like spread between
    seeds."""
    size = max(abs(one), abs(other))
    return round(one - other, 12 - math.ceil(math.log10(size))) if size else 0.0


def _compute_relative(mean: float | None, baseline: Sequence[float]) -> float | None:
    level = abs(fmean(baseline)) if baseline else 0.0
    return mean / level if level and mean is not None else None


class CriticalParts(NamedTuple):
    """Names in order of the effect's size, the largest first. A component that harms enough to be critical is in both
    groups.
    """

    critical: tuple[str, ...]
    harmful: tuple[str, ...]


def find_critical(baseline_mean: float, effects: Mapping[str, float], share: float = CRITICAL_SHARE) -> CriticalParts:
    """Return the components whose effect reaches a share of the baseline, and those that harm."""
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
    """The 95% t interval of a mean effect.

    `sd`, `low`, `high` and `p` are None if all effects are equal, since equal effects do not mean zero noise.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def verdict(self) -> PartClassification | None:
        """`unknown` if there are too few data for a verdict; None if p decides."""
        return "unknown" if self.n < MIN_REPLICATES or self.p is None else None


def compute_paired_interval(effects: Iterable[float | None]) -> EffectInterval:
    """Compute the interval of effects between runs of the same seed."""
    found = [one for one in effects if one is not None]
    sd, low, high = compute_t_interval(found)
    return EffectInterval(len(found), fmean(found) if found else None, sd, low, high, compute_p_value(found))


def compute_unpaired_interval(
    direction: MetricDirection, baseline: Iterable[float | None], ablated: Iterable[float | None]
) -> EffectInterval:
    """Compute the interval of a difference of means of unpaired runs. `n` is the size of the smaller group, `sd` the
    standard deviation of one difference.

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
    """`value`: the joint effect minus the sum of the single effects; `is_joint`: whether it exceeds chance."""

    value: float
    bound: float
    is_joint: bool


def compute_interaction(singles: Iterable[float], joint: float, *, sigma: float, runs: int = 1) -> PartInteraction:
    """Compute the interaction of components that were ablated `runs` times each, and equally often together. `sigma`:
    standard deviation of one effect.
    """
    alone = list(singles)
    value, bound = joint - sum(alone), MIN_TWIN_ERRORS * sigma * math.sqrt((1 + len(alone)) / runs)
    return PartInteraction(value, bound, value > bound)


def exceeds_sum(singles: Iterable[float], joint: float, *, sigma: float) -> bool:
    """Return whether a jointly ablated set is worth halving: its effect exceeds the sum of the single effects.

    The test is looser than `compute_interaction`, whose bound applies to the final pair; with many components, that
    bound would find nothing.
    """
    return joint > MIN_TWIN_ERRORS * sigma and joint - sum(singles) > MIN_TWIN_ERRORS * sigma


def compute_rank_agreement(cheap: Mapping[str, float], full: Mapping[str, float]) -> float | None:
    """Return the rank agreement between the effect sizes of a cheap command and the full one: Kendall's tau-b, from -1
    to 1.

    Uses the components that both measured; None for fewer than `MIN_RANKED_PARTS`, or if one of the commands ranks
    nothing.
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
    """`at_floor`: one entry per mutation. `ranked`: the mutation whose effect represents the component."""

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
    """Select the mutation of a component to report; `effects` are in the order of trial.

    `floor`: the metric with the whole model's output zeroed. The first mutation above the floor is selected. If all are
    at the floor, the one with the smallest loss is selected and flagged: either the component is indispensable, or
    every mutation breaks the program.
    """
    gap = (baseline - floor) * (1 if direction == "max" else -1)
    at_floor = tuple(is_at_floor(effect, gap, share) for _, effect in effects)
    free = [one for one, low in zip(effects, at_floor, strict=True) if not low]
    name, effect = free[0] if free else min(effects, key=lambda one: one[1], default=(None, None))
    return FloorRanking(gap, at_floor, name, effect, "at the floor" if effects and not free else "")


def is_at_floor(effect: float, gap: float, share: float = FLOOR_SHARE) -> bool:
    """Return whether an effect is so large that the model may no longer work; False without a positive gap."""
    return gap > 0 and effect >= share * gap


def classify_patch_run(
    baseline: float, ablated: float, *, reached: bool | None, repeatable: bool = True
) -> MutationOutcome:
    """Classify a patched run against an unpatched run of the same seed: whether the patch ran, and whether any digit
    changed.

    `reached`: whether changed lines ran, None if unknown; `repeatable`: whether the unpatched program gives the same
    digits twice; otherwise, different digits mean nothing.
    """
    if reached is False and (baseline == ablated or not repeatable):
        return "not reached"
    return "no effect" if baseline == ablated else "moved"


@dataclass(frozen=True)
class PartMeasurements:
    """A component's measurements on fresh seeds, or the reason why there are none."""

    part: str
    mutation: str = ""
    location: str = ""
    gate: MutationOutcome = "moved"
    baseline: ValuesBySeed = field(default_factory=dict[int, float | None])
    ablated: ValuesBySeed = field(default_factory=dict[int, float | None])
    flag: str = ""
    runs: tuple[str, ...] = ()

    @property
    def has_effects(self) -> bool:
        """Whether there are effects to analyze."""
        return self.gate in ("moved", "at the floor", "no effect", *UNRANKED_GATES) and bool(self.ablated)


def build_results(
    measured: Sequence[PartMeasurements], *, direction: MetricDirection, paired: bool = True
) -> tuple[PartResult, ...]:
    """Build the rows of the report in the given order; p is Holm-corrected over all tested components.

    `paired`: whether runs share seeds; otherwise means are compared. A component with too few runs, or with equal
    effects at all seeds, is not tested.
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
            else "the same at every seed, so it cannot be tested"
            if found.n > 1 and found.p is None and mean
            else ""
        ),
        runs=one.runs,
    )


def decide_verdict(
    gate: MutationOutcome, interval: EffectInterval, p: float | None, baseline_mean: float
) -> PartClassification:
    """Return the verdict on a component; `p` is the corrected p-value. With fewer than `MIN_REPLICATES` pairs there
    is no verdict.
    """
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
