"""A decision costs what changed since the last one: not cells over again, and nodes at most once each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType

import pytest

from benchmarks.scale import make_stage_events
from labwright.inspector.status import build_status
from labwright.record.events.search_events import DecisionMade, NodeJudged
from labwright.record.reducers.event_fold import apply_event, fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import collectable
from labwright.record.schema.decisions import ExpandTree, VisibleDecisions
from labwright.record.schema.nodes import STAGES, StageName
from labwright.search.policy import BestFirstPolicy
from labwright.search.settings import SearchSettings, StageLimits
from labwright.search.stage_snapshot import build_snapshot

MOST = StageLimits(nodes=10_000, num_seeds=0)
SETTINGS = SearchSettings(preliminary=MOST, tuning=MOST, agenda=MOST, ablation=MOST, num_drafts=2, planned_ablations=0)


def calls(work: Callable[[], object]) -> int:
    """Calls of functions, generators that go on included: what does not depend on how busy the machine is."""
    count = 0

    def profile(_: FrameType, __: str, ___: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def decide(state: RunState, stage: StageName) -> None:
    view, policy = (
        build_snapshot(state, stage, VisibleDecisions(through=state.last_decision), settings=SETTINGS),
        BestFirstPolicy(SETTINGS),
    )
    policy.pick(view, Random(0))
    assert view.best_node is not None
    policy.next_search_node(view, Random(0))


def look(state: RunState, _: StageName) -> None:
    build_status("a run", state, (), None, now=0.0)
    list(collectable(state, lambda _: ()))


def cost(work: Callable[[RunState, StageName], None], stage: StageName, nodes: int, cells: int) -> int:
    """Calls of this work when a node was decided on and judged since it was done last."""
    state = fold_events((event, 0.0) for event in make_stage_events(stage, nodes, cells))
    work(state, stage)
    k = state.last_decision + 1
    apply_event(state, DecisionMade(k=k, action=ExpandTree(stage=stage, kind="debug", parent=None, seed=0)))
    apply_event(state, NodeJudged(node=f"n{k:04d}", status="buggy"))
    return calls(lambda: work(state, stage))


@pytest.mark.parametrize("stage", STAGES)
def test_a_decision_costs_no_more_with_more_cells_and_in_proportion_with_more_nodes(stage: StageName) -> None:
    small, more_cells, more_nodes = cost(decide, stage, 20, 8), cost(decide, stage, 20, 32), cost(decide, stage, 80, 8)
    assert more_cells < 1.2 * small + 1000, "4 times the cells"  # a panel is made once a view
    assert more_nodes < 5 * small, "4 times the nodes"


@pytest.mark.parametrize("stage", STAGES)
def test_status_and_keeping_grow_in_proportion(stage: StageName) -> None:
    small, large = cost(look, stage, 20, 8), cost(look, stage, 80, 8)
    assert large < 6 * small, "4 times the nodes, of as many cells each"


def test_executions_are_found_by_node_and_by_key_as_in_the_whole_list() -> None:
    state = fold_events((event, 0.0) for event in make_stage_events("agenda", 30, 8))
    every = [*state.cells.values()]
    for node in state.nodes:
        assert state.cells.list_node_runs(node) == tuple(run for by, run in every if by == node)
    for _, run in every:
        assert state.cells.list_key_runs(run.key) == tuple(one for one in every if one[1].key == run.key)
    assert not state.cells.repeated
