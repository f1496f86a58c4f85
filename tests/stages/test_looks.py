"""Looks at fresh seeds end by a decision or a limit, and go on with more time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scripted_study import PLAN, SlowModel, draw_plots, make_late_context
from labwright.record.claims.hypothesis_tests import UnmeasuredEffectError
from labwright.record.events.search_events import DecisionMade, SealedTestScored
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Cell, format_node_id
from labwright.sandbox.job import CellResult, Job
from labwright.search.replication import FRESH_SEED_OFFSET, list_unread_replicates
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.nodes.node_runner import expand
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor
from tests.hypotheses import make_hypotheses
from tests.stages.test_cells import program

DECIDED = PLAN.model_copy(
    update={
        "hypotheses": tuple(
            one.model_copy(update={"unit": "seeds"}) for one in make_hypotheses("method", "baseline", higher=False)
        )
    }
)


class Clock:
    """The time left, in seconds; cells take one each."""

    left = 200.0


def make_study(folder: Path, clock: Clock) -> RunContext:
    """A study of two cells a seed in one slot, whose looks are at 5, 8, 10, 15 and 20 seeds; nothing is scored on
    test data, so no look decides anything."""

    def cell(job: Job, cell: Cell) -> tuple[float, CellResult]:
        value = Measurement(
            name="log_loss",
            value=0.5 - 0.1 * (cell.arm == "method"),
            condition=cell.condition,
            dataset="digits",
            split="validation",
            seed=cell.seed,
            grade="computed",
        )
        return 0.0, CellResult(seconds=1.0, cell=cell, measurements=(value,))

    settings = SearchSettings(
        num_workers=1,
        lookahead=0,
        max_seeds=20,
        ladder=False,
        planned_ablations=0,
        agenda=StageLimits(nodes=1),
        ablation=StageLimits(nodes=1, num_seeds=0),
        preliminary=StageLimits(num_seeds=0),
        tuning=StageLimits(num_seeds=0),
    )
    executor = FakeExecutor(lambda job: (0.0, draw_plots(job)), slots=1, cell=cell)
    made = make_late_context(folder, SlowModel(program, 0.0), executor, settings, plan=DECIDED)
    return replace(made, run_seconds=200.0, seconds_left=lambda: clock.left)


async def test_sampling_ends_with_the_time_set_aside_and_goes_on_with_more(tmp_path: Path) -> None:
    clock = Clock()
    context = make_study(tmp_path, clock)
    research = StageRunner(context)
    assert await research.run_stage("agenda")
    state = context.state
    assert state.search.current_lock is not None and state.search.current_lock.looks[:5] == (5, 8, 10, 15, 20)
    assert state.search.hours is not None and (state.search.hours.seeds, state.search.hours.seed_seconds) == (5, 2.0)
    clock.left = 31.0  # 24 of them for the paper and scoring: time for three more seeds
    assert await research.run_follow_ups("ablation")
    assert [len(one.seeds) for one in state.search.looks] == [5, 8, 10]
    assert state.search.looks[-1].ends == "the next look takes 5 more seeds, and there is time for 3"
    clock.left = 200.0  # as after `resume --time-limit`
    assert await research.run_stage("ablation")
    await research.close()
    assert [len(one.seeds) for one in state.search.looks] == [5, 8, 10, 15, 20]
    assert state.search.looks[-1].ends == "the next look takes 29 seeds, and search.max_seeds is 20"
    fresh = [one for one in state.nodes.values() if one.kind == "replicate" and one.seed >= FRESH_SEED_OFFSET]
    assert [one.seed - FRESH_SEED_OFFSET for one in fresh] == [*range(20)], "no seed runs that no look reads"
    assert not state.search.test_measurements, "a study without test data decides on fresh seeds"


async def test_a_look_at_seeds_without_any_value_of_a_claim_ends_the_run(tmp_path: Path) -> None:
    context = make_study(tmp_path, Clock())
    other = Measurement(
        name="log_loss", value=0.5, condition="method", dataset="digits", split="test", seed=0, grade="computed"
    )
    research = StageRunner(context)
    assert await research.run_stage("agenda")
    context.recorder.append(SealedTestScored(node="n0001", measurements=(other,)))
    said = r"^hypothesis/gain/1: none of 5 seeds has a value; the first: .* with seed 10000 was not measured"
    with pytest.raises(UnmeasuredEffectError, match=said):
        await research.run_follow_ups("ablation")
    await research.close()
    assert context.state.search.looks == []


async def test_replicates_that_no_look_reads_are_cancelled_once_sampling_ends(tmp_path: Path) -> None:
    """As time runs short at the first look, the seed that runs meanwhile is not waited for, and a resumed run does not
    start it again; with more time it runs."""
    clock = Clock()
    context = make_study(tmp_path, clock)
    research = StageRunner(context)
    assert await research.run_stage("agenda")
    lock = context.state.search.current_lock
    assert lock is not None
    clock.left = 25.0
    assert await research.run_follow_ups("ablation")
    await research.close()
    assert context.state.search.looks[-1].ends
    k = context.state.last_decision + 1
    action = ExpandTree(stage="agenda", kind="replicate", parent=lock.winner, seed=lock.seeds[0] + 90)
    decided = DecisionMade(k=k, action=action)
    context.recorder.append(decided)
    unread = context.state.nodes[format_node_id(k)]
    assert list_unread_replicates(context.state) == (unread,)
    await expand(context, decided, lambda: None)
    ended = context.state.nodes[unread.id]
    assert ended.status == "cancelled" and not ended.attempts
    assert ended.failure is not None and ended.failure.kind == "other", "it may run again"
    assert list_unread_replicates(context.state) == ()
