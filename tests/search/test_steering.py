"""Pausing, ending a node and marking, in virtual time: what is decided then, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived
from labwright.record.schema.decisions import ExpandTree, VisibleDecisions
from labwright.record.schema.nodes import STAGES
from labwright.search.hours import TimeLimits
from labwright.search.policy import BestFirstPolicy
from labwright.search.scheduler import NodeKilled, RunControl, Scheduler
from labwright.search.settings import SearchSettings
from labwright.search.stage_snapshot import build_snapshot
from tests.search import virtual_time
from tests.search.scripted_search import SearchWorld, make_settings, new_log, run_search, run_whole_search


def scheduler_of(log: MemoryLog, world: SearchWorld, given: SearchSettings, signals: RunControl) -> Scheduler:
    return Scheduler(
        recorder=log, policy=BestFirstPolicy(given), perform=world.perform, settings=given, run_control=signals
    )


@pytest.mark.parametrize("order", ["arrival", "ticket"])
def test_a_pause_in_the_midst_lets_what_runs_end_and_begins_nothing(order: str) -> None:
    async def paused() -> tuple[int, int, int, object]:
        log, signals, given = new_log(), RunControl(), make_settings(order=order, num_workers=2)
        world = SearchWorld(log, delay=lambda k: 10.0)
        task = asyncio.ensure_future(scheduler_of(log, world, given, signals).run("preliminary"))
        await asyncio.sleep(15.0)
        signals.pause()
        held = len(log.state.decisions)
        await asyncio.sleep(1000.0)
        assert not world.running and all(node.is_finished for node in log.state.nodes.values()), "what ran has ended"
        still = len(log.state.decisions)
        signals.resume()
        end = await task
        return held, still, len(log.state.decisions), end

    held, still, after, end = virtual_time.run(paused())
    assert held == still < after and end is not None


@pytest.mark.parametrize(("hold", "limited"), [(False, True), (True, False)])
def test_a_pause_takes_nothing_of_the_time_of_a_stage(hold: bool, limited: bool) -> None:
    """Held for 1000 s: those count against a limit of 500 s only where the run was not paused."""

    async def timed() -> bool:
        log, signals = new_log(), RunControl()
        given = make_settings(order="arrival", num_workers=1, num_drafts=6, lookahead=0)
        world = SearchWorld(log, delay=lambda k: 1000.0 if k == 1 and not hold else 1.0, buggy=0.0)
        task = asyncio.ensure_future(
            scheduler_of(log, world, given, signals).run("preliminary", TimeLimits(seconds=500.0))
        )
        await asyncio.sleep(0.5)
        if hold:
            log.append(CommandReceived(verb="pause"))
            signals.pause()
            await asyncio.sleep(1000.0)
            log.append(CommandReceived(verb="resume"))
            signals.resume()
        await task
        return log.state.search.stages["preliminary"].limit_reason is not None

    assert virtual_time.run(timed()) is limited


# --- ending a node ----------------------------------------------------------------------------------------------------


def test_a_killed_node_is_cancelled_with_all_that_it_began_and_no_other() -> None:
    async def killed() -> tuple[list[str], float]:
        signals, told = RunControl(), list[str]()

        async def work(name: str) -> None:
            try:
                await asyncio.sleep(60.0)
                told.append(f"{name} done")
            except asyncio.CancelledError:
                await asyncio.sleep(0.5)  # what a kernel takes to end
                told.append(f"{name} cleared")
                raise

        first = asyncio.ensure_future(signals.run_unless_killed("n0001", work("n0001")))
        second = asyncio.ensure_future(signals.run_unless_killed("n0002", work("n0002")))
        await asyncio.sleep(1.0)
        signals.kill_node("n0404")
        signals.kill_node("n0001")
        with pytest.raises(NodeKilled):
            await first
        took = asyncio.get_running_loop().time()
        await second
        signals.kill_node("n0002")  # too late: nothing happens
        return told, took

    told, took = virtual_time.run(killed())
    assert told == ["n0001 cleared", "n0002 done"] and took < 2.0


# --- marks ------------------------------------------------------------------------------------------------------------


Choose = Callable[[MemoryLog], Event | None]


def marked_run(choose: Choose, *, stages: int = len(STAGES), seed: int = 4) -> MemoryLog:
    """A whole search in which a person marks something as soon as there is something to mark."""
    log, given = new_log(seed=seed), make_settings(order="ticket")

    class Steered(SearchWorld):
        def finish(self, node: str, k: int, action: ExpandTree) -> None:
            super().finish(node, k, action)
            mark = choose(log)
            if mark is not None and mark not in log.events:
                log.append(mark)

    virtual_time.run(run_search(log, Steered(log, buggy=0.2, delay=lambda k: 1.0), given, STAGES[:stages]))
    return log


def built_on(log: MemoryLog, node: str) -> list[int]:
    """The decisions on search nodes that build on a node."""
    return [
        one.decision
        for one in log.state.nodes.values()
        if one.parent == node and one.kind not in ("replicate", "aggregate")
    ]


@pytest.mark.parametrize("mark", ["suspect", "closed"])
def test_nothing_more_is_built_on_a_marked_node_and_the_stage_settles_on_another(mark: str) -> None:
    plain, _ = run_whole_search(seed=4, buggy=0.2)
    best = plain.state.search.stages["preliminary"].best
    assert best is not None

    def choose(log: MemoryLog) -> Event | None:  # in ticket order it is the same tree up to here
        known = log.state.nodes.get(best)
        first = best if known is not None and known.status == "good" else None
        command = {"verb": "mark", "mark": mark, "target": first, "text": "no"}
        return CommandReceived.model_validate(command) if first else None

    log = marked_run(choose, stages=2)
    [at] = [one.after_decision for one in log.state.user_commands]
    node = log.state.user_commands[0].command.target
    assert not [k for k in built_on(log, node) if k > at]
    assert log.state.search.stages["preliminary"].best not in (node, None)
    end = log.state.find_stage_end("preliminary")
    assert end is not None
    view = build_snapshot(log.state, "preliminary", end.seen, before=end.k, settings=make_settings())
    assert (node in [one.id for one in view.good_nodes]) is (mark == "closed"), "a closed node counts, and is reported"


def test_where_the_best_of_a_settled_stage_is_suspect_it_settles_on_the_next_best() -> None:
    def choose(log: MemoryLog) -> Event | None:
        best, first = log.state.search.stages["tuning"].best, log.state.search.stages["preliminary"].best
        return CommandReceived(verb="mark", target=best, text="no") if best is not None and best != first else None

    log = marked_run(choose, seed=0)
    mark = log.state.user_commands[0]
    known = log.state.search.stages["tuning"]
    bests = [one.best for _, one in known.settlements]
    assert bests[0] == mark.command.target and len(set(bests)) == len(bests) > 1 and known.best is not None
    assert not [k for k in built_on(log, mark.command.target) if k > mark.after_decision]
    assert all(log.state.search.stages[name].is_settled for name in STAGES)
    assert mark.command.target not in [log.state.search.stages[name].best for name in STAGES]


def test_a_decision_looks_the_same_after_a_mark_that_came_later() -> None:
    log, _ = run_whole_search(seed=4, buggy=0.2)
    end = log.state.find_stage_end("preliminary")
    assert end is not None
    before = build_snapshot(log.state, "preliminary", end.seen, before=end.k)
    best = before.best_node
    assert best is not None
    log.append(CommandReceived(verb="mark", target=best.id, text="no"))
    log.append(CommandReceived(verb="mark", mark="closed", target=best.id, text="no"))
    after = build_snapshot(log.state, "preliminary", end.seen, before=end.k)
    assert (after, after.best_node) == (before, best)
    now = build_snapshot(log.state, "preliminary", VisibleDecisions(through=log.state.last_decision))
    assert best.id not in [node.id for node in now.good_nodes]
