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
from labwright.models.replay import ScriptedModel
from labwright.models.roles.node_assessment import StageReport
from labwright.models.settings import ModelSettings
from labwright.record import control_files
from labwright.record.baseline_check import Ablation
from labwright.record.claims.estimates import find_winner
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import CommandReceived, RunResumed
from labwright.record.events.search_events import AblationsPlanned, DecisionMade, NodeJudged
from labwright.record.reducers.run_state import MARK_PREFIX
from labwright.record.run_folder import RunFolder
from labwright.record.schema.decisions import ABLATION_PLAN_TASK, ExpandTree
from labwright.record.schema.nodes import STAGES, Failure, format_node_id
from labwright.sandbox.job import JobOutcome
from labwright.search.scheduler import NodeKilled, ReleaseSlot, RunControl
from labwright.search.settings import SearchSettings
from labwright.search.tuning import FINALIST_SEED_OFFSET
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from labwright.stages.stage_runner import NoWorkingNodeError, StageRunner
from tests.fake_executor import FakeExecutor
from tests.search import virtual_time
from tests.search.scripted_search import SearchWorld, make_settings, new_log

PLANNED = tuple(
    Ablation(name=f"no-{part}", part=part, action="remove", metrics=("log_loss",), why="w")
    for part in ("warmup", "decay")
)
LONGER = 400.0
"""Virtual seconds after which every search here is over."""


class Scripted(StageRunner):
    """The stages, with nodes out of a scripted world."""

    def __init__(self, bench: RunContext, world: SearchWorld) -> None:
        super().__init__(bench)
        self._world = world

    async def _perform(self, decided: DecisionMade, freed: ReleaseSlot) -> None:
        if not isinstance(decided.action, ExpandTree):
            await asyncio.sleep(1.0)
            if decided.action == ABLATION_PLAN_TASK and self.context.state.search.planned_ablations is None:
                self.context.recorder.append(AblationsPlanned(ablations=PLANNED))
            await super()._perform(decided, freed)
            return
        node, state = format_node_id(decided.k), self.context.state
        try:
            if node in state.killed_nodes:
                raise NodeKilled(node)
            await self.context.signals.run_unless_killed(node, self._world.perform(decided, freed))
        except NodeKilled:
            self.context.recorder.append(
                NodeJudged(node=node, status="cancelled", failure=Failure(kind="killed", message="a person ended it"))
            )


@dataclass
class Run:
    """One run, worked on by one process after the other."""

    folder: Path
    given: SearchSettings
    log: MemoryLog
    signals: RunControl

    def bench(self) -> RunContext:
        model = ScriptedModel.from_role_functions(summary=lambda _: StageReport(tried="t", found="f"))
        return RunContext(
            recorder=self.log,
            folder=RunFolder(self.folder),
            search=self.given,
            signals=self.signals,
            node_seconds=60,
            models=Models(model, self.log, ModelSettings(), lambda: 0.0),
            paper=PaperSettings(),
            executor=FakeExecutor(lambda job: (0, JobOutcome(seconds=0))),
        )

    async def work(self) -> bool:
        """Go through the stages as `agent.state_machine` does; False where the run was asked to stop."""
        research = Scripted(self.bench(), SearchWorld(self.log, buggy=0.2, delay=lambda k: 1.0 + k % 5))
        try:
            while (stage := self.log.state.search.stage) is not None:
                if not await research.run_stage(stage):
                    return False
                assert self.log.state.search.stage != stage, f"{stage} ended without completing its phase"
            return True
        finally:
            await research.close()

    def ask(self, verb: str, rng: Random) -> None:
        """Ask for something of some node, as `agent.run_process` takes it."""
        state = self.log.state
        bests = [one.best for one in state.search.stages.values() if one.best]
        target = rng.choice(bests if bests and rng.random() < 0.5 else [*state.nodes, "n9999"])
        mark = "closed" if verb == "close" else "suspect"
        verb = "mark" if verb in ("close", "suspect") else verb
        command = CommandReceived.model_validate(
            {"verb": verb, "target": target if verb in ("mark", "kill") else "", "text": "why", "mark": mark}
        )
        if control_files.find_refusal(state, command, is_running=True) is not None:
            return
        self.log.append(command)
        obeyed = {
            "stop": self.signals.stop_event.set,
            "pause": self.signals.pause,
            "resume": self.signals.resume,
            "kill": lambda: self.signals.kill_node(target),
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
            async with asyncio.timeout(LONGER * 10):
                over = await task
        if not over:
            run.signals = RunControl()
            run.log.append(RunResumed())
            task = asyncio.ensure_future(run.work())
    asking.cancel()


def holds(run: Run) -> None:
    """What is so at the end of every run, whatever was asked of it."""
    state = run.log.state
    last = state.find_stage_end("ablation")
    assert last is not None and state.phase not in STAGES
    for mark in (one for one in state.user_commands if one.command.verb == "mark" and one.command.mark == "suspect"):
        node = mark.command.target
        assert not [
            one.id for one in state.nodes.values() if one.parent == node and one.decision > mark.after_decision + 1
        ]
        if mark.after_decision < last.k - 1:
            assert node not in [state.search.stages[stage].best for stage in STAGES], "it settled on another"
    for stage in STAGES[:-1]:
        known, best = state.search.stages[stage], state.nodes.get(state.search.stages[stage].best or "")
        assert max(known.reports) > known.settlements[-1][0], "reported on what it settled on"
        if best is not None and stage != "preliminary" and not any(why.startswith(MARK_PREFIX) for why in best.suspect):
            seeds = {one.seed for one in state.nodes.values() if one.kind == "replicate" and one.parent == best.id}
            assert state.started is not None and state.search.current_lock is not None
            first = state.started.seed + FINALIST_SEED_OFFSET
            assert seeds >= {*(state.search.current_lock.seeds if stage == "agenda" else (first, first + 1))}


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
    run = Run(tmp_path, make_settings(order=order, num_workers=2), new_log(seed), RunControl())
    try:
        virtual_time.run(steered(run, asked, seed))
    except NoWorkingNodeError:  # and so it ends again, each time that it is taken up
        assert find_winner(run.log.state) is None
        for _ in range(3):
            run.log.append(RunResumed())
            run.signals = RunControl()
            with pytest.raises(NoWorkingNodeError):
                virtual_time.run(run.work())
        return
    holds(run)


@pytest.mark.parametrize("report", ["before", "after"])
@pytest.mark.parametrize("order", ["arrival", "ticket"])
def test_a_stage_whose_best_is_marked_settles_on_the_next_best_which_is_replicated_and_reported(
    tmp_path: Path, order: Literal["arrival", "ticket"], report: str
) -> None:
    run = Run(tmp_path, make_settings(order=order), new_log(4), RunControl())

    async def marked() -> str:
        task = asyncio.ensure_future(run.work())
        known = run.log.state.search.stages["tuning"]
        while not (known.reports if report == "after" else known.is_settled):
            await asyncio.sleep(0.5)
        assert known.best is not None
        run.log.append(CommandReceived(verb="mark", target=known.best, text="it leaks"))
        assert await task
        return known.settlements[0][1].best or ""

    first = virtual_time.run(marked())
    state = run.log.state
    known = state.search.stages["tuning"]
    assert [one.best for _, one in known.settlements] == [first, known.best] and known.best not in (None, first)
    assert f"it had selected {first}, which is suspect: {MARK_PREFIX}it leaks" in known.reasons[0]
    assert len(known.reports) == (2 if report == "after" else 1)
    holds(run)
