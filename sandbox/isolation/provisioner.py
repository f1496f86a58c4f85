"""How Jupyter starts, interrupts and ends a kernel in a sandbox (or without): its extension point for that.

Registered as `lab` in pyproject.toml ([project.entry-points."jupyter_client.kernel_provisioners"]).

Kept: `end` leaves no process of the kernel. In a sandbox it kills the first process of their namespace, and the system
kills all others with it, whatever they did to their groups and sessions. Without a sandbox the kernel's group and every
descendant that can be seen are killed; one that left its parents (a daemon) escapes.

Pitfall: an interrupt to the group that Jupyter made would end bubblewrap, which is in it. In a sandbox the kernel has a
session of its own, led by the first process of the namespace, on which an interrupt has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import time
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import List, Unicode

from sandbox.isolation.processes import process_tree

_REAPED = 1.0
"""Seconds for bubblewrap to reap the first of them, which it alone can do."""
_TELLS = 30.0
"""Seconds for bubblewrap to say which process is the first, once it has made the namespace."""
_GONE = 10.0
"""Seconds to wait for the processes of a namespace that was killed."""


class LabProvisioner(LocalProvisioner):
    """Starts the kernel's command behind `wrapper`, the words before it; with none, in a process group of its own."""

    wrapper: Any = List(Unicode(), config=True)
    before: Any = List(Unicode(), config=True)
    """Words before these: what enters a control group."""

    first: int | None = None
    """The first process in the sandbox, as numbered outside."""
    _handle: int | None = None
    """A descriptor of that process: unlike its number it never names another one."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
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
            bubblewrap = await asyncio.to_thread(_read_info, answer.fileno())
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            first: int = json.loads(bubblewrap)["child-pid"]
            self._handle = os.pidfd_open(first)
            self.first = first
        return info

    @property
    def started(self) -> subprocess.Popen[bytes] | None:
        """The process that was started: bubblewrap, or the kernel itself."""
        process: Any = self.process  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return process

    def exit_code(self) -> int | None:
        """The exit code of a dead kernel (negative: the signal), None while it lives. Does not reap it."""
        process = self.started
        if process is None or process.returncode is not None:
            return -signal.SIGKILL
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        return 128 - code if self.wrapper and code > 128 else code  # bubblewrap tells signals as a shell does

    def interrupt(self) -> None:
        """Send SIGINT to the kernel and the processes in its group."""
        group = self.first if self.wrapper else self.started and self.started.pid
        if group is not None and self.exit_code() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGINT)

    def kill_all(self) -> None:
        """Kill every process at once, without waiting. May be called from any thread."""
        process = self.started
        if process is None or process.returncode is not None:
            return
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            return
        descendants = process_tree(process.pid) - {process.pid}
        # Not reaped yet, so the number of the group is still ours, also when its leader is dead.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for descendant in descendants:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)

    def end(self) -> None:
        """Kill every process, wait until they are gone, and reap. Idempotent; blocks some milliseconds."""
        self.kill_all()
        process = self.started
        if self._handle is not None:
            select.select([self._handle], [], [], _GONE)
            os.close(self._handle)
            self._handle = None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_REAPED if self.wrapper else 0)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # not even SIGKILL ends it: a driver or a disk holds it
            process.wait(timeout=30)

    async def send_signal(self, signum: int) -> None:
        """What Jupyter itself asks for."""
        if signum == signal.SIGINT:
            self.interrupt()
        elif signum in (signal.SIGKILL, signal.SIGTERM):
            self.kill_all()


def _read_info(descriptor: int) -> bytes:
    """What bubblewrap says of itself, or what came of it within `_TELLS` seconds."""
    info, until = b"", time.monotonic() + _TELLS
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        info += piece
    return info
