"""Run one task on a worker: unpack its folder, run its script or command and pack the output.

Progress is buffered until the head node polls (`take_news`); the head can stop the task (`call_off`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from labwright.record.run_folder import hash_file
from labwright.record.untrusted_files import BadFile, make_harmless, remove_tree
from labwright.sandbox.cluster.archives import pack_archive, unpack_archive
from labwright.sandbox.cluster.messages import PollResponse, RemoteTaskSpec, TaskResult, build_script
from labwright.sandbox.content_store import ContentStore, link_or_copy
from labwright.sandbox.errors import ExecutorError, SandboxError
from labwright.sandbox.execution import KernelExecution, KernelScript
from labwright.sandbox.file_clock import read_file_time
from labwright.sandbox.job import ExecutionProgress
from labwright.sandbox.kernel_host import KernelHost
from labwright.sandbox.monitor import JobMonitor
from labwright.sandbox.output import LiveOutput, Transcript
from labwright.sandbox.results import failure_from_error
from labwright.sandbox.workspace import CELLS_FOLDER

MAX_OUTPUT_CHARS_SENT = 100_000
"""Characters of output sent while the code runs; the final result contains all output that is kept."""


class RemoteTask:
    """A running task in the worker's event loop. `archive` contains its folder, and later its output."""

    def __init__(
        self,
        spec: RemoteTaskSpec,
        host: KernelHost,
        store: ContentStore,
        archive: Path,
        watch_seconds: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._spec, self._host, self._store, self._archive = spec, host, store, archive
        self._runner, self._watch_seconds = host.runner, watch_seconds
        self._clock_shift = spec.now - read_file_time(archive.parent)
        self._has_started, self._sent_chars = False, 0
        self._output: list[str] = []
        self._progress: list[ExecutionProgress] = []
        self._has_news = asyncio.Event()
        self._stop_reason: asyncio.Future[str] = loop.create_future()
        self._task = loop.create_task(self._run())
        self._task.add_done_callback(lambda _: self._has_news.set())

    async def wait_for_news(self, seconds: float) -> None:
        """Wait for news, up to `seconds`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_news.wait(), seconds)
        self._has_news.clear()

    def take_news(self) -> PollResponse:
        """Return the news since the last call."""
        output, self._output = "".join(self._output), []
        progress, self._progress = tuple(self._progress), []
        done, error = None, ""
        if self._task.done():
            self._has_news.set()
            try:
                done = self._task.result()
            except (SandboxError, OSError) as failed:
                error = " ".join(str(failed).split())
        return PollResponse(has_started=self._has_started, output=output, progress=progress, result=done, error=error)

    def call_off(self, reason: str) -> None:
        """Ask the task to stop its code, for the given reason."""
        if not self._stop_reason.done():
            self._stop_reason.set_result(reason)

    async def cancel(self) -> None:
        """Cancel the task. Idempotent."""
        self._task.cancel()
        await asyncio.wait({self._task})

    # --- running the task ---------------------------------------------------------------------------------------------

    async def _run(self) -> TaskResult:
        return await (self._run_script() if self._spec.command is None else self._run_command())

    async def _run_script(self) -> TaskResult:
        spec, host = self._spec, self._host
        folder, views = host.folder.parent / CELLS_FOLDER / "whole", self._link_views()
        if spec.cell is not None:
            folder = folder.with_name(spec.cell.name)
            await host.prepare(spec.cell.arm, spec.script_fields["source"], spec.visible_datasets, spec.needs.gpus)
        await asyncio.to_thread(unpack_archive, self._archive, folder)
        models = {name: str(self._find_content(key)) for name, key in spec.pretrained.items()}
        script = replace(
            build_script(spec, folder, views=views, pretrained=models), live=ForwardedOutput(self._forward_output)
        )
        monitor = (
            ForwardingMonitor(folder, self._watch_seconds, self._forward_progress, self._stop_reason)
            if spec.watched
            else None
        )
        return await self._pack_result(folder, await self._execute(script, monitor), without=("inputs",))

    async def _execute(self, script: KernelScript, monitor: JobMonitor | None) -> KernelExecution:
        if script.cell is not None:
            return await self._host.execute(script, on_start=self._mark_started, monitor=monitor)
        self._mark_started()
        return await self._runner.execute(script, None, monitor)

    async def _run_command(self) -> TaskResult:
        spec, job = self._spec, self._spec.command
        folder = self._host.folder.parent / CELLS_FOLDER / "command"
        assert job is not None
        await asyncio.to_thread(unpack_archive, self._archive, folder)
        environment = (
            replace(job.environment, packages=self._find_content(spec.packages)) if spec.packages else job.environment
        )
        job = replace(job, folder=folder, environment=environment, readable=tuple(filter(Path.exists, job.readable)))
        outcome = await self._runner.run_repository_command(
            job, spec.needs, alone=spec.alone, on_start=self._mark_started
        )
        done = await self._pack_result(folder, KernelExecution(outcome.seconds, outcome.failure, Transcript(2)))
        return done.model_copy(update={"command_outcome": outcome})

    async def _pack_result(self, folder: Path, execution: KernelExecution, without: tuple[str, ...] = ()) -> TaskResult:
        """Pack the folder into the archive and return the result."""
        max_bytes = int(self._runner.config.settings.disk_gb * 1e9)

        def make() -> TaskResult:
            failed = execution
            try:
                make_harmless(folder)
                pack_archive(
                    folder, self._archive, max_bytes=max_bytes, clock_shift=self._clock_shift, excluded=without
                )
            except BadFile as error:
                failed = replace(execution, failure=execution.failure or failure_from_error(error))
                remove_tree(folder)
                folder.mkdir()
                pack_archive(folder, self._archive, max_bytes=0)
            return TaskResult.from_execution(failed, size=self._archive.stat().st_size, sha256=hash_file(self._archive))

        return await asyncio.to_thread(make)

    def _link_views(self) -> dict[str, str]:
        """Link the views under their names, under which waiting kernels look for them."""
        found: dict[str, str] = {}
        for name, key in self._spec.views.items():
            path, content = self._runner.views / f"{name}.npz", self._find_content(key)
            if not path.exists() or not path.samefile(content):
                path.unlink(missing_ok=True)
                link_or_copy(content, path)
            found[name] = str(path)
        return found

    def _find_content(self, key: str) -> Path:
        found = self._store.find(key)
        if found is None:
            raise ExecutorError(f"{key[:12]}... is missing from the store {self._store.root}")
        return found

    # --- news ---------------------------------------------------------------------------------------------------------

    def _mark_started(self) -> None:
        self._has_started = True
        self._has_news.set()

    def _forward_output(self, text: str) -> None:
        if self._sent_chars < MAX_OUTPUT_CHARS_SENT:
            self._output.append(text[: MAX_OUTPUT_CHARS_SENT - self._sent_chars])
            self._sent_chars += len(text)

    def _forward_progress(self, progress: ExecutionProgress) -> None:
        self._progress.append(progress)
        self._has_news.set()


class ForwardedOutput(LiveOutput):
    """Output that is passed to a callback."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(None, 0)
        self._forward = show

    def add(self, text: str) -> None:
        self._forward(text)


class ForwardingMonitor(JobMonitor):
    """A monitor whose progress the head node judges; the head node may send back a reason to stop."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        forward: Callable[[ExecutionProgress], None],
        stop_reason: asyncio.Future[str],
    ) -> None:
        super().__init__(lambda _: None, folder)
        self._seconds, self._forward, self._stop_reason = seconds, forward, stop_reason

    async def watch_until_ended(self, transcript: Transcript) -> str:
        watching = asyncio.ensure_future(self._watch_progress(transcript))
        try:
            return await asyncio.shield(self._stop_reason)
        finally:
            watching.cancel()

    async def _watch_progress(self, transcript: Transcript) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(self._seconds)
            self._forward(await asyncio.to_thread(self.read_progress, time.monotonic() - began, transcript.char_count))
