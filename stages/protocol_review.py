"""The review of a data plan by a second role, before any code is written: findings, answers, and open findings.

Guarantees: at most `MAX_REVIEW_CALLS` calls of the reviewer and `MAX_AMEND_CALLS` of the planner (`stages.settings`);
an amended plan is used only if it can be carried out; a finding never ends a run. Limits: the reviewer may miss faults.
A model other than the planner's finds more (`models.roles.protocol_review.name`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from labwright.models.client import ModelClient
from labwright.models.roles.protocol import PROTOCOL_REVIEW, ProtocolReviewInputs
from labwright.record.estimands import EstimandError, describe_estimand
from labwright.record.events.search_events import REVIEW_AUTHOR, PlanAmended, ProtocolReviewed
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.protocol_review import FindingAnswer, ProtocolFinding, ReviewedFinding
from labwright.stages.run_context import RunContext

AmendPlan = Callable[
    [DataPlan, tuple[ProtocolFinding, ...]], Awaitable[tuple[DataPlan | None, tuple[FindingAnswer, ...]]]
]
"""Returns an amended plan with the answers to findings; None if no usable plan was obtained."""


async def review_plan(
    context: RunContext,
    client: ModelClient,
    inputs: ProtocolReviewInputs,
    amend: AmendPlan | None,
    describe_hours: Callable[[DataPlan], tuple[str, ...]],
) -> DataPlan:
    """Review the plan, record the findings once, and return the plan; it is unchanged if `amend` is None.

    `describe_hours` returns lines that say what a plan can decide in the run's time.

    Raises: `ModelError`, but never because of a finding.
    """
    outcome, plan = await _run_review(client, inputs, amend, describe_hours)
    if context.state.search.protocol_review is None:
        context.recorder.append(outcome)
    return plan


async def _run_review(
    client: ModelClient,
    inputs: ProtocolReviewInputs,
    amend: AmendPlan | None,
    describe_hours: Callable[[DataPlan], tuple[str, ...]],
) -> tuple[ProtocolReviewed, DataPlan]:
    plan = inputs.data_plan
    outcome = ProtocolReviewed(reviewer=client.get_model_name(PROTOCOL_REVIEW), reviewed=plan)
    first = inputs.model_copy(update={"hours": describe_hours(plan)})
    review = await client.ask_or_none(PROTOCOL_REVIEW, first, instead="the plan is not reviewed")
    if review is None:
        return outcome.model_copy(update={"why": "the reviewer gave no usable answer"}), plan
    if not review.findings:
        return outcome, plan
    amended, answers = await amend(plan, review.findings) if amend is not None else (None, ())
    why = (
        ""
        if amended is not None
        else "the plan was given by the user and is not amended"
        if amend is None
        else "the planner gave no feasible plan that answers it"
    )
    findings = match_answers(review.findings, answers, changed=amended not in (None, plan), why=why)
    if amended is not None and any(one.answer for one in findings):
        again = await client.ask_or_none(
            PROTOCOL_REVIEW,
            inputs.model_copy(
                update={
                    "data_plan": amended,
                    "estimands": describe_estimands(amended),
                    "hours": describe_hours(amended),
                    "answered": findings,
                }
            ),
            instead="answered findings count as closed",
        )
        upheld = {one.finding: one.why for one in again.upheld} if again is not None else {}
        findings = tuple(
            one.model_copy(update={"open": one.open or upheld.get(number, "")})
            for number, one in enumerate(findings, 1)
        )
    if amended is None or amended == plan:
        return outcome.model_copy(update={"findings": findings}), plan
    amendment = PlanAmended(
        number=1,
        data_plan=amended,
        by=REVIEW_AUTHOR,
        seen="no result: before any code was written",
        why="; ".join(one.answer for one in findings if one.changed) or "findings of the protocol review",
    )
    return outcome.model_copy(update={"findings": findings, "amendment": amendment}), amended


def match_answers(
    findings: Sequence[ProtocolFinding], answers: Sequence[FindingAnswer], *, changed: bool, why: str
) -> tuple[ReviewedFinding, ...]:
    """Pair each finding with its answer; findings without an answer, or with a claimed change that was not made,
    are open.
    """
    answer_by_number = {one.finding: one for one in answers}
    reviewed: list[ReviewedFinding] = []
    for number, finding in enumerate(findings, 1):
        answer = answer_by_number.get(number)
        lacking = why or (
            "it was not answered"
            if answer is None
            else "the answer says that it is fixed, but the plan is unchanged"
            if answer.changed and not changed
            else ""
        )
        reviewed.append(
            ReviewedFinding(
                **finding.model_dump(),
                answer=answer.reason if answer is not None else "",
                open=lacking,
                changed=answer is not None and answer.changed and changed,
            )
        )
    return tuple(reviewed)


def describe_estimands(plan: DataPlan) -> dict[str, str]:
    """Return every estimand of the plan's hypotheses with a description of the quantity that it estimates."""
    descriptions: dict[str, str] = {}
    for one in plan.hypotheses:
        for text in (
            *(effect.estimand for effect in (*one.effects, *one.alternatives)),
            *([one.rival.estimand] if one.rival is not None else []),
        ):
            try:
                descriptions[text] = describe_estimand(text, plan)
            except EstimandError as error:
                descriptions[text] = str(error)
    return descriptions
