"""Looks at fresh seeds end by a decision or a limit, and go on with more time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scripted_study import PLAN, SlowModel, draw_plots, make_late_context
from labwright.record.claims.hypothesis_tests import UnmeasuredEffectError
from labwright.record.events.run_events import LimitReached
from labwright.record.events.search_events import DecisionMade, SealedTestScored
from labwright.record.schema.data_plan import Measurement, Trial
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Cell, format_node_id
from labwright.sandbox.job import CellResult, Job
from labwright.search.replication import FRESH_SEED_OFFSET, list_unread_nodes
from labwright.search.scheduler import list_all_results
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


def make_study(folder: Path, clock: Clock, *, slots: int = 1, slow: int = -1) -> RunContext:
    """A study of two cells a seed, which take a minute with the seed `slow`. Its looks are at 5, 8, 10, 15 and 20
    seeds; nothing is scored on test data, so no look decides anything."""

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
        return 60.0 * (cell.seed == slow), CellResult(seconds=1.0, cell=cell, measurements=(value,))

    settings = SearchSettings(
        num_workers=slots,
        lookahead=0,
        max_seeds=20,
        ladder=False,
        planned_ablations=0,
        agenda=StageLimits(nodes=1),
        ablation=StageLimits(nodes=1, num_seeds=0),
        preliminary=StageLimits(num_seeds=0),
        tuning=StageLimits(num_seeds=0),
    )
    executor = FakeExecutor(
        lambda job: ({slow: 60.0, slow + 1: 2.0}.get(job.seed, 0.0), draw_plots(job)), slots=slots, cell=cell
    )
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


@pytest.mark.parametrize("during", [True, False])
async def test_replicates_that_no_look_reads_are_cancelled_once_sampling_ends(tmp_path: Path, during: bool) -> None:
    """A seed that runs while a look ends the sampling is not waited for; one that a kill left behind does not start."""
    clock, late = Clock(), FRESH_SEED_OFFSET + 90
    context = make_study(tmp_path, clock, slots=2, slow=late)
    research = StageRunner(context)
    assert await research.run_stage("agenda")
    lock = context.state.search.current_lock
    assert lock is not None
    clock.left = 22.0

    def decide() -> DecisionMade:
        action = ExpandTree(stage="agenda", kind="replicate", parent=lock.winner, seed=late)
        seen = list_all_results(context.state)
        context.recorder.append(made := DecisionMade(k=context.state.last_decision + 1, action=action, seen=seen))
        return made

    decided = decide() if during else None
    began = time.monotonic()
    assert await research.run_follow_ups("ablation")
    await research.close()
    assert context.state.search.looks[-1].ends.startswith("the next look takes 3 more seeds")
    if decided is None:
        decided = decide()
        assert [one.seed for one in list_unread_nodes(context.state)] == [late]
        await expand(context, decided, lambda: None)
    assert time.monotonic() - began < 50
    ended = context.state.nodes[format_node_id(decided.k)]
    assert ended.status == "cancelled" and not ended.attempts
    assert ended.failure is not None and ended.failure.kind == "other", "with more time it may run again"
    assert list_unread_nodes(context.state) == ()


async def test_trials_are_cancelled_once_a_limit_of_the_run_ended_their_stage(tmp_path: Path) -> None:
    """Nothing reads them, and the confirmation would wait for their slots."""
    context = make_study(tmp_path, Clock(), slots=2, slow=7)
    research, limit = StageRunner(context), LimitReached(reason="the budget is spent")
    for number in (1, 2):
        trials = (Trial(arm="method", number=number, setting={}),)
        tuned = ExpandTree(stage="agenda", kind="trial", parent="n0001", seed=6 + number, trials=trials)
        context.recorder.append(DecisionMade(k=context.state.last_decision + 1, action=tuned))
    asyncio.get_running_loop().call_later(1.0, context.recorder.append, limit)  # seen when the second one ends
    async with asyncio.timeout(50):
        assert await research.run_stage("agenda")
        while any(one.kind == "trial" and not one.is_finished for one in context.state.nodes.values()):
            await asyncio.sleep(0.01)
    await research.close()
    first, second = (one for one in context.state.nodes.values() if one.kind == "trial")
    assert (first.status, second.status) == ("cancelled", "good")
    assert first.failure is not None and first.failure.message == "not needed: a limit ended the stage"
