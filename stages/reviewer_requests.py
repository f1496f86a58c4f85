"""Measure what reviewers ask for: ablations that the draft lacks (one model reads it), and an addendum for reviews.

Missing ablations. A reviewer is asked once. No measured ablation is requested again; each requested ablation runs with
replicates, like those of the last stage, or the record states why not; the draft is revised with the results, whatever
they show. Source: AblationBench, section 5 (reviewer-side planner).

Addendum. Reviews of a finished paper are read, and every request has a passage that is in its review. What is measured
for them is registered as an addendum to the data plan before any of it runs: its arms, its further seeds, how each
result will be read, and which results were known. The data plan and its verdicts stay as they are; the addendum's seeds
are never read by them. Its arms run with the seeds of the reported node, whose cells are reused.

Guarantees for both: the sealed test predictions of the new nodes, and no others, are scored once, after all of them
ran, and no selection uses them. After a kill, only the work in flight is repeated.

Limits: whoever asks or plans has seen the test results, so nothing is decided by them; the paper says so. Only the
program's own figures are redrawn. Nothing is tuned for a baseline that is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labwright.models import roles
from labwright.models.client import ModelClient
from labwright.models.roles.paper_revision import (
    AddendumInputs,
    AddendumPlan,
    FoundRequest,
    PlannedMeasure,
    ReviewerRequests,
    ReviewerRequestsInputs,
)
from labwright.models.roles.study_plan import MissingAblationsAnswer, MissingAblationsInputs
from labwright.record.ablation_results import AblationResult, collect_ablation_results, find_item_nodes
from labwright.record.baseline_check import MissingAblation
from labwright.record.claims.estimates import find_replicates, find_winner
from labwright.record.claims.formatting import format_claims, format_decisions, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses, read_deciding_runs
from labwright.record.claims.requested_estimates import compute_requested_estimates, find_addendum_faults, list_requests
from labwright.record.control_files import describe_seen_results
from labwright.record.events.paper_events import RequestsRead
from labwright.record.events.search_events import AddendumRegistered, MissingAblationsNamed, TaskDone
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import ResultMacroUse, fill_macros, to_plain_text
from labwright.record.run_folder import read_source
from labwright.record.schema.decisions import MISSING_ABLATIONS_TASK, ExpandTree, RunTask
from labwright.record.schema.paper import (
    MEASURABLE_KINDS,
    AddendumEstimate,
    AddendumItem,
    EstimateRequest,
    PaperDraft,
    ReviewerRequest,
    SeedSet,
)
from labwright.record.source_tree import select_code
from labwright.review.judge.paper_reader import quote_is_in
from labwright.search.hours import MAX_REQUESTS_SHARE, estimate_requests
from labwright.search.replication import list_ablation_seeds
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot
from labwright.stages.ablation_plan import filter_ablations, find_ablation_fault
from labwright.stages.evidence.scoring import probe_ablations, score_selected_nodes
from labwright.stages.paper.paper_context import build_paper_claims
from labwright.stages.paper.reflection import revise
from labwright.stages.paper.response import find_addendum
from labwright.stages.paper.typesetting import assess_new_draft, select_best
from labwright.stages.repository.paper_study import show_studied_repository
from labwright.stages.run_context import RunContext, ask_until_sound, decision_number, record_time_limit
from labwright.stages.settings import MAX_ABLATION_PLAN_CALLS, MAX_ADDED_ARMS, MAX_ADDED_SEEDS, MAX_REVISION_ROUNDS
from labwright.stages.stage_runner import StageRunner


async def run_missing_ablations(context: RunContext) -> bool:
    """Carry out the step; return False if the run was asked to stop during it."""
    if context.state.is_task_done(MISSING_ABLATIONS_TASK.task):
        return True
    record_time_limit(context)
    decision_id = decision_number(context.recorder, MISSING_ABLATIONS_TASK)
    client = context.models.make_client(decision_id, 0)
    if context.state.search.missing_ablations is None:
        context.recorder.append(await ask_reviewer(context, client))
    if not await StageRunner(context).run_requested_work(decision_id):
        return False
    requested = context.state.search.missing_ablations
    lost = [one for one in list_accepted(context.state) if not find_item_nodes(context.state, one.ablation.item_text)]
    if requested is not None and lost:  # the others took more than expected
        why = {
            "refused": context.state.limit_reason or explain_no_room(context, 1) or "the others left no time or budget"
        }
        missing = tuple(one.model_copy(update=why) if one in lost else one for one in requested.missing)
        context.recorder.append(requested.model_copy(update={"missing": missing}))
    if list_accepted(context.state):
        await probe_ablations(context, client)
        await score_selected_nodes(context)
    if requested is not None and requested.missing:  # reassess the draft against the current record, then revise it
        drafts = context.state.paper.drafts
        base = next((one for one in drafts if one.anew), None)
        if base is None:
            base = await assess_new_draft(
                context, select_best(drafts).draft, number=max(one.round for one in drafts) + 1
            )
            context.recorder.append(base.model_copy(update={"anew": True, "done": True}))
        await revise(
            context,
            client,
            range(base.round + 1, base.round + 1 + MAX_REVISION_ROUNDS),
            results=describe_results(context.state),
        )
    context.recorder.append(TaskDone(k=decision_id))
    return not context.signals.stop_event.is_set()


def describe_results(state: RunState) -> tuple[str, ...]:
    """Return one line for each requested ablation with its outcome, for the reflector's prompt."""
    lines: list[str] = []
    for result in collect_ablation_results(state):
        if result.by != "reviewer":
            continue
        if result.outcome == "measured" and result.replicates:
            arms = ", ".join(result.arms)
            outcome = f"It was measured, as {arms}: report it by its keys, even if it weakens a claim."
        elif result.outcome == "measured":
            outcome = "It ran, but has no replicates: make no claim about it, and report it as a limitation."
        else:
            how = "run and failed" if result.outcome == "failed" else "not run"
            outcome = f"It was {how} ({result.why}): report it as a limitation."
        lines.append(f"A reviewer requested an ablation. {result.ablation.summary} {outcome}")
    return tuple(lines)


async def ask_reviewer(context: RunContext, client: ModelClient) -> MissingAblationsNamed:
    """Return the ablations that a reviewer of the draft requests, each with the reason against running it, if any."""
    state = context.state
    if state.limit_reason is not None:
        return MissingAblationsNamed(why=f"no reviewer was asked: {state.limit_reason}")
    most = context.paper.missing_ablations
    inputs = await build_review_inputs(context, select_best(state.paper.drafts).draft, most)
    done = [one.ablation for one in inputs.trials if one.outcome == "measured"]

    def find_faults(answer: MissingAblationsAnswer) -> tuple[str, ...]:
        return filter_ablations(answer.ablations, context.plan, limit=most, done=done)[1]

    answer, complaints = await ask_until_sound(
        client, roles.MISSING_ABLATIONS, inputs, find_faults, MAX_ABLATION_PLAN_CALLS
    )
    if answer is None:
        return MissingAblationsNamed(why="; ".join(complaints))
    missing: list[MissingAblation] = []
    for ablation in filter_ablations(answer.ablations, context.plan, limit=most, done=done)[0]:
        accepted = sum(not other.refused for other in missing)
        missing.append(MissingAblation(ablation=ablation, refused=explain_no_room(context, accepted + 1)))
    why = answer.why + (f" Dropped: {'; '.join(complaints)}." if complaints else "")
    return MissingAblationsNamed(missing=tuple(missing), why=why)


async def build_review_inputs(context: RunContext, draft: PaperDraft, most: int) -> MissingAblationsInputs:
    """Return what a reader of a draft needs to ask for at most `most` ablations."""
    best = context.state.nodes[find_winner(context.state) or ""]
    return MissingAblationsInputs(
        **dict(context.build_study_inputs()),
        trials=collect_ablation_results(context.state),
        most=most,
        repository=await show_studied_repository(context),
        draft=expand_macros(draft, context.state),
        method_plan=best.plan,
        method_code=select_code(read_source(context.folder.get_source_path(best.id))),
        node_seconds=context.node_seconds,
    )


def expand_macros(draft: PaperDraft, state: RunState) -> PaperDraft:
    """Return a draft with macros replaced by the values that they print."""
    claims, plan = build_paper_claims(state), state.search.data_plan
    values, setups = format_claims(claims.all_claims, plan), format_setups(state)
    values |= format_decisions(decide_hypotheses(state), plan)
    for one in compute_requested_estimates(state, list_requests(state, draft))[0]:
        values |= one.printed

    def value(use: ResultMacroUse) -> str:
        found = (setups if use.macro == "setup" else values).get(use.key)
        return str(use) if found is None else to_plain_text(found)

    return draft.with_parts({name: fill_macros(text, value) for name, text in draft.parts.items()})


def list_accepted(state: RunState) -> list[MissingAblation]:
    """Return the requested ablations to run."""
    missing = state.search.missing_ablations.missing if state.search.missing_ablations is not None else ()
    return [one for one in missing if not one.refused]


def explain_no_room(context: RunContext, number: int, seeds: int = 0) -> str:
    """Return why `number` ablations with their replicates, and `seeds` further seeds of the reported node, do not fit
    into budget and time; empty if they do."""
    (ablate, replicate), settings = _REQUESTED, context.search
    replicates = len(list_ablation_seeds(context.state.search.current_lock, settings))
    needed = *[ablate, *[replicate] * replicates] * number, *[replicate] * seeds
    lacking = context.budget.find_shortage(*needed) if context.budget is not None else None
    expected, left = estimate_requests(_view_ablations(context), settings, number, seeds), _count_seconds_left(context)
    if lacking is not None or expected <= MAX_REQUESTS_SHARE * left:
        return lacking or ""
    return (
        f"the time limit: {left:.0f} s remain, including the paper, and the experiments are expected to take "
        f"{expected:.0f} s"
    )


def describe_room(context: RunContext) -> str:
    """Say what an arm or a seed is expected to take, and what is left."""
    view, left = _view_ablations(context), _count_seconds_left(context)
    arm, seed = (estimate_requests(view, context.search, *counts) for counts in ((1, 0), (0, 1)))
    return (
        f"An arm with its replicates is expected to take {arm:.0f} s, a further seed {seed:.0f} s; all may take "
        f"{MAX_REQUESTS_SHARE * left:.0f} s, and what exceeds this is refused."
    )


_REQUESTED = tuple(ExpandTree(stage="ablation", kind=kind, seed=0) for kind in ("ablate", "replicate"))


def _view_ablations(context: RunContext) -> StageSnapshot:
    return build_snapshot(context.state, "ablation", settings=context.search)


def _count_seconds_left(context: RunContext) -> float:
    return max(0.0, context.run_seconds - context.state.active_seconds)


# The addendum for reviews of a finished paper.


NO_LOCK_REASON = "the study locked no fresh seeds, so none can be added"
SHARED_SEEDS_REASON = "the further seeds for another request answer it too"
LEFT_OUT_REASON = "the plan of the addendum says nothing about it"


async def run_addendum(context: RunContext) -> bool:
    """Carry out the step; return False if the run was asked to stop during it."""
    task, state = RunTask(task=context.state.paper.format_task("addendum")), context.state
    if state.is_task_done(task.task):
        return True
    record_time_limit(context)
    decision_id = decision_number(context.recorder, task)
    client = context.models.make_client(decision_id, 0)
    if state.paper.requests is None:
        context.recorder.append(await read_reviews(context, client))
    if find_addendum(context.state) is None:
        context.recorder.append(await register_addendum(context, client))
    if not await StageRunner(context).run_requested_work(decision_id):
        return False
    registered = find_addendum(context.state)
    if registered is not None and (registered.accepted or registered.seeds):
        await probe_ablations(context, client)
        await score_selected_nodes(context)
    context.recorder.append(TaskDone(k=decision_id))
    return not context.signals.stop_event.is_set()


# --- what reviewers ask for -------------------------------------------------------------------------------------------


async def read_reviews(context: RunContext, client: ModelClient) -> RequestsRead:
    """Return what the reviews of the current version ask for, each request with a passage that is in its review."""
    draft = context.state.paper.reviewed_draft
    assert draft is not None
    printed = expand_macros(draft, context.state)
    reviews = tuple(
        (context.folder.root / one.stored).read_text(encoding="utf-8") for one in context.state.paper.reviews
    )
    inputs = ReviewerRequestsInputs(title=printed.title, abstract=printed.abstract, reviews=reviews)

    def find_faults(answer: ReviewerRequests) -> Iterator[str]:
        yield from filter(None, (_find_request_fault(one, reviews) for one in answer.requests))

    answer, complaints = await ask_until_sound(
        client, roles.REVIEWER_REQUESTS, inputs, find_faults, MAX_ABLATION_PLAN_CALLS
    )
    found = answer.requests if answer is not None else ()
    kept = (one for one in found if not _find_request_fault(one, reviews))
    return RequestsRead(
        requests=tuple(ReviewerRequest(id=f"R{at}", **dict(one)) for at, one in enumerate(kept, 1)), dropped=complaints
    )


def _find_request_fault(one: FoundRequest, reviews: Sequence[str]) -> str:
    """Return why a request cannot be used; empty if its passage is in its review."""
    if one.review > len(reviews):
        return f"{one.request!r}: there is no review {one.review}, only 1 to {len(reviews)}"
    if not quote_is_in(one.quote, reviews[one.review - 1]):
        return f"{one.request!r}: review {one.review} has no passage {one.quote!r}: copy one word for word"
    return ""


# --- the addendum -----------------------------------------------------------------------------------------------------


async def register_addendum(context: RunContext, client: ModelClient) -> AddendumRegistered:
    """Return what is measured for the requests, and why nothing is measured for the others."""
    state = context.state
    found = state.paper.requests.requests if state.paper.requests is not None else ()
    asked = tuple(one for one in found if one.kind in MEASURABLE_KINDS)
    plan, why = AddendumPlan(measures=()), state.limit_reason or LEFT_OUT_REASON
    if asked and state.limit_reason is None and state.paper.reviewed_draft is not None:
        base = await build_review_inputs(context, state.paper.reviewed_draft, MAX_ADDED_ARMS)
        seeds = len(read_deciding_runs(state)) if state.search.current_lock is not None else 0
        inputs = AddendumInputs(**dict(base), requests=asked, seeds=seeds, room=describe_room(context))
        answer, faults = await ask_until_sound(
            client,
            roles.ADDENDUM,
            inputs,
            lambda plan: _list_plan_faults(context, plan, inputs.trials),
            MAX_ABLATION_PLAN_CALLS,
        )
        plan, why = (answer, why) if answer is not None else (plan, faults[-1])
    return _build_addendum(context, plan, {one.id: why for one in asked})


def _list_plan_faults(context: RunContext, plan: AddendumPlan, trials: Sequence[AblationResult]) -> Iterator[str]:
    """Yield why parts of a plan cannot be used, one line each."""
    others = [one.ablation for one in trials if one.outcome == "measured"]
    for one in plan.measures:
        if one.ablation is not None:
            if fault := find_ablation_fault(one.ablation, context.plan, others):
                yield f"{one.request}: {fault}"
            if not one.estimates:
                yield f"{one.request}: give at least one estimate that reads the arm {one.ablation.name!r}"
            others.append(one.ablation)
        if one.seeds and context.state.search.current_lock is None:
            yield f"{one.request}: {NO_LOCK_REASON}"
    estimates = [each for one in plan.measures for each in _name_estimates(context.state, one)]
    for name, fault in _find_estimate_faults(context, plan, estimates).items():
        yield f"estimate {name!r}: {fault}"


def _find_estimate_faults(
    context: RunContext, plan: AddendumPlan, estimates: Sequence[AddendumEstimate]
) -> dict[str, str]:
    arms = {arm: one.ablation.part for one in collect_ablation_results(context.state) for arm in one.arms}
    arms |= {one.ablation.name: one.ablation.part for one in plan.measures if one.ablation is not None}
    known = {one.name for one in context.plan.arms}
    return find_addendum_faults(estimates, context.plan, {arm: part for arm, part in arms.items() if arm not in known})


def _build_addendum(context: RunContext, plan: AddendumPlan, refused: dict[str, str]) -> AddendumRegistered:
    """Return the usable part of a plan, as far as time and budget have room; `refused` has a reason for each request,
    which is dropped if something is measured for it."""
    state, measures = context.state, [one for one in plan.measures if one.request in refused]
    items = _admit_arms(context, measures)
    arms = {one.ablation.name for one in items if not one.refused}
    first = next((one for one in measures if one.seeds), None)
    seeds, no_seeds, lock = 0, NO_LOCK_REASON, state.search.current_lock
    if first is not None and lock is not None:
        wanted = range(1, min(first.seeds, MAX_ADDED_SEEDS) + 1)
        reasons_by_count = {count: explain_no_room(context, len(arms), count) for count in wanted}
        seeds = max((count for count, why in reasons_by_count.items() if not why), default=0)
        no_seeds = reasons_by_count[1]
    used = [one.seed for one in find_replicates(state, find_winner(state) or "")]
    start = max([*used, *(lock.seeds if lock is not None else ())], default=0) + 1  # no execution of it had these
    measured = [
        one
        for one in measures
        if (seeds and one is first) or (one.ablation.name in arms if one.ablation is not None else bool(one.estimates))
    ]
    reasons = {one.request: one.reason.strip() for one in measures}
    reasons |= {one.request: SHARED_SEEDS_REASON if seeds else no_seeds for one in measures if one.seeds}
    reasons |= {one.request: one.refused for one in items if one.refused}
    estimates = [each for one in measured for each in _name_estimates(state, one)]
    estimates += _list_seed_estimates(state, first.request) if first is not None and seeds else ()
    faults = _find_estimate_faults(context, plan, estimates)
    answered = {one.request for one in measured}
    return AddendumRegistered(
        version=state.paper.version,
        plan=state.search.plan_hash,
        items=tuple(items),
        seeds=tuple(range(start, start + seeds)),
        estimates=tuple(one for one in estimates if one.name not in faults),
        refused={request: reasons.get(request) or why for request, why in refused.items() if request not in answered},
        seen=describe_seen_results(state),
    )


def _admit_arms(context: RunContext, measures: Sequence[PlannedMeasure]) -> list[AddendumItem]:
    """Return the arms of measures, each with the reason if it is refused."""
    others = [one.ablation for one in collect_ablation_results(context.state) if one.outcome == "measured"]
    items: list[AddendumItem] = []
    for one in measures:
        if one.ablation is not None:
            count = sum(not item.refused for item in items)
            why = find_ablation_fault(one.ablation, context.plan, others) or (
                explain_no_room(context, count + 1, 0)
                if count < MAX_ADDED_ARMS
                else f"an addendum has at most {MAX_ADDED_ARMS} arms"
            )
            items.append(
                AddendumItem(request=one.request, ablation=one.ablation, refused=why, experiment=one.experiment)
            )
            others.append(one.ablation)
    return items


def _name_estimates(state: RunState, one: PlannedMeasure) -> Iterator[AddendumEstimate]:
    """Yield the estimates of a request, under names that no other version of the paper has."""
    for each in one.estimates:
        yield _make_estimate(state, one.request, each)


def _make_estimate(
    state: RunState, request: str, one: EstimateRequest, seeds: SeedSet = "registered"
) -> AddendumEstimate:
    name = f"v{state.paper.version}-{request.lower()}-{one.name}"[:40].rstrip("-")
    return AddendumEstimate(**dict(one.model_copy(update={"name": name})), request=request, seeds=seeds)


def _list_seed_estimates(state: RunState, request: str) -> Iterator[AddendumEstimate]:
    """Yield every registered effect on the added seeds alone, and on all seeds."""
    plan = state.search.data_plan
    every = plan.hypotheses if plan is not None else ()
    for at, one in enumerate([one for one in every if one.confirmatory] or every, 1):
        for number, effect in enumerate(one.effects, 1):
            for seeds, words in (("added", "the added seeds alone"), ("all", "all seeds")):
                asked = EstimateRequest(
                    name=f"{seeds}-{at}-{number}",
                    estimand=effect.estimand,
                    metric=effect.metric,
                    purpose=f"{one.name}, on {words}",
                )
                yield _make_estimate(state, request, asked, "added" if seeds == "added" else "all")
