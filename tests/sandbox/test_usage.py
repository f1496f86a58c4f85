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
from labwright.sandbox.job import Job, JobOutcome
from tests.fake_executor import FakeNvml, make_gpus
from tests.jobs import run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore

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


async def test_the_peak_of_code_that_ends_between_two_samples_is_unknown(machine: Machine) -> None:
    outcome = await machine.run("a", TINY)
    assert outcome.failure is None and outcome.peak_gpu_bytes is None


async def test_figures_are_drawn_without_a_gpu(machine: Machine) -> None:
    held = await machine.leases.acquire()
    plots = "import os, lab\nprint([os.environ['CUDA_VISIBLE_DEVICES'], lab.device])"
    outcome = await run_job(
        machine.executor,
        Job(name="plot", folder=machine.folder / "plot", source={"plots.py": plots}, entry="plots.py", kind="plot"),
    )
    assert outcome.stdout_tail == "['', 'cpu']\n"
    machine.leases.release(held, ())
