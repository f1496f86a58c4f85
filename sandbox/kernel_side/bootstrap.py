"""Starts the kernel that runs one script: `python bootstrap.py -f connection.json`, with LAB_JOB in the environment.

The modules of LAB_MODULES are imported ahead of the script, in the main thread and in the order given; no random number
is drawn, and what they print or fail with ends the kernel at its start, since it is for the script to hear.

It differs from `ipykernel_launcher` in that the script finds what a script expects: its own folder first in
`sys.path`, `__file__`, `sys.argv`, and an `exit` that ends it. The job file is read when the script starts, not before.
debugpy and the history database are left out, which saves about 200 ms. The host kills an idle kernel without a
farewell, since tearing down an interpreter that holds torch takes a second; so files that the script left open are
flushed at its end. `atexit` handlers do not run.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import io
import json
import os
import resource
import sys
import warnings
from typing import Any

_PIECE = 2**20


def main() -> None:
    """Run until the host kills us."""
    sys.path.pop(0)  # the folder of this file, put there because it was run by its path; PYTHONPATH names it again
    for limit in filter(None, os.environ.pop("LAB_RLIMITS", "").split(",")):
        name, _, value = limit.partition("=")
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        lowest = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(number, (lowest, lowest))  # for good: without privileges it cannot be raised again
    sys.modules["debugpy"] = None  # pyright: ignore[reportArgumentType]  (makes an import fail at once)
    crash_log = os.fdopen(os.dup(2), "w")  # ipykernel redirects descriptor 2; a crash must still reach the host

    from ipykernel.kernelapp import IPKernelApp

    app: Any = IPKernelApp.instance()
    app.initialize([
        *sys.argv[1:], "--HistoryManager.enabled=False", "--InteractiveShell.colors=nocolor",
        "--InteractiveShell.xmode=Context", "--InteractiveShell.ast_node_interactivity=none",
    ])
    faulthandler.enable(crash_log, all_threads=False)
    modules = [module for module in os.environ.pop("LAB_MODULES").split(",") if module]
    app.shell.events.register("post_execute", _flush_open_files)
    if modules and (output := _import_ahead(modules)):
        crash_log.write(f"importing {', '.join(modules)} said: {output[:300]}")
        crash_log.flush()
        os._exit(1)
    for stream in (sys.stdout, sys.stderr):
        _send_in_pieces(stream)

    def prepare() -> None:
        app.shell.events.unregister("pre_execute", prepare)
        _prepare_as_script(app.shell)

    app.shell.events.register("pre_execute", prepare)
    app.start()


def _send_in_pieces(stream: Any) -> None:
    """Hand output on at least every `_PIECE` characters: a flood must neither fill our memory nor be one message."""
    write, waiting = stream.write, 0

    def in_pieces(text: str) -> int | None:
        nonlocal waiting
        written = 0
        for start in range(0, len(text), _PIECE):
            written += write(text[start:start + _PIECE]) or 0
            waiting += min(_PIECE, len(text) - start)
            if waiting >= _PIECE:
                stream.flush()
                waiting = 0
        return written

    stream.write = in_pieces


def _import_ahead(modules: list[str]) -> str:
    """Import modules and leave the names of all that are new in TMPDIR/loaded; what they said meanwhile."""
    output: list[str] = []

    def collect(text: str) -> int:
        output.append(text)
        return len(text)

    before = set(sys.modules)
    for stream in (sys.stdout, sys.stderr):
        stream.write = collect
    try:
        for name in modules:
            importlib.import_module(name)
    except Exception as error:
        output.append(f"{type(error).__name__}: {error}")
    for stream in (sys.stdout, sys.stderr):
        del stream.write
    gc.freeze()  # neither collections nor `_flush_open_files` look at what is there to stay
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    with open(os.path.join(os.environ["TMPDIR"], "loaded"), "w", encoding="utf-8") as file:
        file.write(" ".join(sorted(new)))
    return "".join(output)


def _prepare_as_script(shell: Any) -> None:
    with open(os.environ["LAB_JOB"], encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
    if job.get("cell"):  # this process only forks those that run cells (lab._driver)
        return
    os.chdir(job["folder"])
    os.environ["HOME"] = job["folder"]
    entry = os.path.join(str(job["folder"]), str(job["entry"]))
    sys.argv = [entry]
    sys.path[:] = [os.path.dirname(entry), *(path for path in sys.path if path)]
    importlib.invalidate_caches()
    if "lab" in sys.modules:
        from lab import _job

        _job.begin()
    # The shell's own `exit` lets the rest of a cell run; a script expects to end there.
    shell.user_ns.update(__file__=entry, exit=sys.exit, quit=sys.exit)
    warnings.filterwarnings("ignore", message="To exit: use")

    def name_of(*_code: object) -> str:
        return entry

    shell.compile.get_code_name = name_of  # in syntax errors, warnings and crashes


def _flush_open_files() -> None:
    for file in gc.get_objects():
        if (type(file) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
                and not file.closed and file.writable()):
            file.flush()


if __name__ == "__main__":
    main()
