"""The research stages: search, select the best node, report. Follow-up work of a stage overlaps with the next search.

If the user marks the best node of a finished stage as suspect, the stage selects again before the next decision.
"""

from __future__ import annotations

from functools import partial
from math import isfinite

from labwright.models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from labwright.models.roles.node_assessment import COMPARE, CompareInputs, Preference
from labwright.record.claims.estimates import find_winner
from labwright.record.events.search_events import (
    DecisionMade,
    HoursSetAside,
    NodesCompared,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.retention import delete_unreferenced
from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    LOOK_TASKS,
    CompareNodes,
    ExpandTree,
    SearchAction,
    build_summary_task,
)
from labwright.record.schema.nodes import SEARCH_KINDS, STAGES, Node, StageName
from labwright.record.source_tree import format_diff
from labwright.search.hours import LimitHit, RoomCheck, TimeLimits, check_time, count_affordable_seeds, plan_hours
from labwright.search.policy import FollowUpPolicy, Policy, RequestedWorkPolicy, build_policy
from labwright.search.replication import build_lock, find_unsettled_stage, is_further_seed, list_unread_nodes
from labwright.search.scheduler import ReleaseSlot, Scheduler
from labwright.search.settings import STAGE_TIME_SHARE
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot
from labwright.stages.ablation_plan import plan_ablations
from labwright.stages.data_planning import fit_design
from labwright.stages.evidence.resampling import continue_sampling, take_look
from labwright.stages.nodes.node_runner import expand
from labwright.stages.prompt_inputs import build_decision_view, build_node_brief
from labwright.stages.run_context import RunContext, is_gate_open, record_time_limit, run_once
from labwright.stages.stage_report import build_stage_view, explain_selection, summarise_stage


class NoWorkingNodeError(Exception):
    """Raised when no stage has a working node that is not suspect, so there is nothing to build on."""


def find_trusted_winner(context: RunContext) -> Node:
    """Return the node that the paper reports. Raises `NoWorkingNodeError` if every stage's best node is suspect."""
    best = find_winner(context.state)
    if best is None or context.state.nodes[best].suspect:
        selected = dict.fromkeys(one.best for one in context.state.search.stages.values() if one.best is not None)
        suspect = {name: context.state.nodes[name].suspect for name in selected}
        why = [f"{name}: {'; '.join(reasons)}" for name, reasons in suspect.items() if reasons]
        raise NoWorkingNodeError(
            "no paper: the best node of every stage is suspect, so no claim can be made "
            f"(docs/honesty.md). {' | '.join(why)}"
        )
    return context.state.nodes[best]


class StageRunner:
    """The four stages of one run, driven by one scheduler."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self._scheduler = self._build_scheduler(build_policy(context.search))

    def _build_scheduler(self, policy: Policy) -> Scheduler:
        return Scheduler(
            recorder=self.context.recorder,
            policy=policy,
            perform=self._perform,
            settings=self.context.search,
            run_control=self.context.signals,
            check_room=build_room_check(self.context),
            settle=self._replace_suspect_winners,
        )

    async def run_stage(self, stage: StageName) -> bool:
        """Search a stage and select its best node; return False if asked to stop first.

        The last stage also writes its report; the follow-up work of the other stages was done during later searches.
        """
        context = self.context
        if not await self._pass_lock():  # a kill may have prevented it
            return False
        if not context.state.search.stages[stage].is_settled:
            if stage == "tuning":
                fit_design(context)
            seconds = context.search.find_limits(stage).time_limit or STAGE_TIME_SHARE * context.run_seconds
            end = await self._scheduler.run(stage, TimeLimits(seconds=seconds, run_seconds=context.run_seconds))
            if end is None:
                return False
            self._choose_winner(build_stage_view(context, stage), getattr(end.action, "reason", ""))
            for node in list_unread_nodes(context.state) if context.search.order == "arrival" else ():
                context.signals.kill_node(node.id)
        if not await self._pass_lock():
            return False
        if all(one.best is None for one in context.state.search.stages.values()):
            raise NoWorkingNodeError(_explain_no_winner(context))
        if stage == STAGES[-1]:
            await run_once(
                context, build_summary_task(stage).task, lambda client: summarise_stage(context, client, stage)
            )
        return True

    async def _pass_lock(self) -> bool:
        """Lock what is confirmed, if its time has come, after a person approved it if asked; return False if asked to
        stop first."""
        self._lock_confirmation()
        while self.context.state.open_gate is not None:
            if not await self.context.signals.wait_to_continue():
                return False
            self._lock_confirmation()
        return True

    async def run_requested_work(self, decision_id: int) -> bool:
        """Run what reviewers requested (decision `decision_id`); return False if asked to stop."""
        context = self.context
        record_time_limit(context)
        budget = context.budget
        policy = RequestedWorkPolicy(
            context.search, lambda action: budget is None or budget.find_shortage(action) is None
        )
        late = self._build_scheduler(policy)
        late.visible_through, late.settle = decision_id, lambda: record_time_limit(context)
        late.check_room = Scheduler.check_room  # the policy checks the budget
        return await late.run_until_end("ablation") is not None

    async def run_follow_ups(self, stage: StageName) -> bool:
        """Do the follow-up work of the stages before `stage`, without its search; return False if asked to stop."""
        late = self._build_scheduler(FollowUpPolicy(self.context.search))
        return await late.run_until_end(stage) is not None

    async def close(self) -> None:
        """Cancel running work; a resumed run restarts it. Idempotent."""
        await self._scheduler.close()

    def _choose_winner(self, view: StageSnapshot, ended: str, *why: str) -> None:
        self.context.recorder.append(
            StageWinnerChosen(
                stage=view.stage,
                best=view.best_node.id if view.best_node else None,
                reasons=(*why, *explain_selection(view)),
                ended=ended,
            )
        )

    def _replace_suspect_winners(self) -> None:
        """Make each stage whose best node is now suspect select its next best node."""
        state = self.context.state
        if "lock" in state.gates and state.search.current_lock is None:  # the gate was reached below, and approved
            self._lock_confirmation()
        while (view := find_unsettled_stage(state, self.context.search)) is not None:
            known = state.search.stages[view.stage]
            before = state.nodes[known.best or ""]
            self._choose_winner(
                view,
                known.end_reason or "",
                f"it had selected {before.id}, which is suspect: {'; '.join(before.suspect)}",
            )
            self._lock_confirmation()
        if state.search.hours is None:
            self._record_hours("after the first measured cell")
        if state.search.stage == "ablation" and not (state.limit_reason or "replicate" in state.skipped_kinds):
            continue_sampling(self.context)

    def _lock_confirmation(self) -> None:
        """Lock plan and fresh seeds when the node to confirm is selected, and again if another node is selected;
        continue sampling that had ended if its limit has been raised."""
        context = self.context
        count = partial(count_affordable_seeds, context.state, context.search, context.time)
        event = build_lock(context.state, context.search, count)
        if event is not None and is_gate_open(context, "lock"):
            context.recorder.append(event)
            self._record_hours("at the lock")
        continue_sampling(context)

    def _record_hours(self, when: str) -> None:
        """Record how the run's time is divided, as currently known."""
        context, state = self.context, self.context.state
        view = build_snapshot(state, state.search.stage or STAGES[-1], settings=context.search)
        hours = plan_hours(view, context.search, context.run_seconds)
        if hours is not None and isfinite(hours.total):
            names = HoursSetAside.model_fields.keys() - {"type", "when"}
            divided = {name: getattr(hours, name) for name in names}
            context.recorder.append(HoursSetAside.model_validate({"when": when, **divided}))

    async def _perform(self, decided: DecisionMade, freed: ReleaseSlot) -> None:
        context, action = self.context, decided.action
        if isinstance(action, ExpandTree):
            await expand(context, decided, freed)
            await delete_unreferenced(context.folder, context.recorder)
            return
        if isinstance(action, CompareNodes):
            await compare_nodes(context, decided)
            return
        client = context.models.make_client(decided.k, 0)
        if action == ABLATION_PLAN_TASK:
            await plan_ablations(context, decided, client)
        elif action in LOOK_TASKS:
            await take_look(context, LOOK_TASKS.index(action))
        else:
            stage: StageName = next(name for name in STAGES if build_summary_task(name) == action)
            await summarise_stage(context, client, stage)
        context.recorder.append(TaskDone(k=decided.k))


def build_room_check(context: RunContext) -> RoomCheck:
    """Build the function that checks whether time and budget allow an action and its follow-up work.

    The budget may allow it later, when running work has finished.
    """
    budget = context.budget

    def room(action: SearchAction) -> LimitHit | None:
        record_time_limit(context)
        late = check_time(action, context.state, context.search, context.time)
        if late is not None or action == ABLATION_PLAN_TASK:  # whose cost has its own reservation
            return late
        actions = [action]
        if is_further_seed(action, context.state.search.current_lock, context.search):
            actions *= 1 + sum(
                not one.is_finished for one in context.state.nodes.values()
            )  # these may cost twice as much
        reason = budget.find_shortage(*actions) if budget is not None else None
        if budget is None or reason is None:
            return None
        return LimitHit(reason, may_fit_later=budget.find_shortage(*actions, settled=True) is None)

    return room


async def compare_nodes(context: RunContext, decided: DecisionMade) -> None:
    """Record which node of a comparison is sounder; neither if the model gave no usable answer."""
    action = decided.action
    assert isinstance(action, CompareNodes)
    try:
        answer = await context.models.make_client(decided.k, 0).ask(COMPARE, build_compare_inputs(context, decided))
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        answer = Preference(better="neither", reasons=f"the model gave no usable answer: {error}")
    context.recorder.append(
        NodesCompared(
            k=decided.k,
            a=action.a,
            b=action.b,
            better={"a": action.a, "b": action.b}.get(answer.better),
            reasons=answer.reasons,
        )
    )


def build_compare_inputs(context: RunContext, decided: DecisionMade) -> CompareInputs:
    """Build the inputs of role `compare`: both nodes and the noise that hides their difference."""
    action = decided.action
    assert isinstance(action, CompareNodes)
    view, timed = build_decision_view(context, decided), context.search.order == "arrival"
    a, b = (
        build_node_brief(context.folder, node).model_copy(
            update={"seconds": node.attempts[-1].seconds if timed and node.attempts else None}
        )
        for node in (view.nodes[action.a], view.nodes[action.b])
    )
    return CompareInputs(
        **dict(context.build_study_inputs(decided.k)),
        stage=action.stage,
        a=a,
        b=b,
        difference=format_diff(a.code, b.code, ("A", "B")),
        noise=view.noise,
    )


def _explain_no_winner(context: RunContext) -> str:
    nodes = [node for node in context.state.nodes.values() if node.kind in SEARCH_KINDS]
    marked = [f"{node.id}: {'; '.join(node.suspect)}" for node in nodes if node.status == "good" and node.suspect]
    if marked:
        return f"nothing is left to build on: all working nodes are suspect ({' | '.join(marked)})"
    errors = [node.failure.message.splitlines()[0] for node in nodes if node.failure]
    return (
        f"none of the {len(nodes)} search nodes works (last error: {errors[-1] if errors else 'none'}); "
        "see 'scientist tree RUN', and try another model or a simpler idea"
    )
