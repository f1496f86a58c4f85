"""A fresh Jupyter kernel for one script, in a process group of its own, bounded in time and output.

Kept: when the script ends, reaches its limit, dies or is cancelled, every process of the kernel's group is gone
before its result is told. What it prints is drained at any rate and held in bounded memory. The environment is an
allow-list (`sandbox.environment`).

Not kept, until kernels are isolated: a process that leaves the group (`setsid`) outlives its kernel; the code reads
and writes whatever the user may; memory, disk and the network are not limited; one single message of output is held
in memory whole. Output still in a pipe when a process dies at once (`os._exit`) is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from record.nouns import Failure
from sandbox.environment import KERNEL_SIDE, kernel_environment
from sandbox.failures import Origin, from_death, from_exception, from_timeout, plain
from sandbox.job import ExecutorError
from sandbox.output import Transcript
from sandbox.settings import SandboxSettings

_POLL = 0.1
"""Seconds between two looks at whether the kernel lives."""
_DRAIN = 2.0
"""Seconds to wait for the last output after the script has ended."""
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


@dataclass(frozen=True)
class Execution:
    """What came of executing some source. `seconds` is the wall clock of the code alone."""

    seconds: float
    failure: Failure | None
    transcript: Transcript


class Kernel:
    """One kernel process: `start`, `execute` once, and `kill`, at any time and from any state."""

    def __init__(self, script: Script, *, settings: SandboxSettings, cache: Path) -> None:
        self._script = script
        self._settings = settings
        self._cache = cache
        # Socket paths end at 107 bytes, so this folder must be short, wherever the run is.
        self._scratch = Path(tempfile.mkdtemp(prefix="lab-", dir="/tmp"))
        self._manager: Any = None
        self._client: Any = None

    async def start(self) -> None:
        """Start the process and wait until it listens. Raises `ExecutorError`."""
        from jupyter_client.manager import AsyncKernelManager

        self._write_job(deadline=time.monotonic() + self._settings.start_timeout)
        self._manager = AsyncKernelManager(
            kernel_name="lab", kernel_spec_manager=_one_spec(self._settings.python), transport="ipc",
            ip=str(self._scratch / "k"), connection_file=str(self._scratch / "connection.json"),
        )
        environment = kernel_environment(
            self._settings, self._script.folder, scratch=self._scratch, cache=self._cache)
        try:
            with open(self._scratch / "crash.log", "wb") as log:
                await self._manager.start_kernel(
                    cwd=str(self._script.folder), env=environment, stdout=subprocess.DEVNULL, stderr=log)
        except OSError as error:
            raise ExecutorError(f"cannot start a kernel with {self._settings.python!r}: {error}") from error
        self._client = self._manager.client()
        self._client.start_channels(stdin=False, hb=False)
        await self._ready()

    async def execute(self, source: str, timeout: float) -> Execution:
        """Run the source to its end, or to `timeout` seconds of wall clock."""
        transcript = Transcript(self._settings.output_chars)
        began = time.monotonic()
        self._write_job(deadline=began + timeout)
        request = self._client.execute(source, store_history=False, allow_stdin=False)
        reply = asyncio.create_task(self._reply(request))
        death = asyncio.create_task(self._death())
        listener = asyncio.create_task(self._listen(request, transcript))
        try:
            late = not await _first(reply, death, within=timeout)
            if late:
                self._interrupt()
                await _first(reply, death, within=self._settings.grace)
            seconds = time.monotonic() - began
            await asyncio.wait({listener}, timeout=_DRAIN if reply.done() else _POLL)
            failure = self._failure(reply, death, timeout=timeout if late else None)
        finally:
            await _end(reply, death, listener)
        return Execution(seconds, failure, transcript)

    def kill(self) -> None:
        """Kill the whole process group and free everything. Idempotent; blocks some milliseconds."""
        process = self._process()
        if process is not None and process.returncode is None:
            # Not reaped yet, so the number of the group is still ours, also when its leader is dead.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
        if self._client is not None:
            self._client.stop_channels()
            self._client = None
        if self._manager is not None:
            self._manager.context.destroy(linger=0)
            self._manager.cleanup_connection_file()
            self._manager = None
        shutil.rmtree(self._scratch, ignore_errors=True)

    # --- the process ------------------------------------------------------------------------------------------------

    def _process(self) -> subprocess.Popen[bytes] | None:
        provisioner = getattr(self._manager, "provisioner", None)
        return getattr(provisioner, "process", None)

    def _exit_code(self) -> int | None:
        """The exit code of a dead kernel (negative: the signal), without reaping it."""
        process = self._process()
        if process is None or process.returncode is not None:
            return -signal.SIGKILL
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def _dead(self) -> bool:
        return self._exit_code() is not None

    def _write_job(self, deadline: float) -> None:
        script = self._script
        job = {"seed": script.seed, "deadline": deadline, "device": self._settings.device, "mode": script.mode,
               "folder": str(script.folder), "entry": script.entry, "datasets": script.views}
        (self._scratch / "job.json").write_text(json.dumps(job), encoding="utf-8")

    def _crash_log(self) -> str:
        with contextlib.suppress(OSError):
            return (self._scratch / "crash.log").read_text(encoding="utf-8", errors="replace")
        return ""

    # --- the conversation -------------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Wait for a `kernel_info` whose idle status also came over iopub: then no output can be missed."""
        until = time.monotonic() + self._settings.start_timeout
        while time.monotonic() < until:
            if self._dead():
                raise ExecutorError(f"the kernel of {self._settings.python!r} ended at its start: "
                                    f"{self._crash_log().strip()[-500:] or self._exit_code()}")
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
            if message["msg_type"] == "stream":
                transcript.add(content["name"], plain(content["text"]))
            elif message["msg_type"] in ("display_data", "execute_result"):
                transcript.add("stdout", f"{content['data'].get('text/plain', '')}\n")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle" \
                    and message["parent_header"].get("msg_id") == request:
                return

    async def _death(self) -> int:
        while (code := self._exit_code()) is None:
            await asyncio.sleep(_POLL)
        return code

    def _interrupt(self) -> None:
        process = self._process()
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGINT)

    def _failure(
        self, reply: asyncio.Task[dict[str, Any]], death: asyncio.Task[int], *, timeout: float | None,
    ) -> Failure | None:
        answer = reply.result() if reply.done() else {}
        trace = [line.replace("Cell In[1]", self._script.entry) for line in answer.get("traceback", ())]
        of = Origin(self._script.folder, self._settings.traceback_chars)
        if timeout is not None:
            return from_timeout(timeout, stopped=reply.done(), traceback=trace, of=of)
        if not reply.done():
            return from_death(death.result(), self._crash_log(), of=of)
        if answer["status"] != "error" or _clean_exit(answer):
            return None
        return from_exception(answer["ename"], answer["evalue"], traceback=trace, of=of)


def _clean_exit(answer: dict[str, Any]) -> bool:
    return answer["ename"] == "SystemExit" and answer["evalue"] in ("", "0", "None")


def _one_spec(python: str) -> Any:
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

    argv = [python, str(KERNEL_SIDE / "bootstrap.py"), "-f", "{connection_file}"]

    class OneSpec(KernelSpecManager):
        """Knows only the kernel that this program starts; what is installed on the machine plays no part."""

        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(argv=argv, display_name=kernel_name, language="python")

    return OneSpec()


async def _first(*tasks: asyncio.Task[Any], within: float) -> bool:
    """True where one of the tasks is done within so many seconds."""
    done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
