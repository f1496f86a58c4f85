"""Jupyter kernel provisioner that starts, interrupts and ends a kernel, with or without a sandbox.

The kernel's standard input is a pipe that this process holds open, by which the kernel notices at its start whether
this process has ended.

Registered as `lab` in pyproject.toml ([project.entry-points."jupyter_client.kernel_provisioners"]).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import weakref
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import List, Unicode

from labwright.sandbox.isolation.sandboxed_process import SandboxedProcess


class LabProvisioner(LocalProvisioner):
    """Starts the kernel's command with the prefix `wrapper`; without a prefix, in a separate process group."""

    wrapper: Any = List(Unicode(), config=True)
    before: Any = List(Unicode(), config=True)
    """Command prefix before `wrapper`, which enters a control group."""

    _sandboxed_process: SandboxedProcess | None = None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        stdin, lifeline = os.pipe()
        weakref.finalize(self, os.close, lifeline)
        with open(stdin, "rb") as read:
            return await self._launch(cmd, stdin=read.fileno(), **kwargs)

    async def _launch(self, cmd: list[str], **kwargs: Any) -> Any:
        if not self.wrapper:
            return await super().launch_kernel([*self.before, *cmd], **kwargs)
        read, write = os.pipe()
        with open(read, "rb") as answer:
            program, *options = self.wrapper
            command = [*self.before, program, "--info-fd", str(write), *options, *cmd]
            try:
                info = await super().launch_kernel(command, pass_fds=(write,), **kwargs)
            finally:
                os.close(write)
            await asyncio.to_thread(self.sandboxed_process.read_first_pid, answer.fileno())
        return info

    @property
    def sandboxed_process(self) -> SandboxedProcess:
        """The started process (bubblewrap or the kernel itself), with all of its processes."""
        process: subprocess.Popen[bytes] | None = self.process  # pyright: ignore
        if self._sandboxed_process is None or self._sandboxed_process.process is None:
            self._sandboxed_process = SandboxedProcess(process, bool(self.wrapper))
        return self._sandboxed_process

    async def send_signal(self, signum: int) -> None:
        """Send a signal on Jupyter's request."""
        if signum == signal.SIGINT:
            self.sandboxed_process.interrupt()
        elif signum in (signal.SIGKILL, signal.SIGTERM):
            self.sandboxed_process.kill_all()
