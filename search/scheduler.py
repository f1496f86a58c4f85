"""The search loop: decide, record the decision, start it; writing, running and judging of nodes overlap.

`arrival` decides as soon as there is room, on all results so far: the fastest. `ticket` makes decision k only when the
results up to k - window are in, and on those alone: one tree for one seed and window, whatever finishes first and
however many workers there are. Both are resumed the same way: decisions that were recorded and not finished are
started again under their number, and nothing is ever picked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from record.events import Decided
from record.log import Recorder
from record.nouns import End, Expand, Seen, StageName, Wait
from search.policy import Policy
from search.settings import SearchSettings
from search.tree import view_of

Freed = Callable[[], None]
"""To be called once, when a node needs no place to run in any more: its code has run."""

ExpandNode = Callable[[Decided, Freed], Awaitable[None]]
"""Makes the node of a decision, from its plan to its verdict; events are the only thing it gives back."""


class SearchError(Exception):
    """The search cannot go on: the policy waits for results that nobody is working on."""


@dataclass
class Signals:
    """Requests to the loop, settable at any time: `stop` ends it early, clearing `go` pauses it."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.go.set()


@dataclass
class Scheduler:
    """Searches one stage. `expand` is handed in: the search knows neither kernels nor models."""

    recorder: Recorder
    policy: Policy
    expand: ExpandNode
    settings: SearchSettings
    stage: StageName
    signals: Signals = field(default_factory=Signals)
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict[int, asyncio.Task[None]])
    _placed: set[int] = field(default_factory=set[int])
    """Decisions whose node still needs a place: being written, waiting for one, or running."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> End | None:
        """The action that ended the stage's search; None when it was asked to stop. Everything started is finished."""
        if (decided := self._ended()) is not None:  # killed between this decision and what follows from it
            return decided
        try:
            self._restart_unfinished()
            while await self._allowed():
                await self._until_room()
                seen = await self._visible()
                if not await self._allowed():
                    break
                action = self._pick(seen)
                if isinstance(action, Wait) and self.settings.order == "arrival":
                    await self._any_result()
                    continue
                decided = Decided(k=self._next, action=action, seen=seen)
                self.recorder.append(decided)
                if isinstance(action, Expand):
                    self._start(decided)
                elif isinstance(action, End):
                    await self._drain(None)
                    return action
            await self._drain(self.settings.grace)
            return None
        finally:
            await self._cancel()

    # --- deciding ---------------------------------------------------------------------------------------------------

    @property
    def _stopped(self) -> bool:
        return self.signals.stop.is_set()

    async def _allowed(self) -> bool:
        """Whether to go on; waits while paused."""
        while not self._stopped and not self.signals.go.is_set():
            await _first(self.signals.go.wait(), self.signals.stop.wait())
        return not self._stopped

    @property
    def _next(self) -> int:
        return self.recorder.state.last_decision + 1

    def _pick(self, seen: Seen) -> Expand | Wait | End:
        state = self.recorder.state
        assert state.started is not None
        view = view_of(state, self.stage, seen, by_cost=self.settings.order == "arrival")
        action = self.policy.pick(view, Random(f"{state.started.seed}/{self._next}"))
        assert isinstance(action, Expand | Wait | End)
        if isinstance(action, Wait) and not self._tasks and not view.in_flight:
            raise SearchError(f"stage {self.stage!r}: the policy waits, and nothing is in flight")
        return action

    async def _visible(self) -> Seen:
        """The results that the next decision may use; in `ticket` order, waits for them."""
        if self.settings.order == "ticket":
            through = max(0, self._next - self.settings.effective_window)
            while not self._stopped and (late := self._unfinished(through)):
                await self._any_result(late)
            return Seen(through=through)
        finished = self.recorder.state.finished
        through = 0
        while through + 1 in finished:
            through += 1
        return Seen(through=through, also=tuple(sorted(k for k in finished if k > through)))

    def _unfinished(self, through: int) -> list[int]:
        return [k for k in self._tasks if k <= through]

    # --- doing ------------------------------------------------------------------------------------------------------

    def _ended(self) -> End | None:
        """The recorded decision that this stage is over, if there is one: nothing is decided twice."""
        actions = (decided.action for decided in self.recorder.state.decisions.values())
        return next((one for one in actions if isinstance(one, End) and one.stage == self.stage), None)

    def _restart_unfinished(self) -> None:
        state = self.recorder.state
        for k, decided in state.decisions.items():
            action = decided.action
            if k not in state.finished and isinstance(action, Expand) and action.stage == self.stage:
                self._start(decided)

    def _start(self, decided: Decided) -> None:
        def freed() -> None:
            self._placed.discard(decided.k)
            self._woken.set()

        self._placed.add(decided.k)
        self._tasks[decided.k] = asyncio.ensure_future(self.expand(decided, freed))

    async def _until_room(self) -> None:
        """Wait until a node may be begun: all places taken and `lookahead` nodes ahead of them is enough.

        Nodes that are plotted, reviewed or judged hold nobody up.
        """
        while not self._stopped and len(self._placed) >= self.settings.num_workers + self.settings.lookahead:
            self._woken.clear()
            await _first(*self._tasks.values(), self._woken.wait(), self.signals.stop.wait())
            self._collect()

    async def _any_result(self, among: Iterable[int] | None = None) -> None:
        """Wait for one task (of those named) or a request to stop; a task's exception is raised here."""
        tasks = [self._tasks[k] for k in (self._tasks if among is None else among)]
        await _first(*tasks, self.signals.stop.wait())
        self._collect()

    def _collect(self) -> None:
        for k in [k for k, task in self._tasks.items() if task.done()]:
            self._placed.discard(k)
            self._tasks.pop(k).result()

    async def _drain(self, limit: float | None) -> None:
        """Wait until all that runs is finished, or for so many seconds; the rest is cancelled by `run`."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=limit)
            self._collect()

    async def _cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        self._placed.clear()


async def _first(*awaitables: Awaitable[object]) -> None:
    """Wait until one is done. Coroutines given are cancelled afterwards, tasks are left alone."""
    futures = [asyncio.ensure_future(one) for one in awaitables]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, one in zip(futures, awaitables, strict=True):
            if future is not one:
                future.cancel()
