"""Roles `prior_search`, `prior_work`, `protocol_review`: no search, no paper, and a mild doubt about scope."""

from __future__ import annotations

from labwright.models.roles.protocol import (
    PriorSearch,
    PriorSearchInputs,
    PriorWork,
    PriorWorkInputs,
    ProtocolReview,
    ProtocolReviewInputs,
)
from labwright.record.schema.protocol_review import ProtocolFinding


def answer_prior_search(inputs: PriorSearchInputs) -> PriorSearch:
    """Search for nothing: the study needs no network."""
    return PriorSearch()


def answer_prior_work(inputs: PriorWorkInputs) -> PriorWork:
    """Extract nothing: this model reads no paper."""
    return PriorWork()


def answer_protocol_review(inputs: ProtocolReviewInputs) -> ProtocolReview:
    """Doubt the scope if there is only one dataset and the plan does not say so; uphold nothing."""
    plan = inputs.data_plan
    if len(plan.datasets) > 1 or plan.untested or inputs.answered:
        return ProtocolReview()
    return ProtocolReview(
        findings=(
            ProtocolFinding(
                kind="scope",
                severity="could",
                where="datasets",
                what=("The plan has one dataset, and discloses no limit to what follows from it."),
                mend="Say in `untested` that no other data are used.",
            ),
        )
    )
