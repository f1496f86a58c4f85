"""Scripted nodes of cells: how close slots come to the bound of list scheduling, and what reusing cells saves.

A node has eight cells, two arms at four levels, which share the length of a job of `benchmarks.search` equally: 1,
2, 3 and 12 in turn. Scheduler, node expansion, cell scheduling and record are the real ones; no kernels are
started.
"""

from __future__ import annotations

import asyncio
import heapq
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel

from benchmarks.generated_runs import measure
from benchmarks.scripted_study import (
    JOB_LENGTHS,
    PLAN,
    SlowModel,
    answer_role,
    draw_plots,
    make_context,
    make_late_context,
)
from labwright.models.backend import ModelRequest
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import PlotInputs, Plots
from labwright.models.roles.node_assessment import CompareInputs, Preference, StageReport, SummaryInputs
from labwright.record.cell_status import compute_all_cells, compute_cell_totals
from labwright.record.schema.data_plan import Level
from labwright.record.schema.nodes import SEARCH_KINDS, STAGES, Cell
from labwright.record.source_tree import WholeFile
from labwright.sandbox.job import CellResult, Job
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor

LEVELS = tuple(Level(name=f"noise{percent}", value=percent) for percent in (0, 10, 20, 40))
GRID = PLAN.model_copy(update={"factor": "noise", "levels": LEVELS})
CELLS_PER_NODE = len(LEVELS) * len(GRID.arms)
PILOT_CELLS = len(GRID.arms)
"""Cells of a node: one for each arm on the one dataset."""
SOURCE = {
    "experiment.py": "import lab\n\n\ndef run(cell):\n    pass\n\n\nlab.measure(run)\n",
    "common.py": "# common\n",
    "arms/baseline.py": "# baseline\n",
    "arms/method.py": "# method\n",
    "plots.py": "# plots\n",
}
JOINING_SECONDS = 0.05
"""Modelled cost of another worker, on the scale of the lengths: fewer are added if little work is left."""
CHANGED_FILES = {"tune": "common.py", "improve": "arms/method.py", "ablate": "arms/without_part.py"}
"""File that each kind of node changes, unless it changes all: an ablation has its own arm."""


def answer_cell_role(request: ModelRequest, changed: Callable[[CodeInputs], str]) -> BaseModel:
    """Answer all roles of the stages; programs change the parent's file that `changed` names."""
    match request.inputs:
        case CodeInputs() as inputs:
            path = changed(inputs)
            before = dict(inputs.parent.files) if inputs.parent is not None and inputs.parent.files else SOURCE
            if "common.py" not in before:
                before = SOURCE
            text = f"{before.get(path, '')}# {inputs.kind} {inputs.ordinal} of {inputs.stage}\n"
            return Program(
                title="a program",
                plan="as before",
                varies=f"{path} {inputs.ordinal}",
                arms=("without-part",) if inputs.kind == "ablate" else (),
                files=tuple(WholeFile(path=name, text=one) for name, one in (before | {path: text}).items()),
            )
        case SummaryInputs():
            return StageReport(tried="all", found="it works")
        case CompareInputs():
            return Preference(better="neither", reasons="they are alike")
        case PlotInputs():
            return Plots(plots="# all seeds\n")
        case _:
            return answer_role(request)


def make_cell_executor(unit: float, places: int, lengths: tuple[float, ...] = JOB_LENGTHS) -> FakeExecutor:
    """Make an executor whose programs take the given lengths in turn, split equally over cells, and whose plots are
    instant.
    """
    begun: dict[str, int] = {}

    def cell(job: Job, one: Cell) -> tuple[float, CellResult]:
        k = begun.setdefault(job.name, len(begun))
        seconds = lengths[k % len(lengths)] * unit / CELLS_PER_NODE
        return seconds, CellResult(
            seconds=seconds, cell=one, measurements=(measure(0.5 - 0.0001 * k, one, grade="computed"),)
        )

    return FakeExecutor(
        lambda job: (0.0, draw_plots(job)), slots=places, cell=cell, start_seconds=JOINING_SECONDS * unit
    )


def compute_cell_bound(nodes: int, places: int) -> float:
    """Return when the last cell ends if a free place takes the first cell that may start.

    The order is by node: pilots first, then the others, each after the pilot of its arm. Source: Graham (1969),
    Bounds on multiprocessing timing anomalies: list scheduling.
    """
    waiting = [(k, n) for k in range(nodes) for n in range(CELLS_PER_NODE)]
    running: list[tuple[float, tuple[int, int]]] = []
    ended = set[tuple[int, int]]()
    now = 0.0
    while waiting or running:
        while (
            len(running) < places
            and (cell := next(((k, n) for k, n in waiting if n < PILOT_CELLS or (k, n % PILOT_CELLS) in ended), None))
            is not None
        ):
            waiting.remove(cell)
            heapq.heappush(running, (now + JOB_LENGTHS[cell[0] % len(JOB_LENGTHS)] / CELLS_PER_NODE, cell))
        now, cell = heapq.heappop(running)
        ended.add(cell)
    return now


def measure_stage(unit: float, latency: float, settings: SearchSettings) -> float:
    """Return the scaled elapsed time of one stage of nodes that have no cell in common."""
    model = SlowModel(lambda request: answer_cell_role(request, lambda _: "experiment.py"), latency * unit)
    with tempfile.TemporaryDirectory() as folder:
        bench = make_late_context(
            Path(folder), model, make_cell_executor(unit, settings.num_workers), settings, plan=GRID
        )
        began = time.perf_counter()
        asyncio.run(StageRunner(bench).run_stage("agenda"))
        wall = (time.perf_counter() - began) / unit
        finished = [
            node for node in bench.state.list_stage_nodes("agenda") if node.kind in SEARCH_KINDS and node.is_finished
        ]
        assert len(finished) == settings.agenda.nodes and all(node.status == "good" for node in finished)
        assert len(bench.state.cells) == CELLS_PER_NODE * len(finished), "each cell was measured once"
    return wall


def measure_reuse(unit: float) -> dict[str, float]:
    """Measure what reusing cells saves over the four stages of a run: seconds of compute, and of reused cells.

    Programs are split by arm, and take as long on average as the others.
    """
    settings = SearchSettings(
        num_workers=4,
        num_seeds=2,
        max_seeds=2,
        planned_ablations=0,
        preliminary=StageLimits(nodes=4),
        tuning=StageLimits(nodes=8),
        agenda=StageLimits(nodes=8),
        ablation=StageLimits(nodes=4),
    )
    model = SlowModel(
        lambda request: answer_cell_role(request, lambda inputs: CHANGED_FILES.get(inputs.kind, "experiment.py")),
        0.2 * unit,
    )

    async def run() -> None:
        research = StageRunner(bench)
        for stage in STAGES:
            assert await research.run_stage(stage)

    with tempfile.TemporaryDirectory() as folder:
        bench = make_context(
            Path(folder),
            model,
            make_cell_executor(unit, settings.num_workers, (fmean(JOB_LENGTHS),)),
            settings,
            plan=GRID,
        )
        asyncio.run(run())
        totals = compute_cell_totals(bench.state, compute_all_cells(bench.state))
        assert totals is not None
    return {
        "cells_owed": totals.owed,
        "cells_taken_over": totals.taken_over,
        "seconds_computed": round(totals.seconds / unit, 2),
        "seconds_saved": round(totals.seconds_saved / unit, 2),
        "measured_again_and_different": len(totals.differing),
    }
