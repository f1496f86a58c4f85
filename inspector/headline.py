"""What a run came to, as its page and the list of runs begin with it: hypotheses, method against baseline, judge."""

from __future__ import annotations

from statistics import fmean
from typing import Literal, NamedTuple

from labwright.record.claims.decisions import decisions
from labwright.record.claims.differences import Difference, differences
from labwright.record.claims.means import claims_on_test, paper_claims
from labwright.record.claims.printing import decimals, decimals_of
from labwright.record.estimands import described, metric_of
from labwright.record.fold.state import RunState
from labwright.record.nouns.hypotheses import Decision, PartDecided
from labwright.record.nouns.papers import Judgement

MOST_DIGITS = 4


class ShownEffect(NamedTuple):
    """An effect that a hypothesis claims: what is estimated, in words, and with how many digits after the point."""

    part: PartDecided
    words: str
    digits: int


class Headline(NamedTuple):
    """`compared` is of the primary metric, method minus baseline, on `split`; `better`: whether higher values are."""

    decisions: tuple[Decision, ...]
    effects: tuple[tuple[ShownEffect, ...], ...]
    """Of each decision."""
    compared: tuple[Difference, ...]
    digits: int
    """After the point of all that was compared."""
    split: Literal["test", "validation"]
    metric: str
    better: Literal["higher", "lower"]

    @property
    def mean(self) -> float | None:
        """What lists show: the mean of all comparisons on the first dataset; None before there is one."""
        return (
            fmean(one.mean for one in self.compared if one.dataset == self.compared[0].dataset)
            if self.compared
            else None
        )


def headline_of(state: RunState) -> Headline | None:
    """The headline; None before there is a data plan."""
    plan = state.data_plan
    if plan is None:
        return None
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    found = tuple(
        one for one in differences(state, paper_claims(state)) if one.name == plan.primary.name and one.arm in methods
    )
    decided = decisions(state)
    effects = tuple(
        tuple(
            ShownEffect(
                part,
                f"{described(part.effect.estimand, plan)}, in {metric_of(part.effect, plan).words}",
                min(MOST_DIGITS, decimals_of(part)),
            )
            for part in one.parts
        )
        for one in decided
    )
    digits = max((min(MOST_DIGITS, decimals(one)) for one in found), default=3)
    return Headline(
        decided,
        effects,
        found,
        digits,
        "test" if claims_on_test(state) else "validation",
        plan.primary.words,
        "higher" if plan.primary.higher_is_better else "lower",
    )


def score_of_paper(judgement: Judgement) -> tuple[float, int]:
    """What a judge gave a paper, and the most there is: the overall score, or the mean where the rubric has none."""
    every = judgement.scores
    of = [one for one in every if "overall" in one.dimension.lower()] or [*every]
    return sum(one.score for one in of) / len(of), of[0].highest
