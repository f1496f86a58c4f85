"""The process that runs one cell: a program from its top to its end, and then the function that it registered.

It was forked from one that has only imported (`lab._driver`), so it begins as a fresh interpreter would: a folder with
pristine files, a `__main__` of its own, seeds of its own. What it prints goes through pipes, what comes of it through a
socket; nothing that it leaves in memory outlives it.
"""

from __future__ import annotations

import ctypes
import importlib
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
from dataclasses import replace
from typing import Any, NoReturn

from lab import _cells, _job, _training
from lab._job import Cell, JobFile, LabError, seed_all

LIBC: Any = ctypes.CDLL(None)
_PDEATHSIG = 1
_FIRST_TO_GO = "800"
"""What is added to the score by which the system, short of memory, chooses whom it kills (-1000 to 1000)."""
_HERE = os.path.dirname(os.path.abspath(__file__))


class _Process:
    """What this process is; set once, after the fork."""

    pid = 0
    """Of the process that runs a cell; its own children ask nobody."""
    talk: socket.socket
    building = ""
    """The shared value that it was forked to build."""
    key: str | None = None
    """The key of that value, while it is built."""
    outputs: tuple[int, int] = (1, 2)
    """Where what it prints is heard."""


class _Given(Cell):
    """The cell that the program is handed. What is built for other cells too may read of it what the key names."""

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        return _named(f"cell.{name}", value) if name in Cell.__dataclass_fields__ and name != "setting" else value


class _Setting(Mapping[str, Any]):
    """The hyperparameters that the program is handed: read-only; a name that the arm does not have is an error, unless
    `get` names what to take then."""

    def __init__(self, arm: str, values: Mapping[str, Any]) -> None:
        self._arm, self._values = arm, dict(values)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise LabError(f"cell.setting: arm {self._arm!r} has no hyperparameter {name!r} in this trial; it has: "
                           f"{', '.join(self._values) or 'none'}")
        return _named(f"cell.setting[{name!r}]", self._values[name])

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._values else default

    def __or__(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **more}

    def __ror__(self, before: Mapping[str, Any]) -> dict[str, Any]:
        return {**before, **self}

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self))


def _named(what: str, value: Any) -> Any:
    """A value that belongs to the cell. Raises `LabError` where a shared value is built whose key does not have it."""
    key = _Process.key
    if key is not None and str(value) not in key:
        raise LabError(f"lab.shared({key!r}): what it builds depends on {what}, which the key does not name, so other "
                       f"cells would be given what {value!r} made: put {what} into the key")
    return value


def live(current: JobFile, talk: socket.socket, pipes: tuple[int, int], building: str = "") -> NoReturn:
    """Run the cell to its end, tell how it ended, and be gone. With `building`, only up to that shared value."""
    end: dict[str, Any] = {"status": "ok"}
    try:
        _settle(talk, pipes, building)
        try:
            _run(current)
        except SystemExit as error:
            if error.code not in (None, 0, ""):
                end = _told(error)
        if building and end["status"] == "ok":
            raise LabError("the program ran to its end without coming to it again: call lab.shared at a place that "
                           "every run of this cell comes to, with the same key and captured values")
    except BaseException as error:
        end = _told(error)
    _leave(end)


def _settle(talk: socket.socket, pipes: tuple[int, int], building: str) -> None:
    os.setsid()  # all that it starts can be killed with it
    LIBC.prctl(_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write(_FIRST_TO_GO)
    except OSError:  # then the system chooses by size alone
        pass
    silent = os.open(os.devnull, os.O_WRONLY)
    _print_to((silent, silent) if building else pipes)
    for number, name in ((1, "stdout"), (2, "stderr")):
        text = io.TextIOWrapper(io.FileIO(number, "w", closefd=False), encoding="utf-8", errors="backslashreplace",
                                write_through=True)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)

    def publish(data: dict[str, Any], *_: object, **__: object) -> None:
        print(data.get("text/plain", ""))

    _shell().display_pub.publish = publish
    _Process.pid, _Process.talk, _Process.building, _Process.outputs = os.getpid(), talk, building, pipes


def _print_to(descriptors: tuple[int, int]) -> None:
    for descriptor, number in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, number)


def _run(current: JobFile) -> None:
    """The program, then its function. Raises whatever these raise."""
    entry = os.path.join(current.folder, current.entry)
    os.chdir(current.folder)
    os.environ["HOME"] = str(current.folder)
    sys.argv = [entry]
    sys.path[:] = [os.path.dirname(entry), *(path for path in sys.path if path)]
    importlib.invalidate_caches()
    _job.begin()
    if _Process.building:
        _change_job(folder=str(current.folder))
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
    measure = _cells.registered()
    cell = current.cell
    if cell is not None:
        measure(_Given(**vars(replace(cell, setting=_Setting(cell.arm, cell.setting)))))


def _leave(end: dict[str, Any]) -> NoReturn:
    try:
        _shell().events.trigger("post_execute")  # flushes the files that the program left open
        sys.stdout.flush()
        sys.stderr.flush()
        _send(_Process.talk, {"end": {**end, "training": _training.seen()}})
    finally:
        os._exit(0)


def _told(error: BaseException) -> dict[str, Any]:
    """An exception as the kernel of a plain script tells it."""
    name = "LabError" if isinstance(error, LabError) else type(error).__name__
    try:
        words = str(error)
    except Exception:
        words = ""
    end: dict[str, Any] = {
        "status": "error", "ename": name, "evalue": words[:100_000], "traceback": [],
        "diverged": isinstance(error, LabError) and error.diverged}
    try:
        shell = _shell()
        trace = error.__traceback__
        while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == _HERE:
            trace = trace.tb_next
        if isinstance(error, SyntaxError):
            lines = shell.SyntaxTB.structured_traceback(type(error), error, traceback.extract_tb(trace))
        elif trace is not None:
            lines = shell.InteractiveTB.structured_traceback(type(error), error, trace, tb_offset=0)
        else:
            lines = [f"{name}: {words}"]
        end["traceback"] = [str(line)[:100_000] for line in lines][:200]
    except Exception as odd:
        end["traceback"] = [f"(the traceback cannot be shown: {type(odd).__name__})"]
    return end


def _shell() -> Any:
    from IPython.core.getipython import get_ipython  # this process has it; tests of `lab` have not

    return get_ipython()


# --- shared values, for `lab._shared` ---------------------------------------------------------------------------------


def asks() -> bool:
    """Whether this process can have a value built by another."""
    return _Process.pid == os.getpid()


def builds_something() -> bool:
    """Whether this process, or the one that it came from, was forked to build a value."""
    return bool(_Process.building)


def builds(digest: str) -> bool:
    """Whether this process was forked to build that value."""
    return asks() and _Process.building == digest


def ask(digest: str, where: str) -> bool:
    """Have a value built; False where that is being done by who waits for this process. Raises `LabError`."""
    _send(_Process.talk, {"shared": digest})
    answer = json.loads(receive(_Process.talk))
    if "failed" in answer:
        raise LabError(f"{where} could not be built: {answer['failed']}")
    return bool(answer["built"])


def at_last(key: str, seed: int, build: Callable[[], Any]) -> Any:
    """What `build()` returns with that seed, which is also that of `lab.seed`. From here on its output is heard."""
    _Process.key = key
    _change_job(seed=seed)
    seed_all(seed)
    _print_to(_Process.outputs)
    return build()


def built() -> NoReturn:
    """Be gone: what this process was forked for is done."""
    _leave({"status": "ok"})


def _change_job(**fields: object) -> None:
    """Turn to another job file, in the folder of this process, for it and all that it starts."""
    with open(os.environ["LAB_JOB"], encoding="utf-8") as file:
        changed: dict[str, Any] = {**json.load(file), **fields}
    path = os.path.join(changed["folder"], ".job.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(changed, file)
    os.environ["LAB_JOB"] = path
    _job.begin()


def _send(talk: socket.socket, message: dict[str, Any]) -> None:
    talk.sendall(json.dumps(message).encode() + b"\n")


def receive(talk: socket.socket) -> bytes:
    """The next line. Raises `EOFError` where the other side is gone."""
    line = b""
    while not line.endswith(b"\n"):
        piece = talk.recv(65536)
        if not piece:
            raise EOFError("the other side is gone")
        line += piece
    return line
