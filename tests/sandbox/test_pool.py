"""Waiting kernels give the same results as fresh ones; their lifecycle."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from labwright.sandbox import kernel_pool
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import ExecutionProgress, Executor, JobOutcome
from labwright.sandbox.kernel_pool import KernelPool
from labwright.sandbox.kernels import KERNEL_FOLDER, Kernel
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore, holds_eventually, is_gone
from tests.sandbox.executor_contract import TINY, ExecutorContract, make_job

pytestmark = pytest.mark.slow

POOLED = SETTINGS.model_copy(update={"pool": 1})
ISOLATION = [pytest.param("none", marks=pytest.mark.bench), "auto"]

TELLING = """
import os, sys, warnings
import numpy as np, torch
from sklearn.linear_model import LogisticRegression
import matplotlib.pyplot as plt
import lab

warnings.warn("in the output")
print(os.getcwd() == sys.path[0] == os.environ["HOME"] == os.path.dirname(__file__), sys.argv == [__file__])
print(lab.seed, lab.device, torch.get_num_threads(), os.environ["PYTHONHASHSEED"], hash("text"), sorted(os.listdir()))
lab.save("before", torch.rand(3))
data = lab.data("digits")
lab.seed_everything()
weights = torch.nn.Linear(64, 10).weight.detach()
lab.save("weights", weights)
model = LogisticRegression(max_iter=20).fit(data.train.x, data.train.y)
lab.save("coefficients", model.coef_)
lab.submit("digits", "validation", "plain", probabilities=model.predict_proba(data.validation.x))
lab.log("noise", np.random.rand(), step=1, condition="plain", dataset="digits")
plt.figure()

def deep(n):
    return deep(n - 1) if n else {}[os.path.abspath("missing")]

deep(2)
"""


@pytest_asyncio.fixture
async def pooled(store: DatasetStore) -> AsyncIterator[LocalExecutor]:
    executor = LocalExecutor(1, store.views, labels=store.labels, settings=POOLED, cache=store.cache)
    yield executor
    await executor.close()


async def filled(executor: LocalExecutor, count: int = 1) -> KernelPool:
    """Wait until this many kernels wait in the pool, and return it."""
    pool: KernelPool = executor._pool  # pyright: ignore[reportPrivateUsage]
    pool.refill()
    for _ in range(600):
        if len(pool) >= count:
            return pool
        assert not pool.disabled_reason, pool.disabled_reason
        await asyncio.sleep(0.05)
    raise AssertionError("the pool was not filled within 30 s")


@pytest.mark.bench
class TestPooled(ExecutorContract):
    """The executor contract, with every job but the first in a waiting kernel."""

    def make_executor(self, slots: int, store: DatasetStore) -> Executor:
        return Filled(slots, store.views, labels=store.labels, settings=POOLED, cache=store.cache)


class Filled(LocalExecutor):
    """Wait for a kernel before each job that runs alone."""

    @asynccontextmanager
    async def hold_slot(self, *, alone: bool = False) -> AsyncGenerator[None]:
        async with super().hold_slot(alone=alone):
            while len(self._running) == 1 and not self._closed and not len(self._pool):
                self._pool.refill()
                await asyncio.sleep(0.02)
            yield


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATION)
async def test_what_is_measured_and_said_is_that_of_a_kernel_of_its_own(
    store: DatasetStore, tmp_path: Path, isolation: str
) -> None:
    settings = SandboxSettings.model_validate({"isolation": isolation, "grace": 0.5, "pool": 1})
    executor = LocalExecutor(1, store.views, labels=store.labels, settings=settings, cache=store.cache)
    folder, outcomes = tmp_path / "job", list[JobOutcome]()
    try:
        outcomes.append(await run_job(executor, make_job(folder, TELLING, seed=3)))
        folder.rename(tmp_path / "cold")
        await filled(executor)
        outcomes.append(await run_job(executor, make_job(folder, TELLING, seed=3)))
        folder.rename(tmp_path / "pooled")
    finally:
        await executor.close()
    cold, warm = outcomes
    assert warm.seconds < 0.7 * cold.seconds  # it waited with everything imported
    assert cold.failure is not None and cold.failure == warm.failure
    assert "KeyError" in cold.failure.message and (
        isolation == "none" or f"{KERNEL_FOLDER}/" not in cold.failure.message
    )
    assert (cold.measurements, cold.arrays) == (warm.measurements, warm.arrays)
    lines = [sorted(one.stdout_tail.splitlines()) for one in outcomes]  # two streams, in any order on a busy machine
    assert lines[0] == lines[1]
    assert len(cold.arrays) == 3 and cold.measurements and "in the output" in cold.stdout_tail
    left = [sorted(one.name for one in (tmp_path / kept).rglob("*")) for kept in ("cold", "pooled")]
    assert left[0] == left[1]
    assert not list((store.cache.parent / "slots").glob("*"))


async def test_files_are_in_the_folder_of_the_job_from_the_beginning(pooled: LocalExecutor, tmp_path: Path) -> None:
    """So a resumed run after a kill finds checkpoints where it expects them."""
    seen: list[bool] = []

    def watch(glance: ExecutionProgress) -> None:
        seen.append(any((tmp_path / "job").glob("kernels/*/cells/script/checkpoints/state")))

    await filled(pooled)
    code = f"import lab, time\nlab.checkpoint(1)\ntime.sleep(0.4)\n{TINY}"
    outcome = await run_job(pooled, make_job(tmp_path / "job", code), watch=watch)
    assert outcome.failure is None and True in seen


@pytest.mark.parametrize(
    "source", [{"numpy.py": "pi = 3\n"}, {"numpy/__init__.py": "pi = 3\n"}, {"lab.py": "pi = 3\n"}]
)
async def test_a_file_with_the_name_of_a_module_that_is_there_already_is_found(
    pooled: LocalExecutor, tmp_path: Path, source: dict[str, str]
) -> None:
    pool = await filled(pooled)
    [name] = {file.partition("/")[0].removesuffix(".py") for file in source}
    code = f"import {name}\nprint({name}.pi)\n"
    outcome = await run_job(pooled, replace(make_job(tmp_path / "job", code), source={"experiment.py": code, **source}))
    assert outcome.stdout_tail == "3\n"
    assert len(pool) == 1


async def test_kernels_that_died_or_do_not_see_a_dataset_are_replaced(pooled: LocalExecutor, tmp_path: Path) -> None:
    pool = await filled(pooled)
    died = waiting(pool)
    os.kill(died.pid, signal.SIGKILL)
    # its last thread is gone, not only its first
    assert holds_eventually(lambda: died.process.get_exit_code() is not None)
    assert pool.take(tmp_path / "a", source={}, datasets=()) is None
    pid = waiting(await filled(pooled)).pid
    assert pool.take(tmp_path / "a", source={}, datasets=("digits",), exact=True) is None, "it also sees others"
    assert is_gone(pid)
    pid = waiting(await filled(pooled)).pid
    assert pool.take(tmp_path / "a", source={}, datasets=("new",)) is None
    assert is_gone(pid)
    assert not (tmp_path / "a").exists()


async def test_cells_take_no_kernel_that_lacks_what_each_of_them_would_import(
    pooled: LocalExecutor, tmp_path: Path
) -> None:
    pool, both = await filled(pooled), ("diabetes", "digits")
    plotting = {"experiment.py": "import matplotlib\n"}
    pid = waiting(pool).pid
    assert pool.take(tmp_path / "a", source=plotting, datasets=both, exact=True) is None
    assert is_gone(pid), "a kernel that has it replaces it"
    kernel = waiting(await filled(pooled))
    (tmp_path / "full" / "x").mkdir(parents=True)
    for _ in range(8):
        assert pool.take(tmp_path / "full", source={}, datasets=both, exact=True) is None
    assert await pool.choose_modules() == ("lab",) and "matplotlib.pyplot" in await pool.choose_modules(plotting)
    assert pool.take(tmp_path / "a", source=plotting, datasets=both, exact=True) is kernel
    kernel.kill()


async def test_what_waits_ends_with_the_executor(pooled: LocalExecutor) -> None:
    kernel = waiting(await filled(pooled))
    pid = kernel.pid
    await pooled.close()
    assert is_gone(pid) and not kernel.folder.exists()


async def test_a_module_that_speaks_when_it_is_imported_ends_the_pool(
    store: DatasetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that imports it must see the output, so it runs in a fresh kernel."""
    monkeypatch.setitem(kernel_pool.PRELOADED_MODULES, "numpy", ("this",))
    executor = LocalExecutor(1, store.views, labels=store.labels, settings=POOLED, cache=store.cache)
    pool: KernelPool = executor._pool  # pyright: ignore[reportPrivateUsage]
    outcome = await run_job(executor, make_job(tmp_path / "job", f"import numpy\nimport this\n{TINY}"))
    async with asyncio.timeout(60):
        while not pool.disabled_reason:
            await asyncio.sleep(0.05)
    await executor.close()
    assert outcome.failure is None and outcome.stdout_tail.startswith("The Zen of Python")
    assert "importing lab, this printed: The Zen of Python" in pool.disabled_reason


def waiting(pool: KernelPool) -> Kernel:
    """Return the only waiting kernel."""
    [one] = pool._waiting  # pyright: ignore[reportPrivateUsage]
    return one
