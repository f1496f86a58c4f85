"""A process that runs in a sandbox, or in a process group of its own: its exit code, its interrupt and its end.

Kept: `end` leaves no process. In a sandbox it kills the first process of their namespace, and the system kills all
others with it, whatever they did to their groups and sessions. Without a sandbox the group and every descendant that
can be seen are killed; one that left its parents (a daemon) escapes.

Pitfall: an interrupt to the group that the process was started in would end bubblewrap, which is in it. In a sandbox
there is a session of its own, led by the first process of the namespace, on which an interrupt has no effect.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field

from labwright.sandbox.isolation.processes import list_process_tree

_REAP_WAIT_SECONDS = 1.0
"""Seconds for bubblewrap to reap the first of them, which it alone can do."""
_INFO_WAIT_SECONDS = 30.0
"""Seconds for bubblewrap to say which process is the first, once it has made the namespace."""
_KILL_WAIT_SECONDS = 10.0
"""Seconds to wait for the processes of a namespace that was killed."""


@dataclass
class SandboxedProcess:
    """Something that was started by `process`; `first` is the first process in its sandbox, as numbered outside."""

    process: subprocess.Popen[bytes] | None
    wrapped: bool
    """Whether it is in a sandbox."""
    first_pid: int | None = None
    _handle: int | None = field(default=None, repr=False)
    """A descriptor of the first process: unlike its number it never names another one."""

    def read_first_pid(self, info: int) -> None:
        """Learn who is first from what bubblewrap writes to a descriptor (`--info-fd`). Blocks until it does."""
        told = _read_info(info)
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            first: int = json.loads(told)["child-pid"]
            self._handle = os.pidfd_open(first)
            self.first_pid = first

    def get_exit_code(self) -> int | None:
        """The exit code of what is dead (negative: the signal), None while it lives. Does not reap it."""
        process = self.process
        if process is None or process.returncode is not None:
            return -signal.SIGKILL
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        return 128 - code if self.wrapped and code > 128 else code  # bubblewrap tells signals as a shell does

    def interrupt(self) -> None:
        """Send SIGINT to the processes in its group."""
        group = self.first_pid if self.wrapped else self.process and self.process.pid
        if group is not None and self.get_exit_code() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGINT)

    def kill_all(self) -> None:
        """Kill every process at once, without waiting. May be called from any thread."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            return
        descendants = list_process_tree(process.pid) - {process.pid}
        # Not reaped yet, so the number of the group is still ours, also when its leader is dead.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for descendant in descendants:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)

    def kill_and_reap(self) -> None:
        """Kill every process, wait until they are gone, and reap. Idempotent; blocks some milliseconds."""
        self.kill_all()
        process = self.process
        if self._handle is not None:
            select.select([self._handle], [], [], _KILL_WAIT_SECONDS)
            os.close(self._handle)
            self._handle = None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_REAP_WAIT_SECONDS if self.wrapped else 0)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # not even SIGKILL ends it: a driver or a disk holds it
            process.wait(timeout=30)


def _read_info(descriptor: int) -> bytes:
    """What bubblewrap says of itself, or what came of it within `_TELLS` seconds."""
    info, until = b"", time.monotonic() + _INFO_WAIT_SECONDS
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        info += piece
    return info
