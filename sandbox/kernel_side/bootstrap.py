"""Starts the kernel that runs one script: `python bootstrap.py -f connection.json`, with LAB_JOB in the environment.

It differs from `ipykernel_launcher` in that the script finds what a script expects: its own folder first in
`sys.path`, `__file__`, `sys.argv`, and an `exit` that ends it. debugpy and the history database are left out, which
saves about 200 ms. The host kills an idle kernel without a farewell, since tearing down an interpreter that holds torch
takes a second; so files that the script left open are flushed at its end. `atexit` handlers do not run.
"""

from __future__ import annotations

import faulthandler
import gc
import io
import json
import os
import resource
import sys
import warnings
from functools import partial
from typing import Any

_PIECE = 2**20


def main() -> None:
    """Run until the host kills us."""
    sys.path.pop(0)  # the folder of this file, put there because it was run by its path; PYTHONPATH names it again
    _limit()
    sys.modules["debugpy"] = None  # pyright: ignore[reportArgumentType]  (makes an import fail at once)
    crash_log = os.fdopen(os.dup(2), "w")  # ipykernel redirects descriptor 2; a crash must still reach the host

    from ipykernel.kernelapp import IPKernelApp

    app: Any = IPKernelApp.instance()
    app.initialize([
        *sys.argv[1:], "--HistoryManager.enabled=False", "--InteractiveShell.colors=nocolor",
        "--InteractiveShell.xmode=Context", "--InteractiveShell.ast_node_interactivity=none",
    ])
    faulthandler.enable(crash_log, all_threads=False)
    for stream in (sys.stdout, sys.stderr):
        _send_in_pieces(stream)
    _dress_as_script(app.shell)
    app.start()


def _limit() -> None:
    """Take on the resource limits of LAB_RLIMITS, for good: a process without privileges cannot raise them again."""
    for one in filter(None, os.environ.pop("LAB_RLIMITS", "").split(",")):
        name, _, value = one.partition("=")
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        limit = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(number, (limit, limit))


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


def _dress_as_script(shell: Any) -> None:
    with open(os.environ["LAB_JOB"], encoding="utf-8") as file:
        job: dict[str, str] = json.load(file)
    entry = os.path.join(job["folder"], job["entry"])
    sys.argv = [entry]
    sys.path[:] = [os.path.dirname(entry), *(path for path in sys.path if path)]
    # The shell's own `exit` lets the rest of a cell run; a script expects to end there.
    shell.user_ns.update(__file__=entry, exit=sys.exit, quit=sys.exit)
    warnings.filterwarnings("ignore", message="To exit: use")
    shell.compile.get_code_name = partial(_name_of, entry)  # in syntax errors, warnings and crashes
    shell.events.register("post_execute", _flush_open_files)


def _name_of(entry: str, *_code: object) -> str:
    return entry


def _flush_open_files() -> None:
    for one in gc.get_objects():
        if type(one) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom) and not one.closed and one.writable():
            one.flush()


if __name__ == "__main__":
    main()
