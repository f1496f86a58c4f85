"""AblateCell's policy as printed (Algorithm 1), for comparison with `search.ablation_bandit`, and its Acc@k."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import NamedTuple

from labwright.search.ablation_bandit import order_sweep


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
    """Compute how well the most important parts were found (Acc@k), by absolute importance.

    Parts tied with the k-th are correct; an unfilled place is a miss.
    """
    sizes = {name: abs(value) for name, value in importance.items()}
    best = sorted(sizes.values(), reverse=True)[:k]
    taken = [sizes.get(name, 0.0) for name in dict.fromkeys(found[:k])]
    right = sum(name in sizes and sizes[name] >= best[-1] for name in dict.fromkeys(found[:k])) if best else 0
    return Recovery(right / k, right == k, max(0.0, sum(best) - sum(taken)))
