"""Cost of the sandbox: start of a kernel, overhead of an attempt, memory of a kernel, and its end.

Each figure is a median over `--rounds` kernels, alternating with and without the sandbox. The attempts import
numpy, torch, scikit-learn and matplotlib and submit nothing. Seconds and bytes; JSON on stdout and in `--out`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Literal

from benchmarks.report import make_parser, print_report
from labwright.record.schema.nodes import Cell
from labwright.sandbox.cell_runner import execute
from labwright.sandbox.cell_scheduler import RunningCell
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.bubblewrap import KernelConfig, determine_isolation
from labwright.sandbox.isolation.processes import compute_limits, list_process_tree, measure_use
from labwright.sandbox.job import CellTask, Job, measure_all
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import KernelScript

Mode = Literal["required", "none"]
MODES: tuple[Mode, ...] = ("required", "none")
MAX_END_SECONDS = 2.0
"""Seconds within which all processes of an experiment must be gone.

Without a sandbox, a process that detaches from its parents (a daemon) is not found; no code here does this.
"""

IMPORTS_CODE = """
import numpy, torch, sklearn.linear_model, matplotlib.pyplot, lab
lab.result("one", 1.0, condition="none", dataset="none")
"""
ENDLESS_CODE = (
    "    while True:\n        try:\n            time.sleep(9)\n        except BaseException:\n            {}\n"
)
STUBBORN_CODES = {
    "interrupted": "import time\ntime.sleep(99)\n",
    "swallowed": "import time\nif 1:\n" + ENDLESS_CODE.format("pass"),
    "long_call": "import re\nre.match('(a+)+b', 'a' * 60)\n",
    "setsid_child": "import subprocess, time\nsubprocess.Popen(['sleep', '99'], start_new_session=True)\nif 1:\n"
    + ENDLESS_CODE.format("pass"),
    "many_children": "import subprocess, time\n"
    "[subprocess.Popen(['sleep', '99'], start_new_session=True) for _ in range(20)]\nif 1:\n"
    + ENDLESS_CODE.format("pass"),
}
"""Code that must be killed. Latency is counted from the interrupt, without the grace period."""


@contextmanager
def fresh_kernel(settings: SandboxSettings, place: Path) -> Generator[Kernel]:
    """Yield a kernel that has not been started yet."""
    config = KernelConfig(settings, determine_isolation(settings), place / "cache")
    kernel = Kernel(Path(tempfile.mkdtemp(dir=place)), config=config)
    try:
        yield kernel
    finally:
        kernel.kill()


def make_script(code: str, kernel: Kernel, limit: float = 10.0) -> KernelScript:
    """Return code as the script of a started kernel."""
    job = Job("benchmark", kernel.folder, {})
    (kernel.folder / job.entry).write_text(code)
    return KernelScript(job, Cell(dataset="", arm=""), kernel.folder, limit, {})


async def measure_start(settings: SandboxSettings, place: Path) -> dict[str, float]:
    """Measure one kernel from start to end."""
    clock = time.perf_counter
    with fresh_kernel(settings, place) as kernel:
        began = clock()
        await kernel.start()
        started = clock()
        memory = measure_use(list_process_tree(kernel.pid))
        await execute(kernel, make_script("pass", kernel), compute_limits(settings, slots=1), RunningCell())
        executed = clock()
        kernel.kill()
        return {
            "start": started - began,
            "empty_script": executed - started,
            "end": clock() - executed,
            "idle_bytes": float(memory.private + memory.shared),
        }


async def measure_stubborn(code: str, settings: SandboxSettings, place: Path) -> float:
    """Return seconds from the interrupt until all processes are gone, without the grace period if it was used up."""
    with fresh_kernel(settings, place) as kernel:
        await kernel.start()
        began = time.perf_counter()
        running = asyncio.create_task(
            execute(kernel, make_script(code, kernel, 0.5), compute_limits(settings, slots=1), RunningCell())
        )
        await asyncio.sleep(0.45)
        before = list_process_tree(kernel.pid)
        execution = await running
        kernel.kill()
        seconds = time.perf_counter() - began - 0.5
        assert execution.failure is not None and execution.failure.kind == "timeout", execution.failure
        left = [pid for pid in before if Path(f"/proc/{pid}").exists()]
        assert not left or settings.isolation == "none", f"still running: {left}"
        return seconds - (settings.grace if "killed" in execution.failure.message else 0.0)


async def measure_attempt(executor: LocalExecutor, folder: Path) -> dict[str, float]:
    """Measure one attempt."""
    began = time.perf_counter()
    outcome = await measure_all(executor, Job("one", folder, {"experiment.py": IMPORTS_CODE}))
    seconds = time.perf_counter() - began
    assert outcome.failure is None, outcome.failure
    return {"whole": seconds, "code": outcome.seconds, "overhead": seconds - outcome.seconds}


async def measure_attempts(rounds: int, place: Path) -> dict[Mode, list[dict[str, float]]]:
    """Measure attempts of each mode in turn."""
    executors = [
        LocalExecutor(1, place / "views", cache=place / mode / "cache", settings=SandboxSettings(isolation=mode))
        for mode in MODES
    ]
    found: dict[Mode, list[dict[str, float]]] = {mode: [{} for _ in range(rounds)] for mode in MODES}
    try:
        for number in range(rounds + 1):  # the first round fills caches
            for mode, executor in zip(MODES, executors, strict=True):
                figures = await measure_attempt(executor, place / mode / str(number))
                if number:
                    found[mode][number - 1].update({f"attempt_{key}": one for key, one in figures.items()})
    finally:
        for executor in executors:
            await executor.close()
    return found


EMPTY_CODE = "import lab\n\ndef run(cell):\n    lab.result('one', 1.0)\n\nlab.measure(run)\n"
CELL_COUNT = 40
"""Cells of a job after the first."""


async def measure_cell_costs(place: Path, mode: Mode) -> dict[str, float]:
    """Measure an empty cell after the first of its kernel.

    Seconds from one cell to the next (`cell`), and within the kernel (`cell_in_kernel`).
    """
    settings = SandboxSettings(isolation=mode)
    if not (place / "views").exists():
        materialise("digits", views=place / "views", labels=place / "labels", seed=1)
    executor = LocalExecutor(1, place / "views", cache=place / mode / "cache", settings=settings)
    walls: list[float] = []
    codes: list[float] = []
    try:
        for count in (1, 1 + CELL_COUNT):
            cells = tuple(Cell(dataset="digits", arm="a", level=str(number)) for number in range(count))
            began = time.perf_counter()
            outcome = await measure_all(
                executor,
                Job(
                    "cells",
                    Path(tempfile.mkdtemp(dir=place)) / "job",
                    {"experiment.py": EMPTY_CODE},
                    cells={cell: CellTask(expected_seconds=0.01) for cell in cells},
                ),
            )
            walls.append(time.perf_counter() - began)
            codes.append(outcome.seconds)
            assert outcome.failure is None, outcome.failure
    finally:
        await executor.close()
    return {"cell": (walls[1] - walls[0]) / CELL_COUNT, "cell_in_kernel": (codes[1] - codes[0]) / CELL_COUNT}


async def measure_medians(rounds: int) -> dict[Mode, dict[str, float]]:
    """Return medians by mode."""
    found: dict[Mode, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "cache").mkdir()
        for number in range(rounds + 1):
            for mode in MODES:
                settings = SandboxSettings(isolation=mode, grace=0.2)
                figures = await measure_start(settings, place)
                for words, code in STUBBORN_CODES.items():
                    figures[f"kill_{words}"] = await measure_stubborn(code, settings, place)
                figures |= await measure_cell_costs(place, mode)
                if number:  # the first round fills caches
                    found[mode].append(figures)
        for mode, many in (await measure_attempts(rounds, place)).items():
            found[mode] = [one | more for one, more in zip(found[mode], many, strict=True)]
    return {mode: {key: median(one[key] for one in many) for key in many[0]} for mode, many in found.items()}


def check_promises(medians: Mapping[Mode, Mapping[str, float]]) -> dict[str, bool]:
    """Return each promised limit, and whether it holds."""
    kills = [value for one in medians.values() for key, value in one.items() if key.startswith("kill_")]
    return {f"everything gone within {MAX_END_SECONDS} s": max(kills) < MAX_END_SECONDS}


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    medians = asyncio.run(measure_medians(arguments.rounds))
    ratios = {
        "with_walls_to_without": {key: medians["required"][key] / one for key, one in medians["none"].items() if one}
    }
    report = {"rounds": arguments.rounds, "root": os.geteuid() == 0, "load": os.getloadavg()[0], "medians": medians}
    print_report(report | {"ratios": ratios, "kept": check_promises(medians)}, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
