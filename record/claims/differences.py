"""Paired differences between arms, and their verdicts.

All of them are exploratory: a study decides its hypotheses (`record.claims.hypothesis_tests`), and these comparisons
take no power from them. The differences of one split belong to one of two families. **Primary**: the primary metric,
method against baseline, over all datasets and levels, and every pair of cells that a hypothesis of the plan or its
rival reads in its metric. **Other**: everything else, that is other metrics and ablations. There are two families so
that adding a metric to a plan does not make its main comparison harder to pass; and only two, because one finding in
twenty side results is expected by chance.

A difference is called if all of this holds: at least `MIN_REPLICATES` pairs that are not all the same, a paired t test
that is significant at 5 % after Holm's correction within its family, and, where predictions were resampled
(`RunState.resampled_intervals`), a 95 % interval over the test examples that excludes zero on the same side. The t test
covers retraining, the interval covers other test examples; both must support a difference. The family size counts every
difference, including those with too few pairs to be tested. A verdict is about `condition`. Any other difference is
`not significant`, reported with the number of comparisons; its own uncorrected interval may still exclude zero.

Limits: the family of a stage report, which uses validation data, is not that of the paper; each is corrected
separately. No interval, including those over examples, is corrected for multiple comparisons.
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
    """A paired difference `condition - other`, and its verdict.

    `p` is from the paired t test, None if it could not be run; `p_adjusted` is corrected for the `family_size`
    differences of the `family`. `significance` is about `condition` relative to `other`: "worsened" means measurably
    worse; `caveats` qualify it. `detectable_effect` is the smallest true difference that would be found with a power of
    80 %.
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
        """The verdict; if not significant, with the correction that was applied."""
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
        """The verdict with its caveats: `improved, stale tuning`."""
        return ", ".join((self.outcome_text, *self.caveats))

    @property
    def is_limited_by_examples(self) -> bool:
        """Whether the difference is not called only because of the interval over test examples."""
        return (
            self.significance == "not significant"
            and self.p_adjusted is not None
            and self.p_adjusted <= SIGNIFICANCE_LEVEL
        )


def compute_differences(state: RunState, claims: Sequence[Claim]) -> list[ClaimDifference]:
    """Return paired differences at equal level: method minus baseline, and ablation minus method."""
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
    """Build the difference of two claims over their shared seeds, before it is tested."""
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
    """Return the difference with its verdict, given its p-values and the size of its family."""
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
