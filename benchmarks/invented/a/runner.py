"""Running a paper's own code inside its folder, each command in a process of its own.

The process is forked from one that has imported scikit-learn already, which saves most of the time of a fresh start.
"""
from __future__ import annotations

import importlib
import os
import runpy
import sys
import traceback
from pathlib import Path

HOME = "/home/agent/project"


def preload() -> None:
    """Import what most papers need before forking."""
    for name in ("cluster", "covariance", "datasets", "decomposition", "dummy", "ensemble", "feature_extraction.text",
                 "linear_model", "metrics", "experimental.enable_iterative_imputer", "impute", "model_selection",
                 "naive_bayes", "neighbors", "pipeline", "semi_supervised", "tree"):
        importlib.import_module(f"sklearn.{name}")


class Absent:
    """Makes packages that the study machine does not have absent here too."""

    names = ("torch", "transformers", "simpletransformers", "tensorflow", "pandas", "matplotlib")

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def child(root: Path, argv: list[str], out: int) -> int:
    """Be `python script args`: the script as __main__, its folder first on the path, output to the given file."""
    os.chdir(root)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    sys.argv, sys.path[0] = argv, str(Path(argv[0]).resolve().parent)
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Absent())  # type: ignore[arg-type]
    try:
        runpy.run_path(argv[0], run_name="__main__")
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BaseException as error:
        frame = error.__traceback__
        while frame and not frame.tb_frame.f_code.co_filename.startswith(("code/", str(root.resolve()))):
            frame = frame.tb_next
        traceback.print_exception(type(error), error, frame)
        return 1


def run_command(root: Path, command: str, log: str = "results/log.txt", show: bool = False) -> int:
    """Run `python script ...` in the folder and append what it prints to the log."""
    argv, code = command.split(), 1
    assert argv[0] == "python"
    root = root.resolve()
    (root / "results").mkdir(exist_ok=True)
    part = root / "results" / ".part"
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            code = child(root, argv[1:], os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
            sys.stdout.flush()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = part.read_text().replace(str(root), HOME).replace(sys.prefix, "/usr/local")
    part.unlink()
    with open(root / log, "a") as fh:
        if show:
            fh.write(f"$ {command}\n")
        fh.write(text)
    return code
