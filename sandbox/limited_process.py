"""Evaluate untrusted data in a child process with limits on memory and time.

A child serves one call after another and is restarted after it died, so a call costs a fraction of a millisecond; a
call that takes long gets other calls another child. Guarantees: data that takes too much memory or time, or kills its
reader, is refused in one line, and the program is not affected; API keys are not in the child's environment. Limits:
the child is not sandboxed.
"""

from __future__ import annotations

import atexit
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, LifoQueue
from threading import Lock
from typing import Any, TypeVar

from labwright.record.errors import SandboxError, SubmissionRefused

MEMORY_BYTES = 8 * 2**30
"""Memory limit of the child: 256 MiB of predictions in half precision need about 6 GiB with all metrics."""
CALL_SECONDS = 120.0
"""Wall-clock limit of one call."""
_WAIT_SECONDS = 2.0
"""Time that a call waits for a child: more than most calls take, and more than the start of another child."""
_MAX_ATTEMPTS = 2
"""A child that was killed from outside is no fault of the data, so the call is repeated once."""
_INHERITED_VARIABLES = ("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


T = TypeVar("T")


class LimitedProcess:
    """Calls functions in a child process, started by the first call. Can be used from several threads."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, seconds: float = CALL_SECONDS) -> None:
        self._memory_bytes, self._seconds = memory_bytes, seconds
        self._lock = Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None

    def call(self, function: Callable[..., T], *arguments: Any, subject: str) -> T:
        """Return `function(*arguments)`, which must be a function of a module; its errors are raised here.

        Raises `SubmissionRefused`, beginning with `subject`, if a limit is exceeded or the child dies.
        """
        absolute = [one.absolute() if isinstance(one, Path) else one for one in arguments]  # its folder is another one
        request, code = pickle.dumps((function, absolute), pickle.HIGHEST_PROTOCOL), 0
        with self._lock:
            for _ in range(_MAX_ATTEMPTS):
                try:
                    error, value = self._exchange(request)
                    break
                except (EOFError, ConnectionError):
                    code = self.close()
                    if code == -signal.SIGALRM:
                        raise SubmissionRefused(f"{subject}: reading it took more than {self._seconds:g} s") from None
                except BaseException:  # otherwise the next call would receive the answer to this one
                    self.close()
                    raise
            else:
                raise SubmissionRefused(f"{subject}: it ended the process that read it (exit code {code})")
        if isinstance(error, MemoryError):
            raise SubmissionRefused(f"{subject}: reading it takes more than {self._memory_bytes >> 30} GiB of memory")
        if error is not None:
            raise error
        return value

    def close(self) -> int:
        """End the child, if there is one, and return its exit code. Idempotent."""
        process, connection, self._process, self._connection = self._process, self._connection, None, None
        if connection is not None:
            connection.close()
        if process is None or self._owner != os.getpid():  # a fork of the process that started it
            return 0
        process.kill()  # changes nothing about one that is already ending
        return process.wait()

    def _exchange(self, request: bytes) -> tuple[BaseException | None, Any]:
        connection = self._connection
        if connection is None or self._owner != os.getpid():
            try:
                connection = self._start()
                connection.recv_bytes()
            except (OSError, EOFError) as error:
                why = f"the process that reads results does not start (exit code {self.close()}): {error}"
                raise SandboxError(why) from error
        connection.send_bytes(request)
        return pickle.loads(connection.recv_bytes())

    def _start(self) -> Connection[Any, Any]:
        own, other = socket.socketpair()
        with other:
            variables = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
            self._owner = os.getpid()
            limits = map(str, (other.fileno(), self._memory_bytes, self._seconds))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "labwright.sandbox.limited_process", *limits],
                env=variables | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C does not reach it
            )
        self._connection = Connection(own.detach())
        return self._connection


_idle_processes = LifoQueue[LimitedProcess]()
_idle_processes.put(LimitedProcess())
_in_child = False


@atexit.register
def _close_idle_processes() -> None:
    while not _idle_processes.empty():
        _idle_processes.get_nowait().close()


def call_limited(function: Callable[..., T], *arguments: Any, subject: str) -> T:
    """Return `function(*arguments)`, evaluated in a child (`LimitedProcess.call`) that is free, or becomes free within
    `_WAIT_SECONDS`, or is started: no call waits for the whole time that another one may take."""
    if _in_child:
        return function(*arguments)
    try:
        process = _idle_processes.get(timeout=_WAIT_SECONDS)
    except Empty:
        process = LimitedProcess()
    try:
        return process.call(function, *arguments, subject=subject)
    finally:
        if _idle_processes.empty():
            _idle_processes.put(process)
        else:
            process.close()


def serve(connection: Connection[Any, Any], memory_bytes: int, seconds: float) -> None:
    """Answer calls until the connection is closed."""
    global _in_child
    _in_child = True
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    connection.send_bytes(b"ready")
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        try:
            function, arguments = pickle.loads(request)  # imports its module, which does not count as reading
            signal.setitimer(signal.ITIMER_REAL, seconds)  # ends the process, even while compiled code runs
            answer = pickle.dumps((None, function(*arguments)), pickle.HIGHEST_PROTOCOL)
        except BaseException as error:  # noqa: BLE001  (raised again by the caller)
            answer = _pack_error(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.send_bytes(answer)


def _pack_error(error: BaseException) -> bytes:
    error.add_note("".join(traceback.format_exception(error)))
    try:
        packed = pickle.dumps((error, None))
        pickle.loads(packed)
    except Exception:  # noqa: BLE001  (an error of a library that cannot be pickled)
        packed = pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), None))
    return packed


if __name__ == "__main__":
    from labwright.sandbox import limited_process  # what is pickled is found there

    limited_process.serve(Connection(int(sys.argv[1])), int(sys.argv[2]), float(sys.argv[3]))
