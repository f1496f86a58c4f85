"""Hard limits of a stage: nodes, model calls, time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from record.events.running import Answered, Limited
from record.events.searching import Decided
from record.log import MemoryLog
from record.nouns.decisions import CallKey, Expand, Usage
from search.limits import Limits
from search.tree import SEARCH_KINDS
from tests.search import virtual_time
from tests.search.worlds import World, new_log, search, settings

CALLS = dict.fromkeys(SEARCH_KINDS, 7)


class Talkative(World):
    """Every node asks a model some times, at most as often as it may."""

    async def perform(self, decided: Decided, freed: object) -> None:
        if isinstance(decided.action, Expand) and decided.action.kind in SEARCH_KINDS:
            for i in range(1 + decided.k % 7):
                key = CallKey(decision=decided.k, attempt=0, role="code", ordinal=i)
                self.log.append(Answered(key=key, request_sha256="", model="", answer={}, usage=Usage(), seconds=1))
        await super().perform(decided, freed)  # pyright: ignore[reportArgumentType]


def run(limits: Limits, **changes: object) -> MemoryLog:
    log = new_log()
    delay = 10.0
    world = Talkative(log, buggy=0.3, delay=lambda k: delay)
    virtual_time.run(search(log, world, settings(**changes), limits=limits))
    return log


@given(calls=st.integers(10, 80), order=st.sampled_from(["ticket", "arrival"]), places=st.integers(1, 6))
@pytest.mark.slow
def test_a_stage_never_makes_more_calls_than_its_limit(calls: int, order: str, places: int) -> None:
    log = run(Limits(calls=calls, calls_of=CALLS, calls_after=2), order=order, num_workers=places)
    for stage in ("preliminary", "tuning", "agenda", "ablation"):
        nodes = [node for node in log.state.stage_nodes(stage) if node.kind in SEARCH_KINDS]
        assert sum(log.state.calls[node.decision] for node in nodes) + 2 <= calls
        assert all(node.finished for node in nodes)


def test_a_limit_that_is_reached_is_an_event_and_the_stage_is_reported() -> None:
    log = run(Limits(calls=16, calls_of=CALLS, calls_after=2))
    limited = [event for event in log.events if isinstance(event, Limited)]
    assert limited and all(event.stage is not None and "model calls" in event.reason for event in limited)
    assert log.state.limited is None and log.state.stages["ablation"].settled


def test_a_node_that_is_not_expected_to_end_in_time_is_not_begun() -> None:
    log = new_log()
    world = World(log, buggy=0.0, delay=lambda k: 20.0, seconds=20.0)
    given = settings(num_drafts=8, num_workers=1, lookahead=0, order="arrival")
    virtual_time.run(search(log, world, given, ("preliminary",), limits=Limits(seconds=70.0)))
    stage = log.state.stages["preliminary"]
    assert stage.limited is not None and "another node is expected to run 20 s" in stage.limited
    assert stage.settled and stage.ended == stage.limited
    assert len(log.state.stage_nodes("preliminary")) == 3  # begun at 0, 20 and 40 s; at 60 s only 10 s are left


@pytest.mark.parametrize("order", ["arrival", "ticket"])
@pytest.mark.parametrize(("buggy", "of_the_run", "kinds"), [
    (1.0, 200.0, ["draft", "debug"]), (1.0, 100.5, ["draft"]), (0.0, 200.0, ["draft"])])
def test_a_first_draft_that_fails_is_debugged_once_also_where_the_time_of_the_stage_is_used_up(
    order: str, buggy: float, of_the_run: float, kinds: list[str]
) -> None:
    """The first draft takes 100 s of a stage that has 60; the run's own limit holds."""
    log = new_log()
    world = World(log, buggy=buggy, delay=lambda k: 80.0)
    given = settings(num_workers=1, lookahead=0, order=order, window=1)
    virtual_time.run(search(log, world, given, ("preliminary",), limits=Limits(
        seconds=60.0, run_seconds=of_the_run)))
    assert [node.kind for node in log.state.stage_nodes("preliminary")] == kinds
    assert "limit of 60 s" in str(log.state.stages["preliminary"].limited)


@pytest.mark.parametrize("seconds", [None, 10_000.0])
def test_time_enough_limits_nothing(seconds: float | None) -> None:
    log = new_log()
    virtual_time.run(search(log, World(log), settings(), limits=Limits(seconds=seconds)))
    assert not any(isinstance(event, Limited) for event in log.events)
