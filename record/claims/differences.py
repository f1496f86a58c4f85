"""Paired differences, and what may be said of them.

Every difference of one split belongs to one of two families. **Confirmatory**: the primary metric, a method against a
baseline, over all datasets and levels. The data plan fixed those before any code was written, and they carry the
claim of the paper. **Exploratory**: everything else that is compared, other metrics and ablations. Two families, since
a plan that adds a metric to look at should not make its own question harder to answer; and no more than two, since a
paper that finds something in one of twenty side results has found what chance hands out.

A difference is called where all of this holds: at least `MINIMUM_REPLICATES` pairs that are not all the same, a paired
t test that survives Holm's correction at 5 % within its family, and, where predictions were resampled
(`RunState.resampled`), a 95 % interval over the test examples on the same side of zero. The first is about training
again, the second about other test examples; a difference that only one of them supports is not called. A family counts
every difference that was made, also those with too few pairs to be tested. What is called is called of `condition`.

What it does not guarantee: that the family of a stage's report, which looks at validation data, is that of the paper;
each is corrected for itself. The intervals, those over examples too, are not corrected: each holds for itself alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from record.claims.means import LEVEL, MINIMUM_REPLICATES, Claim, detectable, holm, interval, p_value, weakest
from record.fold.state import RunState
from record.nouns.data import OverExamples, Split

ROUNDING = 1e-12
"""A mean below this share of the largest difference is zero: what is left of sums of binary fractions."""

Called = Literal["improved", "worsened", "no measurable difference", "unknown"]
Family = Literal["confirmatory", "exploratory"]
FAMILIES: tuple[Family, ...] = ("confirmatory", "exploratory")


class Difference(Claim):
    """A paired difference `condition - other`, with what may be said of it.

    `p` is of the paired t test, None where there was nothing to test; `p_adjusted` is corrected for the `compared`
    differences of the `family`. `called` is of `condition` against `other`: "worsened" says that it is measurably the
    worse one. `detectable` is the smallest true difference that would have been found with a power of 80 %.
    """

    other: str
    others: tuple[str, ...] = ()
    """The nodes of the other arm, in the order of `nodes`."""
    better: str
    called: Called
    family: Family = "exploratory"
    compared: int = 1
    p: float | None = None
    p_adjusted: float | None = None
    detectable: float | None = None
    over_examples: OverExamples | None = None

    @property
    def by_examples(self) -> bool:
        """Whether only the choice of test examples keeps this difference from being called."""
        return (self.called == "no measurable difference" and self.p_adjusted is not None
                and self.p_adjusted <= LEVEL)


@dataclass(frozen=True)
class _Pair:
    """Two claims that are compared, value by value where they share a seed."""

    a: Claim
    b: Claim
    family: Family

    @property
    def key(self) -> str:
        return f"diff/{self.a.dataset}/{self.a.name}/{self.a.condition}~{self.b.condition}"

    @property
    def rows(self) -> list[tuple[int, str, str, float]]:
        """Seed, node, node of the other arm, difference."""
        other = {seed: (node, value) for seed, node, value in zip(
            self.b.seeds, self.b.nodes, self.b.values, strict=True)}
        return [(seed, node, other[seed][0], value - other[seed][1])
                for seed, node, value in zip(self.a.seeds, self.a.nodes, self.a.values, strict=True) if seed in other]


def differences(state: RunState, claims: Sequence[Claim]) -> list[Difference]:
    """Paired differences at equal level: method minus baseline, and ablation minus method."""
    plan = state.data_plan
    if plan is None:
        return []
    higher = {metric.name: metric.higher_is_better for metric in plan.metrics}
    roles = {arm.name: arm.role for arm in plan.arms}
    against = {"method": "baseline", "ablation": "method"}

    def role_of(claim: Claim) -> str:
        return roles.get(claim.arm, "ablation")

    pairs = [
        _Pair(a, b, "confirmatory" if a.name == plan.primary.name and role_of(a) == "method" else "exploratory")
        for a in claims for b in claims
        if (a.name, a.dataset, a.split, a.level) == (b.name, b.dataset, b.split, b.level) and a.name in higher
        and role_of(b) == against.get(role_of(a)) and set(a.seeds) & set(b.seeds)]
    families: dict[tuple[Split, Family], list[_Pair]] = {}
    for pair in pairs:
        families.setdefault((pair.a.split, pair.family), []).append(pair)
    found: dict[int, Difference] = {}
    for family in families.values():
        tested = [p_value([value for *_, value in pair.rows]) if len(pair.rows) >= MINIMUM_REPLICATES else None
                  for pair in family]
        for pair, p, adjusted in zip(family, tested, holm(tested), strict=True):
            found[id(pair)] = _difference(
                state, pair, higher=higher[pair.a.name], p=p, p_adjusted=adjusted, compared=len(family))
    return [found[id(pair)] for pair in pairs]


def _difference(
    state: RunState, pair: _Pair, *, higher: bool, p: float | None, p_adjusted: float | None, compared: int
) -> Difference:
    a, b, rows = pair.a, pair.b, pair.rows
    values = tuple(value for *_, value in rows)
    mean = fmean(values)
    if abs(mean) < ROUNDING * max(map(abs, values)):
        mean = 0.0
    sd, low, high = interval(values)
    nodes, others = tuple(one for _, one, _, _ in rows), tuple(one for _, _, one, _ in rows)
    resampled = state.resampled.get(pair.key) if a.split == "test" else None
    over = resampled if resampled is not None and (resampled.nodes, resampled.others) == (nodes, others) else None
    better = a.condition if (mean > 0) == higher else b.condition
    called: Called = "improved" if better == a.condition else "worsened"
    if p_adjusted is None:
        called = "unknown"
    elif p_adjusted > LEVEL or (over is not None and not over.supports(mean)):
        called = "no measurable difference"
    return Difference(
        key=pair.key, name=a.name, dataset=a.dataset, condition=a.condition, other=b.condition, split=a.split,
        values=values, seeds=tuple(seed for seed, *_ in rows), nodes=nodes, others=others,
        grade=weakest((a.grade, b.grade)), mean=mean, sd=sd, low=low, high=high, better=better,
        called=called, family=pair.family, compared=compared, p=p, p_adjusted=p_adjusted, over_examples=over,
        detectable=None if sd is None else detectable(len(values), sd, compared))
