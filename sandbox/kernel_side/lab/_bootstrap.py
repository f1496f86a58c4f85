"""Start the kernel that runs one script, or several cells in sequence: `python _bootstrap.py connection.json`.

The kernel itself executes no experiment code. Before it reads its connection file, it starts a zygote (`lab._zygote`)
by `exec`. A process is forked from the zygote for each script or cell, so no such process ever has the kernel's key or
sockets. It forwards the output and result of these processes, and ends with its zygote.

It is a kernel of `ipykernel` without its application and IPython's shell, which it would load and never use: it has one
thread and the two sockets that the host uses. The host kills an idle kernel without a shutdown request, since an
orderly interpreter shutdown takes long.
"""

from __future__ import annotations

import codecs
import ctypes
import importlib.util
import json
import logging
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
from pathlib import Path
from typing import Any

ZYGOTE = "--zygote"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MAX_PIECE_CHARS = 2**20
"""Number of output characters after which they are forwarded: a flood of output must neither fill the memory nor
become one message.
"""
_SEND_SECONDS = 0.2
"""Interval between messages with output."""
_MAX_WAITING_MESSAGES = 16
"""Number of messages that wait for the host."""
_OUTPUT_WAIT_SECONDS = 1.0
"""Seconds to wait for output that is still in a pipe."""


def main() -> None:
    """Run until killed by the host."""
    sys.path.pop(0)  # this file's folder, added because it was run by its path
    if sys.argv[1] == ZYGOTE:
        from lab import _zygote

        _zygote.serve(int(sys.argv[2]))
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
    serve(zygote, sys.argv[1])


def serve(zygote: ZygoteProcess, connection: str) -> None:
    """Answer the host's requests over the sockets in a connection file: each execution runs the job in the job file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # one that comes after its cell has ended
    for package in ("IPython", "ipykernel", "jupyter_client"):
        load_without_contents(package)
    import zmq
    from ipykernel.kernelbase import Kernel
    from jupyter_client.session import Session
    from tornado.ioloop import IOLoop
    from zmq.eventloop.zmqstream import ZMQStream

    class CellKernel(Kernel):
        kernel_info: Any = {"status": "ok", "protocol_version": "5.3", "implementation": "lab"}  # noqa: RUF012

        async def do_execute(self, *_: Any, **__: Any) -> dict[str, Any]:
            this: Any = self  # ipykernel has no types here
            result = zygote.run(
                lambda name, text: this.send_response(this.iopub_socket, "stream", {"name": name, "text": text})
            )
            return {"status": "ok", "execution_count": 0, "user_expressions": {"ran": result}}

    with open(connection, encoding="utf-8") as file:
        settings = json.load(file)
    context = zmq.Context()
    shell, iopub = context.socket(zmq.ROUTER), context.socket(zmq.PUB)
    iopub.set(zmq.XPUB_NODROP, 1)  # if the host is slow, output waits in the pipes of the code
    iopub.set(zmq.SNDHWM, _MAX_WAITING_MESSAGES)
    for name, channel in (("shell", shell), ("iopub", iopub)):
        channel.bind(f"{settings['transport']}://{settings['ip']}-{settings[f'{name}_port']}")
    session = Session(key=settings["key"].encode(), signature_scheme=settings["signature_scheme"])
    log = logging.getLogger("kernel")  # its warnings go to the crash log
    kernel = CellKernel(log=log, session=session, shell_stream=ZMQStream(shell), iopub_socket=iopub)
    zygote.wait()
    kernel.start()
    IOLoop.current().start()


def load_without_contents(package: str) -> None:
    """Make the modules of a package importable without the package's own code, which imports all of them: that takes
    half of the time in which a kernel starts."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    sys.modules[package] = importlib.util.module_from_spec(spec)


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

    def run(self, send: Callable[[str, str], None]) -> str:
        """Run the job in the job file and return the result as JSON; `send` takes the name of a stream and its output.

        It has `status`; for an error `ename`, `evalue` and `traceback`; for a death `code` (negative: the signal);
        `killed` (by the host); and `over` (nothing more can run in this kernel).
        """
        pipes = {name: os.pipe() for name in ("stdout", "stderr")}
        before = signal.signal(signal.SIGINT, self._interrupt)
        socket.send_fds(self._socket, [b"run\n"], [write for _, write in pipes.values()])
        for _, write in pipes.values():
            os.close(write)
        answer, until = b"", float("inf")
        outputs, sender = {read: name for name, (read, _) in pipes.items()}, OutputSender(send)
        with selectors.DefaultSelector() as selector:
            for descriptor in (*outputs, self._socket.fileno()):
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map() and time.monotonic() < until:
                for key, _ in sorted(selector.select(_SEND_SECONDS), key=lambda one: one[0].fd):  # stdout before stderr
                    piece = os.read(key.fd, 65536)
                    if key.fd in outputs:
                        sender.add(outputs[key.fd], piece)
                    elif piece:
                        answer += piece
                    else:
                        self._end_kernel()
                    if not piece or (answer.endswith(b"\n") and key.fd not in outputs):
                        selector.unregister(key.fd)
                        until = time.monotonic() + _OUTPUT_WAIT_SECONDS if answer else until
                sender.send_if_due()
        for descriptor, name in outputs.items():
            sender.add(name, b"")
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
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        while time.monotonic() < until and (left := children.read_text().split()):
            for pid in map(int, left):
                with suppress(OSError):  # it is gone
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)
        if code < 0 and os.getpid() != 1:  # the first process of a namespace cannot be killed by its own signals
            signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), -code)
        os._exit(128 - code if code < 0 else code or 1)


class OutputSender:
    """Sends chunks of UTF-8 on in the order in which they came: at once if they are large, otherwise a few times per
    second."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        self._send, self._last = send, 0.0
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")(errors="replace") for name in ("stdout", "stderr")
        }
        self._waiting: list[tuple[str, str]] = []
        """Streams and their output; neighbours differ in their stream."""

    def add(self, name: str, piece: bytes) -> None:
        """Add a chunk of a stream; an empty one is its last."""
        text = self._decoders[name].decode(piece, final=not piece)
        if text and self._waiting and self._waiting[-1][0] == name:
            self._waiting[-1] = name, self._waiting[-1][1] + text
        elif text:
            self._waiting.append((name, text))
        if not piece or (text and len(self._waiting[-1][1]) >= _MAX_PIECE_CHARS):
            self._last = 0.0
            self.send_if_due()

    def send_if_due(self) -> None:
        if self._waiting and time.monotonic() - self._last >= _SEND_SECONDS:
            for name, text in self._waiting:
                self._send(name, text)
            self._waiting, self._last = [], time.monotonic()


if __name__ == "__main__":
    main()
