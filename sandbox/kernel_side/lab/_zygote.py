"""The process from which cells and scripts are forked in sequence (`lab._child`), each isolated (`lab._walls`).

The kernel starts it by `exec`, and it preloads modules. It executes no experiment code, never computes and never uses
CUDA, since forks of a process that has done so may hang. It has the capability needed for isolation, which no
experiment code ever has. It forwards interrupts, kills a cell with all of its child processes, and makes the shared
values that the cell built visible to later cells.

Source: prctl(2), PR_SET_CHILD_SUBREAPER; github.com/pytorch/pytorch, notes on multiprocessing.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import re
import resource
import selectors
import shutil
import signal
import socket
import stat
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from lab import _child, _job, _shared
from lab._job import JobFile
from lab._walls import LIBC, KernelWalls, PrivateRoom, remove_folder

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_SECONDS = 0.25
"""Interval between checks whether the grace period is over, in seconds."""
_KILL_WAIT_SECONDS = 1.0
"""Seconds to wait for killed processes to exit."""
_MAX_LINE_BYTES = 8 * 2**20
"""Size limit of a child's message in bytes."""
_MAX_CRASH_BYTES = 2**20
"""Number of bytes kept of a child's crash report."""
_MAX_SHARED_VALUES = 100
"""Maximum number of shared values that are kept of one cell."""


def serve(number: int) -> NoReturn:
    """Preload modules, then run what the kernel requests over a socket until the socket is closed."""
    # orphans become children of this process
    for option, value in ((_PR_SET_PDEATHSIG, signal.SIGKILL), (_PR_SET_CHILD_SUBREAPER, 1)):
        LIBC.prctl(option, value, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel = socket.socket(fileno=number)
    gc.disable()  # modules are no garbage: looking for it takes a sixth of the time of importing torch
    for module in filter(None, os.environ.pop("LAB_MODULES").split(",")):
        with suppress(Exception):  # it fails again in the cell that imports it
            importlib.import_module(module)
    crash_log = os.dup(2)
    faulthandler.enable(crash_log, all_threads=False)
    _child.prepare_process(crash_log)
    gc.freeze()  # exclude permanent objects from collections and from the flush of open files
    gc.enable()
    try:
        kernel.sendall(b"\n")
    except BrokenPipeError:  # the kernel has ended and reports why itself
        os._exit(0)
    walls, common = KernelWalls.from_environment(), SharedProcessState()
    while True:
        message, outputs, *_ = socket.recv_fds(kernel, 16, 2)
        if not message:
            os._exit(0)
        if b"run" not in message:  # an interrupt for a cell that has already ended
            continue
        _job.read_job.cache_clear()
        end = CellSupervisor(_job.read_job(), kernel, (outputs[0], outputs[1]), walls, crash_log).run()
        for descriptor in outputs:
            os.close(descriptor)
        kernel.sendall(json.dumps({**end, "over": not common.clean_up()}).encode() + b"\n")


class SharedProcessState:
    """State shared by the processes of all cells, which a cell could change for later cells."""

    def __init__(self) -> None:
        self._processes = (os.getpid(), os.getppid())
        self._initial_settings = self._read_settings()
        tmp = os.environ["TMPDIR"]
        shared = ["/dev/shm"] if tmp == "/tmp" else []  # in the sandbox it belongs to the kernel
        self._initial_files = {place: frozenset(os.listdir(place)) for place in (tmp, *shared)}

    def clean_up(self) -> bool:
        """Remove traces of a cell that the next cell could find; return False if that fails."""
        for place, kept in self._initial_files.items():
            for name in set(os.listdir(place)) - kept:
                path = os.path.join(place, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    remove_folder(path)
                else:
                    _try_action(lambda path=path: os.unlink(path))
        return not _list_descendants() and self._initial_settings == self._read_settings()

    def _read_settings(self) -> list[object]:
        """Read settings of the kernel's processes that any process of the same user can change: limits, priorities,
        CPUs, parts of a crash dump."""
        numbers = sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))
        settings: list[object] = []
        for pid in self._processes:
            for name in ("oom_score_adj", "coredump_filter", "autogroup"):
                with suppress(FileNotFoundError), open(f"/proc/{pid}/{name}") as file:
                    settings.append(file.read())
            settings += [
                os.getpriority(os.PRIO_PROCESS, pid),
                os.sched_getaffinity(pid),
                os.sched_getscheduler(pid),
                [resource.prlimit(pid, number) for number in numbers],
            ]
        return settings


@dataclass
class ChildProcess:
    """A child process and its socket."""

    pid: int
    channel: socket.socket
    received: bytearray = field(default_factory=bytearray)
    end: dict[str, Any] | None = None


class CellSupervisor:
    """Supervises one cell or script, from its fork to the end of all of its processes."""

    def __init__(
        self,
        current: JobFile,
        kernel: socket.socket,
        outputs: tuple[int, int],
        walls: KernelWalls | None,
        crash_log: int,
    ) -> None:
        self._job, self._kernel, self._outputs, self._walls = current, kernel, outputs, walls
        self._crash_log = crash_log
        self._text = Path(os.environ["LAB_JOB"]).read_bytes()
        inputs = current.folder / "inputs"  # checked before the code runs, which could replace it by a link
        self._inputs = inputs if current.cell is not None and inputs.is_dir() else None
        self._kill_time: float | None = None
        self._killed = False
        self._peak = 0

    def run(self) -> dict[str, Any]:
        try:
            if self._walls is not None and not os.path.exists(f"{self._walls.cache}/matplotlib"):
                cache_font_list(self._job.folder)
            end = self._run_child()
        finally:
            _kill_descendants()
        _publish_shared_values(self._job)
        return {**end, "killed": self._killed, "peak": self._peak}

    # --- the child --------------------------------------------------------------------------------------------------

    def _run_child(self) -> dict[str, Any]:
        """Fork a process, wait until it has ended, and return how it ended."""
        room = PrivateRoom.create(self._walls) if self._walls is not None else None
        # a separate file, since through the kernel's file a cell could affect later cells
        crash = os.memfd_create("crash")
        try:
            return self._serve_child(self._fork(room, crash))
        finally:
            _try_action(lambda: os.write(self._crash_log, os.pread(crash, _MAX_CRASH_BYTES, 0)))
            os.close(crash)
            if room is not None:
                room.remove()

    def _fork(self, room: PrivateRoom | None, crash: int) -> ChildProcess:
        own_end, child_end = socket.socketpair()
        with warnings.catch_warnings():
            # the warning is about other threads, but threads of libraries hold no locks
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:

            def isolate() -> None:
                if room is not None:
                    room.enter(str(self._job.folder), str(self._inputs or ""), self._text)

            os.dup2(crash, self._crash_log, inheritable=False)
            _child.run_process(self._job, child_end, self._outputs, isolate)
        child_end.close()
        return ChildProcess(pid, own_end)

    def _serve_child(self, process: ChildProcess) -> dict[str, Any]:
        code: int | None = None
        with selectors.DefaultSelector() as selector, open(os.pidfd_open(process.pid), "rb") as life:
            for descriptor in (process.channel.fileno(), life.fileno(), self._kernel.fileno()):
                selector.register(descriptor, selectors.EVENT_READ)
            while code is None:
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fd == self._kernel.fileno():
                        self._handle_kernel_message(process)
                    elif key.fd == life.fileno() or not self._receive_from_child(process):
                        selector.unregister(key.fd)
                if self._kill_time is not None and time.monotonic() > self._kill_time:
                    self._kill_child(process)
                code = _get_exit_code(process.pid)
            self._signal_child(process, signal.SIGKILL)  # its group may exist longer than the process
            _kill_descendants()
            is_open = process.channel.fileno() in selector.get_map()
            while is_open and selector.select(0):
                is_open = self._receive_from_child(process)
        process.channel.close()
        return process.end or {"status": "died", "code": code}

    def _handle_kernel_message(self, process: ChildProcess) -> None:
        """Handle a message of the kernel: an interrupt, or the end of the connection."""
        if not self._kernel.recv(64):
            self._kill_child(process)
            _kill_descendants()
            os._exit(0)
        if self._kill_time is None:
            self._kill_time = time.monotonic() + self._job.grace
            self._signal_child(process, signal.SIGINT)

    def _receive_from_child(self, process: ChildProcess) -> bool:
        """Receive data from a child; return False at the end, or if it is not a valid message."""
        try:
            piece = process.channel.recv(65536)
            process.received += piece
            while b"\n" in process.received:
                line, _, process.received = process.received.partition(b"\n")
                self._peak = max(self._peak, _read_peak_bytes(process.pid))
                process.end = dict(json.loads(line)["end"])
                # together with its group, since processes that notice its end may still print output
                self._signal_child(process, signal.SIGKILL)
            if piece and len(process.received) < _MAX_LINE_BYTES:
                return True
        except (OSError, ValueError, TypeError, ArithmeticError, AttributeError, LookupError, RecursionError):
            pass
        _try_action(lambda: process.channel.shutdown(socket.SHUT_RDWR))  # so that the child does not wait for an answer
        return False

    # --- ends -------------------------------------------------------------------------------------------------------

    def _kill_child(self, process: ChildProcess) -> None:
        self._killed = True
        self._signal_child(process, signal.SIGKILL)
        _try_action(lambda: os.kill(process.pid, signal.SIGKILL))

    def _signal_child(self, process: ChildProcess, number: signal.Signals) -> None:
        """Signal the process group of a child, or the child itself if it has no group yet."""
        if not _try_action(lambda: os.killpg(process.pid, number)):
            _try_action(lambda: os.kill(process.pid, number))


def _publish_shared_values(current: JobFile) -> None:
    """Move the values that a cell built to where every cell of the same files can read them.

    The bytes are copied, since another process may still have a file open. Only plain files within the quota count;
    the values of all cells together may have as many bytes as one file.
    """
    with suppress(OSError):
        folder = os.open(current.folder / _shared.OWN_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        left, most = current.checkpoint_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if most != resource.RLIM_INFINITY:
            shared = _shared.get_value_path(current, "").parent
            left = min(left, most - sum(path.stat().st_size for path in shared.glob("*")))
        for name in list(filter(_shared.NAME_PATTERN.fullmatch, os.listdir(folder)))[:_MAX_SHARED_VALUES]:
            with suppress(OSError):
                left -= _copy_shared_value(folder, name, _shared.get_value_path(current, name), left)
        os.close(folder)
    remove_folder(str(current.folder / _shared.OWN_FOLDER))


def _copy_shared_value(folder: int, name: str, target: Path, limit: int) -> int:
    """Copy a value unless it exists, and return its size in bytes; 0 if it is not a plain file within the limit."""
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        status = os.fstat(source)
        if target.exists() or not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return 0
        target.parent.mkdir(exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        with open(source, "rb", closefd=False) as file, open(part, "wb") as copy:
            shutil.copyfileobj(file, copy, 2**20)
        part.chmod(0o444)
        os.replace(part, target)
        return status.st_size
    finally:
        os.close(source)


def cache_font_list(folder: Path) -> None:
    """Build matplotlib's font list in the shared cache if the program in this folder uses matplotlib.

    A separate process does this, since the cache of a cell is removed together with the cell.
    """
    programs = (
        path for path in folder.rglob("*.py") if path.is_file() and path.relative_to(folder).parts[0] != "inputs"
    )
    if not any(b"matplotlib" in path.read_bytes() for path in programs):
        return
    if (pid := os.fork()) == 0:
        try:
            LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.chdir("/")  # so that no settings next to the program are read
            importlib.import_module("matplotlib.font_manager")
        finally:
            os._exit(0)
    _try_action(lambda: os.waitpid(pid, 0))


def _read_peak_bytes(pid: int) -> int:
    """Return the peak of a child's memory that is not shared with this process, without mapped files; 0 if the child is
    gone.

    Sampling from outside would miss short peaks.
    """
    sizes: list[dict[str, int]] = []
    for one in (pid, os.getpid()):
        with suppress(OSError), open(f"/proc/{one}/status", encoding="utf-8", errors="replace") as file:
            fields = re.findall(r"^(\w+):\s+(\d+) kB", file.read(), re.MULTILINE)
            sizes.append({name: int(size) * 1024 for name, size in fields})
    if len(sizes) < 2 or "VmHWM" not in sizes[0]:
        return 0
    return max(0, sizes[0]["VmHWM"] - sizes[0]["RssFile"] - sizes[1]["RssAnon"])


def _get_exit_code(pid: int) -> int | None:
    """Return the exit code of a child (negative: the signal), or None while it lives."""
    try:
        exited, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if exited else None


def _kill_descendants() -> None:
    """Kill and reap every descendant of this process."""
    until = time.monotonic() + _KILL_WAIT_SECONDS
    while (left := _list_descendants()) and time.monotonic() < until:
        for pid in left:
            _try_action(lambda pid=pid: os.kill(pid, signal.SIGKILL))
        for pid in left:
            _try_action(lambda pid=pid: os.waitpid(pid, os.WNOHANG))
        time.sleep(0.002)


def _list_descendants() -> list[int]:
    descendants: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as children:
                    waiting += (new := [int(child) for child in children.read().split()])
                    descendants += new
        except OSError:
            continue
    return descendants


def _try_action(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True
