"""What isolation costs: start of a kernel, what an attempt takes beyond its code, memory of a kernel, and its end.

Each figure is a median over `--rounds` kernels, with walls and without in turn. JSON on stdout, and in `--out`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from sandbox.isolation.family import family, held
from sandbox.isolation.limits import limits_of
from sandbox.isolation.probe import isolation_of
from sandbox.kernels import Kernel, Script, Terms
from sandbox.settings import SandboxSettings

MODES = ("required", "none")
STUBBORN = ("import subprocess, time\n[subprocess.Popen(['sleep', '60'], start_new_session=True) for _ in range(20)]\n"
            "while True:\n    try:\n        time.sleep(9)\n    except BaseException:\n        pass\n")


async def one(settings: SandboxSettings, place: Path) -> dict[str, float]:
    """One kernel from its start to its end: seconds, and bytes of memory that it holds when idle."""
    terms = Terms(isolation_of(settings), limits_of(settings, places=1))
    folder = Path(tempfile.mkdtemp(dir=place))
    clock = time.perf_counter
    kernel = Kernel(Script(folder, "experiment.py", 0, "experiment", {}), settings=settings, cache=place, terms=terms)
    try:
        began = clock()
        await kernel.start()
        started = clock()
        memory = held(family(kernel.pid))
        await kernel.execute("pass", 10)
        executed = clock()
    finally:
        kernel.kill()
    return {"start": started - began, "empty_script": executed - started, "end": clock() - executed,
            "idle_bytes": float(memory.private + memory.shared)}


async def stubborn(settings: SandboxSettings, place: Path) -> float:
    """Seconds that it takes to end code that ignores interrupts and has 20 children in sessions of their own."""
    terms = Terms(isolation_of(settings), limits_of(settings, places=1))
    folder = Path(tempfile.mkdtemp(dir=place))
    kernel = Kernel(Script(folder, "experiment.py", 0, "experiment", {}), settings=settings, cache=place, terms=terms)
    try:
        await kernel.start()
        await kernel.execute(STUBBORN, 1.0)
        before = family(kernel.pid)
        began = time.perf_counter()
    finally:
        kernel.kill()
    took = time.perf_counter() - began
    left = [pid for pid in before if Path(f"/proc/{pid}").exists()]
    assert not left or settings.isolation == "none", f"still there: {left}"
    return took


async def measured(rounds: int) -> dict[str, dict[str, float]]:
    """Medians by mode."""
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as name:
        for number in range(rounds + 1):
            for mode in MODES:
                settings = SandboxSettings(isolation=mode, grace=0.2)
                figures = await one(settings, Path(name)) | {"kill": await stubborn(settings, Path(name))}
                if number:  # the first fills caches
                    found[mode].append(figures)
    return {mode: {key: median(one[key] for one in many) for key in many[0]} for mode, many in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    medians = asyncio.run(measured(arguments.rounds))
    ratios = {key: medians["required"][key] / medians["none"][key] for key in medians["none"]}
    text = json.dumps({"rounds": arguments.rounds, "medians": medians, "with_walls_to_without": ratios}, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
