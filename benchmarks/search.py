"""Utilisation of the search, model calls and prompt length per node, and scaling.

python -m benchmarks.search [--out FILE] [--unit SECONDS] [--cell-unit SECONDS] [--slots N ...]

Prints one JSON object. Model and executor are scripted; scheduler, node expansion and record are the real ones.
Lengths are in units of `unit` seconds: 40 jobs of 1, 2, 3, 12 in turn, 4 slots, a model that takes 0.2 (or 5) per
answer. The batch scheduler follows the description in AI-Scientist-v2, section 3.2.2: nodes are chosen and run in
batches as large as the slots, and the next batch starts when the last node of a batch is done; its model calls are
made in parallel, one latency per batch. The same work in nodes of cells (`benchmarks.cell_scheduling`) is compared
with nodes of one job.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from benchmarks.cell_scheduling import CELLS_PER_NODE, compute_cell_bound, measure_reuse, measure_stage
from benchmarks.report import make_parser, print_report
from benchmarks.scripted_study import (
    JOB_LENGTHS,
    SlowModel,
    answer_role,
    make_job_executor,
    make_late_context,
    prompt_length,
)
from labwright.record.schema.nodes import SEARCH_KINDS
from labwright.search import scheduler
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.stage_runner import StageRunner

JOB_COUNT, SLOT_COUNT = 40, 4


def compute_list_schedule(lengths: list[float], places: int) -> float:
    """Return when the last job ends if each, in order, takes the first free slot."""
    free = [0.0] * places
    for length in lengths:
        heapq.heapreplace(free, free[0] + length)
    return max(free)


def make_settings(nodes: int, **changes: object) -> SearchSettings:
    """Make a search of one stage without replicates."""
    given = {"num_workers": SLOT_COUNT, "lookahead": 2, "num_seeds": 0, "agenda": StageLimits(nodes=nodes), **changes}
    return SearchSettings.model_validate(given)


def measure_search(unit: float, latency: float, **changes: object) -> tuple[float, float]:
    """Return scaled elapsed time and model calls per finished node, for one stage of `JOB_COUNT` nodes."""
    model, given = SlowModel(answer_role, latency * unit), make_settings(JOB_COUNT, **changes)
    with tempfile.TemporaryDirectory() as folder:
        bench = make_late_context(Path(folder), model, make_job_executor(unit, given.num_workers), given)
        began = time.perf_counter()
        asyncio.run(StageRunner(bench).run_stage("agenda"))
        wall = (time.perf_counter() - began) / unit
        finished = [
            node for node in bench.state.list_stage_nodes("agenda") if node.kind in SEARCH_KINDS and node.is_finished
        ]
        assert len(finished) == JOB_COUNT, len(finished)
    return wall, len(model.requests) / JOB_COUNT


async def run_in_batches(unit: float, latency: float) -> None:
    """Run the same jobs in batches."""
    for first in range(0, JOB_COUNT, SLOT_COUNT):
        await asyncio.sleep(latency * unit)
        await asyncio.gather(
            *(asyncio.sleep(JOB_LENGTHS[k % len(JOB_LENGTHS)] * unit) for k in range(first, first + SLOT_COUNT))
        )


def measure_batches(unit: float, latency: float) -> float:
    began = time.perf_counter()
    asyncio.run(run_in_batches(unit, latency))
    return (time.perf_counter() - began) / unit


def measure_packing(unit: float, places: int) -> dict[str, float]:
    """Measure nodes of cells and nodes of one job at a number of slots: elapsed time, also relative to the bound."""
    latency = 0.2
    measure_stage(unit / 50, latency, make_settings(SLOT_COUNT))  # loads and compiles everything once
    cells = measure_stage(unit, latency, make_settings(JOB_COUNT, num_workers=places))
    jobs, _ = measure_search(unit, latency, num_workers=places)
    bounds = (
        compute_cell_bound(JOB_COUNT, places),
        compute_list_schedule([JOB_LENGTHS[k % len(JOB_LENGTHS)] for k in range(JOB_COUNT)], places),
    )
    return {
        "cells_wall": round(cells, 2),
        "cells_to_bound": round(cells / (bounds[0] + latency), 3),
        "jobs_wall": round(jobs, 2),
        "jobs_to_their_bound": round(jobs / (bounds[1] + latency), 3),
        "cells_to_jobs": round(cells / jobs, 3),
    }


def measure_growth(nodes: int) -> float:
    """Return the size of the last ten prompts of a tree of so many nodes, relative to the first ten."""
    model = SlowModel(answer_role, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        bench = make_late_context(Path(folder), model, make_job_executor(0.0, SLOT_COUNT), make_settings(nodes))
        asyncio.run(StageRunner(bench).run_stage("agenda"))
        sizes = [prompt_length(request) for request in model.requests if request.role.name == "code"]
    return sum(sizes[-10:]) / sum(sizes[:10])


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--unit", type=float, default=0.2)
    parser.add_argument(
        "--cell-unit",
        type=float,
        default=2.0,
        help="for comparing cells with jobs: cells are an eighth of a job, and each is committed to disk",
    )
    parser.add_argument("--slots", type=int, nargs="*", default=(SLOT_COUNT,), help="slots for that comparison")
    given = parser.parse_args()
    ideal = compute_list_schedule([JOB_LENGTHS[k % len(JOB_LENGTHS)] for k in range(JOB_COUNT)], SLOT_COUNT)
    fast, calls = measure_search(given.unit, 0.2)
    slow, _ = measure_search(given.unit, 5.0)
    with patch.object(scheduler, "MAX_LOOKAHEAD", 2):
        slow_fixed, _ = measure_search(given.unit, 5.0)
    ticket, _ = measure_search(given.unit, 0.2, order="ticket")
    batch = measure_batches(given.unit, 0.2)
    report = {
        "list_schedule": ideal,
        "wall_to_bound_latency_0.2": round(fast / (ideal + 0.2), 3),
        "wall_to_bound_latency_5": round(slow / (ideal + 5), 3),
        "wall_to_bound_latency_5_lookahead_fixed_at_2": round(slow_fixed / (ideal + 5), 3),
        "batch_to_ours_latency_0.2": round(batch / fast, 3),
        "ticket_to_arrival": round(ticket / fast, 3),
        "model_calls_per_search_node": round(calls, 3),
        "prompt_last_ten_to_first_ten_of_200": round(measure_growth(200), 3),
        "cells_a_node": CELLS_PER_NODE,
        "cells_by_slots": {places: measure_packing(given.cell_unit, places) for places in given.slots},
        "cells_over_a_whole_run": measure_reuse(given.unit / 10),
    }
    print_report(report, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
