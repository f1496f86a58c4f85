"""Typed inputs of the roles that revise a paper after its reviews."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from labwright.models.roles.paper_revision import AddendumInputs, RequestOutcome, RespondInputs, ReviewerRequestsInputs
from labwright.models.roles.study_plan import MissingAblationsInputs
from labwright.record.schema.paper import PaperDraft, ReviewerRequest, Section

REQUEST = ReviewerRequest(
    id="R1",
    review=1,
    kind="new control",
    request="Measure the method without warm-up.",
    quote="It is unclear whether the warm-up does the work.",
)
TEXT_REQUEST = ReviewerRequest(
    id="R2", review=1, kind="clearer text", request="Define the margin.", quote="The margin is never defined."
)


def make_inputs(missing: MissingAblationsInputs) -> dict[str, BaseModel]:
    """Return the inputs of the roles; the addendum is planned for the draft of `missing`."""
    return {
        "reviewer_requests": ReviewerRequestsInputs(
            title="Margins",
            abstract="We ask.",
            reviews=("A fine paper. It is unclear whether the warm-up does the work. The margin is never defined.",),
            complaints=("'Measure it': review 1 has no passage 'warm up works': copy one word for word",),
        ),
        "addendum": AddendumInputs(
            **dict(missing), requests=(REQUEST,), seeds=5, room="An arm is expected to take 60 s."
        ),
        "respond": RespondInputs(
            draft=PaperDraft(
                title="Margins",
                abstract="We ask.",
                sections=(Section(title="Results", body="Without warm-up the accuracy is 0.820."),),
            ),
            outcomes=(
                RequestOutcome(
                    request=REQUEST,
                    outcome="Measured as no-warmup with 5 seeds, as an addendum to the plan.",
                    values=(
                        "what warm-up adds (over 5 seeds). no-warmup minus hinge: -0.02, 95% interval [-0.03, -0.01].",
                    ),
                ),
                RequestOutcome(request=TEXT_REQUEST, outcome=""),
            ),
            changes=("Results: [added: Without warm-up the accuracy is 0.820.]",),
        ),
    }


def make_huge_changes(long: str) -> dict[str, dict[str, Any]]:
    """Return fields that make each prompt as long as it can be."""
    draft = PaperDraft(title="t", abstract="a", sections=(Section(title="T", body=long[:6000]),) * 40)
    requests = tuple(REQUEST.model_copy(update={"request": long[:600], "quote": long[:600]}) for _ in range(30))
    return {
        "reviewer_requests": {"reviews": (long,) * 8, "complaints": (long,) * 20},
        "addendum": {"requests": requests, "draft": draft, "method_plan": long},
        "respond": {
            "draft": draft,
            "outcomes": tuple(RequestOutcome(request=one, outcome=long[:600]) for one in requests),
            "changes": (long,) * 99,
        },
    }
