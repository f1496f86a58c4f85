"""Nodes that owe the same cell at the same time wait for one measurement of it, through the real stage."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.scripted_study import SlowModel, draw_plots, make_late_context, make_measurements
from labwright.agent.audit import find_disagreements
from labwright.record.cell_status import compute_all_cells
from labwright.record.event_log import read_events
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import AttemptExecuted, NodeProposed
from labwright.record.reducers.event_fold import fold_events
from labwright.record.schema.decisions import CallKey
from labwright.record.schema.nodes import Cell, Node
from labwright.sandbox.job import CellResult, Job, JobOutcome
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.nodes import node_cells
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor
from tests.stages.test_cells import program


@pytest.fixture(autouse=True)
def nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is one of those that are measured again to check the others."""
    monkeypatch.setattr(node_cells, "RECHECK_INTERVAL", 2**64)


def three_at_once(tmp_path: Path, *, order: str = "arrival", seconds: float = 0.05) -> tuple[RunContext, list[str]]:
    """A workbench whose agenda makes three nodes at once, alike but for the method's
    file. The cells that were run, by node and arm."""
    ran: list[str] = []

    def cell(job: Job, cell: Cell) -> tuple[float, CellResult]:
        ran.append(f"{job.name[:5]} {cell.arm}")
        (job.folder / "cells" / cell.name / "checkpoints").mkdir(parents=True, exist_ok=True)
        values = tuple(
            one.model_copy(update={"seed": cell.seed, "condition": cell.condition})
            for one in make_measurements(0.5)
            if one.arm == cell.arm
        )
        return seconds, CellResult(seconds=1.0, cell=cell, measurements=values)

    def plots(job: Job) -> tuple[float, JobOutcome]:
        return 0.0, draw_plots(job)

    one = StageLimits(num_seeds=0)
    settings = SearchSettings(
        num_workers=3,
        lookahead=0,
        agenda=StageLimits(nodes=3, num_seeds=0),
        preliminary=one,
        tuning=one,
        max_debug_depth=0,
    ).model_copy(update={"order": order})
    executor = FakeExecutor(plots, slots=3, cell=cell)
    return make_late_context(tmp_path, SlowModel(program, 0.0), executor, settings), ran


async def searched(bench: RunContext) -> list[Node]:
    research = StageRunner(bench)
    assert await research.run_stage("agenda")
    await research.close()
    return bench.state.list_stage_nodes("agenda")


def outcomes(bench: RunContext) -> Counter[tuple[str, str]]:
    return Counter((one.cell.arm, one.outcome) for found in compute_all_cells(bench.state).values() for one in found)


def looks(bench: RunContext) -> list[CallKey]:
    return [key for key in bench.state.calls.answers if key.role == "vision"]


async def test_a_cell_that_three_nodes_owe_at_once_is_measured_by_one(tmp_path: Path) -> None:
    bench, ran = three_at_once(tmp_path)
    nodes = await searched(bench)
    assert [one.status for one in nodes] == ["good"] * 3
    assert sorted(one[6:] for one in ran) == ["baseline", "method", "method", "method"]
    assert outcomes(bench) == {("baseline", "measured"): 1, ("baseline", "taken over"): 2, ("method", "measured"): 3}
    assert all(len(one.measurements) == 2 for one in nodes) and list(find_disagreements(bench.state)) == []
    own = [
        event.type
        for event in _events(bench)
        if isinstance(event, NodeProposed | AttemptExecuted) and event.node in {one.id for one in nodes}
    ]
    assert own == ["proposed"] * 3 + ["executed"] * 3, "they were at once"


async def test_where_the_first_one_is_killed_the_next_measures_and_the_others_take_over(tmp_path: Path) -> None:
    bench, ran = three_at_once(tmp_path, seconds=0.2)

    async def kill_first() -> None:
        while not ran:
            await asyncio.sleep(0.01)
        node = ran[0][:5]
        bench.recorder.append(CommandReceived(verb="kill", target=node, text="enough"))
        bench.signals.kill_node(node)

    killing = asyncio.create_task(kill_first())
    nodes = await searched(bench)
    await killing
    assert Counter(one.status for one in nodes)["good"] == 2
    assert Counter(one[6:] for one in ran)["baseline"] == 2, "the killed one, and one of the others"


async def test_in_ticket_order_no_node_waits_for_another(tmp_path: Path) -> None:
    """What a node takes over follows from what its decision may see alone."""
    bench, ran = three_at_once(tmp_path, order="ticket")
    await searched(bench)
    assert Counter(one[6:] for one in ran) == {"baseline": 3, "method": 3}
    assert outcomes(bench) == {("baseline", "measured"): 3, ("method", "measured"): 3}
    assert len(looks(bench)) == 3


@pytest.mark.parametrize("within", [0.06, 0.13])
async def test_a_run_that_was_cut_goes_on_and_measures_each_cell_once(tmp_path: Path, within: float) -> None:
    bench, ran = three_at_once(tmp_path)
    research = StageRunner(bench)
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await research.run_stage("agenda")
    await research.close()
    assert bench.work_in_progress.list_pending(one.key for _, one in bench.state.cells.values()) == []
    committed = len(bench.state.cells)
    ran.clear()
    nodes = await searched(bench)
    assert [one.status for one in nodes] == ["good"] * 3 and len(ran) + committed == len(bench.state.cells) == 4
    assert len(looks(bench)) == 3 and not bench.state.calls.superseded_answers and not bench.state.calls.changed_prompts
    assert fold_events((event, 0.0) for event in _events(bench)).nodes == bench.state.nodes


def _events(bench: RunContext) -> list[Event]:
    return [event for event, _ in read_events(bench.folder.root / "events.jsonl")]
