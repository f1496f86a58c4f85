"""Where the limits of one head are: a record of 1,000 nodes and 10^5 cells, decisions on it, its page, and how many
cells a second one process sends out, takes back and commits.

    python -m benchmarks.scale [--out FILE] [--nodes N ...] [--cells N] [--no-page]

Prints one JSON object. Nothing is trained, and no machine is asked: places answer at once from a folder that lies
ready. So what is measured is the head's own work, which is what does not become more with more machines. `record` is
measured in a process of its own for each size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from benchmarks.inspector import PLAN, Growing
from benchmarks.record import node
from inspector.status import status_in
from record.events import Event
from record.events.searching import CellExecuted, Executed
from record.log import EventLog
from record.nouns.cells import Cell, CellLine
from record.nouns.data import Level, Measurement, Needs
from record.nouns.decisions import Seen
from record.nouns.nodes import CellRun, node_id
from record.reading import read_state
from sandbox.cells import Schedule
from sandbox.cluster.engine import Cluster, Hand
from sandbox.cluster.messages import Done, Facts, News, Terms
from sandbox.cluster.parcels import pack
from sandbox.cluster.remote import Courier, RemotePlace, RemoteRunner
from sandbox.datasets import materialise
from sandbox.executor import LocalExecutor
from sandbox.job import CellOutcome, Job, leave_it
from sandbox.settings import SandboxSettings
from sandbox.store import Store
from search.policy import BestFirst
from search.settings import SearchSettings, StageLimits
from search.tree import view_of

SIZES = (10, 100, 1000)


# --- the record -------------------------------------------------------------------------------------------------------


class Celled(Growing):
    """A made run whose nodes have cells."""

    def _files(self, name: str) -> None:
        """None."""


def with_cells(k: int, count: int) -> Iterator[Event]:
    """The events of a node, each of its cells executed by itself."""
    name = node_id(k)
    grid = [Cell(dataset="d", arm=f"c{n % 4}", level=f"l{n // 4}", seed=k) for n in range(count)]
    runs = [CellRun(id=f"{k:012x}{n:012x}-0", cell=cell, key=f"{k:032x}{n:032x}", seconds=1.0, stdout_tail="epoch 1\n",
                    measurements=(Measurement(name="log_loss", value=k + n / 7, condition=cell.condition, dataset="d",
                                              split="validation", seed=k, grade="scored"),),
                    sealed={"0.npy": "0" * 64}) for n, cell in enumerate(grid)]
    for event in node(k):
        if isinstance(event, Executed):
            yield from (CellExecuted(node=name, run=run) for run in runs)
            lines = tuple(CellLine(cell=run.cell, outcome="measured", id=run.id, seconds=1.0) for run in runs)
            event = event.model_copy(update={"attempt": event.attempt.model_copy(update={
                "cells": lines, "measurements": tuple(one for run in runs for one in run.measurements)})})
        yield event


def written(folder: Path, nodes: int, cells: int) -> dict[str, Any]:
    """Write such a record, and say what it takes: events a second, bytes, time to open it, to decide, to look."""
    import benchmarks.inspector as made

    levels = tuple(Level(name=f"l{n}") for n in range(-(-cells // 4)))
    made.PLAN = PLAN.model_copy(update={"factor": "level", "levels": levels})  # pyright: ignore
    made.node = lambda k: with_cells(k, cells)  # pyright: ignore
    began = time.perf_counter()
    with closing(Celled(folder / "run", nodes).log) as log:
        wall, events = time.perf_counter() - began, log.state.last_decision
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        decided = [_decision(log, nodes) for _ in range(3)]
    path = folder / "run" / "run.db"
    began = time.perf_counter()
    with closing(EventLog(path)):
        opened = time.perf_counter() - began
    state = read_state(folder / "run")
    began = time.perf_counter()
    status_in(str(folder), state, (), None, now=time.time(), folder=folder / "run")
    shown = time.perf_counter() - began
    events = nodes * (cells + 11) + 2
    return {"nodes": nodes, "cells": nodes * cells, "events": events, "events_a_second": round(events / wall),
            "bytes": path.stat().st_size, "bytes_a_cell": round(path.stat().st_size / (nodes * cells)),
            "open_seconds": round(opened, 2), "memory_mb": round(memory / 1e6),
            "decision_ms": round(1000 * min(decided), 1), "status_seconds": round(shown, 2)}


def _decision(log: EventLog, nodes: int) -> float:
    """Seconds of one: what may be seen, and the policy's pick."""
    settings = SearchSettings(agenda=StageLimits(nodes=nodes + 1), ablation=StageLimits(nodes=nodes + 1))
    began = time.perf_counter()
    view = view_of(log.state, "ablation", Seen(through=log.state.last_decision), settings=settings)
    BestFirst(settings).pick(view, Random(0))
    return time.perf_counter() - began


def record(folder: Path, sizes: list[int], cells: int) -> list[dict[str, Any]]:
    """Such records of several sizes, each written in a process of its own and left in the folder."""
    found: list[dict[str, Any]] = []
    for nodes in sizes:
        place = folder / str(nodes)
        place.mkdir()
        ran = subprocess.run([sys.executable, "-m", "benchmarks.scale", "--one", place, "--nodes", str(nodes),
                              "--cells", str(cells)], stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(ran.stdout))
        print(ran.stdout, file=sys.stderr, flush=True)
    return found


def page(folder: Path, sizes: list[int]) -> dict[str, Any]:
    """The first paint of each in a browser, of a server that has read nothing, and once more."""
    from benchmarks.inspector import paint
    from tests.inspector.browser.chromium import chromium, viewing

    found: dict[str, Any] = {}
    with chromium() as browser:
        for nodes in sizes:
            with viewing(folder / str(nodes) / "run") as viewer:
                found[str(nodes)] = {"first": paint(browser, viewer.address), "again": paint(browser, viewer.address)}
    return found


# --- the head ---------------------------------------------------------------------------------------------------------


def taking(counts: tuple[int, ...] = (100, 1000, 10_000)) -> dict[str, float]:
    """Milliseconds in which the next cell of a job of so many is found."""
    found: dict[str, float] = {}
    for count in counts:
        cells = tuple(Cell(dataset="d", arm=f"a{n % 4}", level=f"l{n}") for n in range(count))
        schedule = Schedule(Job("job", Path(), {}, cells=cells, timeout=1e9, expected=dict.fromkeys(cells, 1.0)), {},
                            time.monotonic)
        began, times = time.perf_counter(), 5
        for _ in range(times):
            schedule.take("d")
        found[str(count)] = round(1000 * (time.perf_counter() - began) / times, 2)
    return found


class _AtOnce(Hand):
    """A place that has measured its cell as soon as it is asked."""

    parcel: bytes
    done: Done

    async def call(self, method: str, *given: bytes | int | bool, within: float = 60.0) -> bytes:
        await asyncio.sleep(0)
        if method == "lacking":
            return b"[]"
        return News(begun=True, done=self.done).sent + b"\n" + self.parcel if method == "step" else b""


    async def end(self) -> None:
        pass


class _Machines(Cluster):
    """Places that are there at once."""

    made: _AtOnce

    async def take(self, needs: Needs) -> Hand:
        return self.made

    def give(self, hand: Hand) -> None:
        pass


async def head(workers: int, count: int) -> dict[str, float]:
    """Cells a second that one process sends to so many places, takes back, scores and puts together."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        materialise("digits", views=place / "views", labels=place / "labels", seed=1)
        local = LocalExecutor(workers, place / "views", labels=place / "labels", cache=place / "cache",
                              settings=SandboxSettings(isolation="none", pool=0))
        cells = tuple(Cell(dataset="digits", arm="only", level=f"l{n}") for n in range(count))
        executor = _with_places(local, place)
        took: list[float] = []

        async def commit(cell: Cell, outcome: CellOutcome, folder: Path) -> Path:
            took.append(time.perf_counter())
            return await leave_it(cell, outcome, folder)

        began = time.perf_counter()
        await executor.run(Job("job", place / "job", {"experiment.py": "import lab\nlab.measure(print)\n"},
                               datasets=("digits",), cells=cells, expected=dict.fromkeys(cells, 1.0), took=commit))
        await executor.close()
    return {"workers": workers, "cells": count, "cells_a_second": round(count / (took[-1] - began), 1),
            "put_together_seconds": round(time.perf_counter() - took[-1], 2)}


def _with_places(local: LocalExecutor, place: Path) -> LocalExecutor:
    """The executor, whose places answer at once."""
    left = place / "left"
    (left / "arrays").mkdir(parents=True)
    (left / "arrays" / "curve.npy").write_bytes(b"\x93NUMPY" + b"\0" * 2000)
    pack(left, place / "parcel", most=10**9)
    facts = Facts(host="h", version="", ground="{}", walls="", tokens=True, memory=10**12, places=1000)
    cluster = _Machines("127.0.0.1:1", (facts,), Terms(settings=local.config.settings, run="r", watch_seconds=5.0))
    hand = _AtOnce("h", Needs(), None, cluster)
    hand.parcel = (place / "parcel").read_bytes()
    from record.folder import sha256

    hand.done = Done(size=len(hand.parcel), sha256=sha256(place / "parcel"), printed={
        "head": [], "tail": [], "dropped": 0}, over=False)
    cluster.made = hand
    courier = Courier(cluster, Store(place / "store"), place / "parcels", lambda: None)
    within: dict[str, Any] = vars(local)
    given = cast("dict[str, Any]", vars(within["_runner"]))
    within |= {"_runner": RemoteRunner(**given, courier=courier), "_opened": partial(RemotePlace, courier)}
    return local


def limits(found: Mapping[str, Any]) -> dict[str, float]:
    """Places that one head keeps at work, by the length of their cells: those that it sends out in that time."""
    a_second = max(one["cells_a_second"] for one in found["head"])
    return {f"cells of {seconds} s": round(a_second * seconds) for seconds in (1, 10, 60, 600)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--cells", type=int, default=100, help="of a node")
    parser.add_argument("--no-page", action="store_true")
    parser.add_argument("--one", type=Path, help="write one record into this folder, and say what it took")
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(written(asked.one, asked.nodes[0], asked.cells)))
        return 0
    found: dict[str, Any] = {"taking_ms": taking()}
    with tempfile.TemporaryDirectory() as name:
        found["record"] = record(Path(name), asked.nodes, asked.cells)
        found["page"] = None if asked.no_page else page(Path(name), asked.nodes)
    found["head"] = [asyncio.run(head(workers, count)) for workers, count in ((8, 200), (64, 600), (512, 1200))]
    found["busy_places"] = limits(found)
    text = json.dumps(found, indent=1)
    print(text)
    if asked.out is not None:
        asked.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
