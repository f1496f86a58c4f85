"""Run one script or cell in this process: first the whole program, then the function that it registered.

The process is forked from one that has only preloaded modules (`lab._zygote`), so it starts like a fresh interpreter,
with pristine files, its own `__main__` and fresh seeds. Output goes through pipes and the result through a socket;
nothing in memory is kept. Open files are flushed at the end; `atexit` handlers do not run.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import io
import json
import linecache
import os
import signal
import socket
import sys
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from lab import _job, _training
from lab._job import JobFile, LabError, seed_all
from lab._walls import LIBC, close_all_but

_PR_SET_PDEATHSIG = 1
_OOM_SCORE_ADJUSTMENT = "800"
"""Added to the score by which the system chooses processes to kill when memory is short (-1000 to 1000)."""
_LAB_FOLDER = os.path.dirname(os.path.abspath(__file__))


class ProcessState:
    """State of this process, set once after the fork."""

    forked_pid = 0
    """Id of the process that the zygote forked."""
    socket: ClassVar[socket.socket]
    crash_log = 2
    """Descriptor for crash reports of the interpreter."""


class CellSetting(dict[str, Any]):
    """Hyperparameters passed to the program. Using one that the arm does not have is an error; `in` and `get` test."""

    def __missing__(self, name: str) -> Any:
        cell, has = _job.read_job().cell, ", ".join(self) or "none"
        arm = cell.arm if cell is not None else ""
        raise LabError(f"cell.setting: arm {arm!r} has no hyperparameter {name!r} in this trial; it has: {has}")


def prepare_process(crash_log: int) -> None:
    """Prepare this process before the first fork."""
    ProcessState.crash_log = crash_log
    # numpy imports this on first use, which is in every cell, since every cell is seeded
    importlib.import_module("numpy.random")


def run_process(
    current: JobFile, channel: socket.socket, outputs: tuple[int, int], enter_walls: Callable[[], None]
) -> NoReturn:
    """Run the script or cell, report how it ended, and exit. No part of the program runs before `enter_walls`."""
    end: dict[str, Any] = {"status": "ok"}
    try:
        _initialize(channel, outputs)
        enter_walls()
        if os.environ.pop("LAB_WALLS", "") == "1":
            importlib.import_module("sitecustomize").add_packages()
        try:
            _run_program(current)
        except SystemExit as error:
            if error.code not in (None, 0, ""):
                end = _describe_exception(error)
    except BaseException as error:
        end = _describe_exception(error)
    _exit(end)


def _initialize(talk: socket.socket, outputs: tuple[int, int]) -> None:
    os.setsid()  # so that all of its child processes can be killed together with it
    LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # otherwise the system decides by size
        score.write(_OOM_SCORE_ADJUSTMENT)
    for descriptor, number in zip(outputs, (1, 2), strict=True):
        os.dup2(descriptor, number)
    close_all_but((0, 1, 2, talk.fileno(), ProcessState.crash_log))
    for number, name in ((1, "stdout"), (2, "stderr")):
        text = io.TextIOWrapper(
            io.FileIO(number, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
        )
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    ProcessState.forked_pid = os.getpid()
    ProcessState.socket = talk


def _run_program(current: JobFile) -> None:
    """Run the program, then its function. Raises their errors."""
    entry = os.path.join(current.folder, current.entry)
    os.chdir(current.folder)
    os.environ["HOME"] = str(current.folder)
    sys.argv = [entry]
    sys.path[:] = [os.path.dirname(entry), *(path for path in sys.path if path)]
    _forget_modules_of(current.folder)
    _job.apply_job()
    if current.cell is not None:
        seed_all(current.seed)
    main: Any = types.ModuleType("__main__")
    main.__file__, main.exit, main.quit = entry, sys.exit, sys.exit
    sys.modules["__main__"] = main
    with open(entry, encoding="utf-8", errors="replace") as file:
        source = file.read()
    linecache.cache[entry] = (len(source), None, source.splitlines(keepends=True), entry)
    try:
        exec(compile(source, entry, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        if error.code not in (None, 0, ""):
            raise
    if (cell := current.cell) is not None:
        measured = _job.get_registered()(replace(cell, setting=CellSetting(cell.setting)))
        if inspect.iscoroutine(measured):  # from an `async def`
            importlib.import_module("asyncio").run(measured)


def _forget_modules_of(folder: Path) -> None:
    """Unload preloaded modules with the same names as modules of the program."""
    importlib.invalidate_caches()
    own = {path.stem for path in (*folder.glob("*.py"), *(init.parent for init in folder.glob("*/__init__.py")))}
    for name in [name for name in sys.modules if name.partition(".")[0] in own - sys.stdlib_module_names]:
        del sys.modules[name]


def _exit(end: dict[str, Any]) -> NoReturn:
    try:
        kinds = io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom
        files = [one for one in gc.get_objects() if type(one) in kinds]
        for file in (*files, sys.stdout, sys.stderr):
            with suppress(Exception):  # for example a closed one, or a pipe that nobody reads
                file.flush()
        # not in a child process of the program that reached this point
        if os.getpid() == ProcessState.forked_pid:
            message = {"end": {**end, "training": _training.read_counters()}}
            ProcessState.socket.sendall(json.dumps(message).encode() + b"\n")
            ProcessState.socket.recv(1)  # the zygote measures this process and kills it
    finally:
        os._exit(0)


def _describe_exception(error: BaseException) -> dict[str, Any]:
    """Describe an exception; frames of `lab` above those of the program are left out."""
    is_own = isinstance(error, LabError)
    name, words = "LabError" if is_own else type(error).__name__, ""
    trace = error.__traceback__
    while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == _LAB_FOLDER:
        trace = trace.tb_next
    try:
        described = traceback.TracebackException(type(error), error, trace)
        words = str(described)
        lines = "".join(described.format()).splitlines()
    except Exception as failure:
        lines = [f"(the traceback cannot be shown: {type(failure).__name__})"]
    end: dict[str, Any] = {"status": "error", "ename": name, "evalue": words[:100_000]}
    return end | {"diverged": is_own and error.diverged, "traceback": [line[:100_000] for line in lines[-200:]]}
