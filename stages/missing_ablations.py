"""Ask a reviewer once which ablations the draft lacks; run, score and report them.

Guarantees: no measured ablation is requested again; each requested ablation runs with replicates, like those of the
last stage, or the record states why not; the sealed test predictions of the new nodes are scored only once, after all
of them ran, and no selection uses them; the draft is revised with the results, whatever they show. After a kill,
only the work in flight is repeated: recorded calls, nodes and test scores are reused, and decisions keep their numbers.

Limits: the reviewer is not blind. It has seen the test results in the draft and may choose its requests accordingly;
the paper discloses this. Figures are not redrawn: only tables, claims and text contain the new results.

Source: AblationBench, section 5 (reviewer-side planner).
"""

from __future__ import annotations

from labwright.models import roles
from labwright.models.client import ModelClient
from labwright.models.roles.study_plan import MissingAblationsAnswer, MissingAblationsInputs
from labwright.record.ablation_results import collect_ablation_results, find_item_nodes
from labwright.record.baseline_check import MissingAblation
from labwright.record.claims.estimates import find_winner
from labwright.record.claims.formatting import format_claims, format_decisions, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import compute_requested_estimates, list_requests
from labwright.record.events.search_events import MissingAblationsNamed, TaskDone
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import ResultMacroUse, fill_macros, to_plain_text
from labwright.record.run_folder import read_source
from labwright.record.schema.decisions import MISSING_ABLATIONS_TASK, ExpandTree, VisibleDecisions
from labwright.record.schema.paper import PaperDraft
from labwright.record.source_tree import select_code
from labwright.search.hours import MAX_REQUESTS_SHARE, estimate_requests
from labwright.search.replication import list_ablation_seeds
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot
from labwright.stages.ablation_plan import filter_ablations
from labwright.stages.evidence.sanity_probes import probe_ablations
from labwright.stages.evidence.scoring import score_selected_nodes
from labwright.stages.paper.paper_context import build_paper_claims
from labwright.stages.paper.reflection import revise
from labwright.stages.paper.typesetting import assess_new_draft, select_best
from labwright.stages.repository.paper_study import show_studied_repository
from labwright.stages.run_context import RunContext, ask_until_sound, decision_number, record_time_limit
from labwright.stages.settings import MAX_ABLATION_PLAN_CALLS, MAX_REVISION_ROUNDS
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

    def read(text: str) -> str:
        return fill_macros(text, value)

    return draft.model_copy(
        update={
            "title": read(draft.title),
            "abstract": read(draft.abstract),
            "sections": tuple(one.model_copy(update={"body": read(one.body)}) for one in draft.sections),
            "captions": {name: read(text) for name, text in draft.captions.items()},
        }
    )


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
    seen = VisibleDecisions(through=context.state.last_decision)
    return build_snapshot(context.state, "ablation", seen, settings=context.search)


def _count_seconds_left(context: RunContext) -> float:
    return max(0.0, context.run_seconds - context.state.active_seconds)
