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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from lab import _cells, _job, _training
from lab._job import JobFile, LabCell, LabError, seed_all
from lab._walls import LIBC, close_all_but

_PR_SET_PDEATHSIG = 1
_OOM_SCORE_ADJUSTMENT = "800"
"""Added to the score by which the system chooses processes to kill when memory is short (-1000 to 1000)."""
_LAB_FOLDER = os.path.dirname(os.path.abspath(__file__))


class ProcessState:
    """State of this process, set once after the fork."""

    forked_pid = 0
    """Id of the process that the zygote forked."""
    pid = 0
    """Id of the process that runs a cell; its child processes cannot request builds."""
    socket: socket.socket
    building_digest = ""
    """Digest of the shared value that this process was forked to build."""
    recorded_reads: dict[str, str] | None = None
    """Values that a shared value under construction has read from the cell so far: name -> value as text."""
    outputs: tuple[int, int] = (1, 2)
    """Descriptors for standard output and error."""
    crash_log = 2
    """Descriptor for crash reports of the interpreter."""
    tracebacks: tuple[Any, Any]
    """Formatters for tracebacks of exceptions and of syntax errors."""


class ProgramCell(LabCell):
    """The cell passed to the program. Records the values that a shared value reads from it while it is built."""

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name in LabCell.__dataclass_fields__ and name != "setting":
            record_read(name, value)
        elif name == "__dict__":
            record_all_reads()
        return value

    def __reduce__(self) -> Any:
        record_all_reads()
        return LabCell, tuple(dict(value) if name == "setting" else value for name, value in vars(self).items())


class CellSetting(Mapping[str, Any]):
    """Read-only hyperparameters passed to the program. A name that the arm does not have is an error unless `get`
    gives a default."""

    def __init__(self, arm: str, values: Mapping[str, Any]) -> None:
        self._arm, self._values = arm, dict(values)

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            has = ", ".join(self._values) or "none"
            raise LabError(
                f"cell.setting: arm {self._arm!r} has no hyperparameter {name!r} in this trial; it has: {has}"
            )
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        record_read(f"setting.{name}", self._values.get(str(name), _MISSING_HYPERPARAMETER))
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        record_read(f"setting.{name}", self._values.get(name, _MISSING_HYPERPARAMETER))
        return self._values.get(name, default)

    def __or__(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **more}

    def __ror__(self, before: Mapping[str, Any]) -> dict[str, Any]:
        return {**before, **self}

    def __iter__(self) -> Iterator[str]:
        record_all_reads()
        return iter(self._values)

    def __len__(self) -> int:
        record_all_reads()
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> Any:
        record_all_reads()
        return dict, (self._values,)


_MISSING_HYPERPARAMETER = types.SimpleNamespace()
"""Marks a hyperparameter that an arm does not have."""


def record_read(what: str, value: object) -> None:
    """Record that a shared value under construction has read this from its cell."""
    if ProcessState.recorded_reads is not None:
        ProcessState.recorded_reads[what] = repr(value)


def record_all_reads() -> None:
    """Record that a shared value under construction may have read any part of its cell."""
    if ProcessState.recorded_reads is not None and (cell := _job.read_job().cell) is not None:
        ProcessState.recorded_reads |= {what: repr(value) for what, value in _list_fields(cell).items()}


def matches_reads(reads: Mapping[str, str], cell: LabCell) -> bool:
    """Whether this cell has equal values for everything that a shared value has read."""
    fields = _list_fields(cell)
    return all(repr(fields.get(what, _MISSING_HYPERPARAMETER)) == value for what, value in reads.items())


def _list_fields(cell: LabCell) -> dict[str, object]:
    """Return all readable fields of a cell. The set of hyperparameter names counts as one field."""
    plain = {name: value for name, value in vars(cell).items() if name != "setting"}
    values = {f"setting.{name}": value for name, value in cell.setting.items()}
    return {**plain, "setting": sorted(cell.setting), **values}


def prepare_process(crash_log: int) -> None:
    """Prepare this process before the first fork."""
    ProcessState.crash_log = crash_log
    # numpy imports this on first use, which is in every cell, since every cell is seeded
    importlib.import_module("numpy.random")
    from IPython.core import ultratb

    formats: Any = ultratb
    try:
        new = {"theme_name": "nocolor"}
        ProcessState.tracebacks = formats.AutoFormattedTB(mode="Context", **new), formats.SyntaxTB(**new)
    except TypeError:  # before IPython 9
        old = {"color_scheme": "NoColor"}
        ProcessState.tracebacks = formats.AutoFormattedTB(mode="Context", **old), formats.SyntaxTB(**old)
    os.register_at_fork(before=record_all_reads)  # reads of a cell in other processes are not seen here


def run_process(
    current: JobFile, channel: socket.socket, outputs: tuple[int, int], building: str, enter_walls: Callable[[], None]
) -> NoReturn:
    """Run the script or cell, report how it ended, and exit. With `building`, stop at that shared value.

    No part of the program runs before `enter_walls`.
    """
    end: dict[str, Any] = {"status": "ok"}
    try:
        _initialize(current, channel, outputs, building)
        enter_walls()
        if os.environ.pop("LAB_WALLS", "") == "1":
            importlib.import_module("sitecustomize").add_packages()
        try:
            _run_program(current)
        except SystemExit as error:
            if error.code not in (None, 0, ""):
                end = _describe_exception(error)
        if building and end["status"] == "ok":
            raise LabError("the program ended without reaching the call again, with the same key and captured values")
    except BaseException as error:
        end = _describe_exception(error)
    _exit(end)


def _initialize(current: JobFile, talk: socket.socket, outputs: tuple[int, int], building: str) -> None:
    os.setsid()  # so that all of its child processes can be killed together with it
    LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # otherwise the system decides by size
        score.write(_OOM_SCORE_ADJUSTMENT)
    silent = os.open(os.devnull, os.O_WRONLY)
    _redirect_output((silent, silent) if building else outputs)
    close_all_but((0, 1, 2, talk.fileno(), ProcessState.crash_log, *(outputs if building else ())))
    for number, name in ((1, "stdout"), (2, "stderr")):
        text = io.TextIOWrapper(
            io.FileIO(number, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
        )
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    ProcessState.forked_pid = os.getpid()
    ProcessState.pid = ProcessState.forked_pid if current.cell is not None else 0
    ProcessState.socket, ProcessState.building_digest, ProcessState.outputs = talk, building, outputs


def _redirect_output(descriptors: tuple[int, int]) -> None:
    for descriptor, number in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, number)


def _run_program(current: JobFile) -> None:
    """Run the program, then its function. Raises their errors."""
    entry = os.path.join(current.folder, current.entry)
    os.chdir(current.folder)
    os.environ["HOME"] = str(current.folder)
    sys.argv = [entry]
    sys.path[:] = [os.path.dirname(entry), *(path for path in sys.path if path)]
    _forget_modules_of(current.folder)
    _job.apply_job()
    if ProcessState.building_digest:
        _change_job(folder=str(current.folder))
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
        given = replace(cell, setting=CellSetting(cell.arm, cell.setting))
        measured = _cells.get_registered()(ProgramCell(**vars(given)))
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
            _send_message(ProcessState.socket, {"end": {**end, "training": _training.read_counters()}})
            receive_line(ProcessState.socket)  # the zygote measures this process and kills it
    finally:
        os._exit(0)


def _describe_exception(error: BaseException) -> dict[str, Any]:
    """Describe an exception in the same way as a Jupyter kernel."""
    name = "LabError" if isinstance(error, LabError) else type(error).__name__
    try:
        words = str(error)
    except Exception:
        words = ""
    diverged = isinstance(error, LabError) and error.diverged
    end: dict[str, Any] = {"status": "error", "ename": name, "evalue": words[:100_000], "diverged": diverged}
    try:
        trace = error.__traceback__
        while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == _LAB_FOLDER:
            trace = trace.tb_next
        plain, of_syntax = ProcessState.tracebacks
        if isinstance(error, SyntaxError):
            lines = of_syntax.structured_traceback(type(error), error, traceback.extract_tb(trace))
        elif trace is not None:
            lines = plain.structured_traceback(type(error), error, trace, tb_offset=0)
        else:
            lines = [f"{name}: {words}"]
        end["traceback"] = [str(line)[:100_000] for line in lines][:200]
    except Exception as failure:
        end["traceback"] = [f"(the traceback cannot be shown: {type(failure).__name__})"]
    return end


# --- shared values, for `lab._shared` ---------------------------------------------------------------------------------


def can_ask() -> bool:
    """Whether this process can ask for a value to be built."""
    return ProcessState.pid == os.getpid()


def is_builder() -> bool:
    """Whether this process, or an ancestor, was forked to build a value."""
    return bool(ProcessState.building_digest)


def is_building(digest: str) -> bool:
    """Whether this process was forked to build the given value."""
    return can_ask() and ProcessState.building_digest == digest


def request_build(digest: str, where: str) -> bool:
    """Request the build of a value; False if it is already being built for a process that waits for this one. Raises
    `LabError`."""
    _send_message(ProcessState.socket, {"shared": digest})
    answer = json.loads(receive_line(ProcessState.socket))
    if "failed" in answer:
        raise LabError(f"{where} could not be built: {answer['failed']}")
    return bool(answer["built"])


def build_for_others(seed: int, build: Callable[[], Any]) -> tuple[Any, dict[str, str]]:
    """Return the result of `build()` with that seed (also as `lab.seed`), and the values that it read from the
    cell. Its output is shown.
    """
    _change_job(seed=seed)
    seed_all(seed)
    _redirect_output(ProcessState.outputs)
    reads: dict[str, str] = {}
    ProcessState.recorded_reads = reads
    return build(), reads


def exit_as_built(sealed: str) -> NoReturn:
    """Report the name of the built value and exit."""
    _exit({"status": "ok", "sealed": sealed})


def _change_job(**fields: object) -> None:
    """Change the job file of this process and its child processes."""
    with open(os.environ["LAB_JOB"], encoding="utf-8") as file:
        changed: dict[str, Any] = {**json.load(file), **fields}
    path = os.path.join(changed["folder"], ".job.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(changed, file)
    os.environ["LAB_JOB"] = path
    _job.apply_job()


def _send_message(talk: socket.socket, message: dict[str, Any]) -> None:
    talk.sendall(json.dumps(message).encode() + b"\n")


def receive_line(talk: socket.socket) -> bytes:
    """Return the next line. Raises `EOFError` if the connection was closed."""
    line = b""
    while not line.endswith(b"\n"):
        piece = talk.recv(65536)
        if not piece:
            raise EOFError("the connection was closed")
        line += piece
    return line
