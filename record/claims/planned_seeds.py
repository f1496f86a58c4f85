"""The number of seeds that a study needs: planned from a spread or, for a narrow interval, from the measured spread.

A claim is planned at the true value that the hypothesis registers (`Effect.design_value`; by default one smallest
effect beyond the bound): the smallest number of seeds at which the interval supports the claim with a probability of
80 %. At the bound itself that probability is 2.5 %, whatever the number of seeds. Sampling also ends when the
half-width is `PRECISE_SHARE` of the smallest effect, whatever the verdict.

Limits: the spread is assumed to be known. Underestimating it costs further looks, each with less of the level, so the
first look is planned from an upper limit of a pilot's spread; in a study with a single look it costs power.

Sources: Chow, Shao, Wang and Lokhnygina 2017, "Sample size calculations in clinical research", chapter 3; Browne 1995,
"On the use of a pilot sample for sample size determination" (upper limit of the spread).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from math import ceil, inf, sqrt
from statistics import stdev
from typing import Any, NamedTuple

from labwright.record.claims.differences import Spread
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, TARGET_TEST_POWER
from labwright.record.internal_errors import Memo
from labwright.record.schema.hypotheses import PRECISE_SHARE, Effect

MAX_UNITS = 10_000
"""If more units than this were needed, no number is given."""


UPPER_SPREAD_SHARE = 0.8
"""Confidence of the upper limit of a pilot's standard deviation."""


class PlannedSeeds(NamedTuple):
    """The number of seeds that a claim needs, and what they would show."""

    n: int | None
    """None: no number of seeds is enough, since the test examples leave too wide an interval."""
    power: float
    """Probability that the claim is supported at its design value, with `n` seeds (`MAX_UNITS` if that is None)."""
    equivalent: float
    """Probability that a true zero is called equivalent to zero."""
    half_width: float
    """Expected half-width of the interval."""
    floor: float
    """Half-width that no number of seeds gets below."""


def compute_planned_seeds(
    effect: Effect, sd: float, *, level: float = SIGNIFICANCE_LEVEL, examples: float = 0.0
) -> PlannedSeeds:
    """Return the seeds at which an effect's claim is supported with 80 % power at its design value.

    `sd` is that of the effect between seeds, `examples` its variance over test examples that all seeds share. `level`
    is that of the look that should suffice: the level after correction times the weight of the look. The search asks
    for the same at every decision, so it is kept.
    """

    def compute() -> PlannedSeeds:
        sizes = _list_sample_sizes()
        predict = partial(predict_seeds, effect, sd=sd, level=level, examples=examples)
        place = bisect_left(sizes, True, key=lambda n: predict(n).power >= TARGET_TEST_POWER)
        return predict(sizes[place]) if place < len(sizes) else predict(MAX_UNITS)._replace(n=None)

    key = (effect.estimand, effect.claim_text, sd, level, examples)
    return _PLANNED_MEMO.get_or_compute(key, (effect,), compute)


_PLANNED_MEMO = Memo[PlannedSeeds]()


def predict_seeds(
    effect: Effect,
    n: int,
    sd: float,
    level: float = SIGNIFICANCE_LEVEL,
    examples: float = 0.0,
    examples_freedom: float = inf,
) -> PlannedSeeds:
    """Return what `n` seeds would show of an effect; the arguments are those of `compute_planned_seeds`."""
    special = import_module("scipy.special")
    spread = Spread(sd**2 / n, n - 1.0, examples, examples_freedom)
    error = sqrt(spread.units + spread.examples)
    if not error:
        return PlannedSeeds(n, 1.0, 1.0, 0.0, 0.0)
    # the spread that is measured is random: averaged over equally probable values of it
    shares = _list_variance_shares(n - 1)
    halves = [spread._replace(units=spread.units * share).compute_half_width(level) for share in shares]

    def compute_probability(true: float, low: float, high: float) -> float:
        """Return the probability that the interval lies between `low` and `high`."""
        ends = [((high - half - true) / error, (low + half - true) / error) for half in halves]
        return sum(max(0.0, float(special.ndtr(upper) - special.ndtr(lower))) for upper, lower in ends) / len(halves)

    power = compute_probability(effect.design_value, *effect.claimed_range)
    equivalent = compute_probability(0.0, -effect.smallest, effect.smallest)
    return PlannedSeeds(n, power, equivalent, sum(halves) / len(halves), spread.compute_floor(level))


def compute_upper_deviation(values: Sequence[float]) -> float:
    """Return the upper limit of the standard deviation of normal values at a confidence of `UPPER_SPREAD_SHARE`."""
    special: Any = import_module("scipy.special")
    freedom = len(values) - 1
    return stdev(values) * sqrt(freedom / 2 / float(special.gammaincinv(freedom / 2, 1 - UPPER_SPREAD_SHARE)))


def count_precise_units(spread: Spread, now: int, smallest: float, level: float) -> int | None:
    """Return the number of units at which the half-width is `PRECISE_SHARE` of the smallest effect; None if no number
    is enough.

    `spread` is that of `now` units.
    """
    sizes = _list_sample_sizes()

    def is_enough(n: int) -> bool:
        return spread.predict(now, n).compute_half_width(level) <= PRECISE_SHARE * smallest

    return sizes[bisect_left(sizes, True, key=is_enough)] if is_enough(sizes[-1]) else None


@cache
def _list_sample_sizes() -> Sequence[int]:
    """Return the numbers of units to try: each up to 200, then in steps of 5 %."""
    sizes = [*range(2, 200)]
    while sizes[-1] < MAX_UNITS:
        sizes.append(ceil(sizes[-1] * 1.05))
    return sizes


@cache
def _list_variance_shares(freedom: int) -> Sequence[float]:
    """Return equally probable values of a variance estimate over the true variance."""
    special: Any = import_module("scipy.special")
    return [2 * float(special.gammaincinv(freedom / 2, (place + 0.5) / 64)) / freedom for place in range(64)]
