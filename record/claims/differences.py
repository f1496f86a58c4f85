"""Paired differences between arms: estimates with a 95 % interval, all of them exploratory.

A study decides what it registered (`record.claims.hypothesis_tests`). Every other pair of arms has an estimate and an
interval, which covers test examples too if predictions were resampled (`SearchState.resampled_intervals`), but no
verdict: an interval that excludes zero is expected in one of twenty pairs without an effect.

Limits: intervals are not corrected for the number of pairs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from math import exp, inf, log, sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from labwright.record.claims.estimates import (
    SIGNIFICANCE_LEVEL,
    Claim,
    compute_t_interval,
    compute_t_probability,
    compute_t_quantile,
    find_weakest_grade,
)
from labwright.record.claims.sentences import Caveat, CaveatFinder
from labwright.record.estimands import find_swapped_arms
from labwright.record.float_compare import MAX_RELATIVE_ROUNDING, differs_beyond_rounding, subtract_rounded
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key
from labwright.record.schema.data_plan import ResampledInterval

# Intervals of a mean over seeds and test examples, and of a ratio of two such means. Seeds and examples are crossed:
# every seed is scored on the same examples. The variance of a mean over n seeds and m examples is that of seeds over
# n, of examples over m, and of their interaction over n m. The spread over seeds contains the first and the last
# term. The variance over examples that all seeds share (`ResampledInterval.shared`), which no number of seeds
# reduces, is added to it. With the variance S of seeds and B of examples, the squared half-width is (S + B) (q^2 +
# (t^2 - q^2) r^a), where r is S / (S + B), and t and q are Student's quantiles for seeds and examples. Exponent a = 1
# is Banerjee's sum, which covers at least the nominal share for every r, but .975 with three seeds.
# `compute_exponent` returns the largest a for which this still holds. With few clusters of examples it is 1. The
# interval of a ratio is Fieller's: the values r for which numerator - r * divisor is not distinguished from zero. It
# is unbounded, and not reported, if the divisor itself is not distinguished from zero. Limits: values by unit are
# assumed normal. With two seeds, no exponent gives even coverage, and intervals cover up to .985. Sources: Banerjee
# 1960, "Approximate confidence interval for linear functions of means of k populations"; Owen and Eckles 2012,
# "Bootstrapping data arrays of arbitrary order"; Fieller 1954, "Some problems in interval estimation".

MIN_CALIBRATED_FREEDOM = 50.0
"""With fewer degrees of freedom of the examples the exponent is 1, since the calibration takes B as known."""
MAX_CALIBRATED_FREEDOM = 40.0
"""Exponents of more seeds are those of this many: quantiles of seeds and examples hardly differ."""
MAX_EXPONENT = 4.0
CALIBRATED_LEVELS = (0.0001, 0.001, 0.005, 0.02, 0.05, 0.2, 0.5)
"""Levels at which exponents are computed. Between them they are interpolated; below the first one they are 1."""
MAX_FREEDOM = 1e6
MAX_RATIO_STEPS = 60


class Spread(NamedTuple):
    """The variance of a mean: over units (seeds or datasets), and over test examples or clusters of them."""

    units: float = 0.0
    units_freedom: float = 1.0
    examples: float = 0.0
    examples_freedom: float = inf

    @property
    def is_known(self) -> bool:
        """Whether the values vary at all."""
        return self.units > 0 or self.examples > 0

    def compute_half_width(self, level: float) -> float:
        """Return half of the width of the interval of confidence 1 - `level`."""
        total = self.units + self.examples
        if not total:
            return 0.0
        of_units = compute_t_quantile(1 - level / 2, self.units_freedom) ** 2 if self.units else 0.0
        if not self.examples:
            return sqrt(total * of_units)
        of_examples = compute_t_quantile(1 - level / 2, min(self.examples_freedom, MAX_FREEDOM)) ** 2
        calibrated = self.examples_freedom >= MIN_CALIBRATED_FREEDOM
        exponent = compute_exponent(self.units_freedom, level) if calibrated else 1.0
        return sqrt(total * (of_examples + (of_units - of_examples) * (self.units / total) ** exponent))

    def compute_floor(self, level: float) -> float:
        """Return the half-width below which no number of units gets."""
        return compute_t_quantile(1 - level / 2, min(self.examples_freedom, MAX_FREEDOM)) * sqrt(self.examples)

    def predict(self, now: int, n: int) -> Spread:
        """Return the spread expected from `n` units, given the spread of `now` units."""
        return self._replace(units=self.units * now / n, units_freedom=n - 1.0)


class MeanEstimate(NamedTuple):
    """A mean over units and its spread."""

    mean: float
    spread: Spread

    def compute_interval(self, level: float) -> tuple[float, float]:
        """Return the interval of confidence 1 - `level`."""
        half = self.spread.compute_half_width(level)
        return self.mean - half, self.mean + half

    def find_side(self, bound: float, level: float) -> int:
        """Return the side of a bound on which the interval lies: 1 above, -1 below; 0 if it contains the bound."""
        low, high = self.compute_interval(level)
        return (low > bound) - (high < bound)


def estimate_mean(values: Sequence[float], examples: float = 0.0, examples_freedom: float = inf) -> MeanEstimate:
    """Return the mean of values by unit, with the variance over examples that all units share."""
    deviation = stdev(values) if differs_beyond_rounding(values) else 0.0
    return MeanEstimate(
        fmean(values),
        Spread(deviation**2 / len(values), len(values) - 1.0, max(0.0, examples), max(examples_freedom, 0.01)),
    )


class RatioEstimate(NamedTuple):
    """A ratio of two means over the same units.

    `examples` are variances over test examples that all units share: of the numerator, of the divisor, and their
    covariance.
    """

    numerators: tuple[float, ...]
    divisors: tuple[float, ...]
    examples: tuple[float, float, float] = (0.0, 0.0, 0.0)
    examples_freedom: float = inf

    @property
    def mean(self) -> float:
        """The ratio of the means."""
        return fmean(self.numerators) / fmean(self.divisors)

    @property
    def spread(self) -> Spread:
        """The spread of the ratio by the delta method, for plans and lower limits."""
        found, size = self._compare(self.mean).spread, fmean(self.divisors) ** 2
        return found._replace(units=found.units / size, examples=found.examples / size)

    def _compare(self, ratio: float) -> MeanEstimate:
        """Return the mean of numerator - `ratio` * divisor, above zero if the ratio of the means is larger."""
        sign = 1.0 if fmean(self.divisors) > 0 else -1.0
        above, below, both = self.examples
        return estimate_mean(
            [sign * (a - ratio * b) for a, b in zip(self.numerators, self.divisors, strict=True)],
            above - 2 * ratio * both + ratio**2 * below,
            self.examples_freedom,
        )

    def has_clear_divisor(self, level: float) -> bool:
        """Return whether the interval of the divisor excludes zero, so that the interval of the ratio is bounded."""
        divisor = estimate_mean(self.divisors, self.examples[1], self.examples_freedom)
        return divisor.find_side(0.0, level) != 0

    def find_side(self, bound: float, level: float) -> int:
        """Return the side of a bound on which the interval lies, as for a mean; 0 if it is unbounded."""
        return self._compare(bound).find_side(0.0, level) if self.has_clear_divisor(level) else 0

    def compute_interval(self, level: float) -> tuple[float, float]:
        """Return Fieller's interval; the whole line if it is unbounded."""
        if not self.has_clear_divisor(level):
            return -inf, inf
        return self._find_end(-1.0, level), self._find_end(1.0, level)

    def _find_end(self, sign: float, level: float) -> float:
        """Return one end of the interval, by bisection between the ratio and a point outside the interval."""

        def is_outside(ratio: float) -> bool:
            return self._compare(ratio).find_side(0.0, level) != 0

        inside = self.mean
        step = max(self.spread.compute_half_width(level), 1e-12 * abs(inside), 1e-300)
        for _ in range(MAX_RATIO_STEPS):
            if is_outside(inside + sign * step):
                break
            step *= 2
        else:
            return sign * inf
        outside = inside + sign * step
        for _ in range(MAX_RATIO_STEPS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if is_outside(middle) else (middle, outside)
        return (inside + outside) / 2


def solve_level(holds: Callable[[float], bool]) -> float:
    """Return the smallest level at which a condition holds that holds at every larger level; 1 if it never holds."""
    low, high = -700.0, 0.0  # logarithm of the level
    if not holds(1.0):
        return 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(exp(middle)) else (middle, high)
    return exp(high)


def compute_mean_p(found: MeanEstimate, bound: float) -> float:
    """Return the level at which the lower end of the interval of a mean is at a bound."""
    if not found.spread.examples and found.spread.units:
        distance = (found.mean - bound) / sqrt(found.spread.units)
        return min(1.0, 2 * compute_t_probability(-distance, found.spread.units_freedom))
    return solve_level(lambda level: found.find_side(bound, level) > 0)


@lru_cache(maxsize=4096)
def compute_exponent(freedom: float, level: float) -> float:
    """Return the exponent of the share of seeds in the squared half-width, for seeds with `freedom` degrees of freedom.

    Interpolated over the logarithm of the level.
    """
    if level <= CALIBRATED_LEVELS[0] or freedom < 1:
        return 1.0
    freedom = min(freedom, MAX_CALIBRATED_FREEDOM)
    place = min(bisect_left(CALIBRATED_LEVELS, level), len(CALIBRATED_LEVELS) - 1)
    below, above = CALIBRATED_LEVELS[place - 1], CALIBRATED_LEVELS[place]
    share = min(1.0, log(level / below) / log(above / below))
    start = 1.0 if place == 1 else _calibrate_exponent(freedom, below)
    return start + share * (_calibrate_exponent(freedom, above) - start)


@cache
def _calibrate_exponent(freedom: float, level: float) -> float:
    """Return the largest exponent at which intervals cover 1 - `level` for every ratio of variances.

    The variance of seeds is a multiple of chi-squared; the coverage is integrated over it numerically.
    """
    numpy, special = import_module("numpy"), import_module("scipy.special")
    count = 400
    shares = numpy.concatenate([numpy.geomspace(1e-7, 1 / count, 60), (numpy.arange(1, count) + 0.5) / count])
    weights = numpy.gradient(shares)
    seeds = 2 * special.gammaincinv(freedom / 2, shares)[None] / freedom
    examples = numpy.geomspace(0.005, 300, 40)[:, None]
    of_units = float(special.stdtrit(freedom, 1 - level / 2)) ** 2
    of_examples = float(special.ndtri(1 - level / 2)) ** 2

    def covers(exponent: float) -> bool:
        squared = (seeds + examples) * (
            of_examples + (of_units - of_examples) * (seeds / (seeds + examples)) ** exponent
        )
        missed = 2 * special.ndtr(-numpy.sqrt(squared / (1 + examples)))
        return bool(((missed * weights).sum(axis=1) / weights.sum()).max() <= 1.01 * level)

    low, high = 1.0, MAX_EXPONENT
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if covers(middle) else (low, middle)
    return low


def find_sign(low: float | None, high: float | None) -> int:
    """Return the sign that an interval shows; 0 if it contains zero, or there is none."""
    return 0 if low is None or high is None else (low > 0) - (high < 0)


class ClaimDifference(Claim):
    """A paired difference `condition - other` with its 95 % interval; `caveats` qualify it."""

    other: str
    others: tuple[str, ...] = ()
    """The nodes of the other arm, in the order of `nodes`."""
    better: str
    examples: bool = False
    """Whether the interval includes the spread over test examples."""
    resampled_interval: ResampledInterval | None = None
    caveats: tuple[Caveat, ...] = ()

    @property
    def sides(self) -> frozenset[tuple[str, str, str]]:
        """(dataset, metric, condition) of both sides."""
        return frozenset((self.dataset, self.name, side) for side in (self.condition, self.other))

    @property
    def basis_text(self) -> str:
        """The term that may be used for the difference: `exploratory, tuned with fewer trials`."""
        return ", ".join(("exploratory", *self.caveats))

    @property
    def sign(self) -> int:
        """The sign that the interval shows; 0 if it contains zero or there is none."""
        return find_sign(self.low, self.high)

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and zero lies outside of it."""
        return self.sign != 0


def compute_differences(state: RunState, claims: Sequence[Claim]) -> list[ClaimDifference]:
    """Return paired differences at equal level: method minus baseline, ablation minus method, and an arm at the setting
    of another minus that other."""
    plan = state.search.data_plan
    if plan is None:
        return []
    higher = {metric.name: metric.higher_is_better for metric in plan.metrics}
    roles = {arm.name: arm.role for arm in plan.arms}
    against = {"method": "baseline", "ablation": "method"}
    caveats, swapped = CaveatFinder(state, claims), find_swapped_arms(plan)

    places = defaultdict[tuple[str, ...], list[Claim]](list)
    for one in (one for one in claims if one.name in higher):
        places[one.name, one.dataset, one.split, one.level].append(one)

    def is_compared(a: Claim, b: Claim) -> bool:
        if a.arm in swapped:
            return b.arm == swapped[a.arm][1]
        return roles.get(b.arm, "ablation") == against.get(roles.get(a.arm, "ablation"))

    every = ((a, b) for a in claims for b in places.get((a.name, a.dataset, a.split, a.level), ()))
    pairs = [(a, b) for a, b in every if is_compared(a, b) and set(a.seeds) & set(b.seeds)]
    found = ((a, b, build_difference(state, a, b, higher=higher[a.name])) for a, b in pairs)
    return [one.model_copy(update={"caveats": caveats.find_caveats(a, b)}) for a, b, one in found]


def build_difference(state: RunState, a: Claim, b: Claim, *, higher: bool) -> ClaimDifference:
    """Build the difference of two claims over their shared seeds."""
    key = f"{format_key('diff', a.dataset, a.name, a.condition)}~{format_key(b.condition)}"
    other = {seed: (node, value) for seed, node, value in zip(b.seeds, b.nodes, b.values, strict=True)}
    known = zip(a.seeds, a.nodes, a.values, strict=True)
    rows = [(seed, node, *other[seed], value) for seed, node, value in known if seed in other]
    nodes, others = tuple(row[1] for row in rows), tuple(row[2] for row in rows)
    values = tuple(subtract_rounded(value, less) for *_, less, value in rows)
    mean = fmean(values)
    if abs(mean) < MAX_RELATIVE_ROUNDING * max(map(abs, values)):
        mean = 0.0
    sd, low, high = compute_t_interval(values)
    over = state.search.resampled_intervals.get(key) if a.split == "test" else None
    if over is not None and (over.nodes, over.others) != (nodes, others):
        over = None
    if over is not None and over.shared and over.shared[0] > 0 and len(values) > 1:
        found = estimate_mean(values, over.shared[0], over.worth - 1 if over.worth else inf)
        low, high = found.compute_interval(SIGNIFICANCE_LEVEL)
    seeds, grade = tuple(row[0] for row in rows), find_weakest_grade((a.grade, b.grade))
    own: dict[str, Any] = dict(a) | {"key": key, "values": values, "seeds": seeds, "nodes": nodes, "grade": grade}
    own |= {"mean": mean, "sd": sd, "low": low, "high": high}
    return ClaimDifference(
        **own,
        other=b.condition,
        others=others,
        better=a.condition if (mean > 0) == higher else b.condition,
        examples=over is not None and bool(over.shared) and len(values) > 1,
        resampled_interval=over,
    )
