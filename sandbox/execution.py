"""One script in one kernel, bounded in time, output and means, and what came of it.

Kept: what the script prints is drained at any rate and held in bounded memory; so much of it that only a flood can be
meant ends the code. A kernel that dies is noticed at once, and its end has a reason.

Not kept: output still in a pipe when a process dies at once (`os._exit`), and a single message that is larger than a
kernel may send, are lost. The kernel lives on when the script has ended: who started it kills it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from record.nouns.data import Measurement
from record.nouns.nodes import Failure
from sandbox.failures import from_death, from_exception, from_flood, from_timeout, plain_output
from sandbox.isolation.limits import Limits
from sandbox.job import Job
from sandbox.kernels import Kernel
from sandbox.monitor import Monitor
from sandbox.output import OUTPUT_CHARS, LiveOutput, Transcript

FLOOD_CHARS = 10**9
"""Characters of output after which code is killed: nobody prints so much on purpose."""
_POLL = 0.1
"""Seconds between two looks at whether the kernel lives."""
_DRAIN = 2.0
"""Seconds to wait for the last output after the script has ended."""


@dataclass(frozen=True)
class Script:
    """What is run in a kernel, once the folder of its job is ready."""

    job: Job
    folder: Path
    views: dict[str, str]
    """Dataset name -> file with its view."""
    artifacts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Node -> names of what it left; those that the source names lie under inputs/artifacts/."""
    scorers: tuple[str, ...] = ()
    """Datasets whose frozen scorer takes artifacts."""
    pretrained: dict[str, str] = field(default_factory=dict[str, str])
    """`OWNER/NAME@REVISION` -> folder."""
    resumed: bool = False
    """Whether checkpoints of an earlier attempt are there."""
    readable: tuple[Path, ...] = ()
    """Folders of datasets that the code reads by itself."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """All that its kernel must be able to read besides its folder."""
        return (*self.readable, *map(Path, (*self.views.values(), *self.pretrained.values())))


@dataclass(frozen=True)
class Execution:
    """What came of executing some source. `seconds` is the wall clock of the code alone."""

    seconds: float
    failure: Failure | None
    transcript: Transcript
    peak_host_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    evaluated: tuple[Measurement, ...] = ()
    """What frozen scorers gave afterwards."""


async def execute(
    kernel: Kernel, script: Script, source: str, *, limits: Limits, timeout: float, monitor: Monitor | None = None,
) -> Execution:
    """Run the source to its end, to `timeout` seconds of wall clock, or until the monitor calls it off."""
    return await _Running(kernel, script).run(source, timeout, limits, monitor)


class _Running:
    def __init__(self, kernel: Kernel, script: Script) -> None:
        self._kernel = kernel
        self._script = script
        self._transcript = Transcript(OUTPUT_CHARS)
        self._live = LiveOutput(script.job.live, OUTPUT_CHARS // 2)
        self._flooded = False

    async def run(self, source: str, timeout: float, limits: Limits, monitor: Monitor | None) -> Execution:
        began = time.monotonic()
        self._write_job(timeout)
        watchdog = self._kernel.guard(limits)
        request = self._kernel.request(source)
        reply = asyncio.create_task(self._kernel.reply(request))
        death = asyncio.create_task(self._death())
        listener = asyncio.create_task(self._listen(request))
        stopped = asyncio.ensure_future(
            monitor.follow(self._transcript) if monitor else asyncio.get_running_loop().create_future())
        try:
            late = not await _first(reply, death, stopped, within=timeout)
            reason: str | None = stopped.result() if stopped.done() else None
            if late or reason is not None:
                self._kernel.process.interrupt()
                await _first(reply, death, within=self._kernel.config.settings.grace)
            seconds = time.monotonic() - began
            await asyncio.wait({listener}, timeout=_DRAIN if reply.done() else _POLL)
            if reason is not None:
                return Execution(seconds, Failure(kind="hopeless", message=reason), self._transcript)
            failure = watchdog.failure or self._failure(reply, death, timeout=timeout if late else None)
        finally:
            for task in (reply, death, listener, stopped):
                task.cancel()
            await asyncio.gather(reply, death, listener, stopped, return_exceptions=True)
            self._live.close()
        return Execution(seconds, failure, self._transcript)

    def _write_job(self, limit: float) -> None:
        script, settings, gpus = self._script, self._kernel.config.settings, self._kernel.options.gpus
        job = script.job
        self._kernel.write_job({
            "seed": job.seed, "deadline": time.monotonic() + limit, "limit": limit, "mode": job.mode,
            "device": "cuda" if gpus else "cpu", "processes": max(1, len(gpus)),
            "folder": str(self._kernel.seen), "entry": job.entry, "cache": str(self._kernel.config.cache),
            "datasets": script.views, "artifacts": script.artifacts, "pretrained": script.pretrained,
            "scorers": list(script.scorers),
            "checkpoint_bytes": settings.checkpoint_bytes, "artifact_bytes": settings.artifact_bytes})

    async def _listen(self, request: str) -> None:
        """Take in output until the request is done."""
        async for kind, content in self._kernel.messages(request):
            if self._transcript.chars > FLOOD_CHARS and not self._flooded:
                self._flooded = True
                self._kernel.process.kill_all()
            if kind in ("display_data", "execute_result"):
                content = {"name": "stdout", "text": f"{content['data'].get('text/plain', '')}\n"}
            elif kind != "stream":
                continue
            shown = plain_output(content["text"])
            self._transcript.add(content["name"], shown)
            self._live.add(shown)

    async def _death(self) -> int:
        while (code := self._kernel.process.exit_code()) is None:
            await asyncio.sleep(_POLL)
        return code

    def _failure(
        self, reply: asyncio.Task[dict[str, Any]], death: asyncio.Task[int], *, timeout: float | None,
    ) -> Failure | None:
        answer = reply.result() if reply.done() else {}
        trace = [line.replace("Cell In[1]", self._script.job.entry) for line in answer.get("traceback", ())]
        folder = self._kernel.seen
        if self._flooded:
            return from_flood(FLOOD_CHARS)
        if timeout is not None:
            return from_timeout(timeout, stopped=reply.done(), traceback=trace, folder=folder)
        if not reply.done():
            return from_death(death.result(), self._kernel.crash_log(), folder=folder)
        clean_exit = answer.get("ename") == "SystemExit" and answer["evalue"] in ("", "0", "None")
        if answer["status"] != "error" or clean_exit:
            return None
        return from_exception(answer["ename"], answer["evalue"], traceback=trace, folder=folder)


async def _first(*tasks: asyncio.Future[Any], within: float) -> bool:
    """True where one of the tasks is done within so many seconds."""
    done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)
