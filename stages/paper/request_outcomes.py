"""What the record has for the requests of reviewers: measured values, refusals, or nothing but the text."""

from __future__ import annotations

from collections.abc import Iterator

from labwright.models.roles.revision import RequestOutcome
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.claims.estimates import find_added_replicates
from labwright.record.claims.requested_estimates import RequestedEstimate, compute_requested_estimates
from labwright.record.events.search_events import AddendumRegistered
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.revision import AddendumEstimate, ReviewerRequest


def find_addendum(state: RunState) -> AddendumRegistered | None:
    """Return the addendum of the paper's current version."""
    return next((one for one in state.search.addenda if one.version == state.paper.version), None)


def list_outcomes(state: RunState) -> tuple[RequestOutcome, ...]:
    """Return each request of the current version with what the record has for it; empty for one about the text."""
    requests, addendum = state.paper.requests, find_addendum(state)
    if requests is None:
        return ()
    return tuple(
        RequestOutcome(request=one, outcome=" ".join(_describe_outcome(state, addendum, one)) if addendum else "")
        for one in requests.requests
    )


def _describe_outcome(state: RunState, addendum: AddendumRegistered, request: ReviewerRequest) -> Iterator[str]:
    """Yield sentences on what was measured for a request, and why not."""
    if why := addendum.refused.get(request.id):
        yield f"Not measured: {why.rstrip('.')}."
    results = {one.ablation.name: one for one in collect_ablation_results(state) if one.by == "addendum"}
    for item in addendum.items:
        if item.request == request.id and not item.refused:
            found = results[item.ablation.name]
            if found.outcome == "measured":
                yield f"Measured as {', '.join(found.arms)} with {found.replicates} seeds, as an addendum to the plan."
            else:
                fate = "failed" if found.outcome == "failed" else "was not run"
                yield f"The arm {item.ablation.name} {fate}: {found.why}."
    wanted = [one for one in addendum.estimates if one.request == request.id]
    if any(one.seeds == "added" for one in wanted):
        yield f"{len(find_added_replicates(state))} of {len(addendum.seeds)} further seeds worked."
    elif wanted and not any(one.request == request.id for one in addendum.items):
        yield "Estimated over cells that were measured before."
    yield from (f"{fault}." for fault in compute_requested_estimates(state, wanted)[1])


def _answers(one: RequestedEstimate, request: str) -> bool:
    return isinstance(one.request, AddendumEstimate) and one.request.request == request


def describe_requests(state: RunState) -> tuple[str, ...]:
    """Return one line for each request of the current version, for the reflector's prompt."""
    addendum, lines = find_addendum(state), list[str]()
    estimates = compute_requested_estimates(state, addendum.estimates if addendum is not None else ())[0]
    for one in list_outcomes(state):
        what = f"A reviewer asks ({one.request.kind}): {one.request.request} In the review: {one.request.quote!r}."
        if one.outcome:
            keys = ", ".join(each.key for each in estimates if _answers(each, one.request.id))
            lines.append(
                f"{what} {one.outcome}{f' Registered estimates: {keys}.' if keys else ''} Report what was measured by "
                "its keys, even if it weakens a claim, and what was not measured as a limitation where a reader would "
                "miss it."
            )
        else:
            lines.append(f"{what} Nothing was measured for it: change the text where the reviewer is right.")
    return tuple(lines)
