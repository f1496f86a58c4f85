"""What a run came to, as its page and the list of runs begin with it: hypotheses, method against baseline, judge."""

from __future__ import annotations

from typing import Literal, NamedTuple

from record.claims.decisions import decisions
from record.claims.differences import Difference, differences
from record.claims.means import claims_on_test, paper_claims
from record.fold.state import RunState
from record.nouns.hypotheses import Decision
from record.nouns.papers import Judgement


class Headline(NamedTuple):
    """`compared` is of the primary metric, method minus baseline, on `split`; `better`: whether higher values are."""

    decisions: tuple[Decision, ...]
    compared: tuple[Difference, ...]
    split: Literal["test", "validation"]
    metric: str
    better: Literal["higher", "lower"]

    @property
    def main(self) -> Difference | None:
        """The first comparison, which lists show; None before there is one."""
        return next(iter(self.compared), None)


def headline_of(state: RunState) -> Headline | None:
    """The headline; None before there is a data plan."""
    plan = state.data_plan
    if plan is None:
        return None
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    found = tuple(one for one in differences(state, paper_claims(state))
                  if one.name == plan.primary.name and one.arm in methods)
    return Headline(decisions(state), found, "test" if claims_on_test(state) else "validation",
                    plan.primary.title or plan.primary.name, "higher" if plan.primary.higher_is_better else "lower")


def score_of_paper(judgement: Judgement) -> tuple[float, int]:
    """What a judge gave a paper, and the most there is: the overall score, or the mean where the rubric has none."""
    every = judgement.scores
    of = [one for one in every if "overall" in one.dimension.lower()] or [*every]
    return sum(one.score for one in of) / len(of), of[0].highest
