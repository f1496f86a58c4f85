"""The search through the real scheduler, in a scripted world."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record.event_log import MemoryLog
from labwright.record.events.search_events import DecisionMade
from labwright.record.schema.decisions import VisibleDecisions
from labwright.record.schema.nodes import SEARCH_KINDS
from labwright.search.policy import BestFirstPolicy, build_policy
from labwright.search.scheduler import ReleaseSlot, RunControl, Scheduler
from labwright.search.stage_snapshot import build_snapshot
from tests.search import virtual_time
from tests.search.scripted_search import (
    SearchWorld,
    comparable_tree,
    find_stage,
    finished_search,
    make_settings,
    new_log,
    run_search,
    run_whole_search,
)


@pytest.mark.parametrize("order", ["arrival", "ticket"])
@pytest.mark.slow
def test_limits_hold_and_places_are_respected(order: str) -> None:
    log, world = run_whole_search(order=order, num_workers=3, lookahead=1)
    counts = Counter(node.stage for node in log.state.nodes.values() if node.kind in SEARCH_KINDS - {"tune"})
    assert counts["preliminary"] <= 8 and counts["tuning"] <= 4 and counts["agenda"] == 4 and counts["ablation"] == 3
    assert 1 < world.places_used <= 4


@pytest.mark.parametrize(
    "given",
    [
        [(1, 8), (2, 4), (3, 2), (4, 4), (5, 1)],
        pytest.param(
            [(timing, places) for timing in range(1, 21) for places in (1, 2, 4, 8)], marks=[pytest.mark.bench]
        ),
    ],
)
@pytest.mark.slow
def test_ticket_order_gives_one_tree_whatever_the_timing_and_places(given: list[tuple[int, int]]) -> None:
    reference = comparable_tree(run_whole_search(timing=0, num_workers=1)[0])
    for timing, places in given:
        assert comparable_tree(run_whole_search(timing=timing, num_workers=places)[0]) == reference
    assert {kind for _, _, _, kind, *_ in reference} >= {"debug", "replicate", "aggregate"}


@pytest.mark.slow
def test_a_kill_between_the_end_of_a_stage_and_its_settling_decides_nothing_twice() -> None:
    whole = finished_search()
    ends = [i for i, event in enumerate(whole.events) if isinstance(event, DecisionMade) and event.action.do == "end"]
    assert len(ends) == 4
    for cut in ends:
        log = MemoryLog(whole.events[: cut + 1])
        virtual_time.run(run_search(log, SearchWorld(log), make_settings()))
        assert comparable_tree(log) == comparable_tree(whole) and len(log.state.decisions) == len(whole.state.decisions)


@given(cut=st.integers(0, 400), order=st.sampled_from(["ticket", "arrival"]), buggy=st.sampled_from([0.0, 0.3, 0.6]))
@pytest.mark.slow
def test_any_prefix_of_the_log_resumes(cut: int, order: str, buggy: float) -> None:
    whole = finished_search(order=order, buggy=buggy)
    log = MemoryLog(whole.events[: max(2, min(cut, len(whole.events)))])
    finished = set(log.state.finished_decisions)
    world = SearchWorld(log, buggy=buggy)
    virtual_time.run(run_search(log, world, make_settings(order=order)))
    assert not finished & set(world.started), "finished work was done again"
    decided = [event.k for event in log.events if isinstance(event, DecisionMade)]
    assert decided == sorted(set(decided)), "a decision was made twice"
    if order == "ticket":
        assert comparable_tree(log) == comparable_tree(whole)


@given(seed=st.integers(0, 50), buggy=st.sampled_from([0.0, 0.5, 0.9, 1.0]), depth=st.integers(0, 3))
@pytest.mark.slow
def test_the_search_ends_and_debugs_no_deeper_than_allowed(seed: int, buggy: float, depth: int) -> None:
    log, _ = run_whole_search(seed=seed, buggy=buggy, max_debug_depth=depth)
    view = build_snapshot(log.state, "preliminary", VisibleDecisions(through=10_000))
    assert all(view.count_debug_depth(node) <= depth for node in log.state.nodes.values())
    assert all(node.is_finished for node in log.state.nodes.values())
    if buggy == 1.0:
        assert log.state.search.stages["preliminary"].best is None


@pytest.mark.parametrize("order", ["ticket", "arrival"])
@pytest.mark.parametrize("policy", ["best-first", "chain"])
def test_picks_depend_on_view_and_random_source_alone(order: str, policy: str) -> None:
    given = make_settings(order=order, policy=policy, debug_prob=0.5)
    log, _ = run_whole_search(order=order, policy=policy, debug_prob=0.5)
    assert len(log.state.decisions) > 25
    for k, decided in log.state.decisions.items():  # from the whole record, what a decision saw gives it again
        view = build_snapshot(log.state, find_stage(log.state, k), decided.seen, before=k, settings=given)
        assert build_policy(given).pick(view, Random(f"0/{k}")) == decided.action


def test_a_request_to_stop_drops_nothing_that_finished() -> None:
    async def stopped() -> tuple[MemoryLog, object]:
        log = new_log()
        signals = RunControl()
        given = make_settings(order="arrival", grace=50)
        world = SearchWorld(log, delay=lambda k: 10.0)
        scheduler = Scheduler(
            recorder=log, policy=BestFirstPolicy(given), perform=world.perform, settings=given, run_control=signals
        )
        asyncio.get_running_loop().call_later(15.0, signals.stop_event.set)
        return log, await scheduler.run("preliminary")

    log, end = virtual_time.run(stopped())
    assert end is None
    again = SearchWorld(log)
    finished = set(log.state.finished_decisions)
    virtual_time.run(run_search(log, again, make_settings(order="arrival")))
    assert not finished & set(again.started)


def test_a_broken_model_ends_the_search_with_its_error() -> None:
    async def broken(_: DecisionMade, __: ReleaseSlot) -> None:
        raise RuntimeError("provider down")

    log = new_log()
    given = make_settings(order="arrival")
    with pytest.raises(RuntimeError, match="provider down"):
        virtual_time.run(
            Scheduler(recorder=log, policy=BestFirstPolicy(given), perform=broken, settings=given).run("preliminary")
        )
