"""Paired differences, and what may be said of them.

All of them are exploratory: what a study decides are its hypotheses (`record.claims.hypothesis_tests`), which no pair
that
nobody asked for takes power from. Differences of one split belong to one of two families. **Primary**: what was asked,
that is the primary metric, a method against a baseline, over all datasets and levels, which readers of any study look
for first, and every pair of cells that a hypothesis of the plan, or its rival, reads in its metric. **Other**:
everything else that is compared, other metrics and ablations. Two families, since a plan that adds a metric to look at
should not make its main comparison harder to call; and no more than two, since a paper that finds something in one of
twenty side results has found what chance hands out.

A difference is called where all of this holds: at least `MINIMUM_REPLICATES` pairs that are not all the same, a paired
t test that survives Holm's correction at 5 % within its family, and, where predictions were resampled
(`RunState.resampled`), a 95 % interval over the test examples on the same side of zero. The first is about training
again, the second about other test examples; a difference that only one of them supports is not called. A family counts
every difference that was made, also those with too few pairs to be tested. What is called is called of `condition`.
What is not called is `not significant`, and told with the number of comparisons that it was corrected for: its own
interval, which is not corrected, may well exclude zero.

What it does not guarantee: that the family of a stage's report, which looks at validation data, is that of the paper;
each is corrected for itself. The intervals, those over examples too, are not corrected: each holds for itself alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from labwright.record.claims.caveats import Caveat, CaveatFinder
from labwright.record.claims.estimates import (
    MIN_REPLICATES,
    SIGNIFICANCE_LEVEL,
    Claim,
    adjust_p_values,
    compute_detectable_effect,
    compute_p_value,
    compute_t_interval,
    find_weakest_grade,
)
from labwright.record.claims.hypothesis_tests import list_estimated_effects
from labwright.record.estimands import list_conditions_read
from labwright.record.float_compare import MAX_RELATIVE_ROUNDING, subtract_rounded
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key
from labwright.record.schema.data_plan import ResampledInterval, Split

DifferenceOutcome = Literal["improved", "worsened", "not significant", "unknown"]
TestFamily = Literal["primary", "other"]


class ClaimDifference(Claim):
    """A paired difference `condition - other`, with what may be said of it.

    `p` is of the paired t test, None where there was nothing to test; `p_adjusted` is corrected for the `compared`
    differences of the `family`. `called` is of `condition` against `other`: "worsened" says that it is measurably the
    worse one; `caveats` stand beside it. `detectable` is the smallest true difference that would have been found with a
    power of 80 %.
    """

    other: str
    others: tuple[str, ...] = ()
    """The nodes of the other arm, in the order of `nodes`."""
    better: str
    significance: DifferenceOutcome
    family: TestFamily = "other"
    family_size: int = 1
    p: float | None = None
    p_adjusted: float | None = None
    detectable_effect: float | None = None
    resampled_interval: ResampledInterval | None = None
    caveats: tuple[Caveat, ...] = ()

    @property
    def outcome_text(self) -> str:
        """What came of it; where it is not significant, with the correction that was applied."""
        if self.significance != "not significant":
            return self.significance
        if self.is_limited_by_examples:
            return f"{self.significance} over test examples"
        return (
            f"{self.significance} after Holm over {self.family_size} comparisons"
            if self.family_size > 1
            else self.significance
        )

    @property
    def verdict_text(self) -> str:
        """The outcome with its caveats: `improved, stale tuning`."""
        return ", ".join((self.outcome_text, *self.caveats))

    @property
    def is_limited_by_examples(self) -> bool:
        """Whether only the choice of test examples keeps this difference from being called."""
        return (
            self.significance == "not significant"
            and self.p_adjusted is not None
            and self.p_adjusted <= SIGNIFICANCE_LEVEL
        )


def compute_differences(state: RunState, claims: Sequence[Claim]) -> list[ClaimDifference]:
    """Paired differences at equal level: method minus baseline, and ablation minus method."""
    plan = state.data_plan
    if plan is None:
        return []
    higher = {metric.name: metric.higher_is_better for metric in plan.metrics}
    roles = {arm.name: arm.role for arm in plan.arms}
    against = {"method": "baseline", "ablation": "method"}
    caveats, read = (
        CaveatFinder(state, claims),
        [
            list_conditions_read((each for each in list_estimated_effects(one) if each not in one.alternatives), plan)
            for one in plan.hypotheses
        ],
    )

    def role_of(claim: Claim) -> str:
        return roles.get(claim.arm, "ablation")

    made = [
        _build_difference(state, a, b, higher=higher[a.name]).model_copy(
            update={
                "caveats": caveats.find_caveats(a, b),
                "family": "primary"
                if (a.name == plan.primary_metric.name and role_of(a) == "method")
                or any({(one.dataset, one.name, one.condition) for one in (a, b)} <= cells for cells in read)
                else "other",
            }
        )
        for a in claims
        for b in claims
        if (a.name, a.dataset, a.split, a.level) == (b.name, b.dataset, b.split, b.level)
        and a.name in higher
        and role_of(b) == against.get(role_of(a))
        and set(a.seeds) & set(b.seeds)
    ]
    families: dict[tuple[Split, TestFamily], list[int]] = {}
    for place, one in enumerate(made):
        families.setdefault((one.split, one.family), []).append(place)
    for places in families.values():
        tested = [compute_p_value(made[place].values) if made[place].n >= MIN_REPLICATES else None for place in places]
        for place, p, adjusted in zip(places, tested, adjust_p_values(tested), strict=True):
            made[place] = _apply_test(made[place], p, adjusted, len(places))
    return made


def _build_difference(state: RunState, a: Claim, b: Claim, *, higher: bool) -> ClaimDifference:
    """The difference of two claims, value by value where they share a seed, before it is tested."""
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
    over = state.resampled_intervals.get(key) if a.split == "test" else None
    if over is not None and (over.nodes, over.others) != (nodes, others):
        over = None
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
        significance="unknown",
        resampled_interval=over,
    )


def _apply_test(one: ClaimDifference, p: float | None, adjusted: float | None, compared: int) -> ClaimDifference:
    """The difference with what its family, of so many, lets be said of it."""
    called: DifferenceOutcome = "improved" if one.better == one.condition else "worsened"
    if adjusted is None:
        called = "unknown"
    elif adjusted > SIGNIFICANCE_LEVEL or (
        one.resampled_interval is not None and not one.resampled_interval.supports_sign(one.mean)
    ):
        called = "not significant"
    return one.model_copy(
        update={
            "p": p,
            "p_adjusted": adjusted,
            "family_size": compared,
            "significance": called,
            "detectable_effect": None if one.sd is None else compute_detectable_effect(one.n, one.sd, compared),
        }
    )
