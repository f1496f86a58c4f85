"""The contract of `Executor` over a real Ray cluster of two node processes, and behaviour specific to clusters."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from labwright.record.schema.cell import Cell
from labwright.sandbox.cluster import executor as cluster_executor
from labwright.sandbox.cluster.executor import RayExecutor
from labwright.sandbox.cluster.machines import check_address, import_ray, list_machines
from labwright.sandbox.errors import ClusterError, ExecutorError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import CellResult, Executor, Job
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import cell_tasks, run_job
from tests.ray_cluster import RayCluster, find_actor_processes, start_cluster
from tests.sandbox.conftest import SETTINGS, DatasetStore
from tests.sandbox.executor_contract import ExecutorContract, make_job

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray (make setup installs it)"),
]  # not imported before its variables are set


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    made = start_cluster(2)
    yield made
    import_ray().shutdown()
    list_machines.cache_clear()
    made.end()


def settings_for(cluster: RayCluster, store: DatasetStore) -> SandboxSettings:
    return SETTINGS.model_copy(update={"executor": "ray", "ray": cluster.address, "store": store.cache / "store"})


@pytest.mark.bench
class TestRay(ExecutorContract):
    patience = 60.0

    @pytest.fixture(autouse=True)
    def of_cluster(self, cluster: RayCluster) -> None:
        self.cluster = cluster

    def make_executor(self, slots: int, store: DatasetStore) -> Executor:
        return RayExecutor(
            slots, store.views, labels=store.labels, settings=settings_for(self.cluster, store), cache=store.cache
        )


CELLS = """
import os, socket, time
import lab

def run(cell):
    time.sleep(SECONDS)
    data = lab.data(cell.dataset)
    lab.submit(split="validation", predictions=[cell.seed % 10] * len(data.validation.x))
    print("pid", os.getpid())

lab.measure(run)
"""


def celled(folder: Path, count: int, seconds: float, **more: Any) -> Job:
    cells = [Cell(dataset="digits", arm="only", level=f"l{n}", seed=n) for n in range(count)]
    return Job(
        "cells",
        folder,
        {"experiment.py": CELLS.replace("SECONDS", str(seconds))},
        datasets=("digits",),
        cells=cell_tasks(cells, expected=dict.fromkeys(cells, 5.0)),
        timeout=600.0,
        **more,
    )


@pytest_asyncio.fixture
async def executor(cluster: RayCluster, store: DatasetStore, tmp_path: Path) -> AsyncIterator[RayExecutor]:
    made = RayExecutor(
        3, store.views, labels=store.labels, settings=settings_for(cluster, store), cache=tmp_path / "cache"
    )
    yield made
    await made.close()


class CommittedCells:
    """A `Job.on_cell_ended` that lists the committed cells and calls `then` after `after` of them."""

    def __init__(self, after: int = 10**9, then: Callable[[], None] = lambda: None) -> None:
        self.cells: list[Cell] = []
        self._after, self._then = after, then

    async def __call__(self, cell: Cell, outcome: CellOutcome, folder: Path) -> Path:
        assert outcome.failure is None, outcome.failure
        self.cells.append(cell)
        if len(self.cells) == self._after:
            await asyncio.to_thread(self._then)
        return folder


async def test_cells_measure_what_they_do_on_one_machine(
    executor: RayExecutor, store: DatasetStore, tmp_path: Path
) -> None:
    local = LocalExecutor(1, store.views, labels=store.labels, settings=SETTINGS, cache=tmp_path / "local")
    there, here = await executor.run(celled(tmp_path / "a", 6, 0.1)), await local.run(celled(tmp_path / "b", 6, 0.0))
    await local.close()
    assert there.measurements == here.measurements and len(there.measurements) > 5
    assert [(one.cell, one.outcome) for one in there.cells] == [(one.cell, "measured") for one in here.cells]
    assert (there.sealed, there.arrays) == (here.sealed, here.arrays)
    assert executor.environment_fingerprint == local.environment_fingerprint
    pids = set(re.findall(r"pid (\d+)", (tmp_path / "a" / "stdout.txt").read_text()))
    assert len(pids) == 6, "each cell has its own process"


@pytest.mark.bench
@pytest.mark.parametrize("what", ["worker", "machine"])
async def test_a_lost_worker_or_machine_loses_only_its_running_cells(
    what: str, cluster: RayCluster, executor: RayExecutor, tmp_path: Path
) -> None:
    def kill() -> None:
        if what == "machine":
            cluster.machines[-1].kill()
        else:
            for one in find_worker_processes(cluster)[:1]:
                one.kill()

    on_cell_ended = CommittedCells(after=2, then=kill)
    outcome = await executor.run(celled(tmp_path / "a", 9, 0.5, on_cell_ended=on_cell_ended))
    assert [one.outcome for one in outcome.cells] == ["measured"] * 9
    assert (
        sorted(on_cell_ended.cells, key=str) == sorted({*on_cell_ended.cells}, key=str)
        and len(on_cell_ended.cells) == 9
    )
    if what == "machine":
        cluster.add()
        cluster.wait_for_nodes(len(cluster.alive))


@pytest.mark.bench
async def test_a_cell_that_ends_every_worker_counts_as_the_cause(
    cluster: RayCluster, executor: RayExecutor, tmp_path: Path
) -> None:
    ending = asyncio.create_task(_kill_all_workers(cluster))
    outcome = await executor.run(make_job(tmp_path / "a", "import time\ntime.sleep(300)\n"))
    ending.cancel()
    assert outcome.failure is not None and outcome.failure.kind == "died"
    assert f"{remote_runner.MAX_LOST_WORKERS} cluster workers were lost" in outcome.failure.message


async def _kill_all_workers(cluster: RayCluster) -> None:
    while True:
        while not (found := find_worker_processes(cluster)):
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)
        for one in found:
            one.kill()
        await asyncio.sleep(1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ray": "nowhere"}, "is not HOST:PORT"),
        ({"ray": "127.0.0.1:9"}, "no Ray cluster answers at 127.0.0.1:9"),
        ({"threads": 1000}, "has room for one cell, which needs 1000 processors"),
        ({"gpus": ("0",)}, "Ray assigns the GPUs of a cluster"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(
    change: dict[str, Any], words: str, cluster: RayCluster, store: DatasetStore
) -> None:
    with pytest.raises(ClusterError, match=re.escape(words)):
        list_machines(settings_for(cluster, store).model_copy(update=change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "0123"}, "has a different version of scientist (0123, here"),
        ({"isolation_fault": "no bwrap"}, "cannot isolate experiments: no bwrap"),
        ({"address": "8.8.8.8"}, "has a public address"),
        ({"address": "10.0.0.1", "tokens": False}, "RAY_AUTH_MODE=token"),
        ({"environment_fingerprint": '{"python": "3.12.1"}'}, "has a different python (3.12.1, here"),
        ({"slots": 0}, "has room for one cell"),
    ],
)
def test_a_machine_that_cannot_be_used_is_refused(
    change: dict[str, Any], words: str, cluster: RayCluster, store: DatasetStore
) -> None:
    settings = settings_for(cluster, store)
    with pytest.raises(ClusterError, match=re.escape(words)):
        machines.check_machines(tuple(one.model_copy(update=change) for one in list_machines(settings)), settings)


async def test_a_head_that_goes_away_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's own machine stays up here; if it dies too, Ray ends the run's process."""
    monkeypatch.setattr(ray_cluster, "_WATCH_INTERVAL_SECONDS", 0.05)
    head = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{head.sockets[0].getsockname()[1]}"
    cluster = ray_cluster.RayCluster(address, (), WorkerTerms(settings=SETTINGS, run="r", watch_seconds=1.0))
    looking = asyncio.create_task(cluster._watch())  # pyright: ignore[reportPrivateUsage]
    waiting = asyncio.create_task(cluster.wait_for_answer(asyncio.get_running_loop().create_future(), 60.0))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    head.close()
    with pytest.raises(ClusterDown, match=re.escape(f"the Ray cluster at {address} is gone")):
        await asyncio.wait_for(waiting, 10.0)
    looking.cancel()
