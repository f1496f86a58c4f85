"""An executor that runs no code: a function says what each job comes to. For benchmarks of the search, and tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sandbox.job import ExecutorError, Job, Outcome


class ScriptedExecutor:
    """An `Executor` whose outcomes are written down: `script(job)` gives a delay in seconds and the outcome.

    Places, waiting and cancellation are real. Files appear only where the function writes them into `job.folder`.
    `started` names the jobs in the order in which they got a place, `most` how many held one at the same time.
    """

    def __init__(self, script: Callable[[Job], tuple[float, Outcome]], *, places: int = 1) -> None:
        if places < 1:
            raise ExecutorError(f"an executor needs at least one place, not {places}")
        self.places = places
        self.started: list[str] = []
        self.most = 0
        self._script = script
        self._gate = asyncio.Semaphore(places)
        self._closed = asyncio.Event()
        self._holding = 0

    async def run(self, job: Job) -> Outcome:
        """Wait for a place, then for the delay; the outcome as written. Raises `ExecutorError` once closed."""
        async with self._gate:
            self._enter(job)
            try:
                delay, outcome = self._script(job)
                if delay > 0:
                    await self._pause(delay)
                return outcome
            finally:
                self._holding -= 1

    async def close(self) -> None:
        """End what still waits; idempotent."""
        self._closed.set()

    def _enter(self, job: Job) -> None:
        if self._closed.is_set():
            raise ExecutorError("the executor was closed")
        self._holding += 1
        self.most = max(self.most, self._holding)
        self.started.append(job.name)

    async def _pause(self, delay: float) -> None:
        try:
            await asyncio.wait_for(self._closed.wait(), timeout=delay)
        except TimeoutError:
            return
        raise ExecutorError("the executor was closed while the job ran")
