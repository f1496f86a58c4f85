"""Paired differences, and what may be said of them.

All of them are exploratory: what a study decides are its hypotheses (`record.claims.decisions`), which no pair that
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

from labwright.record.claims.caveats import Caveat, Caveats
from labwright.record.claims.decisions import measured_of
from labwright.record.claims.means import LEVEL, MINIMUM_REPLICATES, Claim, detectable, holm, interval, p_value, weakest
from labwright.record.estimands import conditions_read
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import OverExamples, Split
from labwright.record.rounding import ROUNDING, minus
from labwright.record.typeset import key_of

Called = Literal["improved", "worsened", "not significant", "unknown"]
Family = Literal["primary", "other"]


class Difference(Claim):
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
    called: Called
    family: Family = "other"
    compared: int = 1
    p: float | None = None
    p_adjusted: float | None = None
    detectable: float | None = None
    over_examples: OverExamples | None = None
    caveats: tuple[Caveat, ...] = ()

    @property
    def outcome(self) -> str:
        """What came of it; where it is not significant, with the correction that was applied."""
        if self.called != "not significant":
            return self.called
        if self.by_examples:
            return f"{self.called} over test examples"
        return f"{self.called} after Holm over {self.compared} comparisons" if self.compared > 1 else self.called

    @property
    def verdict(self) -> str:
        """The outcome with its caveats: `improved, stale tuning`."""
        return ", ".join((self.outcome, *self.caveats))

    @property
    def by_examples(self) -> bool:
        """Whether only the choice of test examples keeps this difference from being called."""
        return self.called == "not significant" and self.p_adjusted is not None and self.p_adjusted <= LEVEL


def differences(state: RunState, claims: Sequence[Claim]) -> list[Difference]:
    """Paired differences at equal level: method minus baseline, and ablation minus method."""
    plan = state.data_plan
    if plan is None:
        return []
    higher = {metric.name: metric.higher_is_better for metric in plan.metrics}
    roles = {arm.name: arm.role for arm in plan.arms}
    against = {"method": "baseline", "ablation": "method"}
    caveats, read = (
        Caveats(state, claims),
        [
            conditions_read((each for each in measured_of(one) if each not in one.alternatives), plan)
            for one in plan.hypotheses
        ],
    )

    def role_of(claim: Claim) -> str:
        return roles.get(claim.arm, "ablation")

    made = [
        _difference(state, a, b, higher=higher[a.name]).model_copy(
            update={
                "caveats": caveats.of(a, b),
                "family": "primary"
                if (a.name == plan.primary.name and role_of(a) == "method")
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
    families: dict[tuple[Split, Family], list[int]] = {}
    for place, one in enumerate(made):
        families.setdefault((one.split, one.family), []).append(place)
    for places in families.values():
        tested = [p_value(made[place].values) if made[place].n >= MINIMUM_REPLICATES else None for place in places]
        for place, p, adjusted in zip(places, tested, holm(tested), strict=True):
            made[place] = _tested(made[place], p, adjusted, len(places))
    return made


def _difference(state: RunState, a: Claim, b: Claim, *, higher: bool) -> Difference:
    """The difference of two claims, value by value where they share a seed, before it is tested."""
    key = f"{key_of('diff', a.dataset, a.name, a.condition)}~{key_of(b.condition)}"
    other = {seed: (node, value) for seed, node, value in zip(b.seeds, b.nodes, b.values, strict=True)}
    rows = [
        (seed, node, *other[seed], value)
        for seed, node, value in zip(a.seeds, a.nodes, a.values, strict=True)
        if seed in other
    ]
    nodes, others = tuple(row[1] for row in rows), tuple(row[2] for row in rows)
    values = tuple(minus(value, less) for *_, less, value in rows)
    mean = fmean(values)
    if abs(mean) < ROUNDING * max(map(abs, values)):
        mean = 0.0
    sd, low, high = interval(values)
    over = state.resampled.get(key) if a.split == "test" else None
    if over is not None and (over.nodes, over.others) != (nodes, others):
        over = None
    return Difference(
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
        grade=weakest((a.grade, b.grade)),
        mean=mean,
        sd=sd,
        low=low,
        high=high,
        better=a.condition if (mean > 0) == higher else b.condition,
        called="unknown",
        over_examples=over,
    )


def _tested(one: Difference, p: float | None, adjusted: float | None, compared: int) -> Difference:
    """The difference with what its family, of so many, lets be said of it."""
    called: Called = "improved" if one.better == one.condition else "worsened"
    if adjusted is None:
        called = "unknown"
    elif adjusted > LEVEL or (one.over_examples is not None and not one.over_examples.supports(one.mean)):
        called = "not significant"
    return one.model_copy(
        update={
            "p": p,
            "p_adjusted": adjusted,
            "compared": compared,
            "called": called,
            "detectable": None if one.sd is None else detectable(one.n, one.sd, compared),
        }
    )
