"""A process that imports what experiments use, and runs each job in a child process.

Started by `benchmarks.planted_runs` with `lab` on its path. It reads one JSON line per job (`job`: the file for
LAB_JOB; `folder`) and answers with one: `error`, empty if the program ran.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
import types

from lab import _job

PRELOADED_MODULES = (
    "numpy",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.neighbors",
    "sklearn.neural_network",
    "sklearn.svm",
    "torch",
)
LIMIT_SECONDS = 60
"""Time limit of one program in seconds."""


def run_program(folder: str, status_fd: int) -> None:
    """Run the program of a folder, and the function that it registered, if any. Never returns."""
    found: dict[str, object] = {"error": ""}
    try:
        signal.alarm(LIMIT_SECONDS)
        silent = os.open("stdout.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        _job.apply_job()
        _job.seed_all(_job.read_job().seed)
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        sys.path.insert(0, folder)
        entry = _job.read_job().entry
        with open(entry, encoding="utf-8") as file:
            exec(compile(file.read(), entry, "exec"), main.__dict__)
        cell = _job.read_job().cell
        if cell is not None:
            _job.get_registered()(cell)
    except SystemExit as error:
        found["error"] = f"exit {error.code}" if error.code else ""
    except BaseException:  # noqa: BLE001  whatever a planted program raises is its failure
        found["error"] = traceback.format_exc()[-2000:]
    os.write(status_fd, json.dumps(found).encode())
    os._exit(0)


def serve_jobs() -> None:
    """Serve until there are no more jobs."""
    for name in PRELOADED_MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        given = json.loads(line)
        os.environ["LAB_JOB"] = given["job"]
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.chdir(given["folder"])
            run_program(given["folder"], write)
        os.close(write)
        with os.fdopen(read) as file:
            text = file.read()
        os.waitpid(pid, 0)
        print(text or json.dumps({"error": "killed by a signal, or after the time limit"}), flush=True)


if __name__ == "__main__":
    serve_jobs()
