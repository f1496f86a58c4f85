"""Paired differences between arms: estimates with a 95 % interval, all of them exploratory.

A study decides what it registered (`record.claims.hypothesis_tests`). Every other pair of arms has an estimate and an
interval, which covers test examples too if predictions were resampled (`SearchState.resampled_intervals`), but no
verdict: an interval that excludes zero is expected in one of twenty pairs without an effect.

Limits: intervals are not corrected for the number of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import fmean

from labwright.record.claims.caveats import Caveat, CaveatFinder
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, Claim, compute_t_interval, find_weakest_grade
from labwright.record.claims.intervals import estimate_mean
from labwright.record.float_compare import MAX_RELATIVE_ROUNDING, subtract_rounded
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key
from labwright.record.schema.data_plan import ResampledInterval
from labwright.record.swapped_settings import find_swapped_arms


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
    caveats = CaveatFinder(state, claims)

    swapped = find_swapped_arms(plan)

    def is_compared(a: Claim, b: Claim) -> bool:
        if a.arm in swapped:
            return b.arm == swapped[a.arm][1]
        return roles.get(b.arm, "ablation") == against.get(roles.get(a.arm, "ablation"))

    return [
        build_difference(state, a, b, higher=higher[a.name]).model_copy(update={"caveats": caveats.find_caveats(a, b)})
        for a in claims
        for b in claims
        if (a.name, a.dataset, a.split, a.level) == (b.name, b.dataset, b.split, b.level)
        and a.name in higher
        and is_compared(a, b)
        and set(a.seeds) & set(b.seeds)
    ]


def build_difference(state: RunState, a: Claim, b: Claim, *, higher: bool) -> ClaimDifference:
    """Build the difference of two claims over their shared seeds."""
    key = f"{format_key('diff', a.dataset, a.name, a.condition)}~{format_key(b.condition)}"
    other = {seed: (node, value) for seed, node, value in zip(b.seeds, b.nodes, b.values, strict=True)}
    rows = [
        (seed, node, *other[seed], value)
        for seed, node, value in zip(a.seeds, a.nodes, a.values, strict=True)
        if seed in other
    ]
    nodes, others = tuple(row[1] for row in rows), tuple(row[2] for row in rows)
    values = tuple(subtract_rounded(value, less) for *_, less, value in rows)
    mean = fmean(values)
    if abs(mean) < MAX_RELATIVE_ROUNDING * max(map(abs, values)):
        mean = 0.0
    sd, low, high = compute_t_interval(values)
    over = state.search.resampled_intervals.get(key) if a.split == "test" else None
    if over is not None and (over.nodes, over.others) != (nodes, others):
        over = None
    shared = over.shared[0] if over is not None and over.shared else 0.0
    if over is not None and shared > 0 and len(values) > 1:
        low, high = estimate_mean(values, shared, over.worth - 1 if over.worth else inf).compute_interval(
            SIGNIFICANCE_LEVEL
        )
    return ClaimDifference(
        key=key,
        name=a.name,
        dataset=a.dataset,
        condition=a.condition,
        other=b.condition,
        split=a.split,
        values=values,
        seeds=tuple(row[0] for row in rows),
        nodes=nodes,
        others=others,
        grade=find_weakest_grade((a.grade, b.grade)),
        mean=mean,
        sd=sd,
        low=low,
        high=high,
        better=a.condition if (mean > 0) == higher else b.condition,
        examples=over is not None and bool(over.shared) and len(values) > 1,
        resampled_interval=over,
    )
