"""What every Python process of a kernel does at its start, before any code of the experiment.

Python imports a module of this name by itself, and PYTHONPATH of a kernel names this folder alone; so child processes
that the experiment starts get the same treatment. It hides the packages of the harness, which an editable or regular
installation would leave importable, and waits for four third-party modules that need a word when they arrive.

It stops mistakes, not intent: code that wants to undo it can. Isolation is the business of `sandbox.isolation`.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_KERNEL_FOLDER = os.path.dirname(os.path.realpath(__file__))
_BOOTSTRAP_PATH = os.path.join(_KERNEL_FOLDER, "bootstrap.py")


class HarnessHider:
    """Refuses the package of the harness, and its bootstrap unless the experiment has a module of that name."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if path is not None or name not in ("labwright", "bootstrap"):
            return None
        spec = PathFinder.find_spec(name, sys.path[:1]) if name == "bootstrap" else None
        if spec is not None and os.path.realpath(spec.origin or "") != _BOOTSTRAP_PATH:
            return spec
        raise ModuleNotFoundError(f"No module named {name!r} (of the harness, only `lab` can be imported)", name=name)


def _configure_module(module: ModuleType) -> None:
    from lab import _data, _figures, _job, _training  # numpy must not be imported earlier than the code does

    if module.__name__ == "torch":
        _job.configure_torch(module)
        _training.watch_torch(module)
    elif module.__name__ == "sklearn.base":
        _training.watch_sklearn(module)
    elif module.__name__ == "matplotlib.figure":
        _figures.watch_figures(module.Figure)
    else:
        _data.replace_loaders(module)


class ImportWatcher:
    """Calls back once a watched module has been executed, without importing it earlier than the code does."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name not in ("matplotlib.figure", "torch", "sklearn.base", "sklearn.datasets"):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _configure_module(module)

        spec.loader.exec_module = exec_module
        return spec


def add_packages() -> None:
    """Have what was installed for the run found, after all that the interpreter has; some of it runs at once."""
    if os.environ.get("LAB_PACKAGES"):
        site.addsitedir(os.environ["LAB_PACKAGES"])


if os.environ.get("LAB_WALLS") != "1":  # else this is a kernel or its zygote: only behind walls (`lab._child`)
    add_packages()
if "LAB_JOB" in os.environ:
    sys.meta_path[:0] = [HarnessHider(), ImportWatcher()]
