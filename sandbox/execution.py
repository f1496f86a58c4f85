"""One script in one kernel, bounded in time, output and means, and what came of it.

Kept: what the script prints is drained at any rate and held in bounded memory; so much of it that only a flood can be
meant ends the code. A kernel that dies is noticed at once, and its end has a reason. A script, or a cell
(`Script.cell`), runs in a process that its kernel has forked for it; with a cell the kernel lives on, and the next one
may follow.

Who started the kernel kills it.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labwright.record.schema.cell import Cell, TrainingCounts
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Failure
from labwright.sandbox.failures import (
    failure_from_death,
    failure_from_exception,
    failure_from_flood,
    failure_from_timeout,
    strip_colours,
)
from labwright.sandbox.isolation.limits import ResourceLimits
from labwright.sandbox.job import Job
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.llm_gateway import LlmSession
from labwright.sandbox.monitor import JobMonitor
from labwright.sandbox.output import MAX_KEPT_CHARS, LiveOutput, Transcript

MAX_PRINTED_CHARS = 10**9
"""Characters of output after which code is killed: nobody prints so much on purpose."""
_POLL_SECONDS = 0.1
"""Seconds between two looks at whether the kernel lives."""
_DRAIN_SECONDS = 2.0
"""Seconds to wait for the last output after the script has ended."""
_KILL_REPLY_SECONDS = 3.0
"""Seconds beyond the grace in which a kernel that killed its cell says so; later it is taken for dead."""


@dataclass(frozen=True)
class KernelScript:
    """What is run in a kernel, once the folder of its job is ready."""

    job: Job
    folder: Path
    views: dict[str, str]
    """Dataset name -> file with its view; relative to its folder where it lies there."""
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
    cell: Cell | None = None
    """What it measures; None for a script that does all at once. Then `folder` is the cell's, below the kernel's."""
    tree: str = ""
    """sha256 of the source files that it sees."""
    arms: dict[str, str] = field(default_factory=dict[str, str])
    """Arm whose artifacts it reads -> name of the cell that left them, under inputs/arms/."""
    live: LiveOutput | None = None
    """Where its output is shown; by default in `job.live`."""

    @property
    def entry_text(self) -> str:
        """Of its entry."""
        if (text := self.job.source.get(self.job.entry)) is not None:
            return text
        return (self.folder / self.job.entry).read_text(encoding="utf-8", errors="replace")

    @property
    def readable_paths(self) -> tuple[Path, ...]:
        """All that its kernel must be able to read besides its folder."""
        outside = filter(os.path.isabs, (*self.views.values(), *self.pretrained.values()))
        return (*self.readable, *map(Path, outside))


@dataclass(frozen=True)
class KernelExecution:
    """What came of executing some source. `seconds` is the wall clock of the code alone."""

    seconds: float
    failure: Failure | None
    transcript: Transcript
    peak_host_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    scorer_values: tuple[Measurement, ...] = ()
    """What frozen scorers gave afterwards."""
    kernel_unusable: bool = True
    """Whether its kernel can run nothing more."""
    is_first_cell: bool = False
    """Whether its kernel had ended no cell before."""
    peak_process_bytes: int = 0
    """Bytes that its process once took at most beyond those of its kernel; 0 where it did not come to its end."""
    training: TrainingCounts | None = None
    """What a cell's process counted, if it came to its end."""
    llm_session: LlmSession | None = None
    """What it asked language models; None where it may ask none."""


async def execute(
    kernel: Kernel, script: KernelScript, *, limits: ResourceLimits, timeout: float, monitor: JobMonitor | None = None
) -> KernelExecution:
    """Run the script to its end, to `timeout` seconds of wall clock, or until the monitor calls it off."""
    return await ScriptRun(kernel, script).run(timeout, limits, monitor)


class ScriptRun:
    def __init__(self, kernel: Kernel, script: KernelScript) -> None:
        self._kernel = kernel
        self._script = script
        self._transcript = Transcript(MAX_KEPT_CHARS)
        self._live = script.live or LiveOutput(script.job.live_output, MAX_KEPT_CHARS // 2)
        self._folder_in_kernel = kernel.folder_inside / script.folder.relative_to(kernel.folder)
        self._flooded = False

    async def run(self, timeout: float, limits: ResourceLimits, monitor: JobMonitor | None) -> KernelExecution:
        began = time.monotonic()
        self._write_job(timeout)
        watchdog = self._kernel.start_watchdog(limits)
        request = self._kernel.send_request()
        reply = asyncio.create_task(self._kernel.wait_for_reply(request))
        death = asyncio.create_task(self._wait_for_death())
        listener = asyncio.create_task(self._collect_output(request))
        stopped = asyncio.ensure_future(
            monitor.watch_until_ended(self._transcript) if monitor else asyncio.get_running_loop().create_future()
        )
        try:
            late = not await _wait_first(reply, death, stopped, within=timeout)
            reason: str | None = stopped.result() if stopped.done() else None
            if late or reason is not None:
                self._kernel.process.interrupt()
                await _wait_first(reply, death, within=self._kernel.config.settings.grace + _KILL_REPLY_SECONDS)
            seconds = time.monotonic() - began
            await asyncio.wait({listener}, timeout=_DRAIN_SECONDS if reply.done() else _POLL_SECONDS)
            answer = _parse_zygote_reply(reply.result()) if reply.done() else {}
            failure = (
                Failure(kind="hopeless", message=reason)
                if reason is not None
                else watchdog.failure or self._find_failure(answer, death, timeout=timeout if late else None)
            )
            over = (
                self._script.cell is None or watchdog.failure is not None or self._flooded or answer.get("over", True)
            )
        finally:
            watchdog.stop()
            for task in (reply, death, listener, stopped):
                task.cancel()
            await asyncio.gather(reply, death, listener, stopped, return_exceptions=True)
            if self._script.live is None:
                self._live.close()
        return KernelExecution(
            seconds,
            failure,
            self._transcript,
            kernel_unusable=over,
            training=answer.get("training"),
            peak_process_bytes=answer.get("peak", 0),
        )

    def _write_job(self, limit: float) -> None:
        script, settings, gpus = self._script, self._kernel.config.settings, self._kernel.options.gpus
        job, cell = script.job, script.cell
        share = cell.share if cell is not None else 1.0
        steps, examples = (1.0, share) if job.rungs_by == "data" else (share, 1.0)
        self._kernel.write_job(
            {
                "cell": None
                if cell is None
                else cell.model_dump() | {"setting": job.settings.get(cell, {}), "share": steps},
                "data_share": examples,
                "arms": script.arms,
                "tree": script.tree,
                "grace": settings.grace,
                "seed": job.seed,
                "deadline": time.monotonic() + limit,
                "limit": limit,
                "mode": job.mode,
                "device": "cuda" if gpus else "cpu",
                "processes": max(1, len(gpus)),
                "folder": str(self._folder_in_kernel),
                "entry": job.entry,
                "cache": str(self._kernel.config.cache),
                "datasets": script.views,
                "artifacts": script.artifacts,
                "pretrained": script.pretrained,
                "scorers": list(script.scorers),
                "subjects": list(job.subjects),
                "llm": str(self._kernel.llm_socket),
                "checkpoint_bytes": settings.checkpoint_bytes,
                "artifact_bytes": settings.artifact_bytes,
            }
        )

    async def _collect_output(self, request: str) -> None:
        """Take in output until the request is done."""
        async for kind, content in self._kernel.read_messages(request):
            if self._transcript.char_count > MAX_PRINTED_CHARS and not self._flooded:
                self._flooded = True
                self._kernel.process.kill_all()
            if kind != "stream":
                continue
            shown = strip_colours(content["text"])
            self._transcript.add(content["name"], shown)
            self._live.add(shown)

    async def _wait_for_death(self) -> int:
        while (code := self._kernel.process.get_exit_code()) is None:
            await asyncio.sleep(_POLL_SECONDS)
        return code

    def _find_failure(
        self, answer: dict[str, Any], death: asyncio.Task[int], *, timeout: float | None
    ) -> Failure | None:
        trace, folder = answer.get("traceback", ()), self._folder_in_kernel
        if self._flooded:
            return failure_from_flood(MAX_PRINTED_CHARS)
        if timeout is not None:
            stopped = bool(answer) and not answer.get("killed")
            return failure_from_timeout(timeout, stopped=stopped, traceback=trace, folder=folder)
        if not answer:
            return failure_from_death(death.result(), self._kernel.read_crash_log(), folder=folder)
        if answer["status"] == "died":
            return failure_from_death(answer["code"], self._kernel.read_crash_log(), folder=folder)
        clean_exit = answer.get("ename") == "SystemExit" and answer["evalue"] in ("", "0", "None")
        if answer["status"] != "error" or clean_exit:
            return None
        failure = failure_from_exception(answer["ename"], answer["evalue"], traceback=trace, folder=folder)
        return failure.model_copy(update={"kind": "diverged"}) if answer.get("diverged") else failure


def _parse_zygote_reply(answer: dict[str, Any]) -> dict[str, Any]:
    """What a kernel's zygote says of its cell; what the kernel itself says where that is nothing of the kind."""
    with suppress(KeyError, TypeError, ValueError, SyntaxError, RecursionError, AttributeError):
        told: dict[str, Any] = json.loads(ast.literal_eval(answer["user_expressions"]["ran"]["data"]["text/plain"]))
        counted: dict[str, Any] = told.get("training") or {}
        answer = {
            "status": told["status"],
            "killed": bool(told["killed"]),
            "over": bool(told["over"]),
            "peak": int(told.get("peak", 0)),
            "traceback": [str(line) for line in told.get("traceback", ())],
            "training": (TrainingCounts.model_validate(counted) if any(counted.values()) else None),
        }
        match told["status"]:
            case "ok":
                return answer
            case "died":
                return answer | {"code": int(told["code"])}
            case "error":
                return answer | {
                    "ename": str(told["ename"]),
                    "evalue": str(told["evalue"]),
                    "diverged": bool(told["diverged"]),
                }
            case _:
                pass
    return {"ename": "RuntimeError", "evalue": "its kernel did not say what came of it", **answer, "status": "error"}


async def _wait_first(*tasks: asyncio.Future[Any], within: float) -> bool:
    """True where one of the tasks is done within so many seconds."""
    done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)
