"""The stages of research: search, settle on a best node, report. What a stage still owes overlaps the next search.

Where a person marks the best of a settled stage as suspect, the stage settles again before the next decision.
"""

from __future__ import annotations

from labwright.models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from labwright.models.roles.assessing import COMPARE, CompareInputs, Preference
from labwright.record.claims.means import winner
from labwright.record.events.searching import Compared, Decided, Settled, WorkDone
from labwright.record.keeping import collect
from labwright.record.nouns.decisions import ABLATION_PLAN, Action, Compare, Expand, summary_of
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES, Node, StageName
from labwright.record.source import difference
from labwright.search.limits import Limits, Refusal, Room, too_late
from labwright.search.policy import MissingAblations, Owed, policy_of
from labwright.search.replication import lock_of, unsettled
from labwright.search.scheduler import Freed, Scheduler
from labwright.search.settings import STAGE_SHARE
from labwright.search.tree import View
from labwright.stages.bench import Bench, do_work, note_time
from labwright.stages.briefs import node_brief, seen_by
from labwright.stages.nodes.node import expand
from labwright.stages.planned_ablations import plan_ablations
from labwright.stages.report import reasons_for, summarise, whole_stage


class NothingWorkedError(Exception):
    """No stage has a node that works and is not suspect: there is nothing to build on."""


def trusted_winner(bench: Bench) -> Node:
    """The node that the paper reports. Raises `NothingWorkedError` where every stage's best is suspect."""
    best = winner(bench.state)
    if best is None or bench.state.nodes[best].suspect:
        found = dict.fromkeys(one.best for one in bench.state.stages.values() if one.best is not None)
        why = [
            f"{name}: {'; '.join(bench.state.nodes[name].suspect)}" for name in found if bench.state.nodes[name].suspect
        ]
        raise NothingWorkedError(
            "no paper: the best node of every stage is suspect, so there is nothing to claim "
            f"(docs/honesty.md). {' | '.join(why)}"
        )
    return bench.state.nodes[best]


class Research:
    """The four stages of one run, over one scheduler."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._scheduler = Scheduler(
            recorder=bench.recorder,
            policy=policy_of(bench.search),
            perform=self._perform,
            settings=bench.search,
            signals=bench.signals,
            room=room_of(bench),
            settle=self._settle_again,
        )

    async def stage(self, stage: StageName) -> bool:
        """Search a stage and settle on its best node; False when the run was asked to stop before.

        The last stage also reports: what the others owe was done beside the searches.
        """
        bench = self.bench
        self._lock()  # a kill may have come between
        if not bench.state.stages[stage].settled:
            end = await self._scheduler.run(stage, limits_of(bench, stage))
            if end is None:
                return False
            self._settle(whole_stage(bench, stage), getattr(end.action, "reason", ""))
        self._lock()
        if all(one.best is None for one in bench.state.stages.values()):
            raise NothingWorkedError(_nothing_worked(bench))
        if stage == STAGES[-1]:
            await do_work(bench, summary_of(stage).task, lambda client: summarise(bench, client, stage))
        return True

    async def missing(self, k: int) -> bool:
        """Carry out what a reviewer of the draft asks for, begun as decision k; False when the run was asked to stop.

        The budget refuses what does not fit, which does not make the run a partial one.
        """
        bench = self.bench
        note_time(bench)
        budget = bench.budget
        policy = MissingAblations(bench.search, lambda action: budget is None or budget.lacking(action) is None)
        late = Scheduler(
            recorder=bench.recorder,
            policy=policy,
            perform=self._perform,
            settings=bench.search,
            signals=bench.signals,
            earliest=k,
            settle=lambda: note_time(bench),
        )
        return await late.carry_out("ablation") is not None

    async def owed(self, stage: StageName) -> bool:
        """Do what the stages before `stage` owe, without its search; False when the run was asked to stop."""
        bench = self.bench
        late = Scheduler(
            recorder=bench.recorder,
            policy=Owed(bench.search),
            perform=self._perform,
            settings=bench.search,
            signals=bench.signals,
            room=room_of(bench),
            settle=self._settle_again,
        )
        return await late.carry_out(stage) is not None

    async def close(self) -> None:
        """Cancel what is under way; a resumed run begins it again. Idempotent."""
        await self._scheduler.close()

    def _settle(self, view: View, ended: str, *why: str) -> None:
        self.bench.recorder.append(
            Settled(
                stage=view.stage,
                best=view.best.id if view.best else None,
                reasons=(*why, *reasons_for(view)),
                ended=ended,
            )
        )

    def _settle_again(self) -> None:
        """Have each stage whose best node is suspect by now settle on its next best one."""
        state = self.bench.state
        while (view := unsettled(state, self.bench.search)) is not None:
            known = state.stages[view.stage]
            before = state.nodes[known.best or ""]
            self._settle(
                view, known.ended or "", f"it had settled on {before.id}, which is suspect: {'; '.join(before.suspect)}"
            )
            self._lock()

    def _lock(self) -> None:
        """Lock what is confirmed, once the agenda has settled; again where it settled on another node since."""
        if (event := lock_of(self.bench.state, self.bench.search, left=self.bench.seconds_left())) is not None:
            self.bench.recorder.append(event)

    async def _perform(self, decided: Decided, freed: Freed) -> None:
        bench, action = self.bench, decided.action
        if isinstance(action, Expand):
            await expand(bench, decided, freed)
            await collect(bench.folder, bench.recorder)
            return
        if isinstance(action, Compare):
            await compare(bench, decided)
            return
        client = bench.models.at(decided.k, 0)
        if action == ABLATION_PLAN:
            await plan_ablations(bench, decided, client)
        else:
            stage: StageName = next(name for name in STAGES if summary_of(name) == action)
            await summarise(bench, client, stage)
        bench.recorder.append(WorkDone(k=decided.k))


def room_of(bench: Bench) -> Room:
    """Whether there is time for an action and all that it owes, and room in the budget: now or, of the budget, once
    what is under way has settled."""
    budget = bench.budget

    def room(action: Action) -> Refusal | None:
        note_time(bench)
        late = too_late(action, bench.state, bench.search, left=bench.seconds_left())
        if late is not None:
            return Refusal(f"the time limit of {bench.run_seconds:g} s: {late}")
        reason = budget.lacking(action) if budget is not None else None
        if budget is None or reason is None:
            return None
        return Refusal(reason, later=budget.lacking(action, settled=True) is None)

    return room


def limits_of(bench: Bench, stage: StageName) -> Limits:
    """The hard limits of a stage."""
    own = bench.search.limits(stage).time_limit
    return Limits(seconds=own or STAGE_SHARE * bench.run_seconds, run_seconds=bench.run_seconds)


async def compare(bench: Bench, decided: Decided) -> None:
    """Record which node of a comparison is the sounder one; neither, where the model gave no usable answer."""
    action = decided.action
    assert isinstance(action, Compare)
    try:
        answer = await bench.models.at(decided.k, 0).ask(COMPARE, compare_inputs(bench, decided))
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        answer = Preference(better="neither", reasons=f"the model gave no usable answer: {error}")
    bench.recorder.append(
        Compared(
            k=decided.k,
            a=action.a,
            b=action.b,
            better={"a": action.a, "b": action.b}.get(answer.better),
            reasons=answer.reasons,
        )
    )


def compare_inputs(bench: Bench, decided: Decided) -> CompareInputs:
    """What role `compare` gets: both nodes as the decision may see them, and the noise that hides their difference."""
    action = decided.action
    assert isinstance(action, Compare)
    view, timed = seen_by(bench, decided), bench.search.order == "arrival"
    a, b = (
        node_brief(bench.folder, node).model_copy(
            update={"seconds": node.attempts[-1].seconds if timed and node.attempts else None}
        )
        for node in (view.nodes[action.a], view.nodes[action.b])
    )
    return CompareInputs(
        idea=bench.idea,
        data_plan=bench.plan,
        facts=bench.facts,
        stage=action.stage,
        a=a,
        b=b,
        difference=difference(a.code, b.code, ("A", "B")),
        noise=view.noise,
    )


def _nothing_worked(bench: Bench) -> str:
    nodes = [node for node in bench.state.nodes.values() if node.kind in SEARCH_KINDS]
    marked = [f"{node.id}: {'; '.join(node.suspect)}" for node in nodes if node.status == "good" and node.suspect]
    if marked:
        return f"nothing is left to build on, since all that works is suspect ({' | '.join(marked)})"
    errors = [node.failure.message.splitlines()[0] for node in nodes if node.failure]
    return (
        f"none of the {len(nodes)} nodes of the search works (last error: {errors[-1] if errors else 'none'}); "
        "see 'scientist tree', and try another model or a simpler idea"
    )
