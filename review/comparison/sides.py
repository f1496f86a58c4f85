"""A run in the figures that can be laid beside another's: counts of its record, its main comparisons, scores, cost."""

from __future__ import annotations

from pydantic import Field

from models.judgement import RecordFacts
from record.claims import Called, differences, paper_claims
from record.fold.state import RunState
from record.judgement import Judgement
from record.nouns.data import arm_of
from record.nouns.drafts import Draft, Section
from record.nouns.frozen import Frozen
from review.judge import facts_of

MOST_CLAIMS = 12
_UNWRITTEN = Draft(title="", abstract="", sections=(Section(title="", body=""),))


class KeyClaim(Frozen):
    """A comparison of a method on the primary metric, paired by seed: `condition - other`."""

    metric: str
    dataset: str
    condition: str
    other: str
    mean: float
    low: float | None
    high: float | None
    n: int
    called: Called = Field(description="of `condition`, corrected for the comparisons of its own paper alone")


class Side(Frozen):
    """One run. Nothing in it is an opinion but `judgement`."""

    run: str
    idea: str
    title: str = Field(description="of the paper; of the idea where there is no paper yet")
    released: bool | None = Field(description="None: not at its end yet")
    reasons: tuple[str, ...] = Field(default=(), description="why it was not released")
    facts: RecordFacts
    claims: tuple[KeyClaim, ...] = Field(default=(), description=f"at most {MOST_CLAIMS}")
    claims_left_out: int = 0
    judgement: Judgement | None = None
    seconds: float = Field(description="that the run was worked on")
    calls: int = Field(description="of models, as `status` counts them: unlike in facts, the judge's own too")
    usd: float
    unpriced: int = Field(description="calls whose price is unknown")


def side_of(run: str, state: RunState, draft: Draft | None) -> Side:
    """The side of a run that has begun; `draft` is what its paper was made from."""
    assert state.started is not None
    idea, released = state.started.idea, state.released
    claims = _claims(state)
    return Side(
        run=run, idea=idea.name, title=draft.title if draft else idea.title,
        released=released.released if released else None, reasons=released.reasons if released else (),
        facts=facts_of(state, draft or _UNWRITTEN),
        claims=claims[:MOST_CLAIMS], claims_left_out=max(0, len(claims) - MOST_CLAIMS),
        judgement=state.assessed.judgement if state.assessed else None, seconds=round(state.active_seconds, 1),
        calls=state.total.calls, usd=round(state.total.usd, 6), unpriced=state.total.unpriced)


def _claims(state: RunState) -> tuple[KeyClaim, ...]:
    plan = state.data_plan
    if plan is None:
        return ()
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    return tuple(
        KeyClaim(metric=one.name, dataset=one.dataset, condition=one.condition, other=one.other, mean=one.mean,
                 low=one.low, high=one.high, n=one.n, called=one.called)
        for one in differences(state, paper_claims(state))
        if one.name == plan.primary.name and arm_of(one.condition) in methods)
