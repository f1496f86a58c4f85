"""The contract of every `Executor`. Test a new one with a subclass of `ExecutorContract` that creates it.

The jobs are scripts of these names; an executor that runs no code gets their outcomes from
`tests.sandbox.fake_outcomes`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from labwright.sandbox.job import Executor, ExecutorError, Job, JobOutcome
from tests.jobs import run_job
from tests.sandbox.conftest import DatasetStore, holds_eventually

TINY = "import lab\nlab.result('size', 3, condition='baseline', dataset='digits')\nprint('measured')\n"
SLOW = "import time\ntime.sleep(60)\n"
FAILING = f"{TINY}raise ValueError('broken')\n"
MUTE = "print('nothing measured')\n"
SUM = "import numpy as np\nprint(np.load('inputs/n1/x.npy').sum())\n" + TINY
LEAVING = "import lab\nlab.save('curve', [1, 2])\nlab.save_artifact('net', [3, 4])\n" + TINY


def make_job(folder: Path, code: str, seed: int = 0) -> Job:
    """Build a job with this code, named after its folder."""
    return Job(
        name=folder.name, folder=folder, source={"experiment.py": code}, seed=seed, timeout=60.0, datasets=("digits",)
    )


class ExecutorContract:
    """Tests of an implementation, which a subclass creates."""

    patience = 10.0
    """Timeout in seconds for events expected soon."""

    def make_executor(self, slots: int, store: DatasetStore) -> Executor:
        """Create an executor. The test closes it."""
        raise NotImplementedError

    # --- outcomes ---------------------------------------------------------------------------------------------------

    async def test_the_outcome_of_a_tiny_job(self, store: DatasetStore, tmp_path: Path) -> None:
        outcome = await self.run_job(make_job(tmp_path / "a", TINY, seed=9), store)
        assert [(one.name, one.value, one.seed, one.grade) for one in outcome.measurements] == [
            ("size", 3.0, 9, "logged")
        ]
        assert outcome.failure is None and not outcome.resumed
        assert outcome.stdout_tail == "measured\n"
        assert outcome.seconds > 0
        assert outcome.peak_host_bytes is None or outcome.peak_host_bytes > 0
        assert outcome.peak_gpu_bytes is None

    async def test_what_is_left_is_named_with_its_hash(self, store: DatasetStore, tmp_path: Path) -> None:
        outcome = await self.run_job(make_job(tmp_path / "a", LEAVING), store)
        assert (list(outcome.arrays), list(outcome.artifacts)) == (["curve.npy"], ["net.npy"])
        hashes = [*outcome.arrays.values(), *outcome.artifacts.values()]
        assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes)

    async def test_failure_is_data_and_keeps_what_was_measured(self, store: DatasetStore, tmp_path: Path) -> None:
        outcome = await self.run_job(make_job(tmp_path / "a", FAILING), store)
        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.failure.message) == ("other", "ValueError: broken")
        assert [one.name for one in outcome.measurements] == ["size"]

    async def test_code_that_measures_nothing_has_failed(self, store: DatasetStore, tmp_path: Path) -> None:
        outcome = await self.run_job(make_job(tmp_path / "a", MUTE), store)
        assert outcome.failure is not None and outcome.failure.kind == "no measurement"

    async def test_the_time_limit_is_a_failure(self, store: DatasetStore, tmp_path: Path) -> None:
        outcome = await self.run_job(replace(make_job(tmp_path / "a", SLOW), timeout=0.3), store)
        assert outcome.failure is not None and outcome.failure.kind == "timeout"
        assert outcome.seconds < self.patience

    async def test_inputs_are_given(self, store: DatasetStore, tmp_path: Path) -> None:
        given = tmp_path / "n1"
        given.mkdir()
        np.save(given / "x.npy", np.arange(4))
        outcome = await self.run_job(replace(make_job(tmp_path / "a", SUM), inputs={"inputs/n1": (given,)}), store)
        assert outcome.stdout_tail == "6\nmeasured\n"

    # --- slots -----------------------------------------------------------------------------------------------------

    async def test_as_many_run_at_a_time_as_there_are_places(self, store: DatasetStore, tmp_path: Path) -> None:
        executor = self.make_executor(2, store)
        assert executor.slots == 2
        running: set[str] = set()
        tasks = [
            asyncio.create_task(run_job(executor, make_job(tmp_path / name, SLOW), on_start=partial(running.add, name)))
            for name in "abc"
        ]
        assert await asyncio.to_thread(holds_eventually, lambda: len(running) == 2)
        await asyncio.sleep(0.3)
        assert running == {"a", "b"}
        tasks[0].cancel()
        assert await asyncio.to_thread(holds_eventually, lambda: "c" in running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await executor.close()

    async def test_who_waits_is_served_in_order(self, store: DatasetStore, tmp_path: Path) -> None:
        executor = self.make_executor(1, store)
        ended: list[str] = []

        async def run(name: str) -> None:
            await run_job(executor, make_job(tmp_path / name, TINY))
            ended.append(name)

        tasks = {name: asyncio.create_task(run(name)) for name in "abcd"}
        await asyncio.sleep(0.05)
        tasks["b"].cancel()  # a cancelled waiter does not block others
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert ended == ["a", "c", "d"]
        await executor.close()

    async def test_a_job_that_is_alone_has_nothing_beside_it(self, store: DatasetStore, tmp_path: Path) -> None:
        executor = self.make_executor(2, store)
        running: set[str] = set()
        slow = asyncio.create_task(
            run_job(executor, make_job(tmp_path / "slow", SLOW), on_start=partial(running.add, "slow"))
        )
        assert await asyncio.to_thread(holds_eventually, lambda: bool(running))
        alone = asyncio.create_task(run_job(executor, replace(make_job(tmp_path / "alone", TINY), alone=True)))
        later = asyncio.create_task(run_job(executor, make_job(tmp_path / "later", TINY)))
        done, _ = await asyncio.wait({alone, later}, timeout=0.3)
        assert not done  # one slot is free, but nobody overtakes a job that waits for all slots
        slow.cancel()
        assert (await alone).failure is None and not later.done()
        assert (await later).failure is None
        await executor.close()

    async def test_it_needs_a_slot(self, store: DatasetStore) -> None:
        with pytest.raises(ExecutorError, match="at least one slot"):
            self.make_executor(0, store)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def test_cancelling_kills_and_frees_the_place(self, store: DatasetStore, tmp_path: Path) -> None:
        executor = self.make_executor(1, store)
        running: set[str] = set()
        task = asyncio.create_task(
            run_job(executor, make_job(tmp_path / "a", SLOW), on_start=partial(running.add, "a"))
        )
        assert await asyncio.to_thread(holds_eventually, lambda: bool(running))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(self.patience):
                await task
        assert (await run_job(executor, make_job(tmp_path / "b", TINY))).measurements
        await executor.close()

    async def run_job(self, one: Job, store: DatasetStore) -> JobOutcome:
        """Return the outcome of a job in a fresh executor."""
        executor = self.make_executor(1, store)
        try:
            return await run_job(executor, one)
        finally:
            await executor.close()
            await executor.close()  # idempotent
