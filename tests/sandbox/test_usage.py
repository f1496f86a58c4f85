"""Peak memory of real processes on the host and of simulated GPUs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from labwright.sandbox import monitor
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.gpus import GpuLeases
from labwright.sandbox.job import ExecutorError, Job, JobOutcome
from tests.fake_executor import FakeNvml, make_gpus
from tests.jobs import run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore, holds_eventually

pytestmark = pytest.mark.slow

MB = 10**6
TINY = "\nimport lab\nlab.result('size', 3, condition='baseline', dataset='digits')\n"
CUDA = SETTINGS.model_copy(update={"device": "cuda", "gpu_wait": 0.3, "isolation": "none"})


@pytest.fixture(autouse=True)
def looks_at_memory_are_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "METER_SECONDS", 0.1)


async def test_the_peak_of_the_host_counts_short_ones_and_children(store: DatasetStore, tmp_path: Path) -> None:
    executor = LocalExecutor(1, store.views, labels=store.labels, settings=SETTINGS, cache=store.cache)

    async def peak(code: str) -> float:
        outcome = await run_job(
            executor, Job(name="a", folder=tmp_path / "a", source={"experiment.py": code}, timeout=100.0)
        )
        assert outcome.peak_gpu_bytes is None
        return (outcome.peak_host_bytes or 0) / MB

    empty = await peak(TINY)
    one = await peak("x = bytearray(300_000_000); del x" + TINY)
    both = await peak(
        "import subprocess, sys\nx = bytearray(200_000_000)\nsubprocess.run([sys.executable, '-c', "
        "'x = bytearray(200_000_000); import time; time.sleep(0.4)'])" + TINY
    )
    await executor.close()
    assert 30 < empty < 250
    assert 280 < one - empty < 330  # freed at once, between two readings
    assert 360 < both - empty < 480  # interpreter pages mapped by both count once


# --- GPUs -------------------------------------------------------------------------------------------------------------


class Machine:
    """An executor on simulated GPUs. Code requests `hold` by a file; the fake driver then reports its memory."""

    def __init__(
        self,
        store: DatasetStore,
        folder: Path,
        *,
        count: int = 1,
        knows_us: bool = True,
        haste: float = 1.0,
        **settings: object,
    ) -> None:
        self.nvml = FakeNvml(make_gpus(count))
        self.folder = folder
        self.knows_us = knows_us
        chosen = CUDA.model_copy(update=settings)
        self.leases = GpuLeases(
            self.nvml, self.nvml.list_devices(), chosen, folder=folder / "locks", clock=lambda: haste * time.monotonic()
        )
        self.executor = LocalExecutor(
            2, store.views, labels=store.labels, settings=chosen, cache=store.cache, gpus=self.leases
        )

    async def run(self, name: str, code: str) -> JobOutcome:
        job = Job(
            name=name, folder=self.folder / name, source={"experiment.py": code}, timeout=100.0, datasets=("digits",)
        )
        holding = asyncio.create_task(self._hold(job.folder))
        try:
            return await run_job(self.executor, job)
        finally:
            holding.cancel()

    async def _hold(self, folder: Path) -> None:
        while True:
            with suppress(FileNotFoundError, ValueError):
                uuid, pid, size = next(folder.rglob("hold"), folder / "hold").read_text().split()
                self.nvml.used_bytes[uuid] = {77: 10**9, int(pid) if self.knows_us else 4_000_000: int(size)}
                return
            await asyncio.sleep(0.01)


HOLD = (
    """
import os, pathlib, time
pathlib.Path('part').write_text(f"{os.environ['CUDA_VISIBLE_DEVICES']} {os.getpid()} 5000000000")
os.rename('part', 'hold')
time.sleep(0.4)
"""
    + TINY
)


@pytest_asyncio.fixture
async def machine(store: DatasetStore, tmp_path: Path) -> AsyncIterator[Machine]:
    one = Machine(store, tmp_path)
    yield one
    await one.executor.close()


async def test_the_peak_on_a_gpu_is_that_of_our_processes(machine: Machine) -> None:
    outcome = await machine.run("a", HOLD)
    assert outcome.failure is None, outcome.failure
    assert outcome.peak_gpu_bytes == 5 * 10**9  # without the neighbour's 10^9


async def test_the_gpu_is_returned_when_our_processes_are_gone(machine: Machine) -> None:
    await machine.run("a", HOLD)
    waiting = asyncio.create_task(machine.run("b", TINY))
    await asyncio.sleep(0.4)
    assert not (machine.folder / "b" / "stdout.txt").exists()
    for held in machine.nvml.used_bytes.values():
        for pid in [pid for pid in held if pid != 77]:
            del held[pid]
    assert (await waiting).failure is None


async def test_where_the_driver_does_not_know_us_the_fall_of_free_memory_counts(
    store: DatasetStore, tmp_path: Path
) -> None:
    alone = Machine(store, tmp_path / "alone", knows_us=False)
    assert (await alone.run("a", HOLD)).peak_gpu_bytes == 6 * 10**9  # includes the other process, which came meanwhile
    await alone.executor.close()
    shared = Machine(store, tmp_path / "shared", knows_us=False, slots_per_gpu=2)
    assert (await shared.run("a", HOLD)).peak_gpu_bytes is None
    await shared.executor.close()


async def test_two_attempts_have_different_gpus(store: DatasetStore, tmp_path: Path) -> None:
    machine = Machine(store, tmp_path, count=2)
    code = "import os, time, lab\nprint(os.environ['CUDA_VISIBLE_DEVICES'], lab.device)\ntime.sleep(0.5)" + TINY
    outcomes = await asyncio.gather(machine.run("a", code), machine.run("b", code))
    assert {outcome.stdout_tail for outcome in outcomes} == {f"{one.uuid} cuda\n" for one in make_gpus(2)}
    await machine.executor.close()


async def test_an_attempt_may_have_two_gpus(store: DatasetStore, tmp_path: Path) -> None:
    machine = Machine(store, tmp_path, count=2, gpus_per_node=2)
    code = "import os, lab, lab._job\nprint(os.environ['CUDA_VISIBLE_DEVICES'], lab._job.read_job().processes)" + TINY
    assert (await machine.run("a", code)).stdout_tail == f"{make_gpus(2)[0].uuid},{make_gpus(2)[1].uuid} 2\n"
    await machine.executor.close()


async def test_figures_are_drawn_without_a_gpu(machine: Machine) -> None:
    held = await machine.leases.acquire()
    plots = "import os, lab\nprint([os.environ['CUDA_VISIBLE_DEVICES'], lab.device])"
    outcome = await run_job(
        machine.executor,
        Job(name="plot", folder=machine.folder / "plot", source={"plots.py": plots}, entry="plots.py", kind="plot"),
    )
    assert outcome.stdout_tail == "['', 'cpu']\n"
    machine.leases.release(held, ())


async def test_a_gpu_that_stays_occupied_ends_the_run(machine: Machine) -> None:
    machine.nvml.used_bytes[make_gpus(1)[0].uuid] = {77: 79 * 10**9}
    with pytest.raises(ExecutorError, match=r"no 1 GPU\(s\) with 2 GB free"):
        await machine.run("a", TINY)


async def test_a_process_that_never_leaves_the_gpu_ends_the_run_with_its_number(
    store: DatasetStore, tmp_path: Path
) -> None:
    machine = Machine(store, tmp_path, haste=20.0)
    await machine.run("a", HOLD)
    [pid] = set(machine.nvml.used_bytes[make_gpus(1)[0].uuid]) - {77}
    with pytest.raises(
        ExecutorError, match=rf"still holds {make_gpus(1)[0].uuid} by process {pid}: stop it with kill -9"
    ):
        await machine.run("b", TINY)
    await machine.executor.close()


async def test_a_cancelled_job_gives_its_gpu_back(machine: Machine) -> None:
    task = asyncio.create_task(machine.run("a", "import time, pathlib\npathlib.Path('up').touch()\ntime.sleep(60)"))
    assert await asyncio.to_thread(holds_eventually, lambda: any((machine.folder / "a").rglob("up")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await machine.run("b", TINY)).failure is None
