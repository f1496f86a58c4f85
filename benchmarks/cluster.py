"""Cost and guarantees of a Ray cluster compared with local slots: the same study, sleeping cells, and kills.

python -m benchmarks.cluster [--only same,cells,kills] [--kills N] [--seed N] [--out FILE]

The clusters are node processes on this machine. `cells`: jobs of sleeping cells, with local slots and on the
cluster in turn: elapsed time of 200 cells of 1 s on 8 workers relative to the bound (200 / 8 s), and the overhead
per cell with one worker. `same`: the small study of cells both ways; tree, numbers and LaTeX must agree. `kills`:
the study again, while a random worker, machine or the head (with the run's own process) is killed with -9 during a
cell; only running cells may be repeated. Prints one JSON object; exits 1 if a guarantee is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.events.search_events import CellExecuted
from labwright.record.log_reader import is_run, read_events, read_state
from labwright.record.schema.cell import Cell
from labwright.sandbox.datasets import materialise
from labwright.sandbox.factory import open_executor
from labwright.sandbox.job import Job
from labwright.sandbox.settings import SandboxSettings
from tests.faults.http_study import make_study_script
from tests.faults.run_comparison import comparable_latex, comparable_tree
from tests.faults.run_killer import ROOT, notes_folder
from tests.models.openai_server import OpenAIServer
from tests.ray_cluster import RayCluster, find_worker_processes, start_cluster
from tests.stages.cell_study import make_cell_model

WORKERS, CELLS = 8, 200
LIMIT_SECONDS = 3600.0
"""Time limit of the study in seconds."""
SLEEPING_CODE = """
import time
import lab

def run(cell):
    time.sleep({seconds})
    lab.result("one", 1.0, condition=cell.condition, dataset=cell.dataset)

lab.measure(run)
"""


# --- cells ------------------------------------------------------------------------------------------------------------


async def measure_sleeping(
    place: Path, settings: SandboxSettings, *, slots: int, count: int, seconds: float
) -> dict[str, float]:
    """Run one job of sleeping cells; return elapsed time, and the overhead per cell and worker."""
    executor = open_executor(slots, place / "views", settings=settings, labels=place / "labels", cache=place / "cache")
    cells = tuple(Cell(dataset="digits", arm="only", level=f"l{n}") for n in range(count))
    try:
        began = time.monotonic()
        outcome = await executor.run(
            Job(
                "cells",
                place / "job",
                {"experiment.py": SLEEPING_CODE.format(seconds=seconds)},
                cells=cells,
                datasets=("digits",),
                expected_seconds=dict.fromkeys(cells, seconds),
                timeout=LIMIT_SECONDS,
            )
        )
        wall = time.monotonic() - began
    finally:
        await executor.close()
    assert all(one.outcome == "measured" for one in outcome.cells), outcome
    bound = count * seconds / slots
    return {
        "wall": wall,
        "bound": bound,
        "to_bound": wall / bound if bound else 0.0,
        "beyond_a_cell": (wall - bound) * slots / count,
        "code": sum(one.seconds for one in outcome.cells),
    }


def measure_cells(cluster: RayCluster, count: int) -> dict[str, Any]:
    """Run sleeping cells with local slots and on the cluster."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        materialise("digits", views=place / "views", labels=place / "labels", seed=1)
        local = SandboxSettings(pool=0)
        remote = local.model_copy(update={"executor": "ray", "ray": cluster.address, "store": place / "store"})
        for words, settings in (("local", local), ("ray", remote)):
            found[words] = {
                "over_workers": asyncio.run(measure_sleeping(place, settings, slots=WORKERS, count=count, seconds=1.0)),
                "one_by_one": asyncio.run(measure_sleeping(place, settings, slots=1, count=40, seconds=0.05)),
            }
    local_, ray_ = (found[words]["one_by_one"]["beyond_a_cell"] for words in ("local", "ray"))
    walls = [found[words]["over_workers"]["wall"] for words in ("local", "ray")]
    return found | {
        "cells": count,
        "workers": WORKERS,
        "ray_beyond_local_a_cell": ray_ - local_,
        "ray_to_local_wall": walls[1] / walls[0],
    }


# --- a study ----------------------------------------------------------------------------------------------------------


@dataclass
class ClusterStudy:
    """The small study of cells in its own process."""

    run: Path
    server: OpenAIServer
    noted: Path
    child: subprocess.Popen[bytes] | None = None

    def begin(self, cluster: RayCluster | None) -> None:
        """Start or resume it."""
        more = (
            {}
            if cluster is None
            else cluster.variables | {"STUDY_ON_RAY": cluster.address, "STUDY_STORE": str(self.run.parent / "store")}
        )
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.run_killer", str(self.run), self.server.url, str(self.noted)],
            cwd=ROOT,
            start_new_session=True,
            env=os.environ | more,
        )

    def kill(self) -> None:
        """Kill it with -9."""
        assert self.child is not None
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(30)

    def wait_for_end(self) -> int:
        """Wait for it to end, and return its exit code."""
        assert self.child is not None
        return self.child.wait(LIMIT_SECONDS)

    def list_begun(self) -> list[tuple[float, str]]:
        """Return when each execution of a cell started, as `NODE CELL`."""
        notes = notes_folder(self.run)
        found = re.findall(r"^([\d.]+) (n\d+)/\d+( .+)$", notes.read_text(), re.M) if notes.exists() else []
        return [(float(at), node + cell) for at, node, cell in found]

    def list_committed(self) -> list[tuple[float, str, str]]:
        """Return when each execution was committed, and its id."""
        if not is_run(self.run):
            return []
        return [
            (at, f"{one.node} {one.run.cell.name}", one.run.id)
            for one, at in read_events(self.run / "events.jsonl")
            if isinstance(one, CellExecuted)
        ]


def measure_studies(kills: int, seed: int) -> dict[str, Any]:
    """Run the study with local slots, on a cluster, and on one with kills, concurrently so that all have the same
    load.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (
            OpenAIServer(make_study_script(folder / "noted", model=make_cell_model)) as server,
            ThreadPoolExecutor(3) as threads,
        ):
            local = threads.submit(run_whole, folder / "local", server, False)
            ray = threads.submit(run_whole, folder / "ray", server, True)
            runs = measure_killed(folder, server, kills, seed) if kills else []
            both = {"local": local.result(), "ray": ray.result()}
        found: dict[str, Any] = {
            "same": compare_runs(folder / "local", folder / "ray")
            | both
            | {"ray_to_local": both["ray"]["seconds"] / both["local"]["seconds"]}
        }
        if kills:
            found["kills"] = {
                "seed": seed,
                "kills": sum(sum(one["kills"].values()) for one in runs),
                "runs": [one | compare_runs(folder / "local", folder / one["run"]) for one in runs],
            }
        return found


def run_whole(run: Path, server: OpenAIServer, on_ray: bool) -> dict[str, float]:
    """Run the study to its end; return seconds and executed cells."""
    study, cluster = ClusterStudy(run, server, run.parent / "noted"), start_cluster(2) if on_ray else None
    try:
        began = time.monotonic()
        study.begin(cluster)
        code = study.wait_for_end()
        assert code in (0, 130 if os.environ["STUDY_UNTIL"] else 0), f"{run.name}: exit code {code}"
        return {"seconds": time.monotonic() - began, "cells": len(study.list_committed())}
    finally:
        if cluster is not None:
            cluster.end()


def compare_runs(one: Path, other: Path) -> dict[str, bool]:
    """Return what two runs have in common."""
    first, second = read_state(one), read_state(other)
    return {
        "same_tree_and_numbers": comparable_tree(first) == comparable_tree(second),
        "same_claims": compute_paper_claims(first) == compute_paper_claims(second),
        "same_latex": comparable_latex(one) == comparable_latex(other),
    }


# --- kills ------------------------------------------------------------------------------------------------------------


@dataclass
class Killer:
    """Repeatedly kills a part of the system that works on a study."""

    study: ClusterStudy
    cluster: RayCluster
    rng: random.Random
    within: float
    """Maximum delay of a kill in seconds after the start of a cell."""
    kills: Counter[str] = field(default_factory=Counter[str])

    def kill(self) -> bool:
        """Wait for a cell to start, and kill something; return whether the study was still running."""
        before = len(self.study.list_begun())
        if not self._wait_until(lambda: len(self.study.list_begun()) > before):
            return False
        time.sleep(self.rng.uniform(0, self.within))
        kind = self.rng.choice(("worker", "machine", "head"))
        {"worker": self._kill_worker, "machine": self._kill_machine, "head": self._kill_head}[kind]()
        self.kills[kind] += 1
        return True

    def _wait_until(self, holds: Callable[[], bool]) -> bool:
        until = time.monotonic() + 600
        assert self.study.child is not None
        while self.study.child.poll() is None and time.monotonic() < until:
            if holds():
                return True
            time.sleep(0.02)
        return False

    def _kill_worker(self) -> None:
        if places := find_worker_processes(self.cluster):
            with suppress(psutil.Error):
                self.rng.choice(places).kill()

    def _kill_machine(self) -> None:
        if others := self.cluster.alive[1:]:
            self.rng.choice(others).kill()
        self.cluster.add()

    def _kill_head(self) -> None:
        self.study.kill()
        self.cluster.end()
        self.cluster = start_cluster(2)
        self.study.begin(self.cluster)


def measure_killed(folder: Path, server: OpenAIServer, count: int, seed: int) -> list[dict[str, Any]]:
    """Run the study with kills, in as many runs as needed; each is completed."""
    rng, runs = random.Random(seed), list[dict[str, Any]]()
    while (left := count - sum(sum(one["kills"].values()) for one in runs)) > 0:
        study = ClusterStudy(folder / f"killed{len(runs) + 1}", server, folder / "noted")
        killer = Killer(study, start_cluster(2), rng, within=1.0)
        study.begin(killer.cluster)
        try:
            for _ in range(left):
                if not killer.kill():
                    break
                print(f"{study.run.name}: {dict(killer.kills)}", file=sys.stderr, flush=True)
            code = study.wait_for_end()
        finally:
            study.kill()
            killer.cluster.end()
        runs.append(_count_lost(study) | {"run": study.run.name, "kills": dict(killer.kills), "exit": code})
        assert killer.kills, "nothing was killed"
    return runs


def _count_lost(study: ClusterStudy) -> dict[str, Any]:
    """Count the cell executions lost through kills."""
    begun, committed = study.list_begun(), study.list_committed()
    when = {name: at for at, name, _ in committed}
    return {
        "begun": len(begun),
        "committed": len(committed),
        "lost_in_flight": len(begun) - len(committed),
        "begun_again_after_commit": [name for at, name in begun if name in when and at > when[name]],
        "committed_twice": len(committed) - len({one for _, _, one in committed}),
    }


def all_kept(found: dict[str, Any]) -> bool:
    """Return whether every guarantee holds."""
    studies = [*found.get("kills", {}).get("runs", ()), *([found["same"]] if "same" in found else [])]
    return all(
        one["same_tree_and_numbers"]
        and one["same_claims"]
        and one["same_latex"]
        and not one.get("begun_again_after_commit")
        and not one.get("committed_twice")
        and one.get("exit", 0) in (0, 130 if found["until"] else 0)
        for one in studies
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="cells,same,kills")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--until", default="", help="studies stop after this stage, without a paper")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chosen, found = args.only.split(","), dict[str, Any]()
    if "cells" in chosen:
        cluster = start_cluster(2, cpus=WORKERS // 2)
        try:
            found["cells"] = measure_cells(cluster, args.cells)
        finally:
            cluster.end()
    if {"same", "kills"} & {*chosen}:
        os.environ["STUDY_UNTIL"] = args.until
        found |= measure_studies(args.kills if "kills" in chosen else 0, args.seed) | {"until": args.until}
    found["kept"] = all_kept(found)
    text = json.dumps(found, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text)
    return 0 if found["kept"] else 1


if __name__ == "__main__":
    sys.exit(main())
