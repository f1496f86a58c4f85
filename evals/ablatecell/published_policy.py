"""AblateCell's policy as printed (Eq. 3 and Algorithm 1), for comparison with `search.ablation_bandit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log, sqrt

from labwright.search.ablation_bandit import order_sweep


def compute_reward(baseline: float, ablated: float, hours: float, *, weight: float = 0.01) -> float:
    """Return Eq. 3: the magnitude of the effect minus its cost in GPU hours."""
    return abs(baseline - ablated) - weight * hours


def compute_beta(number: int, rounds: int, beta: float = 2.0) -> float:
    """Return the exploration weight of a round, counted from 0: 1.5 times early, 0.5 times late."""
    return beta * (1.5 if number < 0.3 * rounds else 0.5 if number >= 0.7 * rounds else 1.0)


def count_candidates(runs: int, *, explore: int = 5, base: int = 3, exploit: int = 2) -> int:
    """Return the number of candidates of one arm in a round, by its number of previous runs; the paper does not
    publish the sizes.
    """
    return explore if runs < 3 else base if runs <= 10 else exploit


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
