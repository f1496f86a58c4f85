"""A person steers at any moment, and no command gets a run stuck: the real stages over a scripted world."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labwright.models.client import Models
from labwright.models.roles.assessing import StageReport
from labwright.models.scripted import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record import control
from labwright.record.ablation import Ablation
from labwright.record.claims.means import winner
from labwright.record.events.running import Commanded, Resumed
from labwright.record.events.searching import AblationsPlanned, Decided, Judged
from labwright.record.fold.state import MARKED
from labwright.record.folder import RunFolder
from labwright.record.log import MemoryLog
from labwright.record.nouns.decisions import ABLATION_PLAN, Expand
from labwright.record.nouns.nodes import STAGES, Failure, node_id
from labwright.sandbox.job import Outcome
from labwright.sandbox.scripted import ScriptedExecutor
from labwright.search.scheduler import Freed
from labwright.search.settings import SearchSettings
from labwright.search.signals import NodeKilled, Signals
from labwright.stages.bench import Bench
from labwright.stages.settings import PaperSettings
from labwright.stages.stage import NothingWorkedError, Research
from tests.search import virtual_time
from tests.search.worlds import World, new_log
from tests.search.worlds import settings as small

PLANNED = tuple(
    Ablation(name=f"no-{part}", part=part, action="remove", metrics=("log_loss",), why="w")
    for part in ("warmup", "decay")
)
LONGER = 400.0
"""Virtual seconds after which every search here is over."""


class Scripted(Research):
    """The stages, with nodes out of a scripted world."""

    def __init__(self, bench: Bench, world: World) -> None:
        super().__init__(bench)
        self._world = world

    async def _perform(self, decided: Decided, freed: Freed) -> None:
        if not isinstance(decided.action, Expand):
            await asyncio.sleep(1.0)
            if decided.action == ABLATION_PLAN and self.bench.state.planned is None:
                self.bench.recorder.append(AblationsPlanned(ablations=PLANNED))
            await super()._perform(decided, freed)
            return
        node, state = node_id(decided.k), self.bench.state
        try:
            if node in state.killed:
                raise NodeKilled(node)
            await self.bench.signals.unless_killed(node, self._world.perform(decided, freed))
        except NodeKilled:
            self.bench.recorder.append(
                Judged(node=node, status="cancelled", failure=Failure(kind="killed", message="a person ended it"))
            )


@dataclass
class Run:
    """One run, worked on by one process after the other."""

    folder: Path
    given: SearchSettings
    log: MemoryLog
    signals: Signals

    def bench(self) -> Bench:
        model = ScriptedModel.by_role(summary=lambda _: StageReport(tried="t", found="f"))
        return Bench(
            recorder=self.log,
            folder=RunFolder(self.folder),
            search=self.given,
            signals=self.signals,
            node_seconds=60,
            models=Models(model, self.log, ModelSettings(), lambda: 0.0),
            paper=PaperSettings(),
            executor=ScriptedExecutor(lambda job: (0, Outcome(seconds=0))),
        )

    async def work(self) -> bool:
        """Go through the stages as `agent.graph` does; False where the run was asked to stop."""
        research = Scripted(self.bench(), World(self.log, buggy=0.2, delay=lambda k: 1.0 + k % 5))
        try:
            while (stage := self.log.state.stage) is not None:
                if not await research.stage(stage):
                    return False
                assert self.log.state.stage != stage, f"{stage} ended without being done"
            return True
        finally:
            await research.close()

    def ask(self, verb: str, rng: Random) -> None:
        """Ask for something of some node, as `agent.steering` takes it."""
        state = self.log.state
        bests = [one.best for one in state.stages.values() if one.best]
        target = rng.choice(bests if bests and rng.random() < 0.5 else [*state.nodes, "n9999"])
        mark = "closed" if verb == "close" else "suspect"
        verb = "mark" if verb in ("close", "suspect") else verb
        command = Commanded.model_validate(
            {"verb": verb, "target": target if verb in ("mark", "kill") else "", "text": "why", "mark": mark}
        )
        if control.refused(state, command, working=True) is not None:
            return
        self.log.append(command)
        obeyed = {
            "stop": self.signals.stop.set,
            "pause": self.signals.pause,
            "resume": self.signals.go_on,
            "kill": lambda: self.signals.kill(target),
        }
        obeyed.get(verb, lambda: None)()


async def steered(run: Run, asked: list[tuple[float, str]], seed: int) -> None:
    """Bring a run to its end while a person asks for this and that; whoever stops or kills it takes it up again."""
    rng, over = Random(seed), False

    async def person() -> None:
        for seconds, verb in asked:
            await asyncio.sleep(seconds)
            if verb == "kill -9":
                task.cancel()
            elif not task.done():
                run.ask(verb, rng)
        await asyncio.sleep(10.0)
        run.ask("resume", rng)

    task = asyncio.ensure_future(run.work())
    asking = asyncio.ensure_future(person())
    while not over:
        with suppress(asyncio.CancelledError):
            over = await asyncio.wait_for(task, LONGER * 10)
        if not over:
            run.signals = Signals()
            run.log.append(Resumed())
            task = asyncio.ensure_future(run.work())
    asking.cancel()


def holds(run: Run) -> None:
    """What is so at the end of every run, whatever was asked of it."""
    state = run.log.state
    last = state.end_of("ablation")
    assert last is not None and state.phase not in STAGES
    for mark in (one for one in state.steered if one.command.verb == "mark" and one.command.mark == "suspect"):
        node = mark.command.target
        assert not [one.id for one in state.nodes.values() if one.parent == node and one.decision > mark.after + 1]
        if mark.after < last.k - 1:
            assert node not in [state.stages[stage].best for stage in STAGES], "it settled on another"
    for stage in STAGES[:-1]:
        known, best = state.stages[stage], state.nodes.get(state.stages[stage].best or "")
        assert max(known.reports) > known.settlements[-1][0], "reported on what it settled on"
        if best is not None and not any(why.startswith(MARKED) for why in best.suspect):
            seeds = {one.seed for one in state.nodes.values() if one.kind == "replicate" and one.parent == best.id}
            assert state.started is not None and state.lock is not None
            first = state.started.seed + 1
            assert seeds >= {*(state.lock.seeds if stage == "agenda" else (first, first + 1))}


VERBS = ("suspect", "suspect", "suspect", "close", "kill", "note", "pause", "resume", "stop", "kill -9")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 30),
    order=st.sampled_from(["arrival", "ticket"]),
    asked=st.lists(st.tuples(st.floats(0.0, 30.0), st.sampled_from(VERBS)), max_size=12),
)
@pytest.mark.slow
def test_whatever_is_asked_at_whatever_moment_no_run_gets_stuck(
    tmp_path: Path, seed: int, order: str, asked: list[tuple[float, str]]
) -> None:
    run = Run(tmp_path, small(order=order, num_workers=2), new_log(seed), Signals())
    try:
        virtual_time.run(steered(run, asked, seed))
    except NothingWorkedError:  # and so it ends again, each time that it is taken up
        assert winner(run.log.state) is None
        for _ in range(3):
            run.log.append(Resumed())
            run.signals = Signals()
            with pytest.raises(NothingWorkedError):
                virtual_time.run(run.work())
        return
    holds(run)


@pytest.mark.parametrize("report", ["before", "after"])
@pytest.mark.parametrize("order", ["arrival", "ticket"])
def test_a_stage_whose_best_is_marked_settles_on_the_next_best_which_is_replicated_and_reported(
    tmp_path: Path, order: Literal["arrival", "ticket"], report: str
) -> None:
    run = Run(tmp_path, small(order=order), new_log(4), Signals())

    async def marked() -> str:
        task = asyncio.ensure_future(run.work())
        known = run.log.state.stages["preliminary"]
        while not (known.reports if report == "after" else known.settled):
            await asyncio.sleep(0.5)
        assert known.best is not None
        run.log.append(Commanded(verb="mark", target=known.best, text="it leaks"))
        assert await task
        return known.settlements[0][1].best or ""

    first = virtual_time.run(marked())
    state = run.log.state
    known = state.stages["preliminary"]
    assert [one.best for _, one in known.settlements] == [first, known.best] and known.best not in (None, first)
    assert f"it had settled on {first}, which is suspect: {MARKED}it leaks" in known.reasons[0]
    assert len(known.reports) == (2 if report == "after" else 1)
    holds(run)


def test_with_nothing_left_a_run_says_so_and_says_it_again(tmp_path: Path) -> None:
    run = Run(tmp_path, small(), new_log(4), Signals())

    async def marked() -> None:
        task = asyncio.ensure_future(run.work())
        while not task.done():
            await asyncio.sleep(0.5)
            for node in [node for node in run.log.state.nodes.values() if node.status == "good" and not node.suspect]:
                run.log.append(Commanded(verb="mark", target=node.id, text="it leaks"))
        await task

    for _ in range(3):
        run.signals = Signals()
        with pytest.raises(NothingWorkedError, match=r"nothing is left to build on.*it leaks"):
            virtual_time.run(marked())
