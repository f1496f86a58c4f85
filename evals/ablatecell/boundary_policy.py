"""A policy that the program does not use, for comparison: every arm once, then runs at the boundary of the k best.

Source: LUCB, Kalyanakrishnan et al. 2012, "PAC subset selection in stochastic multi-armed bandits".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

from labwright.search.ablation_bandit import BanditArm, rank_arms

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
