"""The search loop: decide, record the decision, start it. Writing, running and judging of nodes overlap.

The search of a stage also overlaps the follow-up work of earlier stages: replicates, their aggregate, a summary.

`arrival` decides as soon as there is room, from all results so far; it is fastest. `ticket` makes decision k only when
the results up to k - window are available, and uses only those. One seed and window therefore give one tree,
independent of timing and number of workers. Both resume in the same way: decisions that were recorded but not finished
are restarted under their number, and no decision is made twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random
from typing import Any

from labwright.record.event_log import Recorder
from labwright.record.events.run_events import LimitReached
from labwright.record.events.search_events import DecisionMade
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    LOOK_TASKS,
    CompareNodes,
    EndStage,
    ExpandTree,
    SearchAction,
    VisibleDecisions,
    WaitForResult,
    WidenDimension,
    build_summary_task,
)
from labwright.record.schema.nodes import SEARCH_KINDS, STAGES, StageName
from labwright.search.hours import LimitHit, RoomCheck, TimeLimits, estimate_seconds
from labwright.search.policy import Policy
from labwright.search.replication import is_further_seed
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot

# User requests that affect work in progress: stop, pause, resume, and kill a node. Pausing affects only new work:
# decisions and steps outside the search. Work in progress continues.


class NodeKilled(Exception):
    """Raised when the user ended a node, after its work was cancelled."""


@dataclass
class RunControl:
    """The user's requests, which may be set at any time: `stop_event` ends the search early, `pause` delays new
    work until `resume`.
    """

    stop_event: asyncio.Event = field(default_factory=asyncio.Event)
    go_event: asyncio.Event = field(default_factory=asyncio.Event)
    _paused_seconds: float = 0.0
    _paused_since: float = 0.0
    _tasks_by_node: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    _killed_nodes: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.go_event.set()

    def pause(self) -> None:
        """Delay new work. Idempotent."""
        if self.go_event.is_set():
            self._paused_since = _read_loop_time()
            self.go_event.clear()

    def resume(self) -> None:
        """Allow new work again. Idempotent."""
        if not self.go_event.is_set():
            self._paused_seconds += _read_loop_time() - self._paused_since
            self.go_event.set()

    @property
    def is_paused(self) -> bool:
        """Whether new work is delayed."""
        return not self.go_event.is_set()

    def read_clock(self) -> float:
        """Return monotonic seconds that do not advance while paused."""
        return (_read_loop_time() if self.go_event.is_set() else self._paused_since) - self._paused_seconds

    async def wait_to_continue(self) -> bool:
        """Wait while paused; return whether to start new work."""
        while not self.stop_event.is_set() and not self.go_event.is_set():
            await wait_first(self.go_event.wait(), self.stop_event.wait())
        return not self.stop_event.is_set()

    def kill_node(self, node: str) -> None:
        """End the work in progress on a node; no effect if there is none."""
        if node in self._tasks_by_node and self._tasks_by_node[node].cancel():
            self._killed_nodes.add(node)

    async def run_unless_killed(self, node: str, work: Coroutine[Any, Any, None]) -> None:
        """Do the work on a node. Raises `NodeKilled` if the user ended it, after all of it was cancelled."""
        task = self._tasks_by_node[node] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            del self._tasks_by_node[node]
        if node in self._killed_nodes:
            self._killed_nodes.remove(node)
            raise NodeKilled(node)
        task.result()


async def wait_first(*awaitables: Awaitable[object]) -> None:
    """Wait until one is done. Afterwards coroutines are cancelled, and tasks are left running."""
    futures = [asyncio.ensure_future(one) for one in awaitables]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, one in zip(futures, awaitables, strict=True):
            if future is not one:
                future.cancel()


def _read_loop_time() -> float:
    return asyncio.get_running_loop().time()


ReleaseSlot = Callable[[], None]
"""Call once when a node no longer needs a slot because its code has run."""

PerformDecision = Callable[[DecisionMade, ReleaseSlot], Awaitable[None]]
"""Carries out a decision: makes a node, from its plan to its verdict; compares two nodes; plans ablations; or reports
on a stage.

It returns only events; the last one finishes the decision.
"""


OVERLAPPING_TASKS = (ABLATION_PLAN_TASK, *(build_summary_task(name) for name in STAGES), *LOOK_TASKS)
"""Tasks that the scheduler starts in parallel with nodes and comparisons; other tasks run between stages."""
MAX_LOOKAHEAD = 8
"""Maximum number of nodes written in advance, if writing takes longer than running: further nodes would be chosen from
too few results."""


class SearchError(Exception):
    """The search cannot continue: the policy waits for results, but no work is in progress."""


@dataclass
class Scheduler:
    """Searches one stage after another. `perform` is injected, so the search does not depend on kernels or models.

    Work in progress for an earlier stage continues after its end; the last stage ends when all work is done.
    """

    recorder: Recorder
    policy: Policy
    perform: PerformDecision
    settings: SearchSettings
    run_control: RunControl = field(default_factory=RunControl)
    stage: StageName = STAGES[0]
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    check_room: RoomCheck = lambda _: None
    settle: Callable[[], None] = lambda: None
    """Called before each decision: lets stages settle again whose best node became suspect."""
    visible_through: int = 0
    """The decision up to which every result may be used in any order, since all were available at the start."""
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict[int, asyncio.Task[None]])
    _holding_slot: set[int] = field(default_factory=set[int])
    """Decisions whose node still needs a slot: its code is being written, waits for a slot, or runs."""
    _offset: float = 0.0
    """Active seconds of the run when the run control's clock was at 0; the record has them up to its last event."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, stage: StageName, limits: TimeLimits | None = None) -> DecisionMade | None:
        """Return the decision that ended the stage's search; None if a stop was requested, after all work has ended."""
        self.time_limits = limits or TimeLimits()
        end = self.recorder.state.find_stage_end(stage)
        # a kill after this decision does not lead to a second one
        return end or await self.run_until_end(stage)

    async def run_until_end(self, stage: StageName) -> DecisionMade | None:
        """Do what the policy picks until it ends the stage; like `run`, but allowed even in a stage that has already
        ended.
        """
        self.stage, end = stage, None
        self._offset = self.recorder.state.active_seconds - self.run_control.read_clock()
        state = self.recorder.state
        try:
            for k, decided in state.decisions.items():
                overlaps = isinstance(decided.action, ExpandTree | CompareNodes) or decided.action in OVERLAPPING_TASKS
                if overlaps and k not in state.finished_decisions and k not in self._tasks:
                    self._start(decided)
            end = await self._search()
            if end is None and self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=self.settings.grace)
                self._collect_finished()
            return end
        finally:
            if end is None:
                await self.close()

    async def _search(self) -> DecisionMade | None:
        while await self.run_control.wait_to_continue():
            await self._wait_for_room()
            seen = await self._wait_for_visible()
            if not await self.run_control.wait_to_continue():
                break
            self.settle()
            if self.run_control.is_paused:  # what settled has to be approved first
                continue
            action = self._pick(seen)
            if action is None or (isinstance(action, WaitForResult) and self.settings.order == "arrival"):
                await self._wait_for_result()
                continue
            decided = DecisionMade(k=self._next_decision_id, action=action, seen=seen)
            self.recorder.append(decided)
            if isinstance(action, EndStage):
                return decided
            if not isinstance(action, WaitForResult | WidenDimension):  # both are finished with their decision
                self._start(decided)
        return None

    async def close(self) -> None:
        """Cancel work in progress; a resumed run starts it again. Idempotent."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        self._holding_slot.clear()

    @property
    def _next_decision_id(self) -> int:
        return self.recorder.state.last_decision + 1

    def _pick(self, seen: VisibleDecisions) -> SearchAction | None:
        """Return the policy's action; None if a result must arrive before there is room for it.

        If a limit or the budget refuses an action, this is recorded as an event, and the policy is asked again.
        """
        action, view = self._pick_with_view(seen)
        while (refused := self._find_refusal(action, view)) is not None:
            if isinstance(action, ExpandTree) and len(action.trials) > len({one.arm for one in action.trials}) == 1:
                action = action.model_copy(update={"trials": action.trials[:-1]})  # as many settings as fit
                continue
            if refused.may_fit_later and self._tasks:
                return None
            if refused.may_fit_later and view.unfinished_search_nodes:  # `ticket`: a result exists but is not visible
                return WaitForResult()
            without = (action.kind,) if isinstance(action, ExpandTree) and action.kind not in SEARCH_KINDS else ()
            self.recorder.append(LimitReached(reason=refused.reason, stage=refused.stage, skipped_kinds=without))
            action, view = self._pick_with_view(seen)
        if isinstance(action, WaitForResult) and not self._tasks and not view.has_pending_results:
            raise SearchError(f"stage {self.stage!r}: the policy waits, but nothing is in progress")
        return action

    def _find_refusal(self, action: SearchAction, view: StageSnapshot) -> LimitHit | None:
        if not isinstance(action, ExpandTree | CompareNodes) and action != ABLATION_PLAN_TASK:
            return None
        if is_further_seed(action, view.lock, self.settings):  # a limit ends these seeds alone
            late = self._find_stage_limit(action, view) if self.settings.ablation.time_limit is not None else None
            hit = late or self.check_room(action)
            return replace(hit, reason=f"no further seeds: {hit.reason}", stage=self.stage) if hit is not None else None
        if isinstance(action, ExpandTree) and action.kind in SEARCH_KINDS - {"tune"} | {"trial"}:
            return self._find_stage_limit(action, view) or self.check_room(action)
        return self.check_room(action)

    def _find_stage_limit(self, action: SearchAction, view: StageSnapshot) -> LimitHit | None:
        """Return why the time limit of the stage refuses a node, or None."""
        assert isinstance(action, ExpandTree)
        now = self._offset + self.run_control.read_clock()
        return self.time_limits.find_refusal(action, view, self.recorder.state, now=now)

    def _pick_with_view(self, seen: VisibleDecisions) -> tuple[SearchAction, StageSnapshot]:
        state, k = self.recorder.state, self._next_decision_id
        view = build_snapshot(state, self.stage, seen, settings=self.settings)
        return self.policy.pick(view, Random(f"{state.compute_seed(k)}/{k}")), view

    async def _wait_for_visible(self) -> VisibleDecisions:
        """Return the results that the next decision may use; in `ticket` order, wait for them."""
        if self.settings.order == "ticket":
            through = max(self.visible_through, self._next_decision_id - self.settings.effective_window)
            while not self.run_control.stop_event.is_set() and (late := [k for k in self._tasks if k <= through]):
                await self._wait_for_result(late)
            return VisibleDecisions(through=through)
        return list_all_results(self.recorder.state)

    def _start(self, decided: DecisionMade) -> None:
        def freed() -> None:
            self._holding_slot.discard(decided.k)
            self._woken.set()

        if isinstance(decided.action, ExpandTree):
            self._holding_slot.add(decided.k)
        self._tasks[decided.k] = asyncio.ensure_future(self.perform(decided, freed))

    async def _wait_for_room(self) -> None:
        """Wait until a node may be started, i.e. a slot is free or more nodes should be written in advance.

        Nodes that are being plotted, reviewed or judged do not count.
        """

        def has_room() -> bool:
            ahead = lookahead_count(self.recorder.state, self.stage, self._holding_slot, self.settings)
            return len(self._holding_slot) < self.settings.num_workers + ahead

        while not self.run_control.stop_event.is_set() and not has_room():
            self._woken.clear()
            await wait_first(*self._tasks.values(), self._woken.wait(), self.run_control.stop_event.wait())
            self._collect_finished()

    async def _wait_for_result(self, among: Iterable[int] | None = None) -> None:
        """Wait for one of the given tasks or for a request to stop; a task's exception is raised here."""
        await wait_first(
            *[self._tasks[k] for k in (self._tasks if among is None else among)], self.run_control.stop_event.wait()
        )
        self._collect_finished()

    def _collect_finished(self) -> None:
        for k in [k for k, task in self._tasks.items() if task.done()]:
            self._holding_slot.discard(k)
            self._tasks.pop(k).result()


def list_all_results(state: RunState) -> VisibleDecisions:
    """Return every finished decision."""
    through = 0
    while through + 1 in state.finished_decisions:
        through += 1
    return VisibleDecisions(through=through, also=tuple(sorted(k for k in state.finished_decisions if k > through)))


def lookahead_count(state: RunState, stage: StageName, placed: Iterable[int], settings: SearchSettings) -> int:
    """Return how many nodes are written in advance of free slots, so that code is written as fast as it runs.

    `placed` are the decisions whose nodes still need a slot.
    """
    if not settings.lookahead:
        return 0
    writing = state.calls.mean_writing_seconds
    view = build_snapshot(state, stage, settings=settings)
    actions = [action for k in placed if isinstance(action := state.decisions[k].action, ExpandTree)]
    running = sum(estimate_seconds(action, view) for action in actions) / max(1, len(actions))
    wanted = ceil(settings.num_workers * writing / running) if running > 0 else MAX_LOOKAHEAD
    return max(settings.lookahead, min(wanted, MAX_LOOKAHEAD))
