"""Run one script in one kernel, with limits on time, output and resources, and return the result.

Guarantees: output is drained at any rate and kept in bounded memory; an output flood ends the code. The death of a
kernel is detected at once and reported with a reason. A script or cell (`KernelScript.cell`) runs in a process forked
by its kernel; after a cell, the kernel lives on for the next one.

The caller starts and kills the kernel.
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
"""Maximum number of output characters before the code is killed: no legitimate code prints this much."""
_POLL_SECONDS = 0.1
"""Interval between checks that the kernel is alive, in seconds."""
_DRAIN_SECONDS = 2.0
"""Seconds to wait for the last output after the script has ended."""
_KILL_REPLY_SECONDS = 3.0
"""Seconds after the grace period within which a kernel must confirm that it killed its cell; otherwise it counts as
dead.
"""


@dataclass(frozen=True)
class KernelScript:
    """A script to run in a kernel, with its folder prepared."""

    job: Job
    folder: Path
    views: dict[str, str]
    """Dataset name -> file with its view, relative to the script's folder if it is inside."""
    artifacts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Node -> names of its artifacts; those that occur in the source are in inputs/artifacts/."""
    scorers: tuple[str, ...] = ()
    """Datasets whose frozen scorer takes artifacts."""
    pretrained: dict[str, str] = field(default_factory=dict[str, str])
    """`OWNER/NAME@REVISION` -> folder."""
    resumed: bool = False
    """Whether an earlier attempt left checkpoints."""
    readable: tuple[Path, ...] = ()
    """Dataset folders that the code reads directly."""
    cell: Cell | None = None
    """The cell to measure, or None for a plain script. For a cell, `folder` is the folder of the cell, inside that
    of the kernel.
    """
    tree: str = ""
    """sha256 of the source files that the script sees."""
    arms: dict[str, str] = field(default_factory=dict[str, str])
    """Arm whose artifacts the cell reads -> name of the cell that wrote them, in inputs/arms/."""
    live: LiveOutput | None = None
    """The place where its output is shown; by default `job.live_output`."""

    @property
    def entry_text(self) -> str:
        """The source text of the entry file."""
        if (text := self.job.source.get(self.job.entry)) is not None:
            return text
        return (self.folder / self.job.entry).read_text(encoding="utf-8", errors="replace")

    @property
    def readable_paths(self) -> tuple[Path, ...]:
        """All paths, other than its folder, that its kernel must be able to read."""
        outside = filter(os.path.isabs, (*self.views.values(), *self.pretrained.values()))
        return (*self.readable, *map(Path, outside))


@dataclass(frozen=True)
class KernelExecution:
    """Result of executing a script. `seconds` is the wall clock of the code alone."""

    seconds: float
    failure: Failure | None
    transcript: Transcript
    peak_host_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    scorer_values: tuple[Measurement, ...] = ()
    """Values that frozen scorers computed afterwards."""
    kernel_unusable: bool = True
    """Whether the kernel can run no further code."""
    is_first_cell: bool = False
    """Whether no other cell had finished in this kernel before."""
    peak_process_bytes: int = 0
    """Peak memory of the process in bytes, beyond that of its kernel; 0 if it did not finish."""
    training: TrainingCounts | None = None
    """Training counts of a cell's process, if it finished."""
    llm_session: LlmSession | None = None
    """The cell's session with language models; None if it may not query any."""


async def execute(
    kernel: Kernel, script: KernelScript, *, limits: ResourceLimits, timeout: float, monitor: JobMonitor | None = None
) -> KernelExecution:
    """Run the script until it ends, reaches `timeout` seconds of wall clock, or is stopped by the monitor."""
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
        """Collect output until the request is done."""
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
    """Return the zygote's report on its cell; if it is not valid, an error based on the kernel's own reply."""
    with suppress(KeyError, TypeError, ValueError, SyntaxError, RecursionError, AttributeError):
        report: dict[str, Any] = json.loads(ast.literal_eval(answer["user_expressions"]["ran"]["data"]["text/plain"]))
        counted: dict[str, Any] = report.get("training") or {}
        answer = {
            "status": report["status"],
            "killed": bool(report["killed"]),
            "over": bool(report["over"]),
            "peak": int(report.get("peak", 0)),
            "traceback": [str(line) for line in report.get("traceback", ())],
            "training": (TrainingCounts.model_validate(counted) if any(counted.values()) else None),
        }
        match report["status"]:
            case "ok":
                return answer
            case "died":
                return answer | {"code": int(report["code"])}
            case "error":
                return answer | {
                    "ename": str(report["ename"]),
                    "evalue": str(report["evalue"]),
                    "diverged": bool(report["diverged"]),
                }
            case _:
                pass
    return {"ename": "RuntimeError", "evalue": "the kernel did not report a result", **answer, "status": "error"}


async def _wait_first(*tasks: asyncio.Future[Any], within: float) -> bool:
    """Return whether one of the tasks is done within `within` seconds."""
    done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)
