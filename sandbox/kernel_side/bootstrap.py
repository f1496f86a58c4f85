"""Start the kernel that runs one script, or several cells in sequence: `python bootstrap.py -f connection.json`.

The kernel itself executes no experiment code. Before it reads its connection file, it starts a zygote (`lab._zygote`)
by `exec`. A process is forked from the zygote for each script or cell, so no such process ever has the kernel's key or
sockets. It forwards the output and result of these processes, and ends with its zygote.

Unlike `ipykernel_launcher`, it leaves out debugpy and the history database, which saves about 200 ms. The host kills an
idle kernel without a shutdown request, since an orderly interpreter shutdown takes long.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

ZYGOTE = "--zygote"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MAX_PIECE_CHARS = 2**20
"""Number of output characters after which they are forwarded: a flood of output must neither fill the memory nor
become one message.
"""
_OUTPUT_WAIT_SECONDS = 1.0
"""Seconds to wait for output that is still in a pipe."""


def main() -> None:
    """Run until killed by the host."""
    sys.path.pop(0)  # this file's folder, added because it was run by its path; PYTHONPATH contains it again
    if sys.argv[1] == ZYGOTE:
        from lab import _zygote

        _zygote.serve(int(sys.argv[2]))
    # ipykernel notices the end of its host only after its own start, and then only if init adopts it
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    (host := select.poll()).register(0, 0)
    if host.poll(0):  # standard input has no writer any more: a sandbox ends with its host only once it is complete
        sys.exit("the host process ended before the kernel started")
    for limit in filter(None, os.environ.pop("LAB_RLIMITS", "").split(",")):
        name, _, value = limit.partition("=")
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        lowest = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(number, (lowest, lowest))  # permanent, since it cannot be raised again without privileges
    zygote = ZygoteProcess()
    os.chdir("/")  # IPython looks for modules in its folder first, which contains files of experiment code
    sys.modules["debugpy"] = None  # pyright: ignore[reportArgumentType]  (makes an import fail at once)

    from ipykernel.kernelapp import IPKernelApp

    app: Any = IPKernelApp.instance()
    app.initialize([*sys.argv[1:], "--HistoryManager.enabled=False"])
    zygote.wait()
    app.shell.user_ns["__run__"] = zygote.run
    app.start()


class ZygoteProcess:
    """The process from which cells and scripts are forked."""

    def __init__(self) -> None:
        # orphans of a dead zygote become children of this process
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._socket, zygote_end = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, __file__, ZYGOTE, str(zygote_end.fileno())],
            pass_fds=(zygote_end.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        zygote_end.close()

    def wait(self) -> None:
        """Wait until the zygote is ready; if it fails, the kernel ends with the same status."""
        if self._socket.recv(1) != b"\n":
            self._end_kernel()

    def run(self) -> str:
        """Run the job in the job file and return the result as JSON.

        It has `status`; for an error `ename`, `evalue` and `traceback`; for a death `code` (negative: the signal);
        `killed` (by the host); and `over` (nothing more can run in this kernel).
        """
        pipes = [os.pipe(), os.pipe()]
        before = signal.signal(signal.SIGINT, self._interrupt)
        socket.send_fds(self._socket, [b"run\n"], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        answer, until = b"", float("inf")
        takers = {read: _build_printer(name) for (read, _), name in zip(pipes, ("stdout", "stderr"), strict=True)}
        with selectors.DefaultSelector() as selector:
            for descriptor in (*takers, self._socket.fileno()):
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map() and time.monotonic() < until:
                for key, _ in selector.select(None if until == float("inf") else _OUTPUT_WAIT_SECONDS):
                    piece = os.read(key.fd, 65536)
                    if key.fd in takers:
                        takers[key.fd](piece)
                    elif piece:
                        answer += piece
                    else:
                        self._end_kernel()
                    if not piece or (answer.endswith(b"\n") and key.fd not in takers):
                        selector.unregister(key.fd)
                        until = time.monotonic() + _OUTPUT_WAIT_SECONDS if answer else until
        for descriptor in takers:
            os.close(descriptor)
        signal.signal(signal.SIGINT, before)
        return answer.decode()

    def _interrupt(self, *_: object) -> None:
        with suppress(OSError):  # the zygote is gone, which `run` will notice
            self._socket.sendall(b"interrupt\n")

    def _end_kernel(self) -> None:
        """End the kernel with the zygote's exit status and kill its children."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code, until = self._process.wait(), time.monotonic() + _OUTPUT_WAIT_SECONDS
        while time.monotonic() < until and (left := _list_children()):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)
                except OSError:  # it is gone
                    pass
        if code < 0 and os.getpid() != 1:  # the first process of a namespace cannot be killed by its own signals
            signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), -code)
        os._exit(128 - code if code < 0 else code or 1)


def _list_children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def _build_printer(name: str) -> Callable[[bytes], None]:
    """Return a function that prints chunks of UTF-8 to a stream of this process."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    stream, waiting = getattr(sys, name), 0

    def show(piece: bytes) -> None:
        nonlocal waiting
        stream.write(decoder.decode(piece, final=not piece))
        waiting += len(piece)
        if waiting >= _MAX_PIECE_CHARS:
            stream.flush()
            waiting = 0

    return show


if __name__ == "__main__":
    main()
