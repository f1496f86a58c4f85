"""Choose which part of a repository to run next: pure functions of past results, so that a replayed record gives the
same choices.

An arm is a part together with one way to ablate it. Its effects are differences to the baseline with the same seed,
positive if the part helps; importance is the magnitude of their mean. Every arm is measured once (`order_sweep`), then
parts with effects near zero are ablated together (`run_group_test`), then the largest effects get fresh seeds. Runs on
the border of the k best instead of fresh seeds found no more in a simulation.

Source: AblateCell, whose policy as printed is `benchmarks.ablation_policies`; Zeller and Hildebrandt 2002,
"Simplifying and isolating failure-inducing input" (`run_group_test`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, variance
from typing import NamedTuple

NEAR_ZERO_STANDARD_ERRORS = 3.0
"""Number of standard errors within which the effect of one run is not distinguishable from zero."""
NEGLIGIBLE_EFFECT_SHARE = 0.05
"""An effect below this share of the largest also counts as near zero, since two redundant parts have little effect
each."""
CONFIRM_SEEDS = 5
"""Number of fresh seeds behind every reported effect."""


@dataclass(frozen=True)
class BanditArm:
    """The results known about a part. `effects`: one per run with a value; `is_settled`: further runs cannot change the
    result (no digit changed, or the changed code never ran).
    """

    name: str
    prior: float = 0.5
    effects: tuple[float, ...] = ()
    is_settled: bool = False

    @property
    def mean_effect(self) -> float:
        """Mean of the effects; 0 if there are none."""
        return fmean(self.effects) if self.effects else 0.0


def order_sweep(priors: Mapping[str, float]) -> list[str]:
    """Return the arms in the order of the first measurements: highest prior first, ties by name."""
    return sorted(priors, key=lambda name: (-priors[name], name))


def rank_arms(arms: Iterable[BanditArm]) -> list[BanditArm]:
    """Return the arms with a value, the most important first, ties by name."""
    return sorted((one for one in arms if one.effects), key=lambda one: (-abs(one.mean_effect), one.name))


class PooledSigma(NamedTuple):
    """Standard deviation of one effect, and its degrees of freedom; infinite if nothing was repeated."""

    sigma: float
    df: int


def compute_pooled_sigma(effects: Iterable[Sequence[float]], baseline: Sequence[float] = ()) -> PooledSigma:
    """Pool the variance of repeated arms and of the baseline's seeds, the latter doubled, since an effect is a
    difference of two runs.
    """
    groups = [(variance(one), len(one) - 1) for one in effects if len(one) > 1]
    groups += [(2 * variance(baseline), len(baseline) - 1)] if len(baseline) > 1 else []
    df = sum(freedom for _, freedom in groups)
    return PooledSigma(sqrt(sum(spread * freedom for spread, freedom in groups) / df) if df else inf, df)


class BudgetSplit(NamedTuple):
    """The split of a budget of runs: parts that can be confirmed, runs left for the search, parts that the search
    can examine.
    """

    confirmed: int
    exploration_left: int
    explored: int


def split_budget(
    components: int, budget: int, *, k: int, baseline: int, confirm_seeds: int = CONFIRM_SEEDS
) -> BudgetSplit:
    """Split a budget: at most half of the runs not used by baselines go to confirmation.

    `baseline`: runs of the baseline in addition to those with fresh seeds.
    """
    left = max(0, budget - baseline - confirm_seeds)
    confirmed = min(k, left // 2 // confirm_seeds)
    exploring = left - confirmed * confirm_seeds
    return BudgetSplit(confirmed, exploring, min(components, exploring))


def advise_budget(components: int) -> int:
    """Return the number of runs after which every part can have a verdict: at most two runs each in the search, 4 of
    the baseline, 3 for floors and for a check of the scored data, 12 for the search for redundant pairs, and fresh
    seeds of the baseline, every part and a joint set.
    """
    return 2 * components + 4 + 3 + 12 + CONFIRM_SEEDS * (components + 2)


def find_helping(arms: Iterable[BanditArm], k: int) -> list[str]:
    """Return the k parts that help most, the strongest first; they are reported when fresh seeds confirm them."""
    return [one.name for one in rank_arms(arms) if one.mean_effect > 0][:k]


def find_harmful(arms: Iterable[BanditArm], sigma: float) -> list[str]:
    """Return the arms whose removal improved the result, the strongest first, to be confirmed with fresh seeds.

    They do not compete with helping parts.
    """
    return [one.name for one in rank_arms(arms) if one.mean_effect < -_compute_standard_error(one, sigma)]


def find_near_zero(arms: Sequence[BanditArm], sigma: float, k: int = 0) -> list[str]:
    """Return the arms that may mask each other, in the order of the sweep; each has little effect alone.

    This excludes arms without a value, arms with more than negligible harm, and those of the k best with an effect
    beyond chance. It includes arms that changed no digit.
    """
    slight = NEGLIGIBLE_EFFECT_SHARE * max((abs(one.mean_effect) for one in arms), default=0.0)
    best, harmful = find_helping(arms, k), find_harmful(arms, sigma)

    def is_near_zero(one: BanditArm) -> bool:
        if not one.effects or (one.name in harmful and one.mean_effect < -2 * slight):
            return False
        errors = 1 if one.name in best else NEAR_ZERO_STANDARD_ERRORS
        return abs(one.mean_effect) <= max(slight, _compute_standard_error(one, sigma) * errors)

    return order_sweep({one.name: one.prior for one in arms if is_near_zero(one)})


def _compute_standard_error(one: BanditArm, sigma: float) -> float:
    return 0.0 if one.is_settled else sigma / sqrt(len(one.effects))


ArmSubset = tuple[str, ...]


def run_group_test(parts: Sequence[str]) -> Generator[ArmSubset, bool, ArmSubset]:
    """Yield the sets to ablate together, one after another, and receive for each whether its effect exceeds that of its
    parts alone.

    Returns a minimal set whose effect does (both of two redundant parts); empty if all parts together have no effect.
    This takes one run if there is no such set, and 9 for a pair among 8.
    """
    names = tuple(parts)
    if len(names) < 2 or not (yield names):
        return ()
    return _order_subset((yield from _halve(names, (), names)), names)


def _halve(among: ArmSubset, others: ArmSubset, names: ArmSubset) -> Generator[ArmSubset, bool, ArmSubset]:
    """Return which of `among` are needed, given that `among` and `others` together have an effect."""
    if len(among) == 1:
        return among
    halves = among[: len(among) // 2], among[len(among) // 2 :]
    for half in halves:
        if len(half + others) > 1 and (yield _order_subset(half + others, names)):
            return (yield from _halve(half, others, names))
    first = yield from _halve(halves[0], halves[1] + others, names)
    return first + (yield from _halve(halves[1], halves[0] + others, names))


def _order_subset(some: Iterable[str], names: ArmSubset) -> ArmSubset:
    return tuple(sorted(some, key=names.index))
