"""A process in a sandbox or in a separate process group: its start, exit code, interrupt and end.

Guarantees: `kill_and_reap` leaves no process. In a sandbox it kills the first process of the namespace, and the system
then kills all others, regardless of the groups and sessions that they created. Without a sandbox it kills the group and
every visible descendant; daemons are not found.

An interrupt must not go to the group in which the process was started, because that would end bubblewrap. A sandbox has
its own session, led by the namespace's first process, which ignores interrupts.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labwright.sandbox.isolation.bubblewrap import BWRAP_PROGRAM
from labwright.sandbox.isolation.processes import list_process_tree

_REAP_WAIT_SECONDS = 1.0
"""Seconds to wait for bubblewrap to reap the first process; only bubblewrap can do this."""
_INFO_WAIT_SECONDS = 30.0
"""Seconds to wait for bubblewrap to report the first process after creating the namespace."""
_KILL_WAIT_SECONDS = 10.0
"""Seconds to wait for the processes of a killed namespace."""


@dataclass
class SandboxedProcess:
    """Processes started by `process`; `first_pid` is the first process in its sandbox, by its number outside."""

    process: subprocess.Popen[bytes]
    wrapped: bool
    """Whether it runs in a sandbox."""
    first_pid: int | None = None
    _info: int | None = field(default=None, repr=False)
    """Descriptor from which the first process's id can be read."""
    _handle: int | None = field(default=None, repr=False)
    """Descriptor of the first process, which, unlike the process id, is never reused."""

    @classmethod
    def start(cls, command: Sequence[str], *, wrapped: bool, **options: Any) -> SandboxedProcess:
        """Start a command with the options of `Popen`; `read_first_pid` must follow. Raises `OSError`.

        It must not run in a thread, since a process that dies with its parent would die with the thread. Standard input
        is a pipe that this process holds open, by which a guard notices that this process has ended.
        """
        options |= {"stdin": subprocess.PIPE, "start_new_session": True}
        if not wrapped:
            return cls(subprocess.Popen[bytes](command, **options), wrapped)
        at = command.index(BWRAP_PROGRAM) + 1
        read, write = os.pipe()
        try:
            command = [*command[:at], "--info-fd", str(write), *command[at:]]
            process = subprocess.Popen[bytes](command, pass_fds=(write,), **options)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        return cls(process, wrapped, _info=read)

    def read_first_pid(self) -> None:
        """Read the first process's id from bubblewrap, if there is a sandbox. Blocks until it is available."""
        if self._info is None:
            return
        text = _read_info(self._info)
        os.close(self._info)
        self._info = None
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            first: int = json.loads(text)["child-pid"]
            self._handle = os.pidfd_open(first)
            self.first_pid = first

    def get_exit_code(self) -> int | None:
        """Return the exit code (negative: the signal), or None while the process lives. Does not reap it."""
        process = self.process
        if process.returncode is not None:
            return -signal.SIGKILL
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        # bubblewrap reports signals in the same way as a shell
        return 128 - code if self.wrapped and code > 128 else code

    def interrupt(self) -> None:
        """Send SIGINT to the processes in its group."""
        group = self.first_pid if self.wrapped else self.process.pid
        if group is not None and self.get_exit_code() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGINT)

    def kill_all(self) -> None:
        """Kill every process at once, without waiting. Thread-safe."""
        process = self.process
        if process.returncode is not None:
            return
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            return
        descendants = list_process_tree(process.pid) - {process.pid}
        # The process has not been reaped, so the group id is still valid, even if its leader is dead.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for descendant in descendants:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)

    def kill_and_reap(self) -> None:
        """Kill every process, wait until they are gone, and reap. Idempotent; blocks for some milliseconds."""
        self.kill_all()
        process = self.process
        if process.stdin is not None:
            process.stdin.close()
        if self._handle is not None:
            select.select([self._handle], [], [], _KILL_WAIT_SECONDS)
            os.close(self._handle)
            self._handle = None
        if process.returncode is not None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_REAP_WAIT_SECONDS if self.wrapped else 0)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # a driver or a disk may block the process, so that not even SIGKILL ends it
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)


def _read_info(descriptor: int) -> bytes:
    """Return what bubblewrap writes within `_INFO_WAIT_SECONDS`."""
    info, until = b"", time.monotonic() + _INFO_WAIT_SECONDS
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        info += piece
    return info
