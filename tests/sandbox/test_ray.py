"""The contract of `Executor` over a real Ray cluster of two node processes, and behaviour specific to clusters."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Cell
from labwright.record.untrusted_files import BadFile
from labwright.sandbox.cluster.actor import (
    check_address,
    describe_conditions,
    describe_machine,
    list_machines,
    receive_folder,
    send_folder,
)
from labwright.sandbox.cluster.executor import RayExecutor, build_bundle
from labwright.sandbox.content_store import compute_key
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import CellResult, ClusterDown, ClusterError, Executor, Job
from labwright.sandbox.repository.command import CommandEnvironment, CommandJob
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import cell_tasks, run_job
from tests.ray_cluster import RayCluster, find_actor_processes, start_cluster
from tests.sandbox.conftest import SETTINGS, DatasetStore, holds_eventually
from tests.sandbox.executor_contract import ExecutorContract

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray (make setup installs it)"),
]  # not imported before its variables are set


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    made = start_cluster(2)
    yield made
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
    print("pid", os.getpid(), "under", os.getppid())

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


def make_executor(cluster: RayCluster, store: DatasetStore, cache: Path) -> RayExecutor:
    return RayExecutor(3, store.views, labels=store.labels, settings=settings_for(cluster, store), cache=cache)


@pytest_asyncio.fixture
async def executor(cluster: RayCluster, store: DatasetStore, tmp_path: Path) -> AsyncIterator[RayExecutor]:
    made = make_executor(cluster, store, tmp_path / "cache")
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_executor(
    cluster: RayCluster, store: DatasetStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RayExecutor]:
    """For tests that end no actor: starting one costs two CPU seconds."""
    made = make_executor(cluster, store, tmp_path_factory.mktemp("shared"))
    yield made
    await made.close()


class CommittedCells:
    """A `Commit` that lists the committed cells and calls `then` after `after` of them."""

    def __init__(self, after: int = 10**9, then: Callable[[], None] = lambda: None) -> None:
        self.cells: list[Cell] = []
        self._after, self._then = after, then

    async def __call__(self, cell: Cell, result: CellResult, folder: Path) -> Path:
        assert result.failure is None, result.failure
        self.cells.append(cell)
        if len(self.cells) == self._after:
            await asyncio.to_thread(self._then)
        return folder


@pytest.mark.asyncio(loop_scope="module")
async def test_cells_measure_what_they_do_on_one_machine(
    shared_executor: RayExecutor, store: DatasetStore, tmp_path: Path
) -> None:
    local = LocalExecutor(1, store.views, labels=store.labels, settings=SETTINGS, cache=tmp_path / "local")
    there = await run_job(shared_executor, celled(tmp_path / "a", 8, 0.3))
    here = await run_job(local, celled(tmp_path / "b", 8, 0.0))
    await local.close()
    assert there.measurements == here.measurements and len(there.measurements) > 7
    assert [(one.cell, one.outcome) for one in there.cells] == [(one.cell, "measured") for one in here.cells]
    assert (there.sealed, there.arrays) == (here.sealed, here.arrays)
    assert shared_executor.environment_fingerprint == local.environment_fingerprint
    output = (tmp_path / "a" / "stdout.txt").read_text()
    assert len(set(re.findall(r"pid (\d+)", output))) == 8, "each cell has its own process"
    assert len(set(re.findall(r"under (\d+)", output))) > 1, "several kernels"


@pytest.mark.parametrize("what", ["actor", "machine"])
async def test_a_lost_actor_or_machine_loses_only_its_running_cells(
    what: str, cluster: RayCluster, executor: RayExecutor, tmp_path: Path
) -> None:
    def kill() -> None:
        if what == "machine":
            cluster.machines[-1].kill()
        else:
            next(one for one in find_actor_processes(cluster) if one not in others).kill()

    others = find_actor_processes(cluster)  # those of the shared executor

    commit = CommittedCells(after=2, then=kill)
    outcome = await run_job(executor, celled(tmp_path / "a", 9, 0.5), commit=commit)
    assert [one.outcome for one in outcome.cells] == ["measured"] * 9
    assert len(commit.cells) == len({*commit.cells}) == 9
    if what == "machine":
        cluster.add()
        cluster.wait_for_nodes(len(cluster.alive))


async def test_leaving_the_stream_leaves_no_process_and_the_machines_usable(
    cluster: RayCluster, executor: RayExecutor, tmp_path: Path
) -> None:
    others = find_actor_processes(cluster)  # those of the shared executor
    task = asyncio.create_task(run_job(executor, celled(tmp_path / "a", 4, 60.0)))
    assert await asyncio.to_thread(
        holds_eventually, lambda: any("_bootstrap.py" in one for one in list_commands(cluster, others))
    )
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not list_commands(cluster, others)
    outcome = await run_job(executor, celled(tmp_path / "b", 2, 0.0))
    assert outcome.failure is None
    await executor.close()
    assert not list_commands(cluster, others)
    assert await asyncio.to_thread(holds_eventually, lambda: {*find_actor_processes(cluster)} <= {*others})


@pytest.mark.asyncio(loop_scope="module")
async def test_a_command_of_a_repository_runs_on_a_machine(shared_executor: RayExecutor, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "main.py").write_text("print(open('in.txt').read()); open('out.txt', 'w').write('left')")
    (checkout / "in.txt").write_text("given")
    environment = CommandEnvironment(SETTINGS.python)
    outcome = await shared_executor.run_command(
        CommandJob("c", checkout, ("python", "main.py"), environment, timeout=60.0)
    )
    assert (outcome.failure, outcome.stdout, (checkout / "out.txt").read_text()) == (None, "given\n", "left")


@pytest.mark.asyncio(loop_scope="module")
async def test_gpus_are_reserved_where_they_are(shared_executor: RayExecutor) -> None:
    """No GPU is here, so only what Ray reserves is tested, not a kernel on it."""
    settings = shared_executor.config.settings.model_copy(update={"device": "cuda", "gpu_wait": 1.0})
    assert build_bundle(settings, ResourceNeeds()) == {"CPU": 1.0, "GPU": 1}
    assert build_bundle(settings, ResourceNeeds(gpus=0)) == {"CPU": 1.0}
    shared = settings.model_copy(update={"slots_per_gpu": 4})
    assert build_bundle(shared, ResourceNeeds(memory_gb=2.0)) == {"CPU": 1.0, "GPU": 0.25, "memory": 2e9}
    runner = copy(shared_executor)
    runner.config = replace(shared_executor.config, settings=settings)
    with pytest.raises(ClusterDown, match=r"had room for .*GPU.* within 1 s"):
        await runner.claim(ResourceNeeds(gpus=7))


def test_a_folder_arrives_whole_or_is_refused(cluster: RayCluster, store: DatasetStore, tmp_path: Path) -> None:
    list_machines(settings_for(cluster, store))
    (left := tmp_path / "left").mkdir()
    (left / "large").write_bytes(bytes(2**25 + 1))
    sent = send_folder(left, tmp_path)
    assert len(sent.parts) == 2 and isinstance(sent.parts[1], bytes)
    receive_folder(sent, tmp_path / "whole", tmp_path)
    assert compute_key(tmp_path / "whole") == compute_key(left)
    with pytest.raises(BadFile, match="damaged on the way"):
        receive_folder(sent._replace(parts=sent.parts[:1]), tmp_path / "half", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ray": "nowhere"}, "is neither auto nor HOST:PORT"),
        ({"ray": "127.0.0.1:9"}, "no Ray cluster answers at 127.0.0.1:9"),
        ({"threads": 1000}, "has room for one cell, which needs 1000 processors"),
        ({"gpus": ("0",)}, "--gpus selects GPUs of one machine"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(
    change: dict[str, Any], words: str, cluster: RayCluster, store: DatasetStore
) -> None:
    with pytest.raises(ClusterError, match=re.escape(words)):
        list_machines(settings_for(cluster, store).model_copy(update=change))


def test_a_machine_that_differs_is_refused(cluster: RayCluster, store: DatasetStore) -> None:
    settings = settings_for(cluster, store)
    list_machines(settings)
    head = describe_conditions(settings)
    with pytest.raises(ClusterError, match=r"its python is .*, but 3\.1 on the head: install the same version"):
        describe_machine(
            settings, head | {"python": "3.1"}, {"NodeManagerAddress": "127.0.0.1", "Resources": {"CPU": 2}}
        )


@pytest.mark.parametrize(
    ("address", "has_token", "words"), [("8.8.8.8", True, "public address"), ("10.0.0.1", False, "RAY_AUTH_MODE=token")]
)
def test_a_machine_that_anyone_can_use_is_refused(address: str, has_token: bool, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        check_address(address, has_token)


def test_ray_is_started_here_without_an_address_and_ends_with_its_process() -> None:
    """In a process of its own, since a process joins one cluster."""
    code = (
        "import time\n"
        "from labwright.sandbox.cluster.actor import list_machines\n"
        "from labwright.sandbox.settings import SandboxSettings\n"
        "print(len(list_machines(SandboxSettings(executor='ray', isolation='none'))), flush=True)\n"
        "time.sleep(300)\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen([sys.executable, "-c", code], env=clean, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == "1\n"
        started = psutil.Process(driver.pid).children(recursive=True)
        driver.terminate()
        assert driver.wait(60) == 128 + signal.SIGTERM
    gone, alive = psutil.wait_procs(started, timeout=600)
    assert gone and not alive


def list_commands(cluster: RayCluster, others: list[psutil.Process]) -> list[str]:
    """Return the command lines of the processes that actors run on the machines, without those of other actors."""
    found: list[str] = []
    for actor in {*find_actor_processes(cluster)} - {*others}:
        children: list[psutil.Process] = []
        with suppress(psutil.Error):
            children = actor.children(recursive=True)
        for one in children:
            with suppress(psutil.Error):  # it has ended
                if one.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(one.cmdline()))
    return found
