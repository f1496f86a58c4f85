"""Set up every Python process of a kernel at start, before any experiment code.

Python imports this module automatically, since its folder is the only one in a kernel's PYTHONPATH; therefore child
processes started by experiments are set up too. It hides the harness packages, which an installation would leave
importable, and hooks into four third-party modules when they are imported.

It prevents mistakes but not attacks, since code can undo its changes. Isolation is the task of `sandbox.isolation`.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class HarnessHider:
    """Blocks imports of the harness package."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name == "labwright":
            message = f"No module named {name!r} (of the harness, only `lab` can be imported)"
            raise ModuleNotFoundError(message, name=name)


def _configure_module(module: ModuleType) -> None:
    from lab import _data, _figures, _job, _training  # imported here so that numpy is not imported before the code does

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
    """Calls back after a watched module has been executed, without importing it earlier than the code does."""

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

        spec.loader.exec_module = exec_module  # pyrefly: ignore
        return spec


def add_packages() -> None:
    """Add the packages installed for the run after those of the interpreter; their .pth files may run code."""
    if os.environ.get("LAB_PACKAGES"):
        site.addsitedir(os.environ["LAB_PACKAGES"])


# "1" marks a kernel or its zygote, in which only isolated cells add packages (`lab._child`)
if os.environ.get("LAB_WALLS") != "1":
    add_packages()
if "LAB_JOB" in os.environ:
    sys.meta_path[:0] = [HarnessHider(), ImportWatcher()]
