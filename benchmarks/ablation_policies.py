"""Policies that the program does not use, for comparison with `search.ablation_bandit`, and how well parts are found.

`run_algorithm_one` is AblateCell's policy as printed (Eq. 3 and Algorithm 1). `pick_arm` runs every arm once, then arms
at the boundary of the k best. Source: LUCB, Kalyanakrishnan et al. 2012, "PAC subset selection in stochastic
multi-armed bandits".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import NamedTuple

from labwright.search.ablation_bandit import BanditArm, order_sweep, rank_arms

MAX_TRIES_WITHOUT_VALUE = 3
"""Maximum number of runs without a value; then an arm is given up."""


@dataclass(frozen=True)
class RunningArm(BanditArm):
    """The results known about a part, and its runs that failed or are in progress."""

    failed_runs: int = 0
    in_flight: int = 0

    @property
    def run_count(self) -> int:
        """Number of runs with a value or in progress."""
        return len(self.effects) + self.in_flight


class BanditPick(NamedTuple):
    """`next`: the arm to run; None if there is nothing to run now. `inside`: the weakest of the k best; `outside`: the
    strongest of the rest; `separated`: no further run is needed to distinguish them."""

    next: str | None
    inside: str | None = None
    outside: str | None = None
    separated: bool = False
    radius: Mapping[str, float] = {}


def pick_arm(arms: Sequence[RunningArm], *, sigma: float, k: int, tries: int = MAX_TRIES_WITHOUT_VALUE) -> BanditPick:
    """Pick unmeasured arms in the order of the sweep, with at most `tries` runs each; then arms at the boundary of the
    k best.

    `sigma`: standard deviation of one effect. No arm is repeated for precision until every
    arm has a value or has been given up; while first values are pending, the pick is None.
    """
    unmeasured = [one for one in arms if not one.effects and not one.is_settled and one.failed_runs < tries]
    free = [one for one in unmeasured if not one.in_flight]
    if free:
        return BanditPick(min(free, key=lambda one: (one.failed_runs, -one.prior, one.name)).name)
    return BanditPick(None) if unmeasured else _pick_at_edge(arms, sigma, k)


def _pick_at_edge(arms: Sequence[RunningArm], sigma: float, k: int) -> BanditPick:
    known = {one.name: one for one in arms}
    order = [known[one.name] for one in rank_arms(arms)]
    total = sum(one.run_count for one in order)
    radius = {one.name: 0.0 if one.is_settled else sigma * sqrt(2 * log(total + 1) / one.run_count) for one in order}
    if len(order) <= k:
        return BanditPick(None, separated=True, radius=radius)
    inside = min(order[:k], key=lambda one: abs(one.mean_effect) - radius[one.name])
    outside = max(order[k:], key=lambda one: abs(one.mean_effect) + radius[one.name])
    open_ones = [one for one in (inside, outside) if not one.is_settled]
    return BanditPick(
        min(open_ones, key=lambda one: one.run_count).name if open_ones else None,
        inside.name,
        outside.name,
        abs(inside.mean_effect) - radius[inside.name] >= abs(outside.mean_effect) + radius[outside.name],
        radius,
    )


def compute_beta(number: int, rounds: int, beta: float = 2.0) -> float:
    """Return the exploration weight of a round, counted from 0: 1.5 times early, 0.5 times late."""
    return beta * (1.5 if number < 0.3 * rounds else 0.5 if number >= 0.7 * rounds else 1.0)


def compute_ucb_index(mean: float, runs: int, total: int, beta: float) -> float:
    """Return the index by which an arm is selected once all arms have been explored."""
    return mean + beta * sqrt(log(total + 1) / runs)


@dataclass
class AlgorithmOneTrace:
    """Trace of Algorithm 1: the arm of each round, the number of rounds that the index decided, and runs by arm."""

    arms: list[str] = field(default_factory=list[str])
    ucb_decisions: int = 0
    runs: Counter[str] = field(default_factory=Counter[str])


def run_algorithm_one(
    priors: Mapping[str, float], run: Callable[[str], float | None], *, rounds: int, size: int, beta: float = 2.0
) -> AlgorithmOneTrace:
    """Run Algorithm 1: each round takes one arm (unexplored first, by prior; then by index) and runs `size` candidates.

    `run` returns the reward of one run, or None to stop when the budget is spent.
    """
    done, gained = AlgorithmOneTrace(), dict.fromkeys(priors, 0.0)
    for number in range(rounds):
        fresh = [name for name in order_sweep(priors) if not done.runs[name]]
        done.ucb_decisions += not fresh
        weight, total = compute_beta(number, rounds, beta), done.runs.total()
        arm = (
            fresh[0]
            if fresh
            else max(
                order_sweep(priors),
                key=lambda name: compute_ucb_index(gained[name] / done.runs[name], done.runs[name], total, weight),
            )
        )
        done.arms.append(arm)
        for _ in range(size):
            if (found := run(arm)) is None:
                return done
            gained[arm] += found
            done.runs[arm] += 1
    return done


class Recovery(NamedTuple):
    """`acc`: correct parts of k; `exact`: whether all are; `regret`: importance lost relative to the correct parts."""

    acc: float
    exact: bool
    regret: float


def compute_recovery(importance: Mapping[str, float], found: Sequence[str], k: int) -> Recovery:
    """Compute recovery by absolute importance.

    Parts tied with the k-th are correct; an unfilled place is a miss.
    """
    sizes = {name: abs(value) for name, value in importance.items()}
    best = sorted(sizes.values(), reverse=True)[:k]
    taken = [sizes.get(name, 0.0) for name in dict.fromkeys(found[:k])]
    right = sum(name in sizes and sizes[name] >= best[-1] for name in dict.fromkeys(found[:k])) if best else 0
    return Recovery(right / k, right == k, max(0.0, sum(best) - sum(taken)))
