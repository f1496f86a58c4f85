"""Cost of a Ray cluster compared with local slots, and the loss of machines.

python -m benchmarks.cluster [--only local,ray,vanish] [--cells N] [--seconds S] [--out FILE]

The clusters are node processes on this machine. `local`, `ray`: jobs of sleeping cells, with local slots and on a
cluster: elapsed time of 200 cells of 1 s on 8 workers relative to the bound (200 / 8 s), CPU seconds per cell of this
process and of all others, and the overhead per cell with one worker. `vanish`: of four machines, two are killed with -9
while 24 cells run; each cell is committed once. Prints one JSON object; exits 1 if a cell is lost or committed twice.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

from benchmarks.report import make_parser, print_report
from labwright.record.schema.nodes import Cell
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor, open_executor
from labwright.sandbox.job import CellEnded, CellStarted, Job, JobEnded, measure_all
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import cell_tasks
from tests.ray_cluster import RayCluster, start_cluster

WORKERS, CELLS = 8, 200
SLEEPING_CODE = """
import time
import lab

def run(cell):
    time.sleep({seconds})
    lab.result("one", 1.0, condition=cell.condition, dataset=cell.dataset)

lab.measure(run)
"""


def make_job(folder: Path, count: int, seconds: float) -> Job:
    """Build a job of sleeping cells whose duration is known."""
    cells = [Cell(dataset="digits", arm="only", level=f"l{n}") for n in range(count)]
    source = {"experiment.py": SLEEPING_CODE.format(seconds=seconds)}
    tasks = cell_tasks(cells, expected=dict.fromkeys(cells, seconds))
    return Job("cells", folder, source, cells=tasks, datasets=("digits",), timeout=3600.0)


def make_executor(place: Path, slots: int, cluster: RayCluster | None) -> LocalExecutor:
    """Open an executor with local slots or on the cluster."""
    settings = SandboxSettings()
    if cluster is not None:
        settings = settings.model_copy(update={"executor": "ray", "ray": cluster.address, "store": place / "store"})
    return open_executor(slots, place / "views", settings=settings, labels=place / "labels", cache=place / "cache")


@contextmanager
def measure_cpu(cluster: RayCluster | None) -> Generator[dict[str, float]]:
    """Yield a dictionary that has, after the end, the CPU seconds of this process (`head`) and of its descendants and
    the cluster's (`others`); those of the last half second of a process that ended before are missing."""
    roots = [os.getpid(), *(machine.process.pid for machine in (cluster.machines if cluster else ()))]
    first, last, used, ended = dict[int, float](), dict[int, float](), dict[str, float](), Event()

    def sample() -> None:
        for root in roots:
            for process in psutil.Process(root).children(recursive=True):
                with suppress(psutil.Error):
                    last[process.pid] = sum(process.cpu_times()[:4])

    def sample_repeatedly() -> None:
        while not ended.wait(0.5):
            sample()

    sample()
    first, began, thread = dict(last), time.process_time(), Thread(target=sample_repeatedly)
    thread.start()
    try:
        yield used
        used["head"] = time.process_time() - began
    finally:
        ended.set()
        thread.join()
    used["others"] = sum(last.values()) - sum(first.values())


async def measure_sleeping(
    executor: LocalExecutor, folder: Path, cluster: RayCluster | None, *, count: int, seconds: float
) -> dict[str, float]:
    """Run one job of sleeping cells; return elapsed time, the overhead per cell and worker, and CPU seconds per
    cell."""
    try:
        with measure_cpu(cluster) as used:
            began = time.monotonic()
            outcome = await measure_all(executor, make_job(folder, count, seconds))
            wall = time.monotonic() - began
    finally:
        await executor.close()
    assert all(one.outcome == "measured" for one in outcome.cells), outcome
    bound = count * seconds / executor.slots
    return {
        "wall": wall,
        "bound": bound,
        "to_bound": wall / bound,
        "overhead_of_a_cell": (wall - bound) * executor.slots / count,
        **{f"cpu_of_a_cell_{name}": one / count for name, one in used.items()},
        "load": os.getloadavg()[0],
    }


def measure_cells(place: Path, count: int, seconds: float, cluster: RayCluster | None) -> dict[str, Any]:
    """Run sleeping cells with local slots or on a cluster."""
    over, alone = make_executor(place, WORKERS, cluster), make_executor(place, 1, cluster)
    return {
        "cells": count,
        "workers": WORKERS,
        "over_workers": asyncio.run(measure_sleeping(over, place / "job", cluster, count=count, seconds=seconds)),
        "one_by_one": asyncio.run(measure_sleeping(alone, place / "job", cluster, count=40, seconds=0.05)),
    }


async def measure_vanishing(place: Path, cluster: RayCluster, count: int) -> dict[str, Any]:
    """Run cells on four machines, and kill two once a sixth of the cells is committed."""
    executor, began = make_executor(place, WORKERS, cluster), time.monotonic()
    started, committed = list[Cell](), list[Cell]()
    measured = 0
    try:
        async with executor.measure(make_job(place / "vanish", count, 1.0)) as stream:
            async for event in stream:
                match event:
                    case CellStarted():
                        started.append(event.cell)
                    case CellEnded():
                        committed.append(event.result.cell)
                        if len(committed) == count // 6:
                            for machine in cluster.machines[2:]:
                                await asyncio.to_thread(machine.kill)
                    case JobEnded():
                        measured = sum(one.outcome == "measured" for one in event.outcome.cells)
                    case _:
                        pass
    finally:
        await executor.close()
    return {
        "cells": count,
        "measured": measured,
        "started": len(started),
        "committed": len(committed),
        "committed_twice": len(committed) - len({*committed}),
        "wall": time.monotonic() - began,
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--only", default="local,ray,vanish")
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--seconds", type=float, default=1.0)
    args = parser.parse_args()
    chosen, found = args.only.split(","), dict[str, Any]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        materialise("digits", views=place / "views", labels=place / "labels", seed=1)
        if "local" in chosen:
            found["local"] = measure_cells(place, args.cells, args.seconds, None)
        if "ray" in chosen:
            cluster = start_cluster(2, cpus=WORKERS // 2)
            try:
                found["ray"] = measure_cells(place, args.cells, args.seconds, cluster)
            finally:
                cluster.end()
        if "vanish" in chosen:
            cluster = start_cluster(4)
            try:
                found["vanish"] = asyncio.run(measure_vanishing(place, cluster, 24))
            finally:
                cluster.end()
    print_report(found, args.out)
    vanished = found.get("vanish", {"measured": 0, "cells": 0, "committed_twice": 0})
    return 0 if vanished["measured"] == vanished["cells"] and not vanished["committed_twice"] else 1


if __name__ == "__main__":
    sys.exit(main())
