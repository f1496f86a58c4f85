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

from labwright.record.nouns.cells import Cell, Training
from labwright.record.nouns.data import Measurement
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.failures import from_death, from_exception, from_flood, from_timeout, plain_output
from labwright.sandbox.isolation.limits import Limits
from labwright.sandbox.job import Job
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.monitor import Monitor
from labwright.sandbox.output import OUTPUT_CHARS, LiveOutput, Transcript
from labwright.sandbox.subjects import Session

FLOOD_CHARS = 10**9
"""Characters of output after which code is killed: nobody prints so much on purpose."""
_POLL = 0.1
"""Seconds between two looks at whether the kernel lives."""
_DRAIN = 2.0
"""Seconds to wait for the last output after the script has ended."""
_ANSWERS = 3.0
"""Seconds beyond the grace in which a kernel that killed its cell says so; later it is taken for dead."""


@dataclass(frozen=True)
class Script:
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
    def text(self) -> str:
        """Of its entry."""
        if (text := self.job.source.get(self.job.entry)) is not None:
            return text
        return (self.folder / self.job.entry).read_text(encoding="utf-8", errors="replace")

    @property
    def paths(self) -> tuple[Path, ...]:
        """All that its kernel must be able to read besides its folder."""
        outside = filter(os.path.isabs, (*self.views.values(), *self.pretrained.values()))
        return (*self.readable, *map(Path, outside))


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
    over: bool = True
    """Whether its kernel can run nothing more."""
    first: bool = False
    """Whether its kernel had ended no cell before."""
    peak_alone: int = 0
    """Bytes that its process once took at most beyond those of its kernel; 0 where it did not come to its end."""
    training: Training | None = None
    """What a cell's process counted, if it came to its end."""
    asked: Session | None = None
    """What it asked language models; None where it may ask none."""


async def execute(
    kernel: Kernel, script: Script, *, limits: Limits, timeout: float, monitor: Monitor | None = None
) -> Execution:
    """Run the script to its end, to `timeout` seconds of wall clock, or until the monitor calls it off."""
    return await _Running(kernel, script).run(timeout, limits, monitor)


class _Running:
    def __init__(self, kernel: Kernel, script: Script) -> None:
        self._kernel = kernel
        self._script = script
        self._transcript = Transcript(OUTPUT_CHARS)
        self._live = script.live or LiveOutput(script.job.live, OUTPUT_CHARS // 2)
        self._seen = kernel.seen / script.folder.relative_to(kernel.folder)
        self._flooded = False

    async def run(self, timeout: float, limits: Limits, monitor: Monitor | None) -> Execution:
        began = time.monotonic()
        self._write_job(timeout)
        watchdog = self._kernel.guard(limits)
        request = self._kernel.request()
        reply = asyncio.create_task(self._kernel.reply(request))
        death = asyncio.create_task(self._death())
        listener = asyncio.create_task(self._listen(request))
        stopped = asyncio.ensure_future(
            monitor.follow(self._transcript) if monitor else asyncio.get_running_loop().create_future()
        )
        try:
            late = not await _first(reply, death, stopped, within=timeout)
            reason: str | None = stopped.result() if stopped.done() else None
            if late or reason is not None:
                self._kernel.process.interrupt()
                await _first(reply, death, within=self._kernel.config.settings.grace + _ANSWERS)
            seconds = time.monotonic() - began
            await asyncio.wait({listener}, timeout=_DRAIN if reply.done() else _POLL)
            answer = _of_zygote(reply.result()) if reply.done() else {}
            failure = (
                Failure(kind="hopeless", message=reason)
                if reason is not None
                else watchdog.failure or self._failure(answer, death, timeout=timeout if late else None)
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
        return Execution(
            seconds,
            failure,
            self._transcript,
            over=over,
            training=answer.get("training"),
            peak_alone=answer.get("peak", 0),
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
                "folder": str(self._seen),
                "entry": job.entry,
                "cache": str(self._kernel.config.cache),
                "datasets": script.views,
                "artifacts": script.artifacts,
                "pretrained": script.pretrained,
                "scorers": list(script.scorers),
                "subjects": list(job.subjects),
                "llm": str(self._kernel.questions),
                "checkpoint_bytes": settings.checkpoint_bytes,
                "artifact_bytes": settings.artifact_bytes,
            }
        )

    async def _listen(self, request: str) -> None:
        """Take in output until the request is done."""
        async for kind, content in self._kernel.messages(request):
            if self._transcript.chars > FLOOD_CHARS and not self._flooded:
                self._flooded = True
                self._kernel.process.kill_all()
            if kind != "stream":
                continue
            shown = plain_output(content["text"])
            self._transcript.add(content["name"], shown)
            self._live.add(shown)

    async def _death(self) -> int:
        while (code := self._kernel.process.exit_code()) is None:
            await asyncio.sleep(_POLL)
        return code

    def _failure(self, answer: dict[str, Any], death: asyncio.Task[int], *, timeout: float | None) -> Failure | None:
        trace, folder = answer.get("traceback", ()), self._seen
        if self._flooded:
            return from_flood(FLOOD_CHARS)
        if timeout is not None:
            stopped = bool(answer) and not answer.get("killed")
            return from_timeout(timeout, stopped=stopped, traceback=trace, folder=folder)
        if not answer:
            return from_death(death.result(), self._kernel.crash_log(), folder=folder)
        if answer["status"] == "died":
            return from_death(answer["code"], self._kernel.crash_log(), folder=folder)
        clean_exit = answer.get("ename") == "SystemExit" and answer["evalue"] in ("", "0", "None")
        if answer["status"] != "error" or clean_exit:
            return None
        failure = from_exception(answer["ename"], answer["evalue"], traceback=trace, folder=folder)
        return failure.model_copy(update={"kind": "diverged"}) if answer.get("diverged") else failure


def _of_zygote(answer: dict[str, Any]) -> dict[str, Any]:
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
            "training": (Training.model_validate(counted) if any(counted.values()) else None),
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


async def _first(*tasks: asyncio.Future[Any], within: float) -> bool:
    """True where one of the tasks is done within so many seconds."""
    done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)
