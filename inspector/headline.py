"""Main results of a run, shown at the top of its page and in the list of runs: hypotheses, method vs. baseline,
judge."""

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
    """An effect of a hypothesis: its decision, a description of its estimand, and the number of decimals to show."""

    part: EffectDecision
    words: str
    digits: int


class Headline(NamedTuple):
    """`compared` has method - baseline differences of the primary metric on `split`; `better` is the direction of the
    metric."""

    decisions: tuple[HypothesisDecision, ...]
    effects: tuple[tuple[ShownEffect, ...], ...]
    """Effects of each decision."""
    compared: tuple[ClaimDifference, ...]
    digits: int
    """Number of decimals of the differences."""
    split: Literal["test", "validation"]
    metric: str
    better: Literal["higher", "lower"]

    @property
    def mean_difference(self) -> float | None:
        """Mean difference on the first dataset, for lists; None before it was measured."""
        return (
            fmean(one.mean for one in self.compared if one.dataset == self.compared[0].dataset)
            if self.compared
            else None
        )


def build_headline(state: RunState) -> Headline | None:
    """Build the headline; None before the data plan exists."""
    plan = state.search.data_plan
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
    """Return a judge's overall score and its maximum; if the rubric has no overall score, the mean of all scores."""
    every = judgement.scores
    of = [one for one in every if "overall" in one.dimension.lower()] or [*every]
    return sum(one.score for one in of) / len(of), of[0].highest
