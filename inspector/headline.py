"""What a run came to, as its page and the list of runs begin with it: hypotheses, method against baseline, judge."""

from __future__ import annotations

from statistics import fmean
from typing import Literal, NamedTuple

from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_paper_claims, compute_test_claims
from labwright.record.claims.formatting import count_claim_decimals, count_effect_decimals
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.estimands import describe_estimand, find_effect_metric
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.record.schema.paper import Judgement

MAX_DIGITS = 4


class ShownEffect(NamedTuple):
    """An effect that a hypothesis claims: what is estimated, in words, and with how many digits after the point."""

    part: EffectDecision
    words: str
    digits: int


class Headline(NamedTuple):
    """`compared` is of the primary metric, method minus baseline, on `split`; `better`: whether higher values are."""

    decisions: tuple[HypothesisDecision, ...]
    effects: tuple[tuple[ShownEffect, ...], ...]
    """Of each decision."""
    compared: tuple[ClaimDifference, ...]
    digits: int
    """After the point of all that was compared."""
    split: Literal["test", "validation"]
    metric: str
    better: Literal["higher", "lower"]

    @property
    def mean_difference(self) -> float | None:
        """What lists show: the mean of all comparisons on the first dataset; None before there is one."""
        return (
            fmean(one.mean for one in self.compared if one.dataset == self.compared[0].dataset)
            if self.compared
            else None
        )


def build_headline(state: RunState) -> Headline | None:
    """The headline; None before there is a data plan."""
    plan = state.data_plan
    if plan is None:
        return None
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    found = tuple(
        one
        for one in compute_differences(state, compute_paper_claims(state))
        if one.name == plan.primary_metric.name and one.arm in methods
    )
    decided = decide_hypotheses(state)
    effects = tuple(
        tuple(
            ShownEffect(
                part,
                f"{describe_estimand(part.effect.estimand, plan)}, in "
                f"{find_effect_metric(part.effect, plan).display_name}",
                min(MAX_DIGITS, count_effect_decimals(part)),
            )
            for part in one.parts
        )
        for one in decided
    )
    digits = max((min(MAX_DIGITS, count_claim_decimals(one)) for one in found), default=3)
    return Headline(
        decided,
        effects,
        found,
        digits,
        "test" if compute_test_claims(state) else "validation",
        plan.primary_metric.display_name,
        "higher" if plan.primary_metric.higher_is_better else "lower",
    )


def overall_score(judgement: Judgement) -> tuple[float, int]:
    """What a judge gave a paper, and the most there is: the overall score, or the mean where the rubric has none."""
    every = judgement.scores
    of = [one for one in every if "overall" in one.dimension.lower()] or [*every]
    return sum(one.score for one in of) / len(of), of[0].highest
