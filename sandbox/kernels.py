"""Start, communicate with and kill Jupyter kernels, in a sandbox if code is isolated.

Guarantees: `kill` leaves no process of a kernel (without a sandbox, no process that can be found; see
`sandbox.isolation.processes`). The environment is an allow-list (`sandbox.isolation.bubblewrap`); limits are
described in `sandbox.isolation.processes`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from asyncio import timeout, to_thread
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labwright.record.untrusted_files import MAX_HASHED_BYTES, BadFile, open_regular
from labwright.sandbox.isolation.bubblewrap import (
    KERNEL_SIDE,
    KernelConfig,
    KernelStartOptions,
    build_command,
    build_kernel_environment,
    build_kernel_sandbox,
)
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.processes import (
    ResourceLimits,
    SandboxedProcess,
    ScratchFolder,
    Watchdog,
    create_task_group,
    enter_task_group,
)
from labwright.sandbox.job import ExecutorError

KERNEL_FOLDER = Path("/experiment")
"""Path of the working folder inside the sandbox, so that printed paths do not depend on the machine."""
_MAX_MESSAGE_BYTES = 32 * 2**20
"""Limit of one message from a kernel in bytes. A larger one is dropped unread."""
_MAX_CRASH_LOG_BYTES = 2**20
"""Number of bytes read from a crash log."""
_ECHO_SECONDS = 0.1
"""Seconds to wait for the iopub echo of a request before it is sent again."""

PRELOADED_MODULES = {
    "numpy": ("numpy",),
    "scipy": ("scipy.optimize", "scipy.stats"),
    "pandas": ("pandas",),
    "sklearn": ("sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection"),
    "torch": ("torch", "torch._dynamo"),
    "torchvision": ("torchvision",),
    "matplotlib": ("matplotlib.pyplot",),
}
"""Modules to preload for an installed package that a program imports, since each forked cell would otherwise import
them again. torch imports `_dynamo` with the first optimizer, which takes as long as importing torch itself.
"""


def choose_modules(source: Mapping[str, str], python: str) -> tuple[str, ...]:
    """Return the modules to preload for a program: `lab`, and those that it imports and the interpreter has. Raises
    `ExecutorError`."""
    installed = {name.lower().replace("scikit-learn", "sklearn") for name in inspect_interpreter(python).packages}
    imported = [
        name
        for name in PRELOADED_MODULES
        if any(re.search(rf"^\s*(import|from)\b.*\b{name}\b", text, re.MULTILINE) for text in source.values())
        and not (name == "matplotlib" and "matplotlibrc" in source)  # its settings are read by the import
    ]
    return ("lab", *(module for name in imported if name in installed for module in PRELOADED_MODULES[name]))


class CodeProcess:
    """A process tree of untrusted code with a scratch folder: `launch`, and `kill`, at any time, from any state."""

    def __init__(self, folder: Path, config: KernelConfig) -> None:
        self.folder = folder
        """Its working folder."""
        self.config = config
        self._scratch = ScratchFolder()
        self._group: Path | None = None
        self._watchdog: Watchdog | None = None
        self._process: SandboxedProcess | None = None

    @property
    def pid(self) -> int:
        """Process id; only available after `launch`."""
        return self.process.process.pid

    @property
    def process(self) -> SandboxedProcess:
        """Raises `ExecutorError` before `launch`."""
        if self._process is None:
            raise ExecutorError("the process was not started")
        return self._process

    async def launch(self, name: str, command: Sequence[str], env: Mapping[str, str], **streams: Any) -> None:
        """Start the process in a task group; `streams` are options of `Popen`. Raises `ExecutorError`."""
        self._group = create_task_group(self._scratch.root.name, self.config.settings.tasks)
        command = command if self._group is None else [*enter_task_group(self._group), *command]
        streams |= {"cwd": self.folder, "env": env, "wrapped": self.config.isolation.is_on}
        try:
            self._process = SandboxedProcess.start(command, **streams)
        except OSError as error:
            raise ExecutorError(f"cannot start {name}: {error}") from error
        await to_thread(self._process.read_first_pid)

    def start_watchdog(self, limits: ResourceLimits) -> Watchdog:
        """Start a watchdog that kills all processes when they exceed a limit."""
        folders, kill = (self.folder, self._scratch.root), self.process.kill_all
        self._watchdog = Watchdog(self.pid, limits, folders=folders, shared=self.config.cache, kill_all=kill)
        self._watchdog.start()
        return self._watchdog

    def kill(self) -> None:
        """Kill every process and free all resources. Idempotent; blocks for some milliseconds."""
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._process is not None:
            self._process.kill_and_reap()
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._group.rmdir()
        self._scratch.remove()


class Kernel(CodeProcess):
    """One kernel process: `start`, one execution (or one cell after the other), and `kill`."""

    def __init__(self, folder: Path, *, config: KernelConfig, options: KernelStartOptions | None = None) -> None:
        super().__init__(folder, config)
        self.options = options or KernelStartOptions()
        self._client: Any = None

    @property
    def folder_inside(self) -> Path:
        """Its working folder as seen by code in the kernel."""
        return KERNEL_FOLDER if self.config.isolation.is_on else self.folder

    async def start(self) -> None:
        """Start the process and wait until it is ready. Raises `ExecutorError`."""
        import zmq.asyncio
        from jupyter_client.asynchronous.client import AsyncKernelClient

        settings = self.config.settings
        nothing: dict[str, Any] = {"seed": 0, "deadline": 0.0, "device": "cpu", "mode": "experiment", "entry": ""}
        self.write_job({**nothing, "datasets": {}, "folder": str(self.folder_inside)})
        command = await to_thread(self._build_command_line)
        folder, scratch = self.folder_inside, self._scratch
        environment = build_kernel_environment(self.config, self.options, folder=folder, scratch=scratch)
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)
        sockets, connection = str(self._scratch.sockets / "k"), str(self._scratch.connection)
        client = AsyncKernelClient(context=context, transport="ipc", ip=sockets, connection_file=connection)
        self._client = client
        client.write_connection_file()
        with open(self._scratch.crash_log, "ab") as log:
            streams = {"stdout": subprocess.DEVNULL, "stderr": log}
            await self.launch(f"a kernel with {settings.python!r}", command, environment, **streams)
        client.start_channels(stdin=False, hb=False, control=False)
        await self._wait_until_ready()

    def kill(self) -> None:
        super().kill()
        if self._client is not None:
            self._client.stop_channels()
            self._client.context.destroy(linger=0)
            self._client = None

    def _build_command_line(self) -> list[str]:
        """Build the command line of the kernel, in its sandbox if there is one."""
        config, folders = self.config, {"folder": self.folder, "folder_inside": self.folder_inside}
        command = [config.settings.python, str(KERNEL_SIDE / "lab" / "_bootstrap.py"), str(self._scratch.connection)]
        if not config.isolation.is_on:
            return command
        return build_command(command, build_kernel_sandbox(config, self.options, **folders, scratch=self._scratch))

    # --- the process ------------------------------------------------------------------------------------------------

    @property
    def llm_socket(self) -> Path:
        """Path of the socket for queries to language models; visible to the kernel, but not writable."""
        return self._scratch.root / "llm"

    def write_job(self, job: dict[str, Any]) -> None:
        """Write the job file, which `lab` reads (`lab._job.JobFile`)."""
        self._scratch.job.write_text(json.dumps(job), encoding="utf-8")

    def read_crash_log(self) -> str:
        """Return the beginning of the output to descriptor 2, which may be any text of experiment code."""
        place, name = self._scratch.root, self._scratch.crash_log.name
        with contextlib.suppress(OSError, BadFile), open_regular(place, name, MAX_HASHED_BYTES) as log:
            return log.read(_MAX_CRASH_LOG_BYTES).decode("utf-8", errors="replace")
        return ""

    def clear_start_traces(self) -> None:
        """Remove traces of preloading, so that they do not appear in results."""
        with contextlib.suppress(OSError, BadFile):  # without a sandbox the code may have replaced them
            os.truncate(self._scratch.crash_log, 0)

    # --- messages ---------------------------------------------------------------------------------------------------

    def send_request(self) -> str:
        """Ask the kernel to run the job in the job file and report the result; return the request's id."""
        return self._client.execute("", store_history=False, allow_stdin=False)

    async def wait_for_reply(self, request: str) -> dict[str, Any]:
        """Return the content of the reply to a request."""
        while True:
            message: dict[str, Any] = await self._client.get_shell_msg(timeout=None)
            if message["parent_header"].get("msg_id") == request:
                return message["content"]

    async def read_messages(self, request: str) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
        """Yield type and content of published messages until the request is done."""
        while True:
            message: dict[str, Any] = await self._client.get_iopub_msg(timeout=None)
            kind, content = message["msg_type"], message["content"]
            yield kind, content
            is_idle = kind == "status" and content["execution_state"] == "idle"
            if is_idle and message["parent_header"].get("msg_id") == request:
                return

    async def _wait_until_ready(self) -> None:
        """Wait for a `kernel_info` reply whose idle status also arrived over iopub: after that, no output can be
        missed.
        """
        settings = self.config.settings
        until = time.monotonic() + settings.start_timeout
        while time.monotonic() < until:
            if (code := self.process.get_exit_code()) is not None:
                why = self.read_crash_log().strip()[-500:] or code
                raise ExecutorError(f"the kernel of {settings.python!r} ended during start-up: {why}")
            request = self._client.kernel_info()
            with contextlib.suppress(TimeoutError):
                async with timeout(1.0):
                    await self.wait_for_reply(request)
                async with timeout(_ECHO_SECONDS):
                    async for _ in self.read_messages(request):
                        pass
                return
        raise ExecutorError(
            f"no kernel of {settings.python!r} was ready within {settings.start_timeout:g} s (sandbox.start_timeout)"
        )
