"""The contract of `Executor` for every implementation, and guarantees specific to one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Executor, ExecutorError, Job
from tests.fake_executor import FakeExecutor
from tests.jobs import run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore
from tests.sandbox.executor_contract import ExecutorContract, make_job
from tests.sandbox.fake_outcomes import fake_outcome

pytestmark = pytest.mark.slow

RENDEZVOUS = """
import pathlib, time
here = pathlib.Path.cwd()
until = time.monotonic() + 30

def count(name):
    return len(list(here.parents[4].glob('*/kernels/*/cells/*/' + name)))

(here / 'in').touch()
while (met := count('in')) < 2 and time.monotonic() < until:
    time.sleep(0.01)
(here / 'met').touch()
while count('met') < 2 <= count('in') and time.monotonic() < until:  # the folder of a cell goes with it
    time.sleep(0.01)
print(met)
"""


class TestScripted(ExecutorContract):
    def make_executor(self, slots: int, store: DatasetStore) -> Executor:
        return FakeExecutor(fake_outcome, slots=slots)


BROKEN: list[Callable[[Path], Job]] = [
    lambda folder: Job(name="j", folder=folder, source={}, entry="missing.py"),
    lambda folder: Job(name="j", folder=folder, source={"experiment.py": ""}, datasets=("unknown",)),
    lambda folder: Job(name="j", folder=folder, source={"../out.py": ""}, entry="../out.py"),
    lambda folder: Job(name="j", folder=folder, source={"experiment.py": ""}, inputs={"inputs/../b": (folder,)}),
]


class TestLocal(ExecutorContract):
    def make_executor(self, slots: int, store: DatasetStore) -> Executor:
        return LocalExecutor(slots, store.views, labels=store.labels, settings=SETTINGS, cache=store.cache)

    async def test_kernels_do_not_wait_for_each_other(self, store: DatasetStore, tmp_path: Path) -> None:
        executor = self.make_executor(2, store)
        outcomes = await asyncio.gather(*(run_job(executor, make_job(tmp_path / name, RENDEZVOUS)) for name in "ab"))
        assert [outcome.stdout_tail for outcome in outcomes] == ["2\n", "2\n"]
        await executor.close()

    @pytest.mark.parametrize("broken", BROKEN)
    async def test_a_job_that_cannot_be_run_is_refused_before_a_kernel(
        self, store: DatasetStore, tmp_path: Path, broken: Callable[[Path], Job]
    ) -> None:
        with pytest.raises(ExecutorError, match="'j'"):
            await run_job(self.make_executor(1, store), broken(tmp_path / "job"))
