"""The search loop: decide, record the decision, start it; writing, running and judging of nodes overlap.

So do the search of a stage and what the stages before it still owe: replicates, their aggregate, a summary.

`arrival` decides as soon as there is room, on all results so far: the fastest. `ticket` makes decision k only when the
results up to k - window are in, and on those alone: one tree for one seed and window, whatever finishes first and
however many workers there are. Both are resumed the same way: decisions that were recorded and not finished are
started again under their number, and nothing is ever picked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from math import ceil
from random import Random

from labwright.record.events.running import Limited
from labwright.record.events.searching import Decided
from labwright.record.fold.state import RunState
from labwright.record.log import Recorder
from labwright.record.nouns.decisions import ABLATION_PLAN, Action, Compare, End, Expand, Extend, Seen, Wait, summary_of
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES, StageName
from labwright.search.limits import Limits, Refusal, Room, expected_seconds, nothing_worked_yet
from labwright.search.policy import Policy
from labwright.search.settings import SearchSettings
from labwright.search.signals import Signals, first
from labwright.search.tree import View, view_of

Freed = Callable[[], None]
"""To be called once, when a node needs no place to run in any more: its code has run."""

Perform = Callable[[Decided, Freed], Awaitable[None]]
"""Does what was decided: makes a node, from its plan to its verdict; compares two; plans ablations; reports on a stage.

Events are the only thing it gives back, and the last of them finishes the decision.
"""


BESIDE = (ABLATION_PLAN, *(summary_of(name) for name in STAGES))
"""Work that the scheduler begins beside nodes and comparisons; all other work is done between stages."""
MOST_AHEAD = 8
"""Nodes written ahead of free places at most, where one takes longer to write than to run: more would be chosen from
too few results."""


class SearchError(Exception):
    """The search cannot go on: the policy waits for results that nobody is working on."""


@dataclass
class Scheduler:
    """Searches one stage after the other. `perform` is handed in: the search knows neither kernels nor models.

    What is under way for an earlier stage when one ends goes on; the last stage ends when all is done.
    """

    recorder: Recorder
    policy: Policy
    perform: Perform
    settings: SearchSettings
    signals: Signals = field(default_factory=Signals)
    stage: StageName = STAGES[0]
    limits: Limits = field(default_factory=Limits)
    room: Room = lambda _: None
    settle: Callable[[], None] = lambda: None
    """Called before each decision: has stages settle again whose best node turned out suspect."""
    earliest: int = 0
    """The decision up to which every result may be used in any order: all were in before the work began."""
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict[int, asyncio.Task[None]])
    _placed: set[int] = field(default_factory=set[int])
    """Decisions whose node still needs a place: being written, waiting for one, or running."""
    _offset: float = 0.0
    """Active seconds of the run when the clock of the signals was at 0; the record knows them up to its last event."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, stage: StageName, limits: Limits | None = None) -> Decided | None:
        """The decision that ended the stage's search; None when it was asked to stop: nothing is under way then."""
        self.limits = limits or Limits()
        end = self.recorder.state.end_of(stage)
        return end or await self.carry_out(stage)  # killed after this decision, nothing is decided twice

    async def carry_out(self, stage: StageName) -> Decided | None:
        """Do what the policy picks in a stage until it ends it; like `run`, also in a stage that has ended before."""
        self.stage, end = stage, None
        self._offset = self.recorder.state.active_seconds - self.signals.clock()
        state = self.recorder.state
        try:
            for k, decided in state.decisions.items():
                if (
                    k not in state.finished
                    and k not in self._tasks
                    and (isinstance(decided.action, Expand | Compare) or decided.action in BESIDE)
                ):
                    self._start(decided)
            end = await self._search()
            if end is None and self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=self.settings.grace)
                self._collect()
            return end
        finally:
            if end is None:
                await self.close()

    async def _search(self) -> Decided | None:
        while await self.signals.going():
            await self._until_room()
            seen = await self._visible()
            if not await self.signals.going():
                break
            self.settle()
            action = self._pick(seen)
            if action is None or (isinstance(action, Wait) and self.settings.order == "arrival"):
                await self._any_result()
                continue
            decided = Decided(k=self._next, action=action, seen=seen)
            self.recorder.append(decided)
            if isinstance(action, End):
                return decided
            if not isinstance(action, Wait | Extend):  # both are done with their decision
                self._start(decided)
        return None

    async def close(self) -> None:
        """Cancel what is under way; a resumed run begins it again. Idempotent."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        self._placed.clear()

    @property
    def _next(self) -> int:
        return self.recorder.state.last_decision + 1

    def _pick(self, seen: Seen) -> Action | None:
        """The policy's action; None where a result must come in before there is room for it.

        What a limit or the budget refuses makes that an event, and the policy is asked again.
        """
        action, view = self._picked(seen)
        while (refused := self._refused(action, view)) is not None:
            if refused.later and self._tasks:
                return None
            if refused.later and view.searching:  # `ticket`: the result is there, and may not be seen yet
                return Wait()
            owed = isinstance(action, Expand) and action.kind not in SEARCH_KINDS
            without = (action.kind,) if isinstance(action, Expand) and owed else ()
            self.recorder.append(Limited(reason=refused.reason, stage=refused.stage, without=without))
            action, view = self._picked(seen)
        if isinstance(action, Wait) and not self._tasks and not view.busy:
            raise SearchError(f"stage {self.stage!r}: the policy waits, and nothing is in flight")
        return action

    def _refused(self, action: Action, view: View) -> Refusal | None:
        if not isinstance(action, Expand | Compare):
            return None
        if isinstance(action, Expand) and action.kind in SEARCH_KINDS | {"trial"} and action.kind != "tune":
            reason = self.limits.refuse(action, view, self.recorder.state, now=self._offset + self.signals.clock())
            if reason is not None:
                return Refusal(reason, stage=self.stage, later=nothing_worked_yet(view))
        return self.room(action)

    def _picked(self, seen: Seen) -> tuple[Action, View]:
        state = self.recorder.state
        view = view_of(state, self.stage, seen, settings=self.settings)
        return self.policy.pick(view, Random(f"{state.seed_of(self._next)}/{self._next}")), view

    async def _visible(self) -> Seen:
        """The results that the next decision may use; in `ticket` order, waits for them."""
        if self.settings.order == "ticket":
            through = max(self.earliest, self._next - self.settings.effective_window)
            while not self.signals.stop.is_set() and (late := [k for k in self._tasks if k <= through]):
                await self._any_result(late)
            return Seen(through=through)
        return all_results(self.recorder.state)

    def _start(self, decided: Decided) -> None:
        def freed() -> None:
            self._placed.discard(decided.k)
            self._woken.set()

        if isinstance(decided.action, Expand):
            self._placed.add(decided.k)
        self._tasks[decided.k] = asyncio.ensure_future(self.perform(decided, freed))

    async def _until_room(self) -> None:
        """Wait until a node may be begun: all places taken and some nodes ahead of them is enough.

        Nodes that are plotted, reviewed or judged hold nobody up.
        """
        while not self.signals.stop.is_set() and len(self._placed) >= self.settings.num_workers + ahead(
            self.recorder.state, self.stage, self._placed, self.settings
        ):
            self._woken.clear()
            await first(*self._tasks.values(), self._woken.wait(), self.signals.stop.wait())
            self._collect()

    async def _any_result(self, among: Iterable[int] | None = None) -> None:
        """Wait for one task (of those named) or a request to stop; a task's exception is raised here."""
        await first(*[self._tasks[k] for k in (self._tasks if among is None else among)], self.signals.stop.wait())
        self._collect()

    def _collect(self) -> None:
        for k in [k for k, task in self._tasks.items() if task.done()]:
            self._placed.discard(k)
            self._tasks.pop(k).result()


def all_results(state: RunState) -> Seen:
    """Every decision that is finished."""
    through = 0
    while through + 1 in state.finished:
        through += 1
    return Seen(through=through, also=tuple(sorted(k for k in state.finished if k > through)))


def ahead(state: RunState, stage: StageName, placed: Iterable[int], settings: SearchSettings) -> int:
    """How many nodes are made ahead of free places: so many that code is written as fast as it is run.

    `placed` are the decisions whose node still needs a place.
    """
    if not settings.lookahead:
        return 0
    writing = state.seconds_a_program
    view = view_of(state, stage, Seen(through=state.last_decision), settings=settings)
    actions = [action for k in placed if isinstance(action := state.decisions[k].action, Expand)]
    running = sum(expected_seconds(action, view) for action in actions) / max(1, len(actions))
    wanted = ceil(settings.num_workers * writing / running) if running > 0 else MOST_AHEAD
    return max(settings.lookahead, min(wanted, MOST_AHEAD))
