"""Branching of logs: any point of any search, and the search that goes on from there. No kernels, no files of nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from labwright.agent.cli import main
from labwright.record.branching import LogPrefix, cut_log, find_false_ancestry, hash_events
from labwright.record.event_log import EventLog, MemoryLog, read_events, read_rows
from labwright.record.events import Event
from labwright.record.events.run_events import (
    CallAnswered,
    CommandReceived,
    CostReserved,
    LimitReached,
    ProcessEnded,
    RunBranched,
)
from labwright.record.events.search_events import AttemptExecuted, DecisionMade, NodeJudged, NodeProposed
from labwright.record.line_store import LogRow, write_rows
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState, sum_usage
from labwright.record.schema.decisions import (
    ABLATION_PLAN_TASK,
    CallKey,
    Cost,
    ExpandTree,
    TokenUsage,
    VisibleDecisions,
)
from labwright.record.schema.nodes import STAGES, Attempt, NodeKind, StageName
from labwright.search.policy import BestFirstPolicy
from labwright.search.stage_snapshot import SEARCH_KINDS, build_snapshot
from tests.search import virtual_time
from tests.search.scripted_search import (
    SearchWorld,
    comparable_tree,
    finished_search,
    make_settings,
    run_search,
    run_whole_search,
)

pytestmark = pytest.mark.slow

Timed = list[tuple[Event, float]]


def timed(log: MemoryLog) -> Timed:
    return [(event, float(at)) for at, event in enumerate(log.events)]


def branched(cut: LogPrefix, events: Timed, *, seed: int = 0) -> RunBranched:
    rows: list[LogRow] = [(at, event.model_dump_json()) for event, at in events[: cut.events]]
    return RunBranched(parent="whole", point="p", events=cut.events, sha256=hash_events(rows), seed=seed)


def continued(cut: LogPrefix, events: Timed, *more: Event, seed: int = 0, order: str = "ticket") -> MemoryLog:
    """The search that goes on from a cut, to its end."""
    log = MemoryLog([event for event, _ in events[: cut.events]])
    log.append(branched(cut, events, seed=seed))
    for event in more:
        log.append(event)
    virtual_time.run(run_search(log, SearchWorld(log), make_settings(order=order)))
    return log


def points(state: RunState) -> list[str]:
    return [*STAGES, *(node.id for node in state.nodes.values() if node.is_finished)]


# --- where a log is cut ---------------------------------------------------------------------------------------------


@hypothesis_settings(max_examples=12, deadline=None)
@given(
    which=st.integers(0, 1000),
    timing=st.integers(0, 1),
    order=st.sampled_from(["ticket", "arrival"]),
    buggy=st.sampled_from([0.0, 0.3, 0.6]),
)
def test_a_cut_is_the_state_of_the_parent_at_that_moment(which: int, timing: int, order: str, buggy: float) -> None:
    whole = finished_search(timing=timing, order=order, buggy=buggy)
    events = timed(whole)
    point = points(whole.state)[which % len(points(whole.state))]
    if point in STAGES[1:] and whole.state.search.stages[STAGES[STAGES.index(point) - 1]].best is None:
        return
    cut = cut_log(events, point)
    assert cut.state == fold_events(events[: cut.events])
    if point in STAGES:
        assert (
            not cut.state.list_stage_nodes(next(one for one in STAGES if one == point))
            and cut.state.search.stage == point
        )
    else:
        assert cut.state.nodes[point].is_finished
        last = events[cut.events - 1][0]
        assert isinstance(last, NodeJudged) and last.node == point


@hypothesis_settings(max_examples=10, deadline=None)
@given(which=st.integers(0, 1000), order=st.sampled_from(["ticket", "arrival"]))
def test_a_branch_finishes_what_was_under_way_and_decides_nothing_twice(which: int, order: str) -> None:
    whole = finished_search(order=order)
    events = timed(whole)
    point = points(whole.state)[which % len(points(whole.state))]
    cut = cut_log(events, point)
    log = continued(cut, events, order=order)
    numbers = [event.k for event in log.events if isinstance(event, DecisionMade)]
    assert len(numbers) == len(set(numbers)) and set(cut.state.decisions) <= set(numbers)
    assert all(log.state.nodes[node.id] == node for node in cut.state.nodes.values() if node.is_finished)
    assert (
        all(node.is_finished for node in log.state.nodes.values()) and log.state.find_stage_end("ablation") is not None
    )
    if order == "ticket":  # with the seed of its parent and nothing else changed it is its parent
        assert comparable_tree(log) == comparable_tree(whole)


def test_a_seed_of_its_own_changes_choices_and_no_seed_of_an_experiment() -> None:
    whole, _ = run_whole_search(buggy=0.6, debug_prob=0.5, window=2, num_drafts=6)
    events = timed(whole)
    cut = cut_log(events, STAGES[0])
    trees: list[object] = []
    for seed in (0, 1, 2, 3, 4):
        log = MemoryLog([event for event, _ in events[: cut.events]])
        log.append(branched(cut, events, seed=seed))
        virtual_time.run(
            run_search(log, SearchWorld(log, buggy=0.6), make_settings(debug_prob=0.5, window=2, num_drafts=6))
        )
        trees.append(comparable_tree(log))
        assert {node.seed for node in log.state.nodes.values() if node.kind in SEARCH_KINDS} == {0}
        assert log.state.compute_variation(cut.state.last_decision + 1) == seed
        assert log.state.compute_variation(cut.state.last_decision) == 0
    assert trees[0] == comparable_tree(whole) and any(one != trees[0] for one in trees[1:])


# --- what the fold makes of it --------------------------------------------------------------------------------------


def test_costs_time_limits_and_requests_begin_anew_and_what_was_there_is_told() -> None:
    whole = finished_search()
    events = timed(whole)
    cut = cut_log(events, "tuning")
    key = CallKey(decision=1, attempt=0, role="code", ordinal=0)
    before: list[Event] = [
        CallAnswered(
            key=key, request_sha256="0", model="m", answer={}, usage=TokenUsage(input_tokens=9, usd=2.0), seconds=1.0
        ),
        CostReserved(k=1, name="1.0.plot.0", spending=Cost(usd=0.5)),
        LimitReached(reason="the budget"),
        CommandReceived(verb="pause"),
        ProcessEnded(exit_code=130, reason="r"),
    ]
    log = MemoryLog(clock=iter(map(float, range(10_000))).__next__)
    for event in [*(event for event, _ in events[: cut.events]), *before]:
        log.append(event)
    state = log.state
    assert state.limit_reason and state.calls.spent_cost.usd == 2.5 and state.active_seconds > 0
    parent_code = state.experiment_seconds
    log.append(branched(cut, events, seed=7))
    assert (
        state.calls.spent_cost == Cost()
        and state.active_seconds == 0
        and state.calls.total_usage.calls == 0
        and not state.calls.usage_by_role
    )
    assert (
        not state.limit_reason and not state.is_paused and state.process_end is None and state.experiment_seconds == 0
    )
    assert state.search.stages["tuning"].began_at is None and state.search.stages["preliminary"].is_settled
    [one] = state.ancestry
    assert one.usage["code"].usd == 2.0 and one.spent.usd == 2.5 and one.experiment_seconds == parent_code > 0
    assert sum_usage(one.usage.values()).calls == 1 and one.decision == state.last_decision and one.active_seconds > 0
    again = fold_events([(event, float(at)) for at, event in enumerate(log.events)])
    assert again.ancestry == state.ancestry and again.decisions == state.decisions


def test_a_node_that_a_person_wrote_takes_no_item_away_and_does_not_hold_up_the_plan_of_ablations() -> None:
    whole, _ = run_whole_search(planned_ablations=0)
    events = timed(whole)
    grown: tuple[tuple[StageName, NodeKind], ...] = (("agenda", "improve"), ("ablation", "ablate"))
    for stage, kind in grown:
        cut = cut_log(events, stage)
        k = cut.state.last_decision + 1
        root = build_snapshot(cut.state, stage, all_of(cut.state)).root
        own = (
            DecisionMade(
                k=k,
                action=ExpandTree(stage=stage, kind=kind, parent=root.id if root else None, seed=0),
                seen=all_of(cut.state),
            ),
            NodeProposed(
                node=f"n{k:04d}", decision=k, title="t", plan="p", varies="v", source_sha256="1", author="Ada"
            ),
        )
        log = MemoryLog([event for event, _ in events[: cut.events]])
        for event in (branched(cut, events), *own):
            log.append(event)
        assert log.state.user_nodes[0].author == "Ada"
        view = build_snapshot(log.state, stage, all_of(cut.state), settings=make_settings())
        assert view.count_turns(kind) == 0 and len(view.list_nodes_of_kind(kind)) == 1
        if stage == "ablation":
            assert (
                view.ablation_plan_status == "due"
                and BestFirstPolicy(make_settings()).pick(view, Random(0)) == ABLATION_PLAN_TASK
            )
        virtual_time.run(run_search(log, Read(log), make_settings(planned_ablations=0)))
        items = [
            one.action.item
            for one in log.state.decisions.values()
            if isinstance(one.action, ExpandTree) and one.action.kind == kind and one.action.stage == stage
        ]
        assert items[0] == "" and items[1] == ("one" if stage == "agenda" else "r")


class Read(SearchWorld):
    """A world that knows the programs that people wrote from the record."""

    def finish(self, node: str, k: int, action: ExpandTree) -> None:
        if self.log.state.nodes[node].author:
            self.log.append(
                AttemptExecuted(
                    node=node,
                    attempt=Attempt(number=1, seconds=1.0, measurements=self.draw_measurements(action, Random(k))),
                )
            )
            self.log.append(NodeJudged(node=node, status="good"))
        else:
            super().finish(node, k, action)


def all_of(state: RunState) -> VisibleDecisions:
    return VisibleDecisions(also=tuple(sorted(state.finished_decisions)))


# --- the log on disk ------------------------------------------------------------------------------------------------


def test_a_copied_log_reads_as_its_parent_with_its_times(tmp_path: Path) -> None:
    whole = finished_search()
    times = iter(1e9 + 0.1 * at for at in range(10_000))
    (tmp_path / "parent").mkdir()
    with closing(EventLog(tmp_path / "parent" / "events.jsonl", clock=lambda: next(times))) as log:
        for event in whole.events:
            log.append(event)
    rows = read_rows(tmp_path / "parent" / "events.jsonl")
    cut = cut_log(read_events(tmp_path / "parent" / "events.jsonl"), "agenda")
    own = RunBranched(
        parent="parent", point="agenda", events=cut.events, sha256=hash_events(rows[: cut.events]), seed=1
    )
    (tmp_path / "branch").mkdir()
    write_rows(tmp_path / "branch" / "events.jsonl", "run", [*rows[: cut.events], (2e9, own.model_dump_json())])
    again = read_rows(tmp_path / "branch" / "events.jsonl")
    assert [(at, json.loads(body)) for at, body in again[: cut.events]] == [
        (at, json.loads(body)) for at, body in rows[: cut.events]
    ]
    state = fold_events(read_events(tmp_path / "branch" / "events.jsonl"))
    assert (
        state.nodes == cut.state.nodes and state.ancestry[0].branching == own and not find_false_ancestry(again, state)
    )
    altered = [(at + 1, body) if at == again[5][0] else (at, body) for at, body in again]
    assert find_false_ancestry(altered, state) == (own,)


# --- the command line -----------------------------------------------------------------------------------------------


def begun(folder: Path, events: Sequence[Event]) -> Path:
    folder.mkdir(parents=True)
    with closing(EventLog(folder / "events.jsonl")) as log:
        for event in events:
            log.append(event)
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--from n9999", "neither a stage"),
        ("--from tuning", "no data plan"),
        ("--from tuning --author Ada", "--author requires --code"),
        ("--from tuning --code nowhere", "no data plan"),
    ],
)
def test_bad_points_are_one_line_and_leave_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    whole = finished_search()
    events = whole.events if "author" in arguments or "n9999" in arguments else whole.events[:1]
    parent = begun(tmp_path / "runs" / "parent", events)
    assert main(["branch", str(parent), *arguments.split()]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1 and said in told[0]
    assert [one.name for one in (tmp_path / "runs").iterdir()] == ["parent"]
    assert main(["branch", str(tmp_path / "runs"), "--from", "ablation"]) == 2
    assert "is not a run" in capsys.readouterr().err
