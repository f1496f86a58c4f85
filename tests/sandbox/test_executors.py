"""The contract of `Executor`, held by every implementation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from record.nouns import Measurement
from sandbox.executor import LocalExecutor
from sandbox.job import Executor, ExecutorError, Job, Outcome
from sandbox.scripted import ScriptedExecutor
from tests.sandbox.conftest import SETTINGS, Store

TINY = "import lab\nlab.result('size', 3, condition='baseline', dataset='digits')\nprint('measured')\n"
RENDEZVOUS = """
import pathlib, time
here = pathlib.Path.cwd()
(here / 'in').touch()
until = time.monotonic() + 30
while len(list(here.parent.glob('*/in'))) < 2 and time.monotonic() < until:
    time.sleep(0.01)
print(len(list(here.parent.glob('*/in'))))
"""
SLOW = "import time\ntime.sleep(60)\n"


def tiny_outcome(job: Job) -> tuple[float, Outcome]:
    """What the tiny script comes to, written down."""
    if job.source["experiment.py"] == SLOW:
        return 60.0, Outcome(seconds=60.0)
    return 0.05, Outcome(seconds=0.05, stdout_tail="measured\n", measurements=(Measurement(
        name="size", value=3.0, condition="baseline", dataset="digits", split="validation", seed=job.seed,
        grade="logged"),))


def job(folder: Path, code: str, seed: int = 0) -> Job:
    return Job(name=folder.name, folder=folder, source={"experiment.py": code}, seed=seed, timeout=60.0,
               datasets=("digits",))


class ExecutorContract:
    """Run over an implementation by a subclass that makes it."""

    def make(self, places: int, store: Store) -> Executor:
        raise NotImplementedError

    async def test_the_outcome_of_a_tiny_job(self, store: Store, tmp_path: Path) -> None:
        executor = self.make(1, store)
        outcome = await executor.run(job(tmp_path / "a", TINY, seed=9))
        assert [(one.name, one.value, one.seed, one.grade) for one in outcome.measurements] == [
            ("size", 3.0, 9, "logged")]
        assert outcome.failure is None
        assert outcome.stdout_tail == "measured\n"
        assert outcome.seconds > 0
        await executor.close()

    async def test_at_most_places_at_a_time(self, store: Store, tmp_path: Path) -> None:
        executor = self.make(1, store)
        assert executor.places == 1
        slow = asyncio.create_task(executor.run(job(tmp_path / "slow", SLOW)))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(executor.run(job(tmp_path / "next", TINY)))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done
        slow.cancel()
        assert (await waiting).failure is None
        await executor.close()

    async def test_cancelling_frees_the_place(self, store: Store, tmp_path: Path) -> None:
        executor = self.make(1, store)
        task = asyncio.create_task(executor.run(job(tmp_path / "a", SLOW)))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await executor.run(job(tmp_path / "b", TINY))).measurements
        await executor.close()

    async def test_closing_is_final_and_idempotent(self, store: Store, tmp_path: Path) -> None:
        executor = self.make(2, store)
        task = asyncio.create_task(executor.run(job(tmp_path / "a", SLOW)))
        await asyncio.sleep(0.3)
        await executor.close()
        await executor.close()
        with pytest.raises(ExecutorError, match="closed"):
            await task
        with pytest.raises(ExecutorError, match="closed"):
            await executor.run(job(tmp_path / "b", TINY))

    async def test_it_needs_a_place(self, store: Store) -> None:
        with pytest.raises(ExecutorError, match="at least one place"):
            self.make(0, store)


class TestScripted(ExecutorContract):
    def make(self, places: int, store: Store) -> Executor:
        return ScriptedExecutor(tiny_outcome, places=places)

    async def test_it_tells_who_ran_and_how_many_at_once(self, tmp_path: Path) -> None:
        executor = ScriptedExecutor(tiny_outcome, places=2)
        await asyncio.gather(*(executor.run(job(tmp_path / name, TINY)) for name in "abcd"))
        assert executor.started == ["a", "b", "c", "d"]
        assert executor.most == 2


BROKEN: list[Callable[[Path], Job]] = [
    lambda folder: Job(name="j", folder=folder, source={}, entry="missing.py"),
    lambda folder: Job(name="j", folder=folder, source={"experiment.py": ""}, datasets=("unknown",)),
    lambda folder: Job(name="j", folder=folder, source={"../out.py": ""}, entry="../out.py"),
    lambda folder: Job(name="j", folder=folder, source={"experiment.py": ""}, inputs={"a/b": folder}),
]


class TestLocal(ExecutorContract):
    def make(self, places: int, store: Store) -> Executor:
        return LocalExecutor(places, store.views, labels=store.labels, settings=SETTINGS, cache=store.cache)

    async def test_kernels_do_not_wait_for_each_other(self, store: Store, tmp_path: Path) -> None:
        executor = self.make(2, store)
        outcomes = await asyncio.gather(*(executor.run(job(tmp_path / name, RENDEZVOUS)) for name in "ab"))
        assert [outcome.stdout_tail for outcome in outcomes] == ["2\n", "2\n"]
        await executor.close()

    @pytest.mark.parametrize("broken", BROKEN)
    async def test_a_job_that_cannot_be_run_is_refused_before_a_kernel(
        self, store: Store, tmp_path: Path, broken: Callable[[Path], Job],
    ) -> None:
        with pytest.raises(ExecutorError, match="'j'"):
            await self.make(1, store).run(broken(tmp_path / "job"))
