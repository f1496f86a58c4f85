"""Runs jobs on this machine, each in a kernel of its own, at most `places` at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from sandbox.errors import SubmissionRefused
from sandbox.figures import collect_figures
from sandbox.job import ExecutorError, Job, Outcome
from sandbox.kernels import Execution, Kernel, Script
from sandbox.leavings import defect, hash_arrays, lacking, measure
from sandbox.notebook import notebook
from sandbox.settings import SandboxSettings
from sandbox.untrusted import Unfit, write_whole
from sandbox.workplace import prepare


class LocalExecutor:
    """An `Executor` over local kernels.

    `views` and `labels` hold what `sandbox.datasets.materialise` wrote; `cache` is shared by the kernels.
    """

    def __init__(self, places: int, views: Path, *, labels: Path, settings: SandboxSettings, cache: Path) -> None:
        if places < 1:
            raise ExecutorError(f"an executor needs at least one place, not {places}")
        self.places = places
        self._views = views
        self._labels = labels
        self._settings = settings
        self._cache = cache.absolute()
        self._gate = asyncio.Semaphore(places)
        self._running: set[asyncio.Task[Outcome]] = set()
        self._closed = False

    async def run(self, job: Job) -> Outcome:
        """Run one job to its end. Cancelling the task kills the kernel. Raises `ExecutorError`."""
        async with self._gate:
            if self._closed:
                raise ExecutorError("the executor was closed")
            task = asyncio.create_task(self._run(job), name=f"kernel of {job.name}")
            self._running.add(task)
            try:
                return await self._until_done(task)
            finally:
                self._running.discard(task)

    async def _until_done(self, task: asyncio.Task[Outcome]) -> Outcome:
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        if task.cancelled():
            raise ExecutorError("the executor was closed while the job ran")
        return task.result()

    async def close(self) -> None:
        """Kill what still runs; idempotent."""
        self._closed = True
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running))

    async def _run(self, job: Job) -> Outcome:
        script = await asyncio.to_thread(prepare, job, self._views, self._settings.file_bytes)
        self._cache.mkdir(parents=True, exist_ok=True)
        source = (script.folder / job.entry).read_text(encoding="utf-8", errors="replace")
        execution = await self._execute(script, source, min(job.timeout, self._settings.timeout))
        return await asyncio.to_thread(self._outcome, job, script, source, execution)

    async def _execute(self, script: Script, source: str, timeout: float) -> Execution:
        kernel = Kernel(script, settings=self._settings, cache=self._cache)
        try:
            await kernel.start()
            return await kernel.execute(source, timeout)
        finally:
            kernel.kill()

    # --- after the code, in a thread: nothing of the kernel is alive any more ----------------------------------------

    def _outcome(self, job: Job, script: Script, source: str, execution: Execution) -> Outcome:
        folder = script.folder
        ran = Outcome(seconds=execution.seconds, failure=execution.failure,
                      stdout_tail=execution.transcript.tail(self._settings.tail_chars))
        done = self._experiment(job, folder, ran) if job.mode == "experiment" else self._plots(folder, ran)
        stem = "node" if job.mode == "experiment" else "plots"
        try:
            write_whole(folder, f"{stem}.ipynb", notebook(source, execution.transcript, done.failure))
            write_whole(folder, f"{'' if stem == 'node' else 'plots.'}stdout.txt", execution.transcript.text())
        except OSError as error:
            raise ExecutorError(f"cannot write to {folder}: {error}") from error
        return done

    def _experiment(self, job: Job, folder: Path, ran: Outcome) -> Outcome:
        done = self._with_arrays(folder, ran)
        try:
            measured = measure(folder, self._labels, seed=job.seed, limit=self._settings.file_bytes)
        except (Unfit, SubmissionRefused) as error:
            return replace(done, failure=done.failure or defect(error))
        return replace(done, failure=done.failure or lacking(measured), measurements=measured.final,
                       sealed=measured.sealed, curves_sha256=measured.curves_sha256)

    def _plots(self, folder: Path, ran: Outcome) -> Outcome:
        done = self._with_arrays(folder, ran)
        figures, failure = collect_figures(folder, self._settings.figure_bytes)
        return replace(done, figures=figures, failure=done.failure or failure)

    def _with_arrays(self, folder: Path, ran: Outcome) -> Outcome:
        try:
            return replace(ran, arrays=hash_arrays(folder, self._settings.file_bytes))
        except Unfit as error:
            return replace(ran, failure=ran.failure or defect(error))

