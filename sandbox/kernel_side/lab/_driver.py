"""The process that runs cells one after the other, each in a child forked from it (`lab._child`).

It has imported ahead and executes nothing of the experiment: it never computes and never touches CUDA, since what is
forked from a process that did may hang. It prints what a child prints, has shared values built when a child asks for
one, forwards an interrupt, and kills with a cell all that the cell started.

Source: prctl(2), PR_SET_CHILD_SUBREAPER; github.com/pytorch/pytorch, notes on multiprocessing.
"""

from __future__ import annotations

import codecs
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab import _child, _job
from lab._job import JobFile

_SUBREAPER = 36
_POLL = 0.25
"""Seconds between two looks at whether the grace is over."""
_REST = 1.0
"""Seconds to wait for output that is still in a pipe, and for what was killed to be gone."""
_LINE = 8 * 2**20
"""Bytes of what a child says of itself, at most."""


def run() -> str:
    """Run the cell that the job file names; what came of it, as JSON: `status`, and for an error its `ename`, `evalue`
    and `traceback`; `code` where the process ended without a word (negative: the signal), `killed` by us.
    """
    _job.job.cache_clear()
    return json.dumps(_Cell(_job.job()).run())


@dataclass
class _Process:
    """A child, its output, and the socket over which it talks."""

    pid: int
    talk: socket.socket
    pipes: dict[int, Callable[[bytes], None]]
    """Descriptor -> what is done with what comes out of it."""
    said: bytearray = field(default_factory=bytearray)
    end: dict[str, Any] | None = None


class _Cell:
    """One cell from its fork until all that it started is gone."""

    def __init__(self, current: JobFile) -> None:
        self._job = current
        self._files = _files_of(current.folder)
        self._living: list[_Process] = []
        self._building: set[str] = set()
        self._over: float | None = None
        self._killed = False

    def run(self) -> dict[str, Any]:
        _Means.prepare()
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            end = self._serve(self._fork(self._job))
        finally:
            _end_all()
            signal.signal(signal.SIGINT, before)
            _Means.clean()
        return {**end, "killed": self._killed}

    # --- children ---------------------------------------------------------------------------------------------------

    def _fork(self, current: JobFile, building: str = "") -> _Process:
        ours, theirs = socket.socketpair()
        outputs = [os.pipe(), os.pipe()]
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: those of the kernel hold nothing
            pid = os.fork()
        if pid == 0:
            _child.live(current, theirs, (outputs[0][1], outputs[1][1]), building)
        theirs.close()
        for _, write in outputs:
            os.close(write)
        pipes = {read: _printer(name) for (read, _), name in zip(outputs, ("stdout", "stderr"), strict=True)}
        process = _Process(pid, ours, pipes)
        self._living.append(process)
        if self._over is not None:
            self._signal(process, signal.SIGINT)
        return process

    def _serve(self, process: _Process) -> dict[str, Any]:
        """Do what a child asks for until it has ended, and how it ended."""
        code: int | None = None
        until = float("inf")
        with selectors.DefaultSelector() as selector, open(os.pidfd_open(process.pid), "rb") as life:
            for descriptor in (*process.pipes, process.talk.fileno(), life.fileno()):
                selector.register(descriptor, selectors.EVENT_READ)
            while code is None or (selector.get_map() and time.monotonic() < until):
                for key, _ in selector.select(_POLL if code is None else 0.02):
                    if key.fd == life.fileno() or not self._take(process, key.fd):
                        selector.unregister(key.fd)
                if self._over is not None and time.monotonic() > self._over:
                    self._kill()
                if code is None and (code := _ended(process.pid)) is not None:
                    self._living.remove(process)
                    self._signal(process, signal.SIGKILL)  # its group outlives it
                    if not self._living:
                        _end_all()
                    until = time.monotonic() + _REST
        for descriptor in process.pipes:
            os.close(descriptor)
        process.talk.close()
        return process.end or {"status": "died", "code": code}

    def _take(self, process: _Process, descriptor: int) -> bool:
        """Take in what came; False at the end of it."""
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            return False
        if descriptor in process.pipes:
            process.pipes[descriptor](piece)
            return bool(piece)
        process.said += piece
        while b"\n" in process.said:
            line, _, process.said = process.said.partition(b"\n")
            self._answer(process, bytes(line))
        return bool(piece) and len(process.said) < _LINE

    def _answer(self, process: _Process, line: bytes) -> None:
        message: dict[str, Any] = json.loads(line)
        if "end" in message:
            process.end = message["end"]
        elif "shared" in message:
            answer = json.dumps(self._build(message["shared"])).encode() + b"\n"
            _try(lambda: process.talk.sendall(answer))  # it may have been killed meanwhile

    def _build(self, digest: str) -> dict[str, Any]:
        """Have a child of its own build a shared value."""
        if digest in self._building:
            return {"built": False}
        folder = self._job.folder.with_name(f"shared-{digest[:12]}")
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in self._files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        if (self._job.folder / "inputs").is_dir():
            shutil.copytree(self._job.folder / "inputs", folder / "inputs")
        self._building.add(digest)
        try:
            end = self._serve(self._fork(replace(self._job, folder=folder), digest))
        finally:
            self._building.discard(digest)
            shutil.rmtree(folder, ignore_errors=True)
        if end["status"] == "ok":
            return {"built": True}
        if end["status"] == "died":
            return {"failed": f"the process that built it ended with {_ending(end['code'])}"}
        print("\n".join(end["traceback"]), file=sys.stderr)
        return {"failed": f"{end['ename']}: {end['evalue']}"}

    # --- ends -------------------------------------------------------------------------------------------------------

    def _interrupt(self, *_: object) -> None:
        """Forward an interrupt once, and kill after the grace."""
        if self._over is None:
            self._over = time.monotonic() + self._job.grace
            for process in self._living:
                self._signal(process, signal.SIGINT)

    def _kill(self) -> None:
        for process in self._living:
            self._killed = True
            self._signal(process, signal.SIGKILL)
            _try(lambda process=process: os.kill(process.pid, signal.SIGKILL))

    def _signal(self, process: _Process, number: signal.Signals) -> None:
        """Signal the group of a child; itself where it has not made one yet."""
        if not _try(lambda: os.killpg(process.pid, number)):
            _try(lambda: os.kill(process.pid, number))


class _Means:
    """What this process set up once, and what lay in the folders for temporary files then."""

    places: dict[str, frozenset[str]] | None = None

    @classmethod
    def prepare(cls) -> None:
        if cls.places is None:
            _child.LIBC.prctl(_SUBREAPER, 1)  # what loses its parents becomes a child of this process
            tmp = os.environ["TMPDIR"]
            shared = ["/dev/shm"] if tmp == "/tmp" else []  # in the sandbox it is the kernel's own
            cls.places = {place: frozenset(os.listdir(place)) for place in (tmp, *shared)}

    @classmethod
    def clean(cls) -> None:
        """Remove what a cell left in them: the next one must not find it."""
        for place, kept in (cls.places or {}).items():
            for name in set(os.listdir(place)) - kept:
                path = os.path.join(place, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    _try(lambda path=path: os.unlink(path))


def _files_of(folder: Path) -> dict[str, bytes]:
    """The files of a cell's folder before its code runs, but for its inputs."""
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return {str(name): (folder / name).read_bytes() for name in names if name.parts[0] not in ("inputs", "checkpoints")}


def _printer(name: str) -> Callable[[bytes], None]:
    """Prints bytes of UTF-8 as they come on a stream of this process."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def show(piece: bytes) -> None:
        getattr(sys, name).write(decoder.decode(piece, final=not piece))

    return show


def _ended(pid: int) -> int | None:
    """The exit code of a child (negative: the signal), None while it lives."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if found else None


def _end_all() -> None:
    """Kill every descendant of this process and reap it."""
    until = time.monotonic() + _REST
    while (left := _descendants()) and time.monotonic() < until:
        for pid in left:
            _try(lambda pid=pid: os.kill(pid, signal.SIGKILL))
        for pid in left:
            _try(lambda pid=pid: os.waitpid(pid, os.WNOHANG))
        time.sleep(0.002)


def _descendants() -> list[int]:
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as children:
                    waiting += (new := [int(child) for child in children.read().split()])
                    found += new
        except OSError:
            continue
    return found


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _try(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True
