"""A fresh Jupyter kernel for one script, behind walls where code is isolated, bounded in time, output and means.

Kept: when the script ends, reaches its limit, dies or is cancelled, every process of the kernel is gone before its
result is told (without walls: every one that can be found, see `sandbox.isolation.provisioner`). What it prints is
drained at any rate and held in bounded memory; so much of it that only a flood can be meant ends the code. The
environment is an allow-list (`sandbox.environment`); what else is limited is told in `sandbox.isolation.watchdog`.

Not kept: output still in a pipe when a process dies at once (`os._exit`), and a single message of more than
`_MESSAGE` bytes, are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from record.nouns import Failure
from sandbox.environment import KERNEL_SIDE, kernel_environment
from sandbox.failures import Origin, from_death, from_exception, from_flood, from_timeout, plain
from sandbox.gpus.device import Device
from sandbox.isolation.kernel_walls import Needs, kernel_walls
from sandbox.isolation.limits import Limits, TaskGroup, task_group
from sandbox.isolation.probe import Isolation
from sandbox.isolation.scratch import Scratch
from sandbox.isolation.walls import wrap
from sandbox.isolation.watchdog import Watchdog
from sandbox.job import ExecutorError
from sandbox.lookout import Lookout
from sandbox.output import Transcript
from sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from sandbox.isolation.provisioner import LabProvisioner

_POLL = 0.1
"""Seconds between two looks at whether the kernel lives."""
_DRAIN = 2.0
"""Seconds to wait for the last output after the script has ended."""
_MESSAGE = 32 * 2**20
"""Bytes of one message from a kernel. A larger one is dropped unread."""
_CRASH_LOG = 2**20
"""Bytes that are read of what a crash left."""
_ECHO = 0.1
"""Seconds to wait for the echo of a request over iopub before it is sent again."""


@dataclass(frozen=True)
class Script:
    """What one kernel is started for."""

    folder: Path
    entry: str
    seed: int
    mode: str
    views: dict[str, str]
    """Dataset name -> file with its view."""
    artifacts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Node -> names of what it left; those that the source names lie under inputs/artifacts/."""
    pretrained: dict[str, str] = field(default_factory=dict[str, str])
    """`OWNER/NAME@REVISION` -> folder."""
    resumed: bool = False
    """Whether checkpoints of an earlier attempt are there."""
    readable: tuple[Path, ...] = ()
    """Folders of datasets that the code reads by itself."""


@dataclass(frozen=True)
class Terms:
    """On what terms code runs: behind which walls, within which limits, and what it never sees."""

    isolation: Isolation
    limits: Limits
    secret: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Execution:
    """What came of executing some source. `seconds` is the wall clock of the code alone."""

    seconds: float
    failure: Failure | None
    transcript: Transcript
    peak_host_bytes: int | None = None
    peak_gpu_bytes: int | None = None

    def called_off(self, words: str) -> Execution:
        """The same, ended by the watch of its job for the reason given."""
        return replace(self, failure=Failure(kind="hopeless", message=words))


class Kernel:
    """One kernel process: `start`, `execute` once, and `kill`, at any time and from any state."""

    def __init__(
        self, script: Script, *, settings: SandboxSettings, cache: Path, terms: Terms, gpus: tuple[Device, ...] = (),
    ) -> None:
        self._script = script
        self._settings = settings
        self._cache = cache
        self._terms = terms
        self._gpus = gpus
        self._scratch = Scratch()
        self._group = TaskGroup()
        self._watchdog: Watchdog | None = None
        self._flooded = False
        self._manager: Any = None
        self._client: Any = None

    async def start(self) -> None:
        """Start the process and wait until it listens. Raises `ExecutorError`."""
        import zmq
        from jupyter_client.manager import AsyncKernelManager

        self._write_job(self._settings.start_timeout)
        self._group = task_group(self._scratch.root.name, self._settings.tasks)
        walls = await asyncio.to_thread(self._walls)
        self._manager = AsyncKernelManager(
            kernel_name="lab", kernel_spec_manager=_one_spec(self._settings.python, walls, self._group.entering()),
            transport="ipc", ip=str(self._scratch.sockets / "k"), connection_file=str(self._scratch.connection),
        )
        self._manager.context.setsockopt(zmq.MAXMSGSIZE, _MESSAGE)
        environment = kernel_environment(self._settings, self._script.folder, scratch=self._scratch, cache=self._cache,
                                         gpus=self._gpus, isolated=self._terms.isolation.on)
        try:
            with open(self._scratch.crash_log, "wb") as log:
                await self._manager.start_kernel(
                    cwd=str(self._script.folder), env=environment, stdout=subprocess.DEVNULL, stderr=log)
        except OSError as error:
            raise ExecutorError(f"cannot start a kernel with {self._settings.python!r}: {error}") from error
        self._client = self._manager.client()
        self._client.start_channels(stdin=False, hb=False)
        await self._ready()

    async def execute(self, source: str, timeout: float, lookout: Lookout | None = None) -> Execution:
        """Run the source to its end, to `timeout` seconds of wall clock, or until the lookout calls it off."""
        transcript = Transcript(self._settings.output_chars)
        began = time.monotonic()
        self._write_job(timeout)
        self._watchdog = self._watch()
        request = self._client.execute(source, store_history=False, allow_stdin=False)
        reply = asyncio.create_task(self._reply(request))
        death = asyncio.create_task(self._death())
        listener = asyncio.create_task(self._listen(request, transcript))
        called_off = asyncio.ensure_future(lookout.follow(transcript) if lookout else _never())
        try:
            late = not await _first(reply, death, called_off, within=timeout)
            words = called_off.result() if called_off.done() else None
            if late or words is not None:
                self._provisioner.interrupt()
                await _first(reply, death, within=self._settings.grace)
            seconds = time.monotonic() - began
            await asyncio.wait({listener}, timeout=_DRAIN if reply.done() else _POLL)
            if words is not None:
                return Execution(seconds, None, transcript).called_off(words)
            failure = self._failure(reply, death, timeout=timeout if late else None)
        finally:
            await _end(reply, death, listener, called_off)
        return Execution(seconds, failure, transcript)

    def kill(self) -> None:
        """Kill every process of the kernel and free everything. Idempotent; blocks some milliseconds."""
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._manager is not None and self._manager.has_kernel:
            self._provisioner.end()
        self._group.remove()
        if self._client is not None:
            self._client.stop_channels()
            self._client = None
        if self._manager is not None:
            self._manager.context.destroy(linger=0)
            self._manager.cleanup_connection_file()
            self._manager = None
        self._scratch.remove()

    @property
    def pid(self) -> int:
        """The process that was started. Raises `ExecutorError` before `start`."""
        process = self._provisioner.started
        if process is None:
            raise ExecutorError("the kernel was not started")
        return process.pid

    # --- the process ------------------------------------------------------------------------------------------------

    @property
    def _provisioner(self) -> LabProvisioner:
        """Raises `ExecutorError` before `start`."""
        found: LabProvisioner | None = getattr(self._manager, "provisioner", None)
        if found is None:
            raise ExecutorError("the kernel was not started")
        return found

    def _watch(self) -> Watchdog:
        started, folders = self._provisioner, (self._script.folder, self._scratch.root)
        watchdog = Watchdog(self.pid, self._terms.limits, folders=folders, shared=self._cache, strike=started.strike,
                            inside=started.first)
        watchdog.start()
        return watchdog

    def _walls(self) -> list[str]:
        """The words before the kernel's command; none without isolation."""
        if not self._terms.isolation.on:
            return []
        script = self._script
        readable = (KERNEL_SIDE, *script.readable, *map(Path, (*script.views.values(), *script.pretrained.values())))
        needs = Needs(script.folder, self._cache, self._scratch, readable, self._gpus)
        return wrap([], kernel_walls(
            needs, settings=self._settings, isolation=self._terms.isolation, secret=self._terms.secret))

    def _write_job(self, limit: float) -> None:
        script, settings = self._script, self._settings
        job = {"seed": script.seed, "deadline": time.monotonic() + limit, "limit": limit, "mode": script.mode,
               "device": "cuda" if self._gpus else "cpu", "processes": max(1, len(self._gpus)),
               "folder": str(script.folder), "entry": script.entry, "cache": str(self._cache),
               "datasets": script.views, "artifacts": script.artifacts, "pretrained": script.pretrained,
               "checkpoint_bytes": settings.checkpoint_bytes, "artifact_bytes": settings.artifact_bytes}
        self._scratch.job.write_text(json.dumps(job), encoding="utf-8")

    def _crash_log(self) -> str:
        """Its first part; the code may have written anything to it."""
        with contextlib.suppress(OSError), open(self._scratch.crash_log, "rb") as log:
            return log.read(_CRASH_LOG).decode("utf-8", errors="replace")
        return ""

    # --- the conversation -------------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Wait for a `kernel_info` whose idle status also came over iopub: then no output can be missed."""
        until = time.monotonic() + self._settings.start_timeout
        while time.monotonic() < until:
            if (code := self._provisioner.exit_code()) is not None:
                raise ExecutorError(f"the kernel of {self._settings.python!r} ended at its start: "
                                    f"{self._crash_log().strip()[-500:] or code}")
            request = self._client.kernel_info()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reply(request), 1.0)
                await asyncio.wait_for(self._listen(request, Transcript(2)), _ECHO)
                return
        raise ExecutorError(f"no kernel of {self._settings.python!r} was ready within "
                            f"{self._settings.start_timeout:g} s (sandbox.start_timeout)")

    async def _reply(self, request: str) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = await self._client.get_shell_msg(timeout=None)
            if message["parent_header"].get("msg_id") == request:
                return message["content"]

    async def _listen(self, request: str, transcript: Transcript) -> None:
        """Take in output until the request is done."""
        while True:
            message: dict[str, Any] = await self._client.get_iopub_msg(timeout=None)
            content = message["content"]
            if transcript.chars > self._settings.output_gb * 1e9 and not self._flooded:
                self._flooded = True
                self._provisioner.strike()
            if message["msg_type"] == "stream":
                transcript.add(content["name"], plain(content["text"]))
            elif message["msg_type"] in ("display_data", "execute_result"):
                transcript.add("stdout", f"{content['data'].get('text/plain', '')}\n")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle" \
                    and message["parent_header"].get("msg_id") == request:
                return

    async def _death(self) -> int:
        while (code := self._provisioner.exit_code()) is None:
            await asyncio.sleep(_POLL)
        return code

    def _failure(
        self, reply: asyncio.Task[dict[str, Any]], death: asyncio.Task[int], *, timeout: float | None,
    ) -> Failure | None:
        answer = reply.result() if reply.done() else {}
        trace = [line.replace("Cell In[1]", self._script.entry) for line in answer.get("traceback", ())]
        of = Origin(self._script.folder, self._settings.traceback_chars)
        if self._watchdog is not None and self._watchdog.failure is not None:
            return self._watchdog.failure
        if self._flooded:
            return from_flood(self._settings.output_gb)
        if timeout is not None:
            return from_timeout(timeout, stopped=reply.done(), traceback=trace, of=of)
        if not reply.done():
            return from_death(death.result(), self._crash_log(), of=of)
        if answer["status"] != "error" or _clean_exit(answer):
            return None
        return from_exception(answer["ename"], answer["evalue"], traceback=trace, of=of)


def _clean_exit(answer: dict[str, Any]) -> bool:
    return answer["ename"] == "SystemExit" and answer["evalue"] in ("", "0", "None")


def _one_spec(python: str, walls: list[str], before: list[str]) -> Any:
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

    from sandbox.isolation import provisioner as provisioning

    provisioning.register()
    provisioner = {"provisioner_name": provisioning.NAME, "config": {"walls": walls, "before": before}}
    argv = [python, str(KERNEL_SIDE / "bootstrap.py"), "-f", "{connection_file}"]

    class OneSpec(KernelSpecManager):
        """Knows only the kernel that this program starts; what is installed on the machine plays no part."""

        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(argv=argv, display_name=kernel_name, language="python",
                              metadata={"kernel_provisioner": provisioner})

    return OneSpec()


async def _first(*tasks: asyncio.Task[Any], within: float) -> bool:
    """True where one of the tasks is done within so many seconds."""
    done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def _never() -> str:
    return await asyncio.get_running_loop().create_future()


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
